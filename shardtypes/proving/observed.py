"""Which relation holds of a value: found in numbers, for several draws of the arguments at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from shardtypes.proving.relation import ZERO, Axes, Related, Sizes, related
from shardtypes.semantics.relation import Monoid

Host = np.ndarray[Any, np.dtype[Any]]

_CLOSE = 1e-7
_POWERS = (
    Fraction(0),
    Fraction(1),
    Fraction(-1),
    Fraction(2),
    Fraction(-2),
    Fraction(1, 2),
    Fraction(-1, 2),
)
_COMBINED: dict[Monoid, Callable[[Host, int], Any]] = {
    "sum": lambda array, axis: np.sum(array, axis=axis),
    "max": lambda array, axis: np.max(array, axis=axis),
    "min": lambda array, axis: np.min(array, axis=axis),
}
_MOST = 1_500


def observed(
    held: Host,
    axes: Axes,
    whole: Host,
    sizes: Sizes,
    before: int,
) -> Related | None:
    """The relation of ``held``, which has leading dimensions for ``axes``, to ``whole``; None if there is none.

    ``before`` dimensions of both, after those of the devices, are not the value's own: draws, and rounds of loops.
    """
    held = _numbers(held)
    whole = _numbers(whole)
    local = held.shape[len(axes) :]
    if len(local) != whole.ndim:
        return None
    if local[:before] != whole.shape[:before]:
        return None
    if not whole.size or not held.size:
        return ZERO
    if not held.any() and not whole.any():
        return ZERO
    ratios = []
    own = local[before:]
    own_of_whole = whole.shape[before:]
    for few, many in zip(own, own_of_whole, strict=True):
        if not few or many % few:
            return None
        ratios.append(many // few)
    held, axes = _unlike(held, axes)
    factors = _factors(sizes)
    for guess in itertools.islice(guesses(axes, (), ratios, sizes), _MOST):
        found = _tried(held, axes, whole, guess, before, factors)
        if found is not None:
            return found
    if math.prod(ratios) == 1:
        return None
    # Shards that are all the same, such as those of a constant.
    more = tuple(axis for axis in sizes if axis not in axes)
    counts = [sizes[axis] for axis in more]
    held = np.broadcast_to(held, (*counts, *held.shape))
    for guess in itertools.islice(guesses(axes, more, ratios, sizes), _MOST):
        used = {axis for names in guess[0].values() for axis in names}
        every = slice(None)
        first = tuple(every if axis in used else 0 for axis in more)
        kept = [axis for axis in more if axis in used]
        left = (*kept, *axes)
        found = _tried(held[first], left, whole, guess, before, factors)
        if found is not None:
            return found
    return None


def _numbers(array: Host) -> Host:
    array = np.asarray(array)
    if array.dtype == np.bool_:
        return array.astype(np.int64)
    if array.dtype.kind in "ui":
        return array.astype(np.int64)
    if np.isfinite(array).all():
        return array
    finite: Host = np.nan_to_num(array, nan=1e30, posinf=1e30, neginf=-1e30)
    return finite


def _unlike(held: Host, axes: Axes) -> tuple[Host, Axes]:
    """Without the axes along which all devices hold the same."""
    left = list(axes)
    for axis in axes:
        at = left.index(axis)
        first = np.take(held, [0], axis=at)
        if close(held, np.broadcast_to(first, held.shape)):
            held = np.take(held, 0, axis=at)
            left.remove(axis)
    return held, tuple(left)


def close(a: Host, b: Host, allowed: float = _CLOSE) -> bool:
    """Equal up to rounding; integers exactly. Numbers that stand for a mask do not say how large the others are."""
    if a.dtype.kind in "iu" and b.dtype.kind in "iu":
        return bool(np.array_equal(a, b))
    error = np.abs(a - b)
    sizes = np.abs(b)
    scale = float(np.max(sizes, initial=0.0)) or 1.0
    if scale > _MASKS:
        sizes = np.broadcast_to(sizes, error.shape)
        near = sizes < _MASKS
        own = float(np.max(sizes, initial=0.0, where=near))
        real = float(np.max(sizes, initial=0.0, where=sizes < _INFINITE))
        scale_of_near = max(own, _LEAST * real)
        most = allowed * scale_of_near
        if own and not np.all(error[near] <= most):
            return False
    return bool(np.all(error <= allowed * scale))


_MASKS = 1e6
"""Larger numbers are those that are put in place of others: -1e9, or what is not finite."""
_INFINITE = 1e29
_LEAST = 1e-6
"""Relative to the largest, the least size of numbers beside it that is told from zero."""


Guess = tuple[dict[int, tuple[str, ...]], dict[str, str]]


def guesses(
    axes: Axes,
    alike: Axes,
    ratios: list[int],
    sizes: Sizes,
) -> Iterator[Guess]:
    """Which axes shard which dimension, in which order, and how the others are combined; the likeliest first. Along
    those that are ``alike`` all devices hold the same: nothing of theirs is combined."""
    places: list[int | None] = [
        None,
        *(dim for dim, ratio in enumerate(ratios) if ratio > 1),
    ]
    for chosen in itertools.product(places, repeat=len(axes) + len(alike)):
        groups: dict[int, list[str]] = {}
        for axis, dim in zip((*axes, *alike), chosen, strict=True):
            if dim is not None:
                groups.setdefault(dim, []).append(axis)
        counts = []
        for dim in range(len(ratios)):
            group = groups.get(dim, ())
            counts.append(math.prod(sizes[axis] for axis in group))
        if counts != ratios:
            continue
        rest = []
        for axis, dim in zip(axes, chosen, strict=False):
            if dim is None:
                rest.append(axis)
        orders = [itertools.permutations(group) for group in groups.values()]
        for order in itertools.product(*orders):
            for how in _ways(rest):
                yield dict(zip(groups, order, strict=True)), how


def _ways(rest: list[str]) -> Iterator[dict[str, str]]:
    if not rest:
        yield {}
        return
    for monoid in _COMBINED:
        yield dict.fromkeys(rest, monoid)
    yield dict.fromkeys(rest, "held")


def _tried(
    held: Host,
    axes: Axes,
    whole: Host,
    guess: Guess,
    before: int,
    factors: Mapping[float, Fraction | float],
) -> Related | None:
    dims, how = guess
    left = list(axes)
    array = held
    monoid: Any = next(iter(how.values()), None)
    if monoid == "held":
        return _one_holder(held, axes, whole, guess, before, factors)
    for axis in how:
        at = left.index(axis)
        array = _COMBINED[monoid](array, at)
        left.remove(axis)
    together = joined(array, left, dims, before)
    factor = _compared(together, whole, factors)
    if factor is None:
        return None
    parts = dict.fromkeys(how, monoid)
    return related(dims, parts, factor)


def joined(array: Host, left: list[str], dims: Mapping[int, Axes], before: int) -> Host:
    """The shards put together along their dimensions."""
    left = list(left)
    for dim, names in dims.items():
        for name in reversed(names):
            at = left.index(name)
            place = len(left) - 1 + before + dim
            array = np.moveaxis(array, at, place)
            left.remove(name)
            leading = array.shape[:place]
            count, length = array.shape[place : place + 2]
            trailing = array.shape[place + 2 :]
            array = array.reshape(*leading, count * length, *trailing)
    return array


def _one_holder(
    held: Host,
    axes: Axes,
    whole: Host,
    guess: Guess,
    before: int,
    factors: Mapping[float, Fraction | float],
) -> Related | None:
    """One device along the axes has the value, the others something else."""
    dims, how = guess
    left = list(axes)
    found = [axis for axis in left if axis in how]
    places = [left.index(axis) for axis in found]
    moved = np.moveaxis(held, places, range(len(found)))
    rest = [axis for axis in left if axis not in how]
    for at in np.ndindex(*moved.shape[: len(found)]):
        together = joined(moved[at], rest, dims, before)
        if _compared(together, whole, {1.0: 1}) is not None:
            return Related(related(dims).over, 1, held_on=tuple(found))
    return None


def _factors(sizes: Sizes) -> dict[float, Fraction | float]:
    """Products of powers of the numbers of devices."""
    found: dict[float, Fraction | float] = {}
    for powers in itertools.product(_POWERS, repeat=len(sizes)):
        value = math.prod(
            float(size) ** float(power)
            for size, power in zip(sizes.values(), powers, strict=True)
        )
        exact = Fraction(value).limit_denominator(10_000)
        found.setdefault(
            value, exact if math.isclose(float(exact), value, rel_tol=1e-12) else value
        )
    return found


def _compared(
    array: Host, whole: Host, factors: Mapping[float, Fraction | float]
) -> Fraction | float | None:
    """The factor between two arrays; only one that a number of devices explains."""
    if array.shape != whole.shape:
        return None
    if close(array, whole):
        return 1
    largest = int(np.argmax(np.abs(whole)))
    at = np.unravel_index(largest, whole.shape)
    if whole[at] == 0:
        return None
    ratio = array[at] / whole[at]
    if np.iscomplexobj(ratio):
        ratio = ratio.real
    for value, exact in factors.items():
        if math.isclose(ratio, value, rel_tol=1e-6):
            scaled = whole * value
            if close(np.asarray(array, scaled.dtype), scaled):
                return exact
            return None
    return None
