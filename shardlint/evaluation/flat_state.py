"""State in an order of its own: flat, as an optimizer's moments of which each device has a piece, or in rows, as a
queue of which each device fills a part, or members that a number tells apart, wherever they are.

Where each device flattens what it has of an array, or puts rows where it has room, the order of the whole depends on
the number of devices, and means nothing: only the program itself reads it, and takes it apart as it has put it
together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from shardlint.evaluation.relations import close
from shardtypes.semantics.rows import hold_the_same_members, in_order, numbers_members
from shardtypes.semantics.trees import flatten, paths_of

Numbers = Callable[[Any], Any]
"""The numbers of an array; None where they are not known."""


def reordered_state(
    first: Any, second: Any, beside: Any, numbers: Numbers
) -> frozenset[str]:
    """The arrays of two trees, by path, that are flat state or queues and hold the same in both, in another order, and
    the places in these queues. State is ``beside``, too: an argument comes back as a result."""
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
    flat = {path for path, pair in pairs.items() if _holds_the_same(*pair)}
    return frozenset(flat | _of_queues(pairs))


def moved_members(first: Any, second: Any, numbers: Numbers) -> frozenset[str]:
    """The arrays of two trees, by path, of objects that hold the same members in both, in other places."""
    ours, theirs = _fields_beside(first, numbers), _fields_beside(second, numbers)
    return frozenset(
        path
        for path, fields in ours.items()
        if hold_the_same_members(fields, theirs.get(path, {}), _agree)
    )


def numbered_members(tree: Any, numbers: Numbers) -> frozenset[str]:
    """The arrays of a tree, by path, of objects whose members a number tells apart."""
    beside = _fields_beside(tree, numbers)
    return frozenset(path for path, fields in beside.items() if numbers_members(fields))


def _fields_beside(tree: Any, numbers: Numbers) -> dict[str, dict[str, Any]]:
    """For each named array that has rows, those in its object that have as many, by path."""
    leaves, structure = flatten(tree)
    objects: dict[tuple[str, int], dict[str, Any]] = {}
    for path, leaf in zip(paths_of(structure), leaves, strict=True):
        rows = numbers(leaf)
        if rows is not None and rows.ndim and _is_named(path):
            objects.setdefault((_object(path), len(rows)), {})[path] = rows
    return {path: fields for fields in objects.values() for path in fields}


def _agree(one: Any, two: Any) -> bool:
    return bool(np.all(close(one, two)))


def _of_queues(pairs: Mapping[str, tuple[Any, Any]]) -> set[str]:
    """The arrays of objects that have rows in another order, and a place among them."""
    rows = {path for path, pair in pairs.items() if has_the_same_rows(*pair)}
    places = {path for path, pair in pairs.items() if _are_integers(*pair)}
    reordered = {_object(path) for path in rows if not np.array_equal(*pairs[path])}
    queues = reordered & {_object(path) for path in places}
    return {path for path in rows | places if _object(path) in queues}


def _field(path: str) -> str:
    """The path within one argument, or one result."""
    _, _, field = path.partition(".")
    return field


def _object(path: str) -> str:
    """The path of the object that an array is a field of."""
    return path.rpartition(".")[0]


def _is_named(path: str) -> bool:
    """Whether an array is a field with a name, and not an item of a sequence."""
    return not path.rpartition(".")[2].isdigit()


def _are_integers(one: Any, two: Any) -> bool:
    return all(
        x is not None and x.ndim == 0 and x.dtype.kind in "iu" for x in (one, two)
    )


def _holds_the_same(one: Any, two: Any) -> bool:
    """Whether two vectors hold the same numbers, whatever their order and the zeros that fill them up."""
    if one is None or two is None or one.ndim != 1 or two.ndim != 1:
        return False
    first = np.sort(one[one != 0])
    second = np.sort(two[two != 0])
    return len(first) == len(second) and bool(np.all(close(first, second)))


def has_the_same_rows(one: Any, two: Any) -> bool:
    """Whether two arrays hold the same rows, whatever their order."""
    if one is None or two is None or one.shape != two.shape or not one.ndim:
        return False
    return bool(np.all(close(in_order(one), in_order(two))))
