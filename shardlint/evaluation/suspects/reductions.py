"""Reductions that are missing: of partial sums, of the gradients by what all devices have, of the divisors of means."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from shardlint.evaluation import guards
from shardlint.evaluation.change import Repair
from shardlint.evaluation.culprits import Trace
from shardlint.evaluation.outside import Outside
from shardlint.evaluation.recording import Recorded, Where
from shardlint.evaluation.suspects.common import MEAN_OR_SUM, at, differing_axes
from shardlint.evaluation.suspects.lacking import lacking, missing
from shardlint.evaluation.uneven_means import (
    UnevenMean,
    averaged,
    with_average_count,
    with_average_divisor,
)
from shardtypes.semantics.array import Array, Node
from shardtypes.semantics.lowerings.operators import divide
from shardtypes.semantics.primitives import collectives
from shardtypes.semantics.trees import flatten, map_leaves, unflatten


def averaged_divisors(uneven: UnevenMean, axis: str) -> Iterator[Repair]:
    """A mean over all devices, in place of the mean of their means."""
    if uneven.parameter is not None:
        text = f"the number of entries that this divides by averaged by lax.pmean over {axis!r}"
        change = with_average_count(axis, uneven.parameter)
    else:
        text = f"the divisor averaged by lax.pmean over {axis!r}"
        change = with_average_divisor(axis)
    yield at(uneven.division, text, function=change)
    for count in uneven.counts:
        text = f"a lax.pmean over {axis!r} of this value"
        yield at(count, text, value=averaged(axis))


def missing_reductions(
    trace: Trace, led: Iterable[Recorded], axis: str
) -> Iterator[Repair]:
    for one in led:
        reduction = missing(trace.step(one.number))
        if reduction is None or (one.is_argument and not one.is_backward):
            continue
        shown, of = _named(trace, one)
        text = f"a lax.{reduction} over {axis!r} {of}"
        reduced = functools.partial(_reduced, axis=axis, reduction=reduction)
        if _is_called_from_several(trace, one):
            # others may be reduced where they are called
            assert one.caller is not None
            yield Repair(one.caller, text, value=reduced, is_new=True)
        parts = lacking(trace, one.where, reduction)
        if parts is not None:
            reduced = functools.partial(
                _with_parts_reduced, parts, one.where, axis, reduction
            )
        made = at(shown, text, value=reduced)
        made = replace(made, asks_recorder=parts is not None)
        is_best = one.is_of_rule or one.name in MEAN_OR_SUM
        changed = (one.where,)
        yield replace(made, is_new=True, is_best=is_best, changed=changed)


def missing_of_some_arrays(
    trace: Trace, led: Sequence[Recorded], axis: str
) -> Iterator[Repair]:
    """The same of some of the arrays that an expression gives: others are reduced later."""
    for one in led:
        reduction = missing(trace.step(one.number))
        if reduction is None or one.is_argument or one.is_backward:
            continue
        wanted = _numbers_at(one.where, led)
        executions = trace.executions[one.where]
        places = set()
        for each in executions:
            _, times, number = each.key
            if number in wanted:
                places.add((times, number))
        # what is recorded already, of what it gave, is none of its executions
        is_all = wanted == list(range(len(wanted)))
        if is_all and len(places) == len(executions):
            continue
        numbers = " and ".join(map(str, wanted))
        text = f"a lax.{reduction} over {axis!r} of array {numbers} of these"
        reduced = functools.partial(
            _with_parts_reduced, frozenset(places), one.where, axis, reduction
        )
        made = at(one, text, value=reduced)
        yield replace(made, is_new=True, asks_recorder=True)


def _numbers_at(where: Where, values: Iterable[Recorded]) -> list[int]:
    """Which of the arrays that an expression gives are among some values."""
    found = set[int]()
    for one in values:
        if one.where == where:
            _, _, number = one.key
            found.add(number)
    return sorted(found)


def missing_over_several_axes(
    trace: Trace, led: Iterable[Recorded]
) -> Iterator[Repair]:
    """The same over all mesh axes along which a value differs: a reduction that was over several of them."""
    for one in led:
        reduction = missing(trace.step(one.number))
        if reduction is None or one.is_backward:
            continue
        axes = [
            axis
            for axis in differing_axes([one])
            if axis == trace.axis or not one.array.is_sharded(axis)
        ]
        if len(axes) < 2 or one.is_argument:
            continue
        is_wider = reduction in ("pmax", "pmin")
        yield replace(reduction_of(one, reduction, axes), is_wider=is_wider)


def reduction_of(value: Recorded, reduction: str, axes: Sequence[str]) -> Repair:
    """A new reduction of a value over several axes."""
    names = " and ".join(map(repr, axes))
    text = f"a lax.{reduction} over {names} of this value"
    reduced = functools.partial(_reduced_over_all, axes=axes, reduction=reduction)
    return replace(at(value, text, value=reduced), is_new=True)


def _reduced_over_all(value: Any, axes: Sequence[str], reduction: str) -> Any:
    for axis in axes:
        value = _reduced(value, axis, reduction)
    return value


def _is_called_from_several(trace: Trace, value: Recorded) -> bool:
    """Whether the function that a value was computed in is called in several places."""
    where = value.where
    if where.backward or value.caller is None:
        return False
    callers = {one.caller for one in trace.executions[where]}
    return len(callers) > 1


def missing_backward(trace: Trace, axis: str) -> Iterator[Repair]:
    """The first products of a replicated value and a shard, whose gradients by that value are partial sums."""
    for one in trace.many.values:
        if one.is_backward or not one.is_inside or one.name not in _PRODUCTS:
            continue
        kinds = {trace.step(number).kind for number in one.sources}
        if {"same", "split"} <= kinds:
            text = f"a lax.psum over {axis!r} of the gradient by what this takes"
            summed = functools.partial(_summed_backward, axis=axis)
            made = at(one, text, function=summed)
            yield replace(made, is_new=True)


_PRODUCTS = frozenset(
    {"@"} | {f"jax.numpy.{name}" for name in ("dot", "einsum", "matmul", "tensordot")}
)


def _summed_backward(function: Any, axis: str) -> Any:
    """A function of which the gradients by what all devices have alike are summed over the axis."""

    def entered(leaf: Any) -> Any:
        if not isinstance(leaf, Array) or leaf.node is None or leaf.value is None:
            return leaf
        if leaf.value.varies_along(axis):
            return leaf
        return leaf.computed_by(Node((leaf,), _sum_of(axis)), 0)

    def called(*args: Any, **options: Any) -> Any:
        return function(*map(entered, args), **options)

    return called


def _sum_of(axis: str) -> Callable[[Any], Any]:
    def pull(cotangents: Any) -> Any:
        (cotangent,) = cotangents
        return [_reduced(cotangent, axis, "psum")]

    return pull


def _named(trace: Trace, value: Recorded) -> tuple[Recorded, str]:
    """What stands for a value in the mapped function, and how it is called there."""
    if value.is_of_rule:
        return value, "of what this backward rule returns"
    if value.is_argument:
        return value, "of the gradients by the arguments of this function"
    if value.gradient_of is None:
        return value, "of this value"
    use = None
    if not value.is_inside:
        use = _first_use_inside(trace, value.gradient_of)
    if use is None:
        return value, "of the gradient of this value"
    return use, "of the gradient by what this takes"


def _first_use_inside(trace: Trace, number: int) -> Recorded | None:
    """The first expression in a mapped function that computes something of an array."""
    uses = (one for one in trace.many.values if number in one.sources and one.is_inside)
    return next((one for one in uses if not one.is_backward), None)


_PRIMITIVES = {
    "psum": collectives.psum,
    "pmean": collectives.psum,
    "pmax": collectives.pmax,
    "pmin": collectives.pmin,
}


def _with_parts_reduced(
    parts: frozenset[tuple[int, int]],
    where: Where,
    axis: str,
    reduction: str,
    value: Any,
) -> Any:
    """What an expression gave, with those of its arrays reduced that are parts."""
    recorder = guards.recorder()
    assert recorder is not None
    times = recorder.met[where]
    reduce = Outside(f"jax.lax.{reduction}")
    leaves, structure = flatten(value)
    reduced = [
        reduce(leaf, axis) if (times, i) in parts else leaf
        for i, leaf in enumerate(leaves)
    ]
    return unflatten(structure, reduced)


def _reduced(value: Any, axis: str, reduction: str) -> Any:
    """A value whose arrays that differ along an axis are reduced over it."""

    def reduced(leaf: Any) -> Any:
        if not isinstance(leaf, Array) or leaf.value is None:
            return leaf
        dtype = leaf.dtype or ""
        is_float = dtype.startswith(("float", "bfloat"))
        if not is_float or not leaf.value.varies_along(axis):
            return leaf
        size = dict(leaf.value.axes)[axis]
        whole = _PRIMITIVES[reduction](leaf, axes=((axis, size),), groups=None)
        return divide(whole, size) if reduction == "pmean" else whole

    return map_leaves(reduced, value)
