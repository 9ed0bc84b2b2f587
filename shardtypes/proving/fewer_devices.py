"""A program beside itself on fewer devices, where no single device can stand for all.

Devices that each pick a piece of their own of a replicated array, as those do that share heads of keys and values,
compute together what one device does not: it has the first piece alone. Where there are fewer devices, but more than
one, all pieces are used. Each of these few is compared with the group of devices that do its part.
"""

from __future__ import annotations

import numpy as np

from shardtypes.proving.numbers import Numbers, Values


def fewer(size: int) -> int:
    """The most devices below a size in which groups of devices can stand; 1 if there is but one group."""
    for count in range(size // 2, 1, -1):
        if size % count == 0:
            return count
    return 1


def in_groups(numbers: Numbers, axis: str, groups: int) -> Numbers:
    """Of the devices along an axis, groups as if they were further draws: each is compared with its own."""
    results = [_in_groups(values, axis, groups) for values in numbers.results]
    inside = {
        name: _in_groups(values, axis, groups)
        for name, values in numbers.inside.items()
    }
    return Numbers(results, inside)


def _in_groups(values: Values, axis: str, groups: int) -> Values:
    array = values.array
    lead = len(values.axes)
    if axis not in values.axes:
        return Values(np.concatenate([array] * groups, axis=lead), values.axes)
    at = values.axes.index(axis)
    each = array.shape[at] // groups
    before = array.shape[:at]
    behind = array.shape[at + 1 :]
    array = array.reshape(*before, groups, each, *behind)
    array = np.moveaxis(array, at, lead)  # before the draws
    leading = array.shape[:lead]
    draws = array.shape[lead + 1]
    own = array.shape[lead + 2 :]
    array = array.reshape(*leading, groups * draws, *own)
    return Values(array, values.axes)
