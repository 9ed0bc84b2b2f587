"""Groups that each device forms of the rows that it has, micro-batches for example.

On another number of devices, other rows are together. With the rows in another order they are the same, and what then
differs is not due to the groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from shardlint.evaluation.culprits import Culprit, Trace
from shardlint.evaluation.row_orders import RowOrder


@dataclass(frozen=True)
class Groups:
    """So many groups that each device forms of its share of the rows, with two numbers of devices along an axis."""

    axis: str
    rows: int
    number: int
    counts: tuple[int, int]

    @property
    def rotated(self) -> RowOrder:
        """The rows of each device on the next one: they are in the same groups."""
        local = self.rows // self.counts[0]
        return RowOrder(self.axis, tuple(np.roll(np.arange(self.rows), local).tolist()))

    @property
    def regrouped(self) -> RowOrder:
        """The rows in the order with which the groups of the smaller number of devices are those of the larger one."""
        many, few = self.counts
        wanted = np.arange(self.rows).reshape(many, self.number, -1)
        of_group = wanted.transpose(1, 0, 2).reshape(self.number, few, -1)
        return RowOrder(self.axis, tuple(of_group.transpose(1, 0, 2).ravel().tolist()))


def groups_of(trace: Trace, sources: Iterable[int]) -> frozenset[Groups | None]:
    """The groups that a value was computed from; None among them if devices form another number of groups where there
    are fewer devices."""
    return frozenset(
        _groups(trace, culprit)
        for culprit in trace.culprits(sources)
        if culprit.groups_rows
    )


def _groups(trace: Trace, culprit: Culprit) -> Groups | None:
    (operand,) = culprit.operands
    made, twin = culprit.step.value, trace.twin(culprit.step.value)
    if twin is None or made.array.dims[0] != twin.array.dims[0]:
        return None
    local, number = operand.value.array.dims[0], made.array.dims[0]
    if not isinstance(local, int) or not isinstance(number, int):
        return None
    return Groups(trace.axis, int(local) * trace.counts[0], int(number), trace.counts)
