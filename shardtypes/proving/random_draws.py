"""Random numbers that each device draws for its own shard: one device takes them all, as if it had drawn them.

Which numbers are drawn depends on the mesh wherever keys do; what is computed of them need not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shardtypes.proving.alignment import aligned
from shardtypes.proving.arguments import Draws, Layout, draws
from shardtypes.proving.evaluation import Unevaluated
from shardtypes.proving.numbers import (
    Numbers,
    Values,
    bytes_of,
    reordered,
    run,
    varying_axes,
    without_axes,
)
from shardtypes.proving.observed import joined
from shardtypes.proving.program import Constant, Name, Program, needed
from shardtypes.proving.relation import Axes, Sizes
from shardtypes.proving.state import State

Drawn = Mapping[Name, tuple[State, Name]]
"""Values that devices draw at random, with how they are related to which value that one device draws."""

_MOST_BYTES = 10_000_000
_DRAWS = frozenset({"random_bits"})


def sources(many: Program, one: Program) -> dict[Name, Name]:
    """What devices draw, each for a part of what one device draws: the values on devices and on one."""
    drawn = {step.results[0] for step in many.steps if step.primitive in _DRAWS}
    if not drawn:
        return {}
    _, steps = aligned(many, one)
    results = [(a.results[0], b.results[0]) for a, b in steps]
    pairs = [(name, partner) for name, partner in results if name in drawn]
    return {
        name: other
        for name, other in pairs
        if many.types[name].shape != one.types[other].shape
    }


def not_drawn_by_one(
    pairs: Mapping[Name, Name], numbers: Numbers, one: Program, arguments: Draws
) -> dict[Name, Name]:
    """Those of them that one device does not draw itself: the others it draws in another order. ``numbers`` are the
    devices', ``arguments`` those of one device."""
    if not pairs:
        return {}
    wanted = list(pairs.values())
    alone = Program(one.inputs, needed(one.steps, wanted), list(wanted), one.types)
    drawn = run(alone, arguments, ()).results
    return {
        name: other
        for (name, other), values in zip(pairs.items(), drawn, strict=True)
        if not reordered(numbers.inside[name], without_axes(values))
    }


def taken(
    pairs: Mapping[Name, Name],
    numbers: Numbers,
    many: Program,
    one: Program,
    sizes: Sizes,
    draws: int,
) -> list[dict[Name, Any]]:
    """For each draw of the arguments, the values of one device that are put together from those of the devices.

    Devices that draw the very same for different shards do not draw what one device may."""
    found: list[dict[Name, Any]] = [{} for _ in range(draws)]
    orders = _orders(many)
    for name, other in pairs.items():
        dims = _sharding(many.types[name].shape, one.types[other].shape, sizes, orders)
        if dims is None or not _of_their_own(numbers.inside[name], dims, sizes):
            continue
        whole = _together(numbers.inside[name], dims, sizes)
        for number in range(draws):
            found[number][other] = whole[number]
    return found


def related_draws(
    many: Program,
    one: Program,
    examples: Sequence[Any],
    places: Sequence[Layout],
    sizes: Sizes,
) -> Drawn:
    """What devices draw for shards of what one device draws, each shard with a key of its own that is the same on all
    devices that hold it. The keys are computed in numbers; where they need much else, nothing is found."""
    pairs = sources(many, one)
    makers = {name: step for step in many.steps for name in step.results}
    keys = {name: makers[name].operands[0] for name in pairs}
    wanted = sorted({key for key in keys.values() if isinstance(key, int)})
    steps = needed(many.steps, wanted)
    alone = Program(many.inputs, steps, list(wanted), many.types)
    if not wanted or bytes_of(alone, sizes) > _MOST_BYTES:
        return {}
    try:
        found = run(alone, [_arguments(alone, examples, places)], ())
    except Unevaluated:
        return {}
    values = dict(zip(wanted, found.results, strict=True))
    orders = _orders(many)
    related: dict[Name, tuple[State, Name]] = {}
    for name, key in keys.items():
        whole = tuple(one.types[pairs[name]].shape)
        dims = _sharding(many.types[name].shape, whole, sizes, orders)
        if (
            dims is None
            or isinstance(key, Constant)
            or not _is_sharded(values[key], dims, sizes)
        ):
            continue
        related[name] = (
            State(whole, tuple(dims.get(dim, ()) for dim in range(len(whole)))),
            pairs[name],
        )
    return related


