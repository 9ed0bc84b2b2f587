"""Where in a program's values a position is at home: which elements may know of it, so that others must not.

A home is an array of truth values of the shape of a value, worked out along the program: of scores between queries and
keys an element is at home at both of its positions, of what is reduced only at those that all of its operands share.
It says where a leak that was found in numbers begins, and nothing else hangs on it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from shardtypes.laws.dependence import moved
from shardtypes.laws.families import (
    CUMULATIVE,
    EXCHANGES,
    MOVES,
    REDUCTIONS,
    SUMS_OVER_DEVICES,
)
from shardtypes.laws.walk import Axes, Host, Shape, bind, named_axes


class Homes:
    """``canonical`` is the home of an array along one dimension: which of its indices are at home."""

    def __init__(self, canonical: Host, strict: bool = False) -> None:
        self.canonical = canonical
        self.strict = strict

    def along(self, shape: Sequence[int], axis: int) -> Host:
        """The home of an array that has the dimension at ``axis``."""
        sizes = [1] * len(shape)
        sizes[axis] = self.canonical.size
        return np.broadcast_to(self.canonical.reshape(sizes), tuple(shape))

    def of_results(
        self, eqn: Any, homes: list[Host], values: Sequence[Any], devices: Axes
    ) -> list[Host]:
        """The homes of the results of a primitive, from those of its operands and their values."""
        name = eqn.primitive.name
        lead = len(devices)
        shapes = [
            (*(size for _, size in devices), *variable.aval.shape)
            for variable in eqn.outvars
        ]
        if name in MOVES:
            found = moved(name, eqn.params, homes, lead)
        elif name in REDUCTIONS:
            found = [
                np.asarray(
                    homes[0].all(tuple(axis + lead for axis in eqn.params["axes"]))
                )
            ]
        elif name == "dot_general":
            found = [
                _product(homes[0], homes[1], eqn.params["dimension_numbers"], lead)
            ]
        elif name in SUMS_OVER_DEVICES:
            names = [axis for axis, _ in devices]
            over = tuple(names.index(axis) for axis in named_axes(eqn) if axis in names)
            found = [
                np.broadcast_to(home.all(over, keepdims=True), home.shape)
                for home in homes
            ]
        elif name in EXCHANGES:
            found = _asked(eqn, homes, devices)
        elif name in ("gather", "dynamic_slice", "dynamic_update_slice"):
            found = self._indexed(eqn, name, homes, values, devices, shapes[0])
        elif name in CUMULATIVE:
            found = homes
        else:
            found = [self._together(homes, shape) for shape in shapes]
        found = [
            home if home.shape == shape else self._together([home], shape)
            for home, shape in zip(found, shapes, strict=True)
        ]
        if self.strict:
            return [self._straightened(home) for home in found]
        return found

    def _together(self, homes: list[Host], shape: Shape) -> Host:
        """Of operands that go with each other element by element; of those that lie otherwise what they share."""
        alike = [
            np.broadcast_to(_lifted(home, shape), shape)
            for home in homes
            if _fits(home, shape)
        ]
        others = [home for home in homes if not _fits(home, shape) and home.any()]
        alike += [np.full(shape, bool(home.all())) for home in others]
        alike = [home for home in alike if home.any()]
        if not alike:
            return np.zeros(shape, bool)
        found = alike[0]
        for home in alike[1:]:
            found = self._both(found, home)
        return found

    def _both(self, one: Host, other: Host) -> Host:
        shared = _varying(one)
        others = _varying(other)
        for home, varying, rest in ((one, shared, others), (other, others, shared)):
            # One position that goes with all of them is at home at none of them.
            if not rest and any(self._is_canonical(home, axis) for axis in varying):
                return home
        if shared != others or np.array_equal(one, other):
            return one | other
        # shifted against each other: the one that is where it belongs says
        for axis in shared:
            if self._is_canonical(one, axis):
                return one
            if self._is_canonical(other, axis):
                return other
        if shared:
            return one & other
        return one | other

    def _is_canonical(self, home: Host, axis: int) -> bool:
        return home.shape[axis] == self.canonical.size and bool(
            (home == self.along(home.shape, axis)).all()
        )

    def _straightened(self, home: Host) -> Host:
        """With ``strict``, an array that lies along the dimension has its positions where they belong."""
        varying = [
            axis for axis in _varying(home) if home.shape[axis] == self.canonical.size
        ]
        if len(varying) == 1:
            return np.array(self.along(home.shape, varying[0]))
        return home

    def _indexed(
        self,
        eqn: Any,
        name: str,
        homes: list[Host],
        values: Sequence[Any],
        devices: Axes,
        shape: Shape,
    ) -> list[Host]:
        count = 2 if name == "dynamic_update_slice" else 1
        found: list[Host] = []
        if any(home.any() for home in homes[:count]):
            whole = [home.astype(np.float32) for home in homes[:count]]
            found += _asked(eqn, [*whole, *values[count:]], devices)
        if name == "gather" and homes[1].any():
            found.append(
                _of_index(eqn, np.asarray(homes[1].all(-1)), shape, len(devices))
            )
        elif any(home.any() for home in homes[count:]):
            for home in homes[count:]:
                found.append(np.full(shape, bool(home.all())))
        return [self._together(found, shape)]


def _of_index(eqn: Any, home: Host, shape: Shape, lead: int) -> Host:
    """The home of what an index looks up."""
    offsets = eqn.params["dimension_numbers"].offset_dims
    batch = [at for at in range(lead, len(shape)) if at - lead not in offsets]
    sizes = [1] * len(shape)
    sizes[:lead] = shape[:lead]
    for at, size in zip(batch, home.shape[lead:], strict=True):
        sizes[at] = size
    return np.broadcast_to(home.reshape(sizes), shape)


def _asked(eqn: Any, arrays: Sequence[Any], devices: Axes) -> list[Host]:
    """Where a primitive puts the elements, found out with ones and zeros."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arrays = [
            array.astype(np.float32) if np.result_type(array) == np.bool_ else array
            for array in arrays
        ]
        return [np.asarray(found) > 0.5 for found in bind(eqn, arrays, devices)]


