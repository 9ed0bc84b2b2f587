"""Rows that devices put together in another order than one device: each cuts its own into micro-batches.

Of eight rows on two devices, ``x.reshape(2, -1)`` makes ``[[0, 1], [2, 3]]`` and ``[[4, 5], [6, 7]]``, of which the
first micro-batch is 0, 1, 4 and 5. On one device it is 0 to 3. Which rows are averaged together depends on the mesh,
and is meant to be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shardtypes.prng_keys import functions_for
from shardtypes.proving.alignment import aligned
from shardtypes.proving.evaluation import Held, Instead
from shardtypes.proving.program import Name, Program, Step, shape_of

Shape = Sequence[int]
_CUTS = frozenset({"slice", "dynamic_slice", "split"})


@dataclass(frozen=True)
class Order:
    """Another order of the rows that ``width`` dimensions from ``dim`` on have together: seen as an array of this
    ``shape``, its first two dimensions are exchanged."""

    dim: int
    width: int
    shape: tuple[int, int, int]

    def of(self, held: Held) -> Held:
        """The same rows in that order."""
        place = len(held.axes) + self.dim
        shape = held.array.shape
        before = shape[:place]
        after = shape[place + self.width :]
        arrays = functions_for(held.array)
        apart = arrays.reshape(held.array, (*before, *self.shape, *after))
        moved = arrays.swapaxes(apart, place, place + 1)
        together = arrays.reshape(moved, shape)
        return Held(together, held.axes)


@dataclass(frozen=True)
class Orders:
    """What one device has in another order than the devices: ``results``, and the first ``operands`` of the steps that
    make what has these names."""

    results: dict[Name, Order]
    operands: dict[Name, Order]

    def __bool__(self) -> bool:
        return bool(self.results or self.operands)

    def instead(self, values: Mapping[Name, Held]) -> Instead:
        """These orders, and other values."""
        results = {name: order.of for name, order in self.results.items()}
        operands = {name: order.of for name, order in self.operands.items()}
        return Instead(values, results, operands)


def orders(many: Program, one: Program) -> Orders:
    """Where one device makes parts of its rows that are not those of the devices together."""
    _, steps = aligned(many, one)
    found = Orders({}, {})
    for left, right in steps:
        is_one = left.primitive == "reshape" or left.primitive in _CUTS
        if not is_one or left.primitive != right.primitive:
            continue
        local = _shapes(left, many)
        whole = _shapes(right, one)
        if left.primitive == "reshape":
            order = _of_reshape(local, whole)
            changed = found.results
        else:
            order = _of_cut(local, whole)
            changed = found.operands
        if order is not None:
            changed[right.results[0]] = order
    return found


def _shapes(step: Step, program: Program) -> tuple[Shape, Shape]:
    before = shape_of(program, step.operands[0])
    after = shape_of(program, step.results[0])
    return before, after


def _of_reshape(local: tuple[Shape, Shape], whole: tuple[Shape, Shape]) -> Order | None:
    """Where one dimension becomes two, or two become one; None where the rows stay in the same order."""
    splits = len(local[0]) < len(local[1])
    if not splits:
        local = local[::-1]
        whole = whole[::-1]
    found = []
    for dim in range(len(local[0])):
        if not _is_split(*local, dim):
            continue
        if not _is_split(*whole, dim):
            continue
        groups, rows = local[1][dim : dim + 2]
        groups_of_one, rows_of_one = whole[1][dim : dim + 2]
        devices = _times(rows, rows_of_one)
        if groups != groups_of_one:
            continue
        if devices == 1 or groups == 1:
            continue
        if splits:
            found.append(Order(dim, 2, (devices, groups, rows)))
        else:
            found.append(Order(dim, 1, (groups, devices, rows)))
    if len(found) != 1:
        return None
    return found[0]


def _is_split(short: Shape, long: Shape, dim: int) -> bool:
    """Whether a dimension became two, and the others stayed."""
    if len(long) != len(short) + 1:
        return False
    before = tuple(short[:dim])
    after = tuple(short[dim + 1 :])
    if before != tuple(long[:dim]):
        return False
    if after != tuple(long[dim + 2 :]):
        return False
    groups, rows = long[dim : dim + 2]
    return short[dim] == groups * rows


def _of_cut(local: tuple[Shape, Shape], whole: tuple[Shape, Shape]) -> Order | None:
    """Where a part is cut out of a dimension that is sharded."""
    found = []
    for dim, (length, rows) in enumerate(zip(*local, strict=True)):
        length_of_one = whole[0][dim]
        rows_of_one = whole[1][dim]
        devices = _times(length, length_of_one)
        groups = _times(rows, length)
        if devices == 1 or groups == 1:
            continue
        if rows_of_one == devices * rows:
            found.append(Order(dim, 1, (devices, groups, rows)))
    if len(found) != 1:
        return None
    return found[0]


def _times(few: int, many: int) -> int:
    """How many times as many; once, if not a whole number of times."""
    if few == 0 or many % few:
        return 1
    return many // few
