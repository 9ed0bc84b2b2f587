"""Other devices: what is computed from the index of a device along an axis, and what depends on it."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from shardlint.evaluation.change import Repair
from shardlint.evaluation.culprits import Trace
from shardlint.evaluation.departures import Departure
from shardlint.evaluation.outside import Outside
from shardlint.evaluation.recording import Recorded
from shardlint.evaluation.suspects.common import (
    always,
    at,
    axis_size,
    device_index,
    each_once,
    is_integer,
    varying_axes,
)
from shardtypes.semantics.lazy import np
from shardtypes.semantics.trees import map_leaves

_MOST = 8

#: What is taken for each operator by mistake: its symbol, and what it computes.
_OPPOSITE: Mapping[Any, tuple[str, Callable[[Any, Any], Any]]] = {
    "+": ("-", operator.sub),
    "-": ("+", operator.add),
    "<": ("<=", operator.le),
    "<=": ("<", operator.lt),
    ">": (">=", operator.ge),
    ">=": (">", operator.gt),
}


def of_indices(departure: Departure) -> Iterator[Repair]:
    """Another sign, or another comparison, of what is computed from the index of a device."""
    return each_once(_of_indices(departure), _MOST)


def _of_indices(departure: Departure) -> Iterator[Repair]:
    evidence = departure.evidence
    of_index = _of_device_index(evidence.trace, departure.axis)
    for one in evidence.trace.led(evidence.sources):
        is_mask = one.array.dtype == "bool"
        is_position = is_integer(one) or is_mask
        if one.number not in of_index or one.is_backward or not is_position:
            continue
        if isinstance(one.what, str) and one.what in _OPPOSITE:
            symbol, function = _OPPOSITE[one.what]
            text = f"`{symbol}` in place of `{one.what}` here"
            other = at(one, text, function=always(function))
            # that fewer results depend on the devices with it may be chance
            yield replace(other, is_of_all=True)


def _of_device_index(trace: Trace, axis: str) -> set[int]:
    """The values that were computed from the index of a device along an axis."""
    found = set[int]()
    for one in trace.many.values:
        is_index = one.name == "jax.lax.axis_index" and axis in one.given.names
        is_of_index = not found.isdisjoint(one.sources)
        if is_index or is_of_index:
            found.add(one.number)
    return found


def indices_along_others(trace: Trace, axis: str) -> Iterator[Repair]:
    """The index along another axis, of one that is this axis, or becomes it."""
    axes = varying_axes(trace)
    for one in trace.many.values:
        given = one.given.names & axes
        is_index = one.name == "jax.lax.axis_index"
        if not is_index or len(given) != 1:
            continue
        for other in _likeliest_first(trace, one, axes - given):
            if axis in (*given, other):
                text = f"lax.axis_index({other!r}) here"
                index = _index_along(other)
                yield at(one, text, function=always(index))


def _likeliest_first(trace: Trace, index: Recorded, axes: frozenset[str]) -> list[str]:
    """The axes, first those over which dimensions are sharded whose local sizes an index is multiplied by."""
    likely = set[str]()
    for one in trace.many.values:
        if index.number in one.sources:
            likely |= one.given.local
    first = sorted(axes & likely)
    rest = sorted(axes - likely)
    return first + rest


def _index_along(axis: str) -> Callable[..., Any]:
    return lambda *args, **options: device_index(axis)


def choices_of_one_device(
    trace: Trace, led: Iterable[Recorded], axis: str
) -> Iterator[Repair]:
    """Another device where one is chosen by its index, such as the stage whose outputs count; and one device's value in
    place of a sum of all."""
    for one in led:
        if one.is_backward or axis not in one.given.names:
            continue
        if one.name == "jax.lax.axis_index":
            text = f"the devices along {axis!r} counted from the last one here"
            other = functools.partial(_from_last, axis=axis)
            yield at(one, text, value=other)
        elif one.name == "jax.lax.psum" and _has_last(trace, one, axis):
            text = f"what only the last device along {axis!r} has in this lax.psum"
            masked = functools.partial(_of_last, axis=axis)
            yield at(one, text, function=masked)


def _has_last(trace: Trace, total: Recorded, axis: str) -> bool:
    """Whether the last device has something else than zeros in a sum."""
    for number in total.sources:
        value = trace.many.values[number].array.value
        if value is None or not value.varies_along(axis):
            continue
        sizes = dict(value.axes)
        devices = value.devices((axis, sizes[axis]))
        last = devices[-1]
        if any(np.any(part) for part in last.parts):
            return True
    return False


def _from_last(index: Any, axis: str) -> Any:
    last = axis_size(axis) - 1
    return last - index


def _of_last(function: Any, axis: str) -> Any:
    """A sum in which the other devices have zeros."""

    def reduction(x: Any, *args: Any, **options: Any) -> Any:
        last = axis_size(axis) - 1
        is_last = device_index(axis) == last

        def masked(leaf: Any) -> Any:
            return Outside("jax.numpy.where")(is_last, leaf, 0)

        return function(map_leaves(masked, x), *args, **options)

    return reduction
