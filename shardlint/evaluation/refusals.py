"""What JAX refuses for certain when the program runs, by the rules of its mapped functions."""

from __future__ import annotations

import traceback
from collections.abc import Collection
from dataclasses import dataclass

from shardlint.evaluation.meshes import UNNAMED
from shardlint.evaluation.recording import Where
from shardtypes.lang.messages import indivisible, returned_as_replicated, spec_too_long, unbound_axis
from shardtypes.semantics.array import SizesDiffer
from shardtypes.semantics.lowerings.collectives import UnboundAxis


class Refused(ValueError):
    """JAX raises here. The program may catch it, as it does there.

    ``code`` is that of the rule that reports it. It may depend on how many devices are along an ``axis``.
    """

    def __init__(self, code: str, message: str, axis: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.axis = axis


@dataclass(frozen=True)
class Refusal:
    """An error that ends the program, and the expression of the program at which it is raised."""

    code: str
    message: str
    axis: str | None
    where: Where
    is_of_sizes: bool = False
    """Whether it is about sizes, which may follow from the number of devices."""


def refusal(error: Exception, paths: Collection[str]) -> Refusal | None:
    """What ended a run, if JAX refuses it too. ``paths`` are the files of the program."""
    if not isinstance(error, (Refused, SizesDiffer, UnboundAxis)):
        return None
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in paths]
    if not frames:
        return None
    last = frames[-1]
    place = last.lineno, last.colno, last.end_lineno, last.end_colno
    if any(number is None for number in place):
        return None
    where = Where(last.filename, place)  # type: ignore[arg-type]  # all are known
    if isinstance(error, SizesDiffer):
        return Refusal("ST204", f"JAX refuses this call: {error}", None, where, is_of_sizes=True)
    if isinstance(error, UnboundAxis):
        return Refusal("ST305", _unbound(error), None, where)
    return Refusal(error.code, error.message, error.axis, where)


def _unbound(error: UnboundAxis) -> str:
    names = sorted(axis for axis in error.bound if axis != UNNAMED)
    return f"JAX refuses this call: {unbound_axis(str(error.axis), names)}"


def may_differ(path: str, axes: Collection[str]) -> Refused:
    """For a result that leaves ``shard_map`` as replicated, and is not known to be."""
    what = f"result {path}" if path else "the result"
    return Refused("ST301", f"JAX refuses this call: {what} {returned_as_replicated(sorted(axes))}")


def does_not_divide(path: str, dimension: int, size: int, axis: str, devices: int) -> Refused:
    """For an argument that cannot be cut into equal parts."""
    what = f"argument {path}" if path else "the argument"
    reason = indivisible(size, devices, [axis])
    return Refused("ST104", f"JAX refuses this call: dimension {dimension} of {what}: {reason}", axis)


def is_longer(path: str, entries: int, rank: int) -> Refused:
    """For a PartitionSpec with more entries than dimensions."""
    what = f"argument {path}" if path else "the argument"
    reason = spec_too_long(rank, "its PartitionSpec", entries)
    return Refused("ST306", f"JAX refuses this call: {what} {reason}")
