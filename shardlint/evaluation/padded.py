"""Arrays that a program fills up to a length that its devices can share out. On another number of devices they have
another length, and what lies beyond the shorter one means nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shardlint.evaluation.relations import Lengths, close, trimmed
from shardtypes.semantics.trees import flatten


def paddings(
    first: Any, second: Any, numbers: Callable[[Any], Any]
) -> frozenset[Lengths]:
    """The lengths to which the arrays of two trees are filled up that hold the same otherwise."""
    a, b = flatten(first)[0], flatten(second)[0]
    if len(a) != len(b):
        return frozenset()
    pairs = (
        _padding(numbers(one), numbers(two)) for one, two in zip(a, b, strict=True)
    )
    return frozenset(pair for pair in pairs if pair is not None)


def _padding(x: Any, y: Any) -> Lengths | None:
    """The lengths of the one dimension in which two arrays differ, if the longer one holds a single number from where
    the shorter one ends."""
    if x is None or y is None or x.ndim != y.ndim:
        return None
    differing = [
        dim
        for dim, pair in enumerate(zip(x.shape, y.shape, strict=True))
        if pair[0] != pair[1]
    ]
    if len(differing) != 1:
        return None
    (dim,) = differing
    lengths = x.shape[dim], y.shape[dim]
    short, long = min(lengths), max(lengths)
    if long >= 2 * short:
        return None  # as much more as there are devices: entries of their own
    longer = x if x.shape[dim] == long else y
    filled = np.take(longer, range(short, long), axis=dim)
    is_filled = filled.size > 0 and bool(np.all(filled == filled.flat[0]))
    same = trimmed(x, y, {lengths})
    if not is_filled or same is None or not np.all(close(*same)):
        return None
    return lengths