def _product(left: Host, right: Host, numbers: Any, lead: int) -> Host:
    (left_sum, right_sum), (left_batch, right_batch) = numbers
    a = _arranged(left, left_sum, left_batch, lead)
    b = _arranged(right, right_sum, right_batch, lead)
    batch = lead + len(left_batch)
    columns = b.ndim - batch
    a = a.reshape(*a.shape, *(1,) * columns)
    rows = a.ndim - b.ndim
    front = b.shape[:batch]
    b = b.reshape(*front, *(1,) * rows, *b.shape[batch:])
    return np.asarray(a | b)


def _arranged(
    home: Host, summed: Sequence[int], batch: Sequence[int], lead: int
) -> Host:
    """Reduced along what is summed, the batch in front."""
    summed = tuple(lead + at for at in summed)
    first = [*range(lead), *(lead + at for at in batch)]
    free = [at for at in range(home.ndim) if at not in summed and at not in first]
    ordered = home.transpose(*first, *free, *summed)
    last = range(home.ndim - len(summed), home.ndim)
    return np.asarray(ordered.all(tuple(last)))


def _fits(home: Host, shape: Shape) -> bool:
    lifted = _lifted(home, shape)
    return lifted.ndim == len(shape) and all(
        a in (1, b) for a, b in zip(lifted.shape, shape, strict=True)
    )


def _lifted(home: Host, shape: Shape) -> Host:
    """A scalar, of each device, with dimensions to go with an array's."""
    if home.ndim < len(shape) and home.shape == shape[: home.ndim]:
        missing = len(shape) - home.ndim
        return home.reshape(*home.shape, *(1,) * missing)
    return home


def _varying(home: Host) -> set[int]:
    """The dimensions along which a home is not the same."""
    return {
        axis for axis in range(home.ndim) if not (home == home.take([0], axis)).all()
    }
