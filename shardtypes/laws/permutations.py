"""Permuting the inputs permutes the outputs (``equivariant``)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardtypes.laws.arguments import Call, Leaf, call_of, out_axes_of
from shardtypes.laws.culprit import Lanes, SideBySide
from shardtypes.laws.differences import differs, on_host, tolerance_of
from shardtypes.laws.fillings import judged
from shardtypes.laws.homes import Homes
from shardtypes.laws.program import Program, program_of
from shardtypes.laws.source import Place, place_of, where_of
from shardtypes.laws.verdict import CannotTell, Verdict
from shardtypes.laws.walk import Host, Path, Walker, first_along

_EXCHANGES = 8


def equivariant(
    f: Callable[..., Any],
    dim: str = "N",
    /,
    *examples: Any,
    in_axes: Any = ...,
    out_axes: Any = ...,
    sizes: Mapping[str, int] | None = None,
    seeds: int = 3,
    tolerance: float | None = None,
    **named: Any,
) -> Verdict:
    """Permuting the inputs along a dimension permutes the outputs; results without it do not change.

    An array that has the dimension twice is permuted along both. Arguments as those of ``laws.independent``.
    """
    call = lambda: call_of(f, dim, examples, named, in_axes, out_axes, sizes)  # noqa: E731
    return judged(f, call, lambda made: _tried(made, dim, seeds, tolerance), mixed=True)


def _tried(call: Call, dim: str, seeds: int, tolerance: float | None) -> Verdict:
    count = call.size(dim)
    program = program_of(call)
    result = program.results(call.values)
    axes = out_axes_of(call, result, dim, needed=False)
    before = program.run(call.values)
    tolerances = program.allowed(tolerance)
    moved = False
    for order, words in _orders(count, seeds):
        other = [permuted(leaf, order) for leaf in call.leaves]
        moved |= any(
            not np.array_equal(on_host(a), on_host(b))
            for a, b in zip(call.values, other, strict=True)
        )
        after = program.run(other)
        for number, (one, two, axis) in enumerate(
            zip(before, after, axes, strict=True)
        ):
            if axis is not None and one.shape[axis] == count:
                expected = one.take(order, axis)
            else:
                expected = one
            wrong = differs(expected, two, tolerances[number])
            if wrong.any():
                place = _place(program, call, other, order)
                path = jax.tree_util.keystr(
                    jax.tree_util.tree_flatten_with_path(result)[0][number][0]
                )
                return _failed(call, dim, words, axis, wrong, path, place)
    if not moved:
        raise CannotTell(f"all positions of {dim!r} are the same: give other examples")
    return Verdict(
        True,
        f"{call.name}: equivariant in {dim!r}: holds in numbers with all exchanges and {seeds} orders",
    )


def _orders(count: int, seeds: int) -> Iterator[tuple[Host, str]]:
    for first in range(min(count - 1, _EXCHANGES)):
        order = np.arange(count)
        order[[first, first + 1]] = first + 1, first
        yield order, f"exchanging positions {first} and {first + 1}"
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(count)
        yield order, f"permuting the positions to {order.tolist()}"


def permuted(leaf: Leaf, order: Host) -> Any:
    """An argument with its positions in another order."""
    value = leaf.value
    axes: tuple[int, ...] = ()
    if isinstance(leaf.axis, tuple):
        axes = leaf.axis
    elif leaf.axis is not None:
        axes = (leaf.axis,)
    for axis in axes:
        if leaf.kind == "key":
            value = jnp.take(value, order, axis)
        else:
            value = np.take(np.asarray(value), order, axis)
    return value


def _failed(
    call: Call,
    dim: str,
    words: str,
    axis: int | None,
    wrong: Host,
    path: str,
    place: Place | None,
) -> Verdict:
    positions: tuple[int, ...] = ()
    if axis is None:
        what = f"changes result{path}, which has not the dimension"
    else:
        positions = (first_along(wrong, axis),)
        what = (
            f"does not do the same to result{path}: position {positions[0]} is another"
        )
    reason = f"{call.name}: not equivariant in {dim!r}: {words} {what}"
    if place is not None:
        reason += f"; the order first matters in {place}"
    return Verdict(False, reason, positions=positions, where=where_of(place))


class _Permuted(SideBySide):
    """Both runs; ``broken`` is the first operation whose result is neither the same nor permuted."""

    def __init__(self, order: Host) -> None:
        super().__init__(Homes(np.zeros(order.size, bool)))
        self.order = order
        self.broken: list[Place] = []

    def _kept(self, eqn: Any, path: Path, cell: Lanes) -> Lanes:
        if not self.broken and not self._is_related(
            on_host(cell.base), on_host(cell.other)
        ):
            self.broken.append(place_of(eqn, self.calls))
        return cell

    def equation(self, eqn: Any, path: Path, cells: list[Lanes]) -> list[Lanes]:
        if not eqn.outvars:
            return cells[:0]
        return super().equation(eqn, path, cells)

    def _is_related(self, base: Host, other: Host) -> bool:
        tolerance = tolerance_of(base.dtype)
        if not differs(base, other, tolerance).any():
            return True
        ways = [[base]]
        for axis in range(base.ndim):
            ways.append(list(self._along(base, axis)))
        if any(
            not differs(way, other, tolerance).any() for way in itertools.chain(*ways)
        ):
            return True
        both = [
            two
            for first, second in itertools.combinations(range(base.ndim), 2)
            for one in self._along(base, first)
            for two in self._along(one, second)
        ]
        return any(not differs(way, other, tolerance).any() for way in both)

    def _along(self, array: Host, axis: int) -> Iterator[Host]:
        """The array permuted along a dimension, of the positions or merged with another."""
        size = array.shape[axis]
        count = self.order.size
        if size % count or not size:
            return
        times = size // count
        shape = array.shape
        before = shape[:axis]
        behind = shape[axis + 1 :]
        for parts in dict.fromkeys(((times, count), (count, times))):
            whole = array.reshape(*before, *parts, *behind)
            ordered = whole.take(self.order, axis + parts.index(count))
            yield ordered.reshape(shape)


def _place(
    program: Program, call: Call, other: Sequence[Any], order: Host
) -> Place | None:
    if program.jaxpr is None:
        return None
    domain = _Permuted(order)
    try:
        with program.surroundings():
            pairs = zip(
                program.placed(call.values),
                program.placed(other),
                call.leaves,
                strict=True,
            )
            cells = [
                Lanes(a, b if leaf.axis is not None else a, np.zeros(np.shape(a), bool))
                for a, b, leaf in pairs
            ]
            Walker(domain).run(program.jaxpr, cells)
    except Exception:  # noqa: BLE001 - it ran as a whole; what cannot be run in pieces has no line
        return None
    if domain.broken:
        return domain.broken[0]
    return None
