"""No two examples draw with the same key (``keys``)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardtypes.laws.arguments import AxesOf, Call, Leaf, call_of, out_axes_of
from shardtypes.laws.differences import differs
from shardtypes.laws.fillings import judged
from shardtypes.laws.program import Program, program_of
from shardtypes.laws.source import Place, place_of, where_of
from shardtypes.laws.verdict import CannotTell, Verdict
from shardtypes.laws.walk import Change, Domain, Host, Join, Path, Walker, bind
from shardtypes.prng_keys import is_key

_DRAWS = ("random_bits", "rng_bit_generator", "rng_uniform")
_MOST, _CHANCE = 64, 1e-9
_MOST_EXAMPLES = 16
_OTHER_DRAWS = 16


def keys(
    f: Callable[..., Any],
    dim: str = "B",
    /,
    *examples: Any,
    in_axes: Any = ...,
    out_axes: Any = ...,
    sizes: Mapping[str, int] | None = None,
    tolerance: float | None = None,
    **named: Any,
) -> Verdict:
    """No two examples, on one device or on several, draw random numbers with the same key.

    All examples are made the same but for keys of their own; results that depend on a key must then differ between
    any two of them. Keys are the arguments with dtype ``key`` or of the form of raw keys (``uint32``, the last
    dimension 2 or 4). Other arguments as those of ``laws.independent``.
    """
    call = lambda: call_of(f, dim, examples, named, in_axes, out_axes, sizes)  # noqa: E731
    return judged(f, call, lambda made: _tried(made, dim, tolerance))


def is_raw_key(leaf: Leaf) -> bool:
    """Whether an argument has the form of a key of the old kind."""
    shape = leaf.value.shape
    return (
        leaf.kind == "i"
        and leaf.value.dtype == np.uint32
        and bool(shape)
        and shape[-1] in (2, 4)
    )


def draws_with(call: Call, seed: int = 1) -> dict[int, Any]:
    """Other keys for the arguments that are keys, by their numbers."""
    found: dict[int, Any] = {}
    for number, leaf in enumerate(call.leaves):
        shape = leaf.value.shape
        if leaf.kind == "key":
            key = jax.random.fold_in(
                jax.random.key(seed, impl=jax.random.key_impl(leaf.value)), number
            )
            found[number] = jax.random.split(key, shape)
        elif is_raw_key(leaf):
            fresh = np.random.default_rng((seed, number)).integers(
                0, 1 << 32, shape, np.uint32
            )
            found[number] = fresh
    return found


def _tried(call: Call, dim: str, tolerance: float | None) -> Verdict:
    count = call.size(dim)
    if not draws_with(call):
        raise CannotTell("no argument is a PRNG key")
    call = call.with_values([_same(leaf) for leaf in call.leaves])
    program = program_of(call)
    axes = out_axes_of(call, program.results(call.values), dim)
    allowed = program.allowed(tolerance)
    seen: list[list[Host]] = []
    left = set(itertools.combinations(range(min(count, _MOST_EXAMPLES)), 2))
    for seed in range(_MOST):
        values = _with_keys(call, seed)
        result = program.run(values)
        rows = [
            np.moveaxis(leaf, axis, 0)
            for leaf, axis in zip(result, axes, strict=True)
            if axis is not None
        ]
        seen.append(rows)
        limits = [
            limit for limit, axis in zip(allowed, axes, strict=True) if axis is not None
        ]
        left = {
            pair
            for pair in left
            if _alike(
                [row[pair[0]] for row in rows], [row[pair[1]] for row in rows], limits
            )
        }
        if not left:
            reason = f"{call.name}: keys of {dim!r}: holds in numbers, examples that are the same give other results"
            return Verdict(True, reason)
        if seed and _is_certain(seen, min(left)[0], limits):
            break
    first, second = min(left)
    _must_be_certain(seen, first, limits)
    place = _place(program, call, axes, limits, (first, second))
    reason = (
        f"{call.name}: examples {first} and {second} along {dim!r} draw with the same key: with equal inputs they give "
        "equal results, whatever the key"
    )
    if place is not None:
        reason += f"; they draw in {place}"
    return Verdict(
        False,
        reason,
        positions=(first, second),
        where=where_of(place),
    )


def _same(leaf: Leaf) -> Any:
    """The first example in all places, but for keys."""
    if not isinstance(leaf.axis, int) or leaf.kind == "key" or is_raw_key(leaf):
        return leaf.value
    return np.broadcast_to(
        np.asarray(leaf.value).take([0], leaf.axis), leaf.value.shape
    )


def _with_keys(call: Call, seed: int) -> list[Any]:
    fresh = draws_with(call, seed)
    return [fresh.get(number, value) for number, value in enumerate(call.values)]


def _alike(
    one: Sequence[Host], other: Sequence[Host], tolerances: Sequence[float]
) -> bool:
    return not any(
        differs(a, b, limit).any()
        for a, b, limit in zip(one, other, tolerances, strict=True)
    )


def _by_chance(seen: list[list[Host]], at: int, tolerances: Sequence[float]) -> float:
    """How often an example gives the same with another key."""
    pairs = list(
        itertools.combinations([[row[at] for row in rows] for rows in seen], 2)
    )
    alike = sum(_alike(a, b, tolerances) for a, b in pairs)
    return alike / len(pairs)


def _is_certain(seen: list[list[Host]], at: int, tolerances: Sequence[float]) -> bool:
    """Whether so many equal results cannot be chance; a few draws tell little of how often they are the same."""
    return len(seen) >= 8 and bool(
        max(_by_chance(seen, at, tolerances), 1 / len(seen)) ** len(seen) < _CHANCE
    )


def _must_be_certain(
    seen: list[list[Host]], at: int, tolerances: Sequence[float]
) -> None:
    chance = _by_chance(seen, at, tolerances)
    if chance == 1.0:
        raise CannotTell(
            "no result depends on a key: give arguments with which it draws"
        )
    if chance ** len(seen) >= _CHANCE:
        raise CannotTell(
            "its draws seldom change the result: give larger examples, or a rate of one half"
        )


class _Drawing(Domain[Any]):
    """A run in which one draw may be another."""

    def __init__(self, other: Path | None = None, change: int = 0) -> None:
        self.other = other
        self.change = change
        self.drawn: list[tuple[Path, Place]] = []

    def constant(self, value: Any) -> Any:
        if is_key(value):
            return value
        return jnp.asarray(value)

    def each(self, cell: Any, change: Change) -> Any:
        return change(cell, len(self.devices))

    def joined(self, cells: Sequence[Any], join: Join) -> Any:
        return join(cells, len(self.devices))

    def branch(self, index: Any) -> int | None:
        found = np.unique(np.asarray(index))
        if found.size == 1:
            return int(found[0])
        return None

    def opaque(self, eqn: Any, path: Path, cells: list[Any]) -> list[Any]:
        return self.equation(eqn, path, cells)

    def equation(self, eqn: Any, path: Path, cells: list[Any]) -> list[Any]:
        if eqn.primitive.name in _DRAWS:
            self.drawn.append((path, place_of(eqn, self.calls)))
            if path == self.other and is_key(cells[0]):
                data = jax.random.key_data(cells[0]) ^ self.change
                cells = [
                    jax.random.wrap_key_data(data, impl=jax.random.key_impl(cells[0])),
                    *cells[1:],
                ]
        return bind(eqn, cells, self.devices)


def _place(
    program: Program,
    call: Call,
    axes: AxesOf,
    tolerances: Sequence[float],
    pair: tuple[int, int],
) -> Place | None:
    """The first draw that both examples share: with another one both results change, and stay the same."""
    if program.jaxpr is None:
        return None
    try:
        with program.surroundings():
            drawing = _Drawing()
            values = program.placed(_with_keys(call, 0))
            before = _rows(Walker(drawing).run(program.jaxpr, values), axes)
            for (path, place), change in itertools.product(
                drawing.drawn, range(1, _OTHER_DRAWS)
            ):
                after = _rows(
                    Walker(_Drawing(path, change)).run(program.jaxpr, values), axes
                )
                one, other = ([row[at] for row in after] for at in pair)
                if not _alike(one, other, tolerances):
                    continue  # examples do not share this draw
                if not _alike(one, [row[pair[0]] for row in before], tolerances):
                    return place
    except Exception:  # noqa: BLE001 - it ran as a whole; what cannot be run in pieces has no line
        return None
    return None


def _rows(results: Sequence[Any], axes: AxesOf) -> list[Host]:
    pairs = zip(results, axes, strict=True)
    return [
        np.moveaxis(np.asarray(leaf), axis, 0)
        for leaf, axis in pairs
        if axis is not None
    ]
