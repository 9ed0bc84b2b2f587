"""Rows whose order means nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shardtypes.semantics.lazy import np


def in_order(array: Any) -> Any:
    """The rows of an array as vectors, in an order that depends on their numbers alone: equal ones come in the same
    place, though they may be rounded otherwise."""
    rows = array.reshape(len(array), -1)
    width = rows.shape[1]
    direction = np.random.default_rng(0).normal(size=width)
    along = rows @ direction
    order = np.argsort(along, kind="stable")
    return rows[order]


def hold_the_same_members(
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    agree: Callable[[Any, Any], bool],
) -> bool:
    """Whether two objects, whose fields have a row for each place, hold the same members in whatever places: one of the
    fields numbers them, below zero where a place is not in use."""
    names = sorted(first.keys() & second.keys())
    for name in names:
        places = _members(first[name])
        others = _members(second[name])
        if places is None or others is None:
            continue
        ours = first[name][places]
        theirs = second[name][others]
        if not np.array_equal(ours, theirs):
            continue
        return all(
            agree(
                first[field][places],
                second[field][others],
            )
            for field in names
        )
    return False


def numbers_members(fields: Mapping[str, Any]) -> bool:
    """Whether one of the fields of an object tells its members apart."""
    places = map(_members, fields.values())
    return any(one is not None for one in places)


def _members(numbered: Any) -> Any:
    """The places in use, in the order of their numbers; None where these do not tell the members apart."""
    if numbered.ndim != 1:
        return None
    if numbered.dtype.kind not in "iu":
        return None
    used = np.flatnonzero(numbered >= 0)
    order = np.argsort(numbered[used])
    places = used[order]
    if len(places) < 2:
        return None
    steps = np.diff(numbered[places])
    if not steps.all():
        return None
    return places
