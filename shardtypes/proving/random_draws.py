"""Random numbers that each device draws for its own shard: one device takes them all, as if it had drawn them.

Which numbers are drawn depends on the mesh wherever keys do; what is computed of them need not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from shardtypes.proving.alignment import aligned
from shardtypes.proving.arguments import Draws, Layout, draws
from shardtypes.proving.evaluation import Held, Unevaluated
from shardtypes.proving.numbers import (
    Numbers,
    Values,
    bytes_of,
    once_each,
    reordered,
    run,
    varying_axes,
)
from shardtypes.proving.observed import joined
from shardtypes.proving.program import Constant, Name, Program, Step, needed
from shardtypes.proving.relation import Axes, Sizes
from shardtypes.proving.state import State

Drawn = Mapping[Name, tuple[State, Name]]
"""Values that devices draw at random, with how they are related to which value that one device draws."""

_MOST_BYTES = 10_000_000
_DRAWS = frozenset({"random_bits"})
_ALIKE = (0.3, 0.55, 0.85)
"""Shares of the largest number: one for each draw of the arguments."""


def sources(many: Program, one: Program) -> dict[Name, Name]:
    """What devices draw, each for a part of what one device draws: the values on devices and on one. In loops, as many
    times as one device draws."""
    rounds = _rounds(many)
    if not rounds:
        return {}
    rounds_of_one = _rounds(one)
    _, steps = aligned(many, one)
    found = {}
    for left, right in steps:
        name = left.results[0]
        other = right.results[0]
        if name not in rounds or rounds[name] != rounds_of_one.get(other):
            continue
        if many.types[name].shape != one.types[other].shape:
            found[name] = other
    return found


def _rounds(program: Program) -> dict[Name, tuple[int, ...]]:
    """What is drawn, and how many rounds the loops have that it is drawn in."""
    found = {}
    for step, rounds in program.steps_in_rounds():
        if step.primitive in _DRAWS:
            (name,) = step.results
            found[name] = rounds
    return found


def drawn_in(program: Program) -> set[Name]:
    """What a program draws at random, in loops too."""
    return set(_rounds(program))


def not_drawn_by_one(
    pairs: Mapping[Name, Name], numbers: Numbers, one: Program, arguments: Draws
) -> dict[Name, Name]:
    """Those of them that one device does not draw itself: the others it draws in another order. ``numbers`` are the
    devices', ``arguments`` those of one device."""
    if not pairs:
        return {}
    wanted = set(pairs.values())
    makers = [step for step in one.steps if not wanted.isdisjoint(_made_by(step))]
    steps = needed(one.steps, [step.results[0] for step in makers])
    alone = Program(one.inputs, steps, [], one.types)
    drawn = run(alone, arguments, wanted).inside
    return {
        name: other
        for name, other in pairs.items()
        if not reordered(numbers.inside[name], once_each(drawn[other]))
    }


def _made_by(step: Step) -> Iterator[Name]:
    """What a step makes, and what is made inside of it."""
    yield from step.results
    for program in step.inside:
        yield from program.made()


def taken(
    pairs: Mapping[Name, Name],
    numbers: Numbers,
    many: Program,
    one: Program,
    sizes: Sizes,
    draws: int,
) -> list[dict[Name, Held]]:
    """For each draw of the arguments, the values of one device that are put together from those of the devices.
    ``sizes`` say how many devices there are along each axis for one of ``one``.

    Devices that draw the very same for different shards do not draw what one device may."""
    found: list[dict[Name, Held]] = [{} for _ in range(draws)]
    orders = _orders(many, sizes)
    for name, other in pairs.items():
        local = many.types[name].shape
        whole_shape = one.types[other].shape
        dims = _sharding(local, whole_shape, sizes, orders)
        held = numbers.inside[name]
        if dims is None or not _of_their_own(held, dims, sizes):
            continue
        whole = _together(held, dims, sizes, len(local))
        for number in range(draws):
            array = np.take(whole.array, number, axis=len(whole.axes))
            found[number][other] = Held(array, whole.axes)
    return found


def alike(program: Program, names: Collection[Name]) -> list[dict[Name, Held]]:
    """For each draw of the arguments, random numbers that are all the same: in whatever order, for whichever row."""
    rounds = _rounds(program)
    found = []
    for share in _ALIKE:
        bits: dict[Name, Held] = {}
        for name in names:
            aval = program.types[name]
            largest = np.iinfo(aval.dtype).max
            number = np.asarray(int(share * largest), aval.dtype)
            shape = (*rounds[name], *aval.shape)
            bits[name] = Held(np.broadcast_to(number, shape))
        found.append(bits)
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
    makers = {name: step for step in many.steps for name in step.results}
    # what is drawn in loops is not propagated
    pairs = {
        name: other for name, other in sources(many, one).items() if name in makers
    }
    keys = {name: makers[name].operands[0] for name in pairs}
    named = {key for key in keys.values() if isinstance(key, int)}
    wanted = sorted(named)
    steps = needed(many.steps, wanted)
    alone = Program(many.inputs, steps, list(wanted), many.types)
    if not wanted or bytes_of(alone, sizes) > _MOST_BYTES:
        return {}
    try:
        found = run(alone, [_arguments(alone, examples, places)], ())
    except Unevaluated:
        return {}
    values = dict(zip(wanted, found.results, strict=True))
    orders = _orders(many, sizes)
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
        sharding = [dims.get(dim, ()) for dim in range(len(whole))]
        related[name] = State(whole, tuple(sharding)), pairs[name]
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


def _orders(program: Program, sizes: Sizes) -> set[Axes]:
    """The axes that shard a dimension together, major to minor, anywhere in the program; of those with more than one
    device."""
    steps = [step for step in program.steps if step.primitive in ("shard", "unshard")]
    found = set()
    for step in steps:
        for axes in step.params["dims"]:
            several = [axis for axis in axes if sizes[axis] > 1]
            found.add(tuple(several))
    return found - {()}


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


def _together(
    values: Values, dims: Mapping[int, Axes], sizes: Sizes, rank: int
) -> Values:
    """The parts of all devices, for each draw and each round; those of the first device along axes that shard nothing.
    Along axes of which ``sizes`` counts one device, each keeps its own."""
    array = values.array
    left = list(values.axes)
    named = [axis for axes in dims.values() for axis in axes]
    kept = [axis for axis in left if sizes[axis] == 1]
    unused = [axis for axis in left if axis not in named and axis not in kept]
    for axis in unused:
        array = np.take(array, 0, axis=left.index(axis))
        left.remove(axis)
    missing = [axis for axis in named if axis not in left]
    for axis in missing:
        array = np.broadcast_to(array, (sizes[axis], *array.shape))
        left.insert(0, axis)
    before = array.ndim - len(left) - rank
    # what is put together leaves the others in their order
    return Values(joined(array, left, dims, before), tuple(kept))
