"""The registry of sharding models: what a function does to axes and pending sums in the manual view.

Shapes come first, from the model that the function has anyway, on local sizes. A sharding model then says how the
result lies on the mesh. A function without one gives the same on all devices where all its operands are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from shardlint.axis_set import EVERY_AXIS, NO_AXIS, AxisSet
from shardlint.ops.arrays import as_array
from shardlint.ops.registry import Call, ModelFunction, OpError
from shardlint.ops.sharding.state import FACTORED, Axes, axes_met, settled, state
from shardlint.ops.sharding.view import View, replicated
from shardlint.values import (
    ArrayValue,
    DictValue,
    Dimension,
    FunctionValue,
    InstanceValue,
    MaybeValue,
    MethodValue,
    Note,
    PartialValue,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
)

Origin: TypeAlias = "tuple[int, int] | None"
"""Which operand and dimension a result's dimension is, unchanged; None for a new or changed one."""


class ShardingError(OpError):
    """A certain mistake about axes or pending sums, with related places."""

    def __init__(
        self, code: str, message: str, operand: int | None = None, related: Sequence[tuple[str, int, str]] = ()
    ) -> None:
        super().__init__(code, message, None, operand)
        self.related = tuple(related)


@dataclass(frozen=True, slots=True)
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

    def note(self, axis: str, text: str) -> Note:
        module, at = self.call.ctx.place
        return Note(axis, text, module, at)


Rule: TypeAlias = Callable[[Op, ArrayValue, "list[Origin]"], ArrayValue]
Explain: TypeAlias = Callable[[Op, OpError], "OpError | None"]

_FUNCTIONS = (FunctionValue, PartialValue, WrappedValue, MethodValue)

#: Arguments that decide nothing about where values lie.
_OPTIONS = frozenset(
    "dtype new_dtype precision preferred_element_type out_sharding device optimize approximate".split()
)

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


@dataclass(slots=True)
class _Operands:
    """Takes the arrays out of the arguments: the shape model gets them bare, each dimension marked with its origin."""

    x64: bool
    found: list[ArrayValue] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    complete: bool = True  # nothing among the arguments is not known

    def bare(self, value: Value, position: int, nested: bool = False) -> Value:
        if isinstance(value, ArrayValue):
            number = len(self.found)
            self.found.append(adopted(value))
            self.positions.append(position)
            dims = value.dims
            if dims is not None:
                dims = tuple(Dimension(dim.size, (f"{number}.{k}",), dim.label) for k, dim in enumerate(dims))
            return ArrayValue(dims, value.dtype, value.weak, numpy=value.numpy)
        if isinstance(value, SequenceValue):
            return replace(value, items=tuple(self.bare(item, position, True) for item in value.items))
        if isinstance(value, DictValue):
            return DictValue(tuple((key, self.bare(item, position, True)) for key, item in value.items))
        self.complete &= not isinstance(value, (Unknown, MaybeValue, InstanceValue))
        return value


def adopted(value: ArrayValue) -> ArrayValue:
    """An array met in manual code: one that is not of the manual view may be anything, except a NumPy one."""
    if value.manual:
        return value
    if value.numpy:
        return replicated(value)
    return settled(value, None, unclear=EVERY_AXIS)


def apply(call: Call, view: View, model: ModelFunction) -> Value:
    """The result of a modelled function on values of the manual view.

    Raises OpError where the shapes are certainly wrong, or the sharding is.
    """
    ctx = call.ctx
    if call.qualname.startswith("jax.tree") or any(isinstance(value, _FUNCTIONS) for value in call.args.values()):
        return model(call)  # works on whole trees, or calls back
    operands = _Operands(ctx.x64)
    bare = {
        name: value if name in _OPTIONS else operands.bare(value, i)
        for i, (name, value) in enumerate(call.args.items())
    }
    op = Op(call, view, tuple(operands.found), tuple(operands.positions))
    inner = replace(ctx, view=None)
    try:
        result = model(Call(call.qualname, bare, inner))
    except OpError as error:
        explain = EXPLAIN.get(call.qualname)
        better = explain(op, error) if explain is not None else None
        raise better or error from None
    ctx.facts = inner.facts
    return _marked(op, result, SHARDING.get(call.qualname, computed) if operands.complete else None)


def _marked(op: Op, value: Value, found: Rule | None) -> Value:
    if isinstance(value, ArrayValue):
        origins = [_origin(dim.axes) for dim in value.dims or ()]
        if value.dims is not None:
            value = replace(value, dims=tuple(Dimension(dim.size, None, dim.label) for dim in value.dims))
        return unknown(value) if found is None else found(op, value, origins)
    if isinstance(value, SequenceValue):
        return replace(value, items=tuple(_marked(op, item, found) for item in value.items))
    if isinstance(value, DictValue):
        return DictValue(tuple((key, _marked(op, item, found)) for key, item in value.items))
    return value


def _origin(axes: Axes) -> Origin:
    if axes is None or len(axes) != 1:
        return None
    operand, _, dim = axes[0].partition(".")
    return (int(operand), int(dim))


def unknown(value: ArrayValue) -> ArrayValue:
    """The array, of which nothing is known but its shape."""
    return settled(value, None, unclear=EVERY_AXIS)


def constant(value: ArrayValue) -> ArrayValue:
    """A number in manual code."""
    return replace(value, manual=True, pending=frozenset(), unclear=NO_AXIS, constant=True)


def computed(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """What any function gives: the same on all devices where all its operands are, and may depend on a split dimension
    as a whole."""
    if op.call.qualname.startswith("numpy.random"):
        return unknown(out)
    known = not any(o.dims is None or dim.axes != () for o in op.operands for dim in o.dims or ())
    met = axes_met(op.operands)
    states = {axis: {state(o, axis) for o in op.operands} for axis in met}
    unclear = {axis for axis in met if not states[axis] <= {"replicated", "varying"}}
    every = any(o.unclear.all_but for o in op.operands)
    return settled(
        out, [() for _ in out.dims] if out.dims is not None and known else None,
        varying=[axis for axis in met - unclear if "varying" in states[axis]],
        unclear=AxisSet(frozenset(met - unclear), True) if every else AxisSet(frozenset(unclear)),
        marks=[FACTORED, *((axis, "scaled") for o in op.operands for axis, mark in o.marks if mark == "scaled")],
        constant=all(o.constant for o in op.operands), notes=[note for o in op.operands for note in o.notes],
    )  # fmt: skip


def made(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """A new array, the same on all devices: made of constants if nothing varying went in."""
    if op.operands:
        return computed(op, out, origins)
    return settled(out, [() for _ in out.dims or ()], constant=True) if out.dims is not None else unknown(out)


def with_numbers(op: Op) -> list[ArrayValue]:
    """The operands, Python numbers among the direct arguments included: they are the same everywhere."""
    arrays: list[ArrayValue] = []
    for value in op.call.args.values():
        if isinstance(value, SequenceValue):
            arrays.extend(adopted(item) for item in value.items if isinstance(item, ArrayValue))
        elif isinstance(value, ArrayValue):
            arrays.append(adopted(value))
        else:
            number = as_array(value)
            if number is not None:
                arrays.append(constant(number))
    return arrays