def _arguments(
    program: Program, examples: Sequence[Any], places: Sequence[Layout]
) -> list[Any]:
    """Those that a program needs; the others are zero."""
    used = {
        operand
        for step in program.steps
        for operand in step.operands
        if isinstance(operand, int)
    }
    used |= {output for output in program.outputs if isinstance(output, int)}
    given: list[Any] = []
    for name, example, place in zip(program.inputs, examples, places, strict=True):
        if name not in used:
            given.append(np.zeros(()))
        elif place.how == "own":
            given += draws([example], 1)[0]
        else:
            ((drawn,),) = draws([place.one(example)], 1)
            given.append(place.many(drawn))
    return given


def _is_sharded(key: Values, dims: Mapping[int, Axes], sizes: Sizes) -> bool:
    """Whether devices have keys of their own along the axes that shard, and one key along all others."""
    named = {axis for axes in dims.values() for axis in axes}
    if not varying_axes(key) <= named:
        return False
    return _of_their_own(key, dims, sizes)


def _of_their_own(values: Values, dims: Mapping[int, Axes], sizes: Sizes) -> bool:
    """Whether no two devices along the axes that shard hold the same."""
    named = [axis for axes in dims.values() for axis in axes]
    if not set(named) <= set(values.axes):
        return False
    first = tuple(0 if axis not in named else slice(None) for axis in values.axes)
    count = math.prod(sizes[axis] for axis in named)
    rows = values.array[first].reshape(count, -1)
    return len(np.unique(rows, axis=0)) == len(rows)


def _orders(program: Program) -> set[Axes]:
    """The axes that shard a dimension together, major to minor, anywhere in the program."""
    steps = [step for step in program.steps if step.primitive in ("shard", "unshard")]
    return {axes for step in steps for axes in step.params["dims"] if axes}


def _sharding(
    local: Sequence[int],
    whole: Sequence[int],
    sizes: Sizes,
    orders: set[Axes],
) -> dict[int, Axes] | None:
    """Which axes shard which dimension; None unless there is just one way."""
    if len(local) != len(whole):
        return None
    places = [
        dim
        for dim, (few, many) in enumerate(zip(local, whole, strict=True))
        if few != many
    ]
    found = []
    for chosen in itertools.product(sorted(orders), repeat=len(places)):
        named = [axis for axes in chosen for axis in axes]
        fits = all(
            local[dim] * math.prod(sizes[axis] for axis in axes) == whole[dim]
            for dim, axes in zip(places, chosen, strict=True)
        )
        if fits and len(set(named)) == len(named):
            found.append(dict(zip(places, chosen, strict=True)))
    if len(found) == 1:
        return found[0]
    return None


def _together(values: Values, dims: Mapping[int, Axes], sizes: Sizes) -> Any:
    """The parts of all devices, for each draw; those of the first device along axes that shard nothing."""
    array = values.array
    left = list(values.axes)
    named = [axis for axes in dims.values() for axis in axes]
    unused = [axis for axis in left if axis not in named]
    for axis in unused:
        array = np.take(array, 0, axis=left.index(axis))
        left.remove(axis)
    missing = [axis for axis in named if axis not in left]
    for axis in missing:
        array = np.broadcast_to(array, (sizes[axis], *array.shape))
        left.insert(0, axis)
    return joined(array, left, dims, 1)
