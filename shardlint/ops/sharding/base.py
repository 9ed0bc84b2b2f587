"""The registry of sharding models: what a function does to axes and pending sums in the manual view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from shardlint.axis_set import EVERY_AXIS, NO_AXIS
from shardlint.ops.arrays import as_array
from shardlint.ops.registry import Call, OpError, is_none
from shardlint.ops.sharding.counts import is_whole
from shardlint.ops.sharding.origins import Origins
from shardlint.ops.sharding.state import (
    COUNTING,
    FACTORED,
    UNIFORM,
    WHOLE,
    ZERO,
    axes_met,
    settled,
    state,
    unclear_axes,
)
from shardlint.ops.sharding.view import View, replicated
from shardlint.values import (
    ArrayValue,
    Dimension,
    IntValue,
    Literal,
    Note,
    SequenceValue,
    Value,
)
from shardtypes.lang import Size
from shardtypes.lang.frozen import frozen


class ShardingError(OpError):
    """A certain mistake about axes or pending sums, with related places; ``where`` (module, node) it was made, if that
    is not where it is found."""

    def __init__(
        self,
        code: str,
        message: str,
        operand: int | None = None,
        related: Sequence[tuple[str, int, str]] = (),
        where: tuple[str, int] | None = None,
    ) -> None:
        super().__init__(code, message, None, operand, related)
        self.where = where


@frozen
class Op:
    """One call in the manual view. ``operands`` are the arrays among its arguments, numbers included, in order;
    ``positions`` which argument each of them is."""

    call: Call
    view: View
    operands: tuple[ArrayValue, ...]
    positions: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def last(self) -> str:
        return self.call.last

    @property
    def first(self) -> ArrayValue | None:
        """The first operand, if there is one."""
        if self.operands:
            return self.operands[0]
        return None

    @property
    def single(self) -> ArrayValue | None:
        """The operand, if there is just one."""
        if len(self.operands) == 1:
            return self.operands[0]
        return None

    def global_size(self, dim: Dimension) -> Size | None:
        """Of a dimension on all devices together."""
        return self.view.global_size(dim.size, dim.axes or ())

    def size_text(self, dim: Dimension) -> str:
        """The same in words."""
        size = self.global_size(dim)
        if size is None or size.is_opaque:
            return "a dimension"
        return str(size)

    def given(self, position: int) -> list[ArrayValue]:
        """The arrays of the argument at this position."""
        pairs = zip(self.operands, self.positions, strict=True)
        return [operand for operand, at in pairs if at == position]

    def note(self, axis: str, text: str) -> Note:
        module, at = self.call.ctx.place
        return Note(axis, text, module, at)


def items_of(value: Value) -> Sequence[Value]:
    """The entries of an argument that is one value or several."""
    if isinstance(value, SequenceValue):
        return value.items
    return (value,)


Rule: TypeAlias = Callable[[Op, ArrayValue, Origins], ArrayValue]
Explain: TypeAlias = Callable[[Op, OpError], "OpError | None"]

INDEX = "index"
"""The name under which ``x[…]`` is registered: Python's operator has no qualified name."""

SHARDING: dict[str, Rule] = {}
EXPLAIN: dict[str, Explain] = {}


def rule(names: Sequence[str], found: Rule, explain: Explain | None = None) -> None:
    """Register a sharding model for functions by qualified name, and what words their shape errors."""
    for name in names:
        if name in SHARDING:
            raise ValueError(f"two sharding models for {name}")
        SHARDING[name] = found
        if explain is not None:
            EXPLAIN[name] = explain


def names(prefix: str, text: str) -> list[str]:
    return [f"{prefix}.{name}" for name in text.split()]


def adopted(value: ArrayValue) -> ArrayValue:
    """An array met in manual code: one that is not of the manual view may be anything, except a NumPy one, whose
    numbers are there when the code is traced."""
    if value.manual:
        return value
    if value.numpy:
        return replicated(value, constant=True)
    return settled(value, None, unclear=EVERY_AXIS)


def unknown(value: ArrayValue) -> ArrayValue:
    """The array, of which nothing is known but its shape."""
    return settled(value, None, unclear=EVERY_AXIS)


def constant(value: ArrayValue) -> ArrayValue:
    """A number in manual code."""
    return replace(
        value, manual=True, pending=frozenset(), unclear=NO_AXIS, constant=True
    )


def is_zero(value: Value) -> bool:
    """Whether this is the number 0."""
    return value in (Literal(0.0), IntValue(Size.const(0)))


def computed(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """What any function gives: the same on all devices where all its operands are, and may depend on a split dimension
    as a whole."""
    if op.call.qualname.startswith("numpy.random"):
        return unknown(out)
    whole = all(dim.axes == () for o in op.operands for dim in o.dims or ())
    met = axes_met(op.operands)
    states = {axis: {state(o, axis) for o in op.operands} for axis in met}
    # of a result of unknown rank, whichever dimension it is that is split
    harmless = {"replicated", "varying"}
    if out.dims is None:
        harmless.add("sharded")
    unclear = {axis for axis in met if not states[axis] <= harmless}
    varying = [axis for axis in met - unclear if states[axis] != {"replicated"}]
    scaled = {mark for o in op.operands for mark in o.marks if mark[1] == "scaled"}
    axes: list[tuple[str, ...]] | None = None
    if out.dims is not None and whole:
        axes = [() for _ in out.dims]
    return settled(
        out,
        axes,
        varying=varying,
        unclear=unclear_axes(op.operands, met, unclear),
        marks=[FACTORED, *scaled],
        constant=all(o.constant for o in op.operands),
        notes=[note for o in op.operands for note in o.notes],
    )


def made(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """A new array, the same on all devices: made of constants if nothing varying went in."""
    if op.operands:
        return computed(op, out, origins)
    if out.dims is None:
        return unknown(out)
    if op.last == "zeros":
        marks = [ZERO, UNIFORM]
    elif op.last in ("ones", "full", "empty"):
        marks = [UNIFORM]
    else:
        marks = []
    if (
        op.last == "arange"
        and is_none(op.call.get("stop"))
        and is_none(op.call.get("step"))
    ):
        marks.append(COUNTING)
    return settled(out, [() for _ in out.dims], marks=marks, constant=True)


def with_numbers(op: Op) -> list[ArrayValue]:
    """The operands, Python numbers among the direct arguments included: they are the same everywhere."""
    arrays: list[ArrayValue] = []
    for value in op.call.args.values():
        if isinstance(value, SequenceValue):
            arrays.extend(
                adopted(item) for item in value.items if isinstance(item, ArrayValue)
            )
        elif isinstance(value, ArrayValue):
            arrays.append(adopted(value))
        else:
            number = as_array(value)
            if number is not None:
                known = [(WHOLE, is_whole(value, op.view)), (ZERO, is_zero(value))]
                arrays.append(
                    replace(
                        constant(number),
                        marks=frozenset(mark for mark, holds in known if holds),
                    )
                )
    return arrays
