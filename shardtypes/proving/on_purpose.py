"""What is certainly wrong in results that depend on the mesh on purpose, whatever the purpose."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from shardtypes.proving.described import described, line_of
from shardtypes.proving.numbers import Values, agree, finite
from shardtypes.proving.places import Place
from shardtypes.proving.program import Name, Step
from shardtypes.proving.purposes import Purposes
from shardtypes.proving.relation import Axes
from shardtypes.proving.verdict import Where
from shardtypes.proving.walk import Culprit, Walk, reduced_axes
from shardtypes.proving.words import alike, differs, operation, reduces

_EACH_ITS_OWN = ("entries", "indices", "counts", "picks")
"""Purposes for which a result of ``shard_map`` still is what its specs say."""


def certainly_wrong(
    purposes: Purposes, drawn: Collection[Name], mapped: Collection[str]
) -> Where | None:
    """The first place; ``drawn`` are random numbers of which one device would draw more, ``mapped`` the axes along
    which each device returns its own."""
    return _same_draws(purposes, drawn) or _returned_otherwise(purposes, mapped)


def _same_draws(purposes: Purposes, drawn: Collection[Name]) -> Where | None:
    """Where all devices draw the very same numbers for different shards."""
    walk = purposes.walk
    for step, _ in walk.many.steps_in_rounds():
        name = step.results[0]
        if name not in drawn or name in purposes.found:
            continue
        if purposes.draws_the_same(step):
            _, key = walk.standing(step.operands[0])
            return described(
                walk, Culprit(step, name, None, (key,), walk.others.get(step))
            )
    return None


def _returned_otherwise(purposes: Purposes, mapped: Collection[str]) -> Where | None:
    """Where a result of ``shard_map`` is not what its specs say."""
    walk = purposes.walk
    for step in walk.many.steps:
        purpose = purposes.found.get(step.results[0])
        if (
            step.primitive != "unshard"
            or purpose is None
            or purpose.kind not in _EACH_ITS_OWN
        ):
            continue
        if set(step.params["sizes"]) & set(mapped):
            continue
        found = _unlike_its_specs(walk, step)
        if found is not None:
            return found
    return None


def _unlike_its_specs(walk: Walk, maker: Step) -> Where | None:
    """Where devices do not hold what they return as replicated, or hold but one shard of what they return as
    sharded."""
    held = walk.held(maker.operands[0])
    if held is None:
        return None
    dims = maker.params["dims"]
    sizes = maker.params["sizes"]
    own = [axis for axis in held.axes if axis in sizes]
    varying = [axis for axis in own if not _is_same_along(held, axis)]
    named = {axis for axes in dims for axis in axes}
    apart = [axis for axis in varying if axis not in named]
    if apart:
        return _returned_apart(walk, maker, apart)
    if not held.array.size:
        return None
    if not np.ptp(finite(held.array)):
        return None
    same = []
    for dim, axes in enumerate(dims):
        if len(axes) != 1:
            continue
        (axis,) = axes
        # beside as many devices along an axis, each is held against its like
        if walk.sizes[axis] > 1 and axis not in varying:
            same.append((dim, axis))
    for dim, axis in same:
        if not _repeats(walk, maker, dim, sizes[axis]):
            return _returned_alike(walk, maker, axis, dim)
    return None


def _is_same_along(held: Values, axis: str) -> bool:
    """Whether all devices along an axis hold the same."""
    place = held.axes.index(axis)
    first = np.take(held.array, [0], axis=place)
    repeated = np.broadcast_to(first, held.array.shape)
    return agree(held.array, repeated)


def _repeats(walk: Walk, maker: Step, dim: int, count: int) -> bool:
    """Whether on one device the shards of a result are the same, too; or there are none that could be told apart."""
    whole = walk.whole(maker.results[0])
    if whole is None:
        return True
    shape = tuple(walk.many.types[maker.results[0]].shape)
    if whole.shape[1:] != shape:
        return True
    if whole.shape[dim + 1] % count:
        return True
    shards = np.stack(np.split(whole, count, axis=dim + 1))
    repeated = np.broadcast_to(shards[:1], shards.shape)
    return agree(shards, repeated)


def _returned_apart(walk: Walk, step: Step, axes: Sequence[str]) -> Where:
    """Where what is returned as the same on all devices along axes came to differ: the last reduction left them out."""
    apart = set(axes)
    last = _last_reduction(walk, step, apart.isdisjoint)
    return _returned(walk, step, last, differs(step.params["number"], axes))


def _returned_alike(walk: Walk, step: Step, axis: str, dim: int) -> Where:
    """Where what is returned as sharded became the same on all devices."""
    last = _last_reduction(walk, step, lambda over: axis in over)
    what = alike(step.params["number"], axis, dim)
    return _returned(walk, step, last, what)


def _last_reduction(
    walk: Walk, step: Step, fits: Callable[[Axes], bool]
) -> Step | None:
    """The last reduction over fitting axes on the way of what is returned."""
    for maker in walk.makers(step.operands):
        axes = reduced_axes(maker)
        if maker.place.file and axes and fits(axes):
            return maker
    return None


def _returned(walk: Walk, step: Step, last: Step | None, what: str) -> Where:
    if last is None:
        return Where(line_of(walk, step), operation(step), what)
    returned: tuple[tuple[Place, str], ...] = ()
    if step.place.file:
        returned = ((step.place, "returned here"),)
    return Where(
        last.place, operation(last), reduces(last, reduced_axes(last), what), returned
    )
