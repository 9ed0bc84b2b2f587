"""State that a program keeps flat, such as an optimizer's moments of which each device has a piece.

Where each device flattens what it has of an array, the order of the whole depends on the number of devices, and means
nothing: only the program itself reads it, and takes it apart as it has put it together.
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
    """The arrays of two trees, by path, that are flat state and hold the same in both, in another order. State is
    ``beside``, too: an argument comes back as a result."""
    _, structure = flatten(beside)
    fields = {_field(path) for path in paths_of(structure)} - {""}
    found = _reordered(first, second, numbers)
    return frozenset(path for path in found if _field(path) in fields)


def _field(path: str) -> str:
    """The path within one argument, or one result."""
    _, _, field = path.partition(".")
    return field


def _reordered(first: Any, second: Any, numbers: Numbers) -> list[str]:
    a, structure = flatten(first)
    b, _ = flatten(second)
    if len(a) != len(b):
        return []
    return [
        path
        for path, one, two in zip(paths_of(structure), a, b, strict=True)
        if _holds_the_same(numbers(one), numbers(two))
    ]


def _holds_the_same(one: Any, two: Any) -> bool:
    """Whether two vectors hold the same numbers, whatever their order and the zeros that fill them up."""
    if one is None or two is None or one.ndim != 1 or two.ndim != 1:
        return False
    first = np.sort(one[one != 0])
    second = np.sort(two[two != 0])
    return len(first) == len(second) and bool(np.all(close(first, second)))
