"""Other collectives in place of those that are there: another reduction, over more axes, another permutation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from shardlint.evaluation.change import Repair
from shardlint.evaluation.departures import Departure
from shardlint.evaluation.outside import Outside
from shardlint.evaluation.recording import Given, Recorded
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


def other_collectives(led: Iterable[Recorded], axis: str) -> Iterator[Repair]:
    for one in led:
        plain = one.what
        fixed: Mapping[str, Any] = {}
        if isinstance(plain, functools.partial):
            fixed = plain.keywords
            plain = plain.func
        name = getattr(plain, "qualname", "")
        given = Given.among(*fixed.values())
        is_over = axis in one.given.names | given.names
        if one.is_backward:
            continue
        if name in MEAN_OR_SUM and is_over:
            yield from _other_reductions(one, name, fixed)
        elif name in MEAN_OR_SUM:
            text = f"this {_SHORT[name]} over {axis!r} too"
            over = _over(Outside(name), fixed, axis)
            yield at(one, text, function=over)
        elif name == "jax.lax.psum_scatter" and is_over:
            text = "this lax.psum_scatter divided by the number of devices"
            divided = functools.partial(_divided, axis=axis)
            yield at(one, text, value=divided)
        elif name == "jax.lax.ppermute" and is_over:
            yield from _other_permutations(one)


def _other_reductions(
    reduced: Recorded, name: str, fixed: Mapping[str, Any]
) -> Iterator[Repair]:
    other = MEAN_OR_SUM[name]
    text = f"no {_SHORT[name]} here"
    yield at(reduced, text, function=always(unchanged))
    text = f"{_SHORT[other]} here"
    function = functools.partial(Outside(other), **fixed)
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


def _over(function: Any, fixed: Mapping[str, Any], axis: str) -> Callable[[Any], Any]:
    """A reduction over one axis more."""

    def reduction(x: Any, axis_name: Any = None, **options: Any) -> Any:
        names = fixed.get("axis_name", axis_name)
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
        yield Repair(behind.where, text, function=sent_along(behind, axis))
