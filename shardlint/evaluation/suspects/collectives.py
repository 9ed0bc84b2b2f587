"""Other collectives in place of those that are there: another reduction, over more axes, another permutation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from shardlint.evaluation.change import Repair
from shardlint.evaluation.culprits import Trace
from shardlint.evaluation.departures import Departure
from shardlint.evaluation.outside import Outside
from shardlint.evaluation.recording import Given, Recorded, Where
from shardlint.evaluation.rings import left_behind, sent_along
from shardlint.evaluation.suspects.common import (
    MEAN_OR_SUM,
    always,
    at,
    axis_size,
    unchanged,
)
from shardtypes.semantics.lowerings.operators import divide
from shardtypes.semantics.trees import map_leaves

_MOST_RINGS = 10
_SHORT = {"jax.lax.psum": "lax.psum", "jax.lax.pmean": "lax.pmean"}


@dataclass(frozen=True)
class _Collective:
    """One that a program calls: the public ``name``, what is ``fixed`` where it is ``functools.partial`` of it, and
    the mesh axes that it is over."""

    name: str
    fixed: Mapping[str, Any]
    axes: frozenset[str]


def _collective_of(recorded: Recorded) -> _Collective:
    plain = recorded.what
    fixed: Mapping[str, Any] = {}
    if isinstance(plain, functools.partial):
        fixed = plain.keywords
        plain = plain.func
    name = getattr(plain, "qualname", "")
    besides = Given.among(*fixed.values())
    axes = recorded.given.names | besides.names
    return _Collective(name, fixed, axes)


def other_collectives(led: Iterable[Recorded], axis: str) -> Iterator[Repair]:
    """Of those that are over the axis."""
    for one in led:
        called = _collective_of(one)
        if one.is_backward or axis not in called.axes:
            continue
        if called.name in MEAN_OR_SUM:
            yield from _other_reductions(one, called)
        elif called.name == "jax.lax.psum_scatter":
            text = "this lax.psum_scatter divided by the number of devices"
            divided = functools.partial(_divided, axis=axis)
            yield at(one, text, value=divided)
        elif called.name == "jax.lax.ppermute":
            yield from _other_permutations(one)


def over_more_axes(led: Iterable[Recorded], axis: str) -> Iterator[Repair]:
    """Of those that are over other axes."""
    for one in led:
        called = _collective_of(one)
        if _is_over_others(one, called, axis):
            text = f"this {_SHORT[called.name]} over {axis!r} too"
            yield at(one, text, function=_over(called, axis))


def _is_over_others(recorded: Recorded, called: _Collective, axis: str) -> bool:
    is_reduction = called.name in MEAN_OR_SUM and axis not in called.axes
    return is_reduction and not recorded.is_backward


def over_more_axes_together(
    trace: Trace, taken: Iterable[Recorded], axis: str
) -> Iterator[Repair]:
    """The reductions of parts that are over other axes, all over this one too: as those of several gradients, each at a
    line of its own."""
    for one in taken:
        called = _collective_of(one)
        if not _is_over_others(one, called, axis):
            continue
        others = _alike(trace, called) - {one.where}
        if not others:
            continue
        count = "others"
        if len(others) == 1:
            count = "other"
        short = _SHORT[called.name]
        text = f"this {short} and {len(others)} {count} over {axis!r} too"
        made = at(one, text, function=_over(called, axis))
        yield replace(made, changed=(one.where, *others))


def _alike(trace: Trace, called: _Collective) -> set[Where]:
    """Where parts are reduced like this, on the way forward."""
    found = set()
    for one in trace.many.values:
        if one.is_backward or trace.step(one.number).kind != "part":
            continue
        if _collective_of(one) == called:
            found.add(one.where)
    return found


def _other_reductions(reduced: Recorded, called: _Collective) -> Iterator[Repair]:
    other = MEAN_OR_SUM[called.name]
    text = f"no {_SHORT[called.name]} here"
    yield at(reduced, text, function=always(unchanged))
    text = f"{_SHORT[other]} here"
    function = functools.partial(Outside(other), **called.fixed)
    yield at(reduced, text, function=always(function))


def _other_permutations(sent: Recorded) -> Iterator[Repair]:
    argument = (2, "perm")
    text = "the pairs of this lax.ppermute the other way round"
    turned = at(sent, text, function=_reversed)
    yield replace(turned, argument=argument)
    text = "the pair that is missing in the perm of this lax.ppermute"
    closed = at(sent, text, function=_closed)
    yield replace(closed, argument=argument)


def _divided(value: Any, axis: str) -> Any:
    size = axis_size(axis)
    return map_leaves(lambda leaf: divide(leaf, size), value)


def _over(called: _Collective, axis: str) -> Callable[[Any], Any]:
    """A reduction over one axis more."""
    function = Outside(called.name)

    def reduction(x: Any, axis_name: Any = None, **options: Any) -> Any:
        names = called.fixed.get("axis_name", axis_name)
        if not isinstance(names, (tuple, list)):
            names = (names,)
        return function(x, (*names, axis), **options)

    return always(reduction)


def _reversed(function: Any) -> Any:
    """A permutation that sends each device's value where it would come from."""

    def permutation(x: Any, axis_name: Any, perm: Any) -> Any:
        turned = [(target, source) for source, target in perm]
        return function(x, axis_name, turned)

    return permutation


def _closed(function: Any) -> Any:
    """A permutation in which the one device that sends nothing sends to the one that gets nothing."""

    def permutation(x: Any, axis_name: Any, perm: Any) -> Any:
        pairs = [(source, target) for source, target in perm]
        size = axis_size(axis_name)
        devices = set(range(size))
        senders = devices - {source for source, _ in pairs}
        receivers = devices - {target for _, target in pairs}
        if len(senders) == len(receivers) == 1:
            pairs.append((senders.pop(), receivers.pop()))
        return function(x, axis_name, pairs)

    return permutation


def rings_to_close(departure: Departure) -> Iterator[Repair]:
    """What stays on its device while the rest goes round a ring, sent along."""
    evidence, axis = departure.evidence, departure.axis
    found = left_behind(evidence.trace, evidence.sources, axis)
    for behind in islice(found, _MOST_RINGS):
        text = (
            f"the operand that stays on its device sent round {axis!r} with the others"
        )
        yield Repair(
            behind.where,
            text,
            function=sent_along(behind, axis),
            asks_recorder=True,
        )
