"""What JAX refuses for certain when the program runs, by the rules of its mapped functions."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from shardlint.evaluation.meshes import UNNAMED
from shardlint.evaluation.recording import Where
from shardtypes.lang.messages import (
    indivisible,
    listed,
    returned_as_replicated,
    spec_too_long,
    unbound_axis,
)
from shardtypes.semantics.array import Array, SizesDiffer
from shardtypes.semantics.lowerings.collectives import UnboundAxis
from shardtypes.semantics.lowerings.convert import AxisOutOfRange


class Refused(ValueError):
    """JAX raises here. The program may catch it, as it does there.

    ``code`` is that of the rule that reports it. It may depend on how many devices are along an ``axis``.
    """

    def __init__(
        self,
        code: str,
        message: str,
        axis: str | None = None,
        operands: tuple[Array, ...] = (),
        varying: Collection[str] = (),
        size: int | None = None,
        is_of_sizes: bool = False,
        spec: Where | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.axis = axis
        self.operands = operands
        self.varying = frozenset(varying)
        self.size = size
        self.is_of_sizes = is_of_sizes
        self.spec = spec


@dataclass(frozen=True)
class Refusal:
    """An error that ends the program, and the expression of the program at which it is raised."""

    code: str
    message: str
    axis: str | None
    where: Where
    is_of_sizes: bool = False
    """Whether it is about sizes, which may follow from the number of devices."""
    operands: tuple[Array, ...] = field(default=(), compare=False, repr=False)
    """The arrays that it is about."""
    varying: frozenset[str] = frozenset()
    """The axes over which these should not vary."""
    size: int | None = None
    """The size that cannot be divided."""
    mapped: Where | None = None
    """The function that a mapping without a name for its axis was given, where such a name is missing."""
    spec: Where | None = None
    """Where the spec is made that it is about."""


def refusal(error: Exception, paths: Collection[str]) -> Refusal | None:
    """What ended a run, if JAX refuses it too. ``paths`` are the files of the program."""
    if not isinstance(error, (AxisOutOfRange, Refused, SizesDiffer, UnboundAxis)):
        return None
    where = raised_at(error, paths)
    if where is None:
        return None
    if isinstance(error, SizesDiffer):
        message = f"JAX refuses this call: {error}"
        return Refusal(
            "ST204", message, None, where, is_of_sizes=True, operands=error.operands
        )
    if isinstance(error, AxisOutOfRange):
        return Refusal("ST208", f"JAX refuses this call: {error}", None, where)
    if isinstance(error, UnboundAxis):
        return Refusal(
            "ST305", _unbound(error), None, where, mapped=getattr(error, _MAPPED, None)
        )
    return Refusal(
        error.code,
        error.message,
        error.axis,
        where,
        is_of_sizes=error.is_of_sizes,
        operands=error.operands,
        varying=error.varying,
        size=error.size,
        spec=error.spec,
    )


def raised_at(error: Exception, paths: Collection[str]) -> Where | None:
    """The expression of a program, whose files are ``paths``, at which an error is raised."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename in paths
    ]
    if not frames:
        return None
    last = frames[-1]
    place = last.lineno, last.colno, last.end_lineno, last.end_colno
    if any(number is None for number in place):
        return None
    return Where(last.filename, place)  # type: ignore[arg-type]  # all are known


_MAPPED = "shardlint_mapped"


@contextmanager
def mapped_by(function: Any) -> Iterator[None]:
    """Tell an error about an axis that nothing binds which function was mapped without a name for its axis."""
    try:
        yield
    except UnboundAxis as error:
        code = getattr(function, "__code__", None)
        if code is not None and UNNAMED in error.bound and not hasattr(error, _MAPPED):
            line = code.co_firstlineno
            setattr(error, _MAPPED, Where(code.co_filename, (line, 0, line, 0)))
        raise


def _unbound(error: UnboundAxis) -> str:
    names = sorted(axis for axis in error.bound if axis != UNNAMED)
    return f"JAX refuses this call: {unbound_axis(str(error.axis), names)}"


def may_differ(
    path: str, axes: Collection[str], result: Array, spec: Where | None
) -> Refused:
    """For a result that leaves ``shard_map`` as replicated, and is not known to be."""
    what = f"result {path}" if path else "the result"
    message = f"JAX refuses this call: {what} {returned_as_replicated(sorted(axes))}"
    return Refused("ST301", message, operands=(result,), varying=axes, spec=spec)


def does_not_divide(
    what: str,
    dimension: int,
    size: int,
    axes: Sequence[str],
    devices: int,
    spec: Where | None,
) -> Refused:
    """For an array that cannot be cut into equal parts."""
    reason = indivisible(size, devices, axes)
    return Refused(
        "ST104",
        f"JAX refuses this call: dimension {dimension} of {what}: {reason}",
        axes[0],
        size=size,
        spec=spec,
    )


def lies_otherwise(path: str, before: str, wanted: str, spec: Where | None) -> Refused:
    """For an argument of ``jit`` that lies on the devices otherwise than ``in_shardings`` say."""
    what = f"argument {path}" if path else "the argument"
    message = f"JAX refuses this call: {what} is sharded as {before}, and in_shardings say {wanted}"
    return Refused("ST308", message, spec=spec)


def is_longer(path: str, entries: int, rank: int, spec: Where | None) -> Refused:
    """For a PartitionSpec with more entries than dimensions."""
    what = f"argument {path}" if path else "the argument"
    reason = spec_too_long(rank, "its PartitionSpec", entries)
    return Refused("ST306", f"JAX refuses this call: {what} {reason}", spec=spec)


def sizes_disagree(what: str, sizes: Collection[int], code: str) -> Refused:
    """For dimensions that are mapped or scanned over together, and have several sizes."""
    numbers = listed([str(size) for size in sorted(sizes)])
    message = f"JAX refuses this call: {what} over dimensions of sizes {numbers}"
    return Refused(code, message, is_of_sizes=True)


def has_no_derivative(name: str, operands: tuple[Array, ...]) -> Refused:
    """For a function that JAX cannot differentiate, of what a derivative is taken by."""
    remedy = "apply lax.stop_gradient to its operand"
    message = f"JAX refuses this call: lax.{name} has no derivative, even where its result is stopped: {remedy}"
    return Refused("ST217", message, operands=operands)


def carry_changes(path: str, before: str, after: str, is_of_sizes: bool) -> Refused:
    """For a loop whose carry is of another type after a step."""
    what = f"the carry {path}" if path else "the carry"
    message = f"JAX refuses this call: {what} is {before} before a step of the loop and {after} after it"
    return Refused("ST210", message, is_of_sizes=is_of_sizes)
