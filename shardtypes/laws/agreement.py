"""Where the computation for some positions leaves that for all positions.

Values of one step are looked up among those that the same operation makes for all positions, at its own. Many are
not found there, and are right: what a cache makes longer, or what is masked later. The first one is blamed after which
nothing that is made of it is found again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardtypes.laws.arguments import Function
from shardtypes.laws.differences import differs, tolerance_of
from shardtypes.laws.program import Program
from shardtypes.laws.source import Place, place_of
from shardtypes.laws.walk import Change, Domain, Host, Join, Path, Shape, Walker, bind
from shardtypes.prng_keys import is_key

_SMALLEST = 2


@dataclass(frozen=True)
class _Value:
    """A value, whether it comes of arguments, and the operations that departed on the way to it."""

    array: Any
    given: bool = False
    departed: frozenset[int] = frozenset()


class _Watching(Domain[_Value]):
    """A run whose values are seen."""

    def __init__(
        self, see: Callable[[Any, tuple[Any, ...], Any, list[_Value]], frozenset[int]]
    ) -> None:
        self._see = see

    def constant(self, value: Any) -> _Value:
        return _Value(value if is_key(value) else jnp.asarray(value))

    def each(self, cell: _Value, change: Change) -> _Value:
        return _Value(change(cell.array, len(self.devices)), cell.given, cell.departed)

    def joined(self, cells: Sequence[_Value], join: Join) -> _Value:
        departed = frozenset().union(*(cell.departed for cell in cells))
        array = join([cell.array for cell in cells], len(self.devices))
        return _Value(array, any(cell.given for cell in cells), departed)

    def branch(self, index: _Value) -> int | None:
        found = np.unique(np.asarray(index.array))
        if found.size == 1:
            return int(found[0])
        return None

    def opaque(self, eqn: Any, path: Path, cells: list[_Value]) -> list[_Value]:
        return self.equation(eqn, path, cells)

    def equation(self, eqn: Any, path: Path, cells: list[_Value]) -> list[_Value]:
        given = any(cell.given for cell in cells)
        arrays = bind(eqn, [cell.array for cell in cells], self.devices)
        if not given:
            return [_Value(array) for array in arrays]
        return [
            _Value(array, True, self._see(eqn, self.calls, array, cells))
            for array in arrays
        ]


class _Lookup:
    """The values of the whole by operation, and the operations of a step that were not found among them."""

    def __init__(self, positions: range, count: int) -> None:
        self._positions = positions
        self._count = count
        self._whole: dict[str, list[Host]] = {}
        self._departed: list[Place] = []
        self._found_again: set[int] = set()

    def note(
        self, eqn: Any, calls: tuple[Any, ...], array: Any, cells: list[_Value]
    ) -> frozenset[int]:
        """See a value of the whole."""
        if _tells(array):
            self._whole.setdefault(eqn.primitive.name, []).append(np.asarray(array))
        return frozenset()

    def look(
        self, eqn: Any, calls: tuple[Any, ...], array: Any, cells: list[_Value]
    ) -> frozenset[int]:
        """See a value of the step."""
        before = frozenset().union(*(cell.departed for cell in cells))
        if is_key(array) or not jnp.issubdtype(array.dtype, jnp.inexact):
            return before
        value = np.asarray(array)
        candidates = [
            part
            for whole in self._whole.get(eqn.primitive.name, ())
            for part in self._parts(whole, value)
        ]
        if any(
            not differs(part, value, tolerance_of(value.dtype)).any()
            for part in candidates
        ):
            if not _tells(array):
                return before
            self._found_again |= before
            return frozenset()
        if not candidates or before - self._found_again:
            return before
        self._departed.append(place_of(eqn, calls))
        return before | {len(self._departed) - 1}

    def first(self) -> Place | None:
        """The first operation after which nothing is found again."""
        left = [
            number
            for number in range(len(self._departed))
            if number not in self._found_again
        ]
        if left:
            return self._departed[left[0]]
        return None

    def _parts(self, whole: Host, value: Host) -> list[Host]:
        """What the whole has at these positions, in the shape of the value."""
        found = []
        for axis, size in enumerate(whole.shape):
            if size != self._count:
                continue
            part = whole.take(self._positions, axis)
            if part.size == value.size and _plain(part.shape) == _plain(value.shape):
                found.append(part.reshape(value.shape))
        if whole.shape == value.shape:
            found.append(whole)
        return found


def _plain(shape: Shape) -> list[int]:
    return [size for size in shape if size != 1]


def _tells(array: Any) -> bool:
    """Whether a value says something when it is found again."""
    if is_key(array) or not jnp.issubdtype(array.dtype, jnp.inexact):
        return False
    return np.unique(np.asarray(array)).size >= _SMALLEST


def first_departure(
    program: Program,
    whole: Sequence[Any],
    step: Function,
    positional: Sequence[Any],
    named: dict[str, Any],
    positions: range,
    count: int,
) -> Place | None:
    """The place in a step, for the arguments it is given at some positions, at which it leaves the whole. None where
    that is not known."""
    if program.jaxpr is None:
        return None
    lookup = _Lookup(positions, count)
    leaves, structure = jax.tree.flatten((list(positional), named))
    arrays = {
        number: leaf for number, leaf in enumerate(leaves) if hasattr(leaf, "dtype")
    }

    def call(given: dict[int, Any]) -> Any:
        filled = [given.get(number, leaf) for number, leaf in enumerate(leaves)]
        first, keywords = jax.tree.unflatten(structure, filled)
        return step(*first, **keywords)

    try:
        jaxpr = jax.make_jaxpr(call)(arrays)
        Walker(_Watching(lookup.note)).run(
            program.jaxpr, [_Value(array, True) for array in whole]
        )
        Walker(_Watching(lookup.look)).run(
            jaxpr, [_Value(jnp.asarray(array), True) for array in arrays.values()]
        )
    except Exception:  # noqa: BLE001 - both ran as a whole; what cannot be run in pieces has no line
        return None
    return lookup.first()
