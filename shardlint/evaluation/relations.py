"""Which relation holds between what the devices along one axis have and what one device has, found out in numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from shardtypes.semantics.array import Array
from shardtypes.semantics.relation import ZERO, Monoid, Relation, part, split
from shardtypes.semantics.simulated import Simulated

TOLERANCE = 1e-6  # of the largest entry; all floats are computed in double precision
ROUNDED = 1e-14  # what is left of numbers of order one that cancel, as a gradient of a bias before a normalization
MASKED = 1e6  # entries larger than this stand for minus infinity, if others are smaller
_POWERS: tuple[Fraction | int, ...] = (0, 1, -1, 2, -2, Fraction(1, 2), Fraction(-1, 2))
_MONOIDS: tuple[tuple[Monoid, Any], ...] = (
    ("sum", np.add),
    ("max", np.maximum),
    ("min", np.minimum),
)


Lengths: TypeAlias = tuple[int, int]
"""How long one dimension is on the larger and on the smaller number of devices."""

Cut: TypeAlias = Callable[[Any, Any], tuple[Any, Any] | None]
"""What two arrays have both without padding; None where they differ by something else."""


def found(
    many: Array,
    few: Array,
    axis: str,
    counts: tuple[int, int],
    minor: str | None = None,
    padded: Collection[Lengths] = (),
) -> list[Relation] | None:
    """Every relation that may hold over an axis, by what a larger and a smaller number of devices along it have: one
    that makes the same of both. None where the two cannot be compared. With a ``minor`` axis, over both as one.
    What lies beyond the shorter of two ``padded`` lengths may be anything."""
    if many.value is None or few.value is None:
        return None
    others = {one for one, _ in many.value.axes} ^ {one for one, _ in few.value.axes}
    if others - {axis}:
        return None
    parts = _parts(many.value, axis, counts[0], minor)
    reference = _parts(few.value, axis, counts[1], minor)
    if parts[0].ndim != reference[0].ndim:
        return None
    return list(_relations(parts, reference, parts[0].ndim - many.rank, padded))


def are_laid_out(many: Array, few: Array, counts: tuple[int, int]) -> bool:
    """Whether two arrays have a row for each device, and hold the same: copies of one array, or its parts."""
    pair = (many.value, few.value)
    if any(one is None or one.axes for one in pair):
        return False
    rows, others = (np.asarray(one.parts[0]) for one in pair if one is not None)
    if (rows.shape[:1], others.shape[:1]) != ((counts[0],), (counts[1],)):
        return False
    if rows.shape[1:] == others.shape[1:]:
        return all(_equal(row, rows[0]) for row in (*rows, *others))
    if min(rows.ndim, others.ndim) < 2:
        return False
    whole, other = (one.reshape(-1, *one.shape[2:]) for one in (rows, others))
    return whole.shape == other.shape and _equal(whole, other)


def _parts(value: Simulated, axis: str, count: int, minor: str | None) -> list[Any]:
    """What each device along an axis has; along a minor axis as well, which then counts faster."""
    devices = value.devices((axis, count))
    size = dict(value.axes).get(minor or "")
    if minor is not None and size is not None:
        devices = [one for each in devices for one in each.devices((minor, size))]
    return [_whole(one) for one in devices]


def _whole(value: Simulated) -> Any:
    """The numbers on all examples that are mapped over, as leading dimensions."""
    if not value.axes:
        return np.asarray(value.parts[0])
    sizes = [size for _, size in value.axes]
    return np.stack([np.asarray(one) for one in value.parts]).reshape(
        *sizes, *np.shape(value.parts[0])
    )


def _relations(
    many: Sequence[Any],
    few: Sequence[Any],
    first: int,
    padded: Collection[Lengths],
) -> Iterator[Relation]:
    """The relations between the parts; the dimensions of the array begin with ``first``."""
    shape, other = many[0].shape, few[0].shape
    ratio = Fraction(len(many), len(few))
    if shape == other:
        if not any(np.any(one) for one in (*many, *few)):
            yield ZERO
        if _alike(many) and _alike(few):
            yield from (
                Relation("same", power=power)
                for power in _powers(many[0], few[0], ratio)
            )
        for monoid, combine in _MONOIDS:
            if monoid == "sum" and shape and few[0].dtype == bool:
                continue
            if monoid != "sum" and few[0].dtype.kind != "f":
                continue
            pair = combine.reduce(many), combine.reduce(few)
            yield from (part(monoid, power) for power in _powers(*pair, ratio))
    for dim in range(len(shape)):
        if shape[dim] * len(many) == other[dim] * len(few) and _same_but(
            shape, other, dim
        ):
            pair = np.concatenate(many, axis=dim), np.concatenate(few, axis=dim)
            own = dim - first if dim >= first else None
            yield from (split(own, power) for power in _powers(*pair, ratio))
            return
    if shape != other and padded:
        by_length = partial(trimmed, lengths=padded)
        yield from _padded_relations(many, few, first, ratio, by_length)
    if shape != other and len(shape) == 1 and not first:
        yield from _padded_relations(many, few, first, ratio, without_padding)


def _padded_relations(
    many: Sequence[Any], few: Sequence[Any], first: int, ratio: Fraction, cut: Cut
) -> Iterator[Relation]:
    """The relations between arrays that are filled up to another length on another number of devices."""
    if _alike(many) and _alike(few):
        same = cut(many[0], few[0])
        powers = () if same is None else _powers(*same, ratio)
        yield from (Relation("same", power=power) for power in powers)
    total = cut(np.add.reduce(many), np.add.reduce(few))
    powers = () if total is None else _powers(*total, ratio)
    yield from (part("sum", power) for power in powers)
    for dim in range(many[0].ndim):
        whole = cut(np.concatenate(many, axis=dim), np.concatenate(few, axis=dim))
        own = dim - first if dim >= first else None
        powers = () if whole is None else _powers(*whole, ratio)
        yield from (split(own, power) for power in powers)


def without_padding(one: Any, other: Any) -> tuple[Any, Any] | None:
    """The entries that two vectors have both, if the longer one is zero from there on. One entry for each device is no
    padding: the others may be zero, as a determinant is."""
    if one.ndim != 1 or other.ndim != 1:
        return None
    length = min(len(one), len(other))
    if length < 2:
        return None
    if one[length:].any() or other[length:].any():
        return None
    return one[:length], other[:length]


def trimmed(x: Any, y: Any, lengths: Collection[Lengths]) -> tuple[Any, Any] | None:
    """What two arrays have both, where they differ by such lengths alone; None where they differ by others."""
    if x.ndim != y.ndim:
        return None
    sizes = list(zip(x.shape, y.shape, strict=True))
    if any(one != two and (one, two) not in lengths for one, two in sizes):
        return None
    kept = tuple(slice(min(pair)) for pair in sizes)
    return x[kept], y[kept]


def _alike(parts: Sequence[Any]) -> bool:
    return all(_equal(one, parts[0]) for one in parts[1:])


def _same_but(one: Sequence[int], other: Sequence[int], dim: int) -> bool:
    return all(
        a == b for k, (a, b) in enumerate(zip(one, other, strict=True)) if k != dim
    )


def _powers(one: Any, other: Any, ratio: Fraction) -> Iterator[Fraction | int]:
    """The power of the number of devices by which values are off."""
    if one.dtype.kind not in "fc":
        if np.array_equal(one, other):
            yield 0
        return
    for power in _POWERS:
        if _equal(one, other * float(ratio) ** float(power)):
            yield power
            return


def _equal(one: Any, other: Any) -> bool:
    if one.dtype.kind not in "fc" and other.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    return bool(np.all(close(one, other)))


def close(one: Any, other: Any, tolerance: float = TOLERANCE) -> Any:
    """Which entries of two arrays are the same, but for a share of the largest one, as rounding leaves it."""
    if np.array_equal(one, other):  # as most are, which is found out at once
        return np.ones(np.shape(one), bool)
    with np.errstate(invalid="ignore"):
        large = np.abs(other) * (np.abs(other) > MASKED)
        allowed = tolerance * np.maximum(_scale(other), large)
        near = np.abs(one - other) <= np.maximum(allowed, ROUNDED)
    return near | (one == other) | (np.isnan(one) & np.isnan(other))


def _scale(array: Any) -> float:
    """The largest of the entries that are no mask."""
    sizes = np.abs(array)
    sizes = sizes[np.isfinite(sizes)]
    plain = sizes[sizes <= MASKED]
    return float(np.max(plain if len(plain) else sizes, initial=0.0)) + 1e-300
