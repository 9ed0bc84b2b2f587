"""Values that no argument reaches: they are computed, and their relation is read off, entry by entry."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from shardtypes.proving.evaluation import Held
from shardtypes.proving.observed import joined
from shardtypes.proving.relation import Axes, Sizes
from shardtypes.proving.state import State, Unknown, refuse

MOST = 1 << 16
"""Entries of a value that is still computed, over all devices."""

_LARGEST = 10_000


def state_of(held: Held, whole: Any, rounding: float, sizes: Sizes) -> State:
    """The relation of a value that is known on devices and on one; ``rounding`` is relative. Raises ``Unknown``."""
    array = _numbers(held.array)
    axes = held.axes
    whole = _numbers(whole)
    refuse(
        array.ndim - len(axes) != whole.ndim, "a constant of another rank on one device"
    )
    for axis in axes:
        at = axes.index(axis)
        first = np.take(array, [0], axis=at)
        if np.array_equal(np.broadcast_to(first, array.shape), array, equal_nan=True):
            array = np.take(array, 0, axis=at)
            axes = tuple(name for name in axes if name != axis)
    rank = whole.ndim
    lead = len(axes)
    uniform = frozenset(
        dim
        for dim in range(rank)
        if _constant(array, lead + dim) and _constant(whole, dim)
    )
    refuse(not array.size or not whole.size, "a constant without entries")
    if not array.any() and not whole.any():
        return State(
            whole.shape, ((),) * rank, uniform=frozenset(range(rank)), zero=True
        )
    small = _first(array, [lead + dim for dim in uniform])
    short = _first(whole, list(uniform))
    if not axes:
        factor = _factor(small, short, rounding)
        return State(whole.shape, ((),) * rank, factor=factor, uniform=uniform)
    return State(
        whole.shape, _sharding(array, axes, whole, rounding, sizes), uniform=frozenset()
    )


def _numbers(array: Any) -> Any:
    array = np.asarray(array)
    if array.dtype.kind in "bui":
        return array.astype(np.int64)
    return array


def _constant(array: Any, dim: int) -> bool:
    if array.shape[dim]:
        first = np.take(array, [0], axis=dim)
    else:
        first = array
    return bool(np.array_equal(np.broadcast_to(first, array.shape), array))


def _first(array: Any, dims: list[int]) -> Any:
    for dim in dims:
        array = np.take(array, [0], axis=dim)
    return array


def _factor(small: Any, short: Any, rounding: float) -> Fraction:
    refuse(small.shape != short.shape, "a constant of another shape on one device")
    if _near(small, short, rounding):
        return Fraction(1)
    refuse(
        np.iscomplexobj(small)
        or not (np.isfinite(small).all() and np.isfinite(short).all()),
        "another constant on one device",
    )
    largest = int(np.argmax(np.abs(short)))
    at = np.unravel_index(largest, short.shape)
    refuse(not short[at] or not small[at], "another constant on one device")
    ratio = float(small[at]) / float(short[at])
    found = Fraction(ratio).limit_denominator(_LARGEST)
    refuse(
        not found or not _near(small, short * float(found), rounding),
        "another constant on one device",
    )
    return found


def _near(a: Any, b: Any, rounding: float) -> bool:
    if a.dtype.kind == "i" and b.dtype.kind == "i":
        return bool(np.array_equal(a, b))
    # Entry by entry: beside the -1e9 of a mask, every other entry would be near.
    with np.errstate(invalid="ignore"):
        return bool(
            np.all(
                (a == b)
                | (np.abs(a - b) <= rounding * np.abs(b))
                | (np.isnan(a) & np.isnan(b))
            )
        )


def _sharding(
    array: Any,
    axes: Axes,
    whole: Any,
    rounding: float,
    sizes: Sizes,
) -> tuple[Axes, ...]:
    """Which dimension each axis shards."""
    lead = len(axes)
    ratios = [
        many / few if few else 0
        for few, many in zip(array.shape[lead:], whole.shape, strict=True)
    ]
    for chosen in itertools.product(range(whole.ndim), repeat=lead):
        groups: dict[int, list[str]] = {}
        for axis, dim in zip(axes, chosen, strict=True):
            groups.setdefault(dim, []).append(axis)
        if any(
            math.prod(sizes[a] for a in groups.get(dim, ())) != ratio
            for dim, ratio in enumerate(ratios)
        ):
            continue
        for order in itertools.product(
            *(itertools.permutations(group) for group in groups.values())
        ):
            dims = dict(zip(groups, order, strict=True))
            if _near(joined(array, list(axes), dims, 0), whole, rounding):
                found = [tuple(dims.get(dim, ())) for dim in range(whole.ndim)]
                return tuple(found)
    raise Unknown("a constant that depends on the device")
