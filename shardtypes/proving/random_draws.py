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
from shardtypes.proving.numbers import Numbers, Values
from shardtypes.proving.observed import joined
from shardtypes.proving.program import Name, Program

_DRAWS = frozenset({"random_bits"})


def sources(many: Program, one: Program) -> dict[Name, Name]:
    """What devices draw, each for a part of what one device draws: the values on devices and on one."""
    top = {step.results[0] for step in many.steps}
    _, steps = aligned(many, one)
    return {
        a.results[0]: b.results[0]
        for a, b in steps
        if a.primitive in _DRAWS
        and a.results[0] in top
        and many.types[a.results[0]].shape != one.types[b.results[0]].shape
    }


def taken(
    pairs: Mapping[Name, Name], numbers: Numbers, many: Program, one: Program, sizes: Mapping[str, int], draws: int
) -> list[dict[Name, Any]]:
    """For each draw of the arguments, the values of one device that are put together from those of the devices."""
    found: list[dict[Name, Any]] = [{} for _ in range(draws)]
    orders = _orders(many)
    for name, other in pairs.items():
        dims = _sharding(many.types[name].shape, one.types[other].shape, sizes, orders)
        if dims is None:
            continue
        whole = _together(numbers.inside[name], dims, sizes)
        for number in range(draws):
            found[number][other] = whole[number]
    return found


def _orders(program: Program) -> set[tuple[str, ...]]:
    """The axes that shard a dimension together, major to minor, anywhere in the program."""
    steps = [step for step in program.steps if step.primitive in ("shard", "unshard")]
    return {axes for step in steps for axes in step.params["dims"] if axes}


def _sharding(
    local: Sequence[int], whole: Sequence[int], sizes: Mapping[str, int], orders: set[tuple[str, ...]]
) -> dict[int, tuple[str, ...]] | None:
    """Which axes shard which dimension; None unless there is just one way."""
    if len(local) != len(whole):
        return None
    places = [dim for dim, (few, many) in enumerate(zip(local, whole, strict=True)) if few != many]
    found = []
    for chosen in itertools.product(sorted(orders), repeat=len(places)):
        named = [axis for axes in chosen for axis in axes]
        fits = all(
            local[dim] * math.prod(sizes[axis] for axis in axes) == whole[dim]
            for dim, axes in zip(places, chosen, strict=True)
        )
        if fits and len(set(named)) == len(named):
            found.append(dict(zip(places, chosen, strict=True)))
    return found[0] if len(found) == 1 else None


def _together(values: Values, dims: Mapping[int, tuple[str, ...]], sizes: Mapping[str, int]) -> Any:
    """The parts of all devices, for each draw; those of the first device along axes that shard nothing."""
    array, left = values.array, list(values.axes)
    named = [axis for axes in dims.values() for axis in axes]
    for axis in [axis for axis in left if axis not in named]:
        array = np.take(array, 0, axis=left.index(axis))
        left.remove(axis)
    for axis in [axis for axis in named if axis not in left]:
        array = np.broadcast_to(array, (sizes[axis], *array.shape))
        left.insert(0, axis)
    return joined(array, left, dims, 1)
