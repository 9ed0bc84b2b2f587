"""State that a program keeps flat, such as an optimizer's moments of which each device has a piece, or row by row, such
as a queue of which each device fills a part.

Where each device flattens what it has of an array, or puts its rows into a part of its own, the order of the whole
depends on the number of devices, and means nothing: only the program itself reads it, and takes it apart as it has put
it together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shardlint.evaluation.relations import close
from shardtypes.semantics.trees import flatten, paths_of

Numbers = Callable[[Any], Any]
"""The numbers of an array; None where they are not known."""


def reordered_state(
    first: Any, second: Any, beside: Any, numbers: Numbers
) -> frozenset[str]:
    """The arrays of two trees, by path, that are state and hold the same numbers or rows in both, in another order, and
    places in these. State is ``beside``, too: an argument comes back as a result."""
    _, structure = flatten(beside)
    fields = {_field(path) for path in paths_of(structure)} - {""}
    a, structure = flatten(first)
    b, _ = flatten(second)
    if len(a) != len(b):
        return frozenset()
    pairs = {
        path: (numbers(one), numbers(two))
        for path, one, two in zip(paths_of(structure), a, b, strict=True)
        if _field(path) in fields
    }
    found = {path for path, pair in pairs.items() if _holds_the_same(*pair)}
    objects = {_object(path) for path in found if not np.array_equal(*pairs[path])}
    places = {
        path
        for path, pair in pairs.items()
        if _object(path) in objects and _are_numbers(*pair)
    }
    return frozenset(found | places)


def _field(path: str) -> str:
    """The path within one argument, or one result."""
    _, _, field = path.partition(".")
    return field


def _object(path: str) -> str:
    """The path of the object that an array is a field of."""
    return path.rpartition(".")[0]


def _are_numbers(one: Any, two: Any) -> bool:
    """Whether two values are single integers, as a place in a queue is."""
    return all(
        x is not None and x.ndim == 0 and x.dtype.kind in "iu" for x in (one, two)
    )


def _holds_the_same(one: Any, two: Any) -> bool:
    """Whether two arrays hold the same numbers or rows, whatever their order; and two vectors whatever zeros fill them
    up."""
    if one is None or two is None or one.ndim != two.ndim or not one.ndim:
        return False
    if one.ndim > 1:
        return one.shape == two.shape and _has_the_same_rows(one, two)
    first = np.sort(one[one != 0])
    second = np.sort(two[two != 0])
    return len(first) == len(second) and bool(np.all(close(first, second)))


def _has_the_same_rows(one: Any, two: Any) -> bool:
    first, second = _by_projection(one), _by_projection(two)
    return bool(np.all(close(first, second)))


def _by_projection(array: Any) -> Any:
    """The rows of an array in an order that depends on their numbers alone: equal ones come in the same place, though
    they may be rounded otherwise."""
    rows = array.reshape(len(array), -1)
    direction = np.random.default_rng(0).normal(size=rows.shape[1])
    return rows[np.argsort(rows @ direction, kind="stable")]
