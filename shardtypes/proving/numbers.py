"""Both programs run in numbers: what each value is on the devices and on one, for several draws of the arguments."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from shardtypes.prng_keys import is_key
from shardtypes.proving.evaluation import Held, Instead, evaluate
from shardtypes.proving.observed import Host, close
from shardtypes.proving.program import Name, Program
from shardtypes.proving.relation import Axes, Sizes

MOST_BYTES = 1_500_000_000
_ALLOWED = 1e-6
"""Relative to the largest number of an array; everything is in double precision."""


@dataclass(frozen=True)
class Values:
    """``array`` has leading dimensions for ``axes`` and then one for the draws."""

    array: Host
    axes: Axes


@dataclass(frozen=True)
class Numbers:
    """The results of a program, and the values inside it that were kept, by name."""

    results: list[Values]
    inside: dict[Name, Values]


def bytes_of(program: Program, sizes: Sizes) -> int:
    """About how much memory the values of all devices take in double precision."""
    count = math.prod(sizes.values())
    total = 0
    for step in program.steps:
        if step.primitive == "scan":
            times = step.params["length"]
        else:
            times = 1
        names = list(step.results)
        for inner in step.inside:
            names += inner.made()
        each = 0
        for name in names:
            shape = getattr(program.types[name], "shape", ())
            each += 8 * math.prod(shape)
        devices = count if step.manual else 1
        total += each * times * devices
    return total


def run(
    program: Program,
    draws: Sequence[Sequence[Any]],
    keep: Collection[Name] | None,
    instead: Sequence[Instead] | None = None,
) -> Numbers:
    """Evaluate for each draw of the arguments; ``instead`` of what is computed other values are taken, for each.
    Raises ``Unevaluated``."""
    others = instead or [Instead()] * len(draws)
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        found = [
            evaluate(program, [_double(value) for value in draw], keep, other)
            for draw, other in zip(draws, others, strict=True)
        ]
    results = [
        _stacked([results[i] for results, _ in found])
        for i in range(len(program.outputs))
    ]
    inside = {}
    _, kept_first = found[0]
    for name in kept_first:
        inside[name] = _stacked([kept[name] for _, kept in found])
    return Numbers(results, inside)


def _double(value: Any) -> Any:
    if is_key(value):
        return value
    return np.asarray(value)


def _stacked(seen: Sequence[Held]) -> Values:
    axes = max((held.axes for held in seen), key=len)
    arrays = [_plain(held.array) for held in seen]
    shape = max((array.shape for array in arrays), key=len)
    return Values(
        np.stack([np.broadcast_to(array, shape) for array in arrays], axis=len(axes)),
        axes,
    )


def _plain(array: Any) -> Host:
    if is_key(array):
        words = np.asarray(jax.random.key_data(array))
        data = words.astype(np.int64)
        # The last dimension is of the key itself: folded into one number, so that ranks are those of the program.
        length = data.shape[-1]
        weights = np.array([1 << 20, 1, 7, 3][:length], np.int64)
        folded = np.tensordot(data, weights, axes=1)
        return np.asarray(folded)
    return np.asarray(array)


def without_axes(values: Values) -> Host:
    """What one device holds, whose axes have size one."""
    count = len(values.axes)
    shape = values.array.shape[count:]
    return values.array.reshape(shape)


def varying_axes(values: Values) -> set[str]:
    """The axes along which devices hold other numbers."""
    found = set()
    for number, axis in enumerate(values.axes):
        array = values.array
        first = np.take(array, [0], axis=number)
        repeated = np.broadcast_to(first, array.shape)
        if not np.array_equal(repeated, array):
            found.add(axis)
    return found


def once_each(values: Values) -> Host:
    """What the devices hold, once where several hold the same; the draws come first."""
    array = values.array
    apart = varying_axes(values)
    for number, axis in reversed(list(enumerate(values.axes))):
        if axis not in apart:
            array = np.take(array, 0, axis=number)
    return np.moveaxis(array, len(apart), 0)


def reordered(values: Values, whole: Host) -> bool:
    """Whether all devices together hold the numbers that one device holds, once each, in whatever order."""
    array = once_each(values)
    if not array.size:
        return False
    if array.size != whole.size:
        return False
    draws = len(whole)
    found = np.sort(array.reshape(draws, -1))
    wanted = np.sort(whole.reshape(draws, -1))
    return np.array_equal(found, wanted)


def in_another_order(values: Values, whole: Host) -> bool:
    """Whether all devices together hold the numbers that one device holds, up to rounding and but for zeros, as they
    fill up the last shard."""
    draws = len(whole)
    rows = once_each(values).reshape(draws, -1)
    rows_of_one = whole.reshape(draws, -1)
    for row, row_of_one in zip(rows, rows_of_one, strict=True):
        found = np.sort(row[row != 0])
        wanted = np.sort(row_of_one[row_of_one != 0])
        if found.size != wanted.size:
            return False
        if not wanted.size or not agree(found, wanted):
            return False
    return True


def agree(a: Host, b: Host) -> bool:
    """Whether two arrays hold the same numbers, up to rounding."""
    return close(finite(a), finite(b), _ALLOWED)


def finite(array: Host) -> Host:
    """With a large number in place of each infinity and each NaN; integers and booleans as long integers."""
    if array.dtype.kind in "fc":
        return np.nan_to_num(array, nan=1e30, posinf=1e30, neginf=-1e30)
    return array.astype(np.int64)
