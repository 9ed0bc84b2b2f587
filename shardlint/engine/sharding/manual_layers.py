"""Layers of libraries in manual code: their result differs between devices where their input or parameters do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.axis_set import AxisSet
from shardlint.engine.plain import operand
from shardlint.engine.sharding import manual_leaves
from shardlint.ops.registry import NONE, Call, OpContext, is_none
from shardlint.ops.sharding.base import Op, adopted, computed
from shardlint.ops.sharding.state import sharded, split_marks, state
from shardlint.values import ArrayValue, Dimension, Unknown, Value, WrappedValue

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

#: They look at all examples of their input; the others at each one by itself, along its last dimensions.
_OVER_EXAMPLES = frozenset({"BatchNorm", "InstanceNorm", "GroupNorm"})


@contextmanager
def parameters(it: Interpreter, variables: Value) -> Iterator[None]:
    """While ``module.apply(variables, …)`` runs, its layers' parameters lie as the variables do."""
    before = it.parameters
    if it.view is not None:
        one = manual_leaves.alike(variables)
        leaf = None if one is None else operand(one)
        it.parameters = (
            replace(leaf, dims=None)
            if isinstance(leaf, ArrayValue) and leaf.manual
            else None
        )
    try:
        yield
    finally:
        it.parameters = before


def applied(
    it: Interpreter, layer: WrappedValue, args: list[Value], result: Value
) -> Value:
    """What a layer gives, as one device has it."""
    value = operand(args[0]) if args else NONE
    options = dict(layer.options)
    if it.view is None or not isinstance(value, ArrayValue):
        return result
    if not isinstance(result, (ArrayValue, Unknown)) or not is_none(
        options.get("axis_name", NONE)
    ):
        return result
    shape = result.dims if isinstance(result, ArrayValue) else None
    value = adopted(value)
    name = layer.kind.rpartition(".")[2]
    if name == "Dropout":  # each device may drop others
        own = value.varying | sharded(value)
        return replace(
            value, unclear=value.unclear | AxisSet(own, True), dtype=None, weak=False
        )
    given = [
        value,
        adopted(it.parameters if it.parameters is not None else ArrayValue(None)),
    ]
    op = Op(Call(layer.kind, {}, OpContext()), it.view, tuple(given))
    kept = _kept(value, shape, name)
    found = computed(op, ArrayValue(None, getattr(result, "dtype", None)), [])
    if shape is None or kept is None:
        return replace(
            found,
            dims=None if shape is None else tuple(Dimension(dim.size) for dim in shape),
        )
    dims = tuple(replace(dim, axes=axes) for dim, axes in zip(shape, kept, strict=True))
    split = {axis for axes in kept for axis in axes}
    unsure = {
        axis
        for axis in split
        if any(state(one, axis) != "replicated" for one in given[1:])
    }
    return replace(
        found,
        dims=dims,
        varying=found.varying - split,
        unclear=found.unclear.plus(unsure),
        marks=found.marks | split_marks(split),
    )


def _kept(
    value: ArrayValue, shape: tuple[Dimension, ...] | None, name: str
) -> list[tuple[str, ...]] | None:
    """The axes of the dimensions of the result, where only the leading dimension is split and examples stay apart."""
    if (
        value.dims is None
        or shape is None
        or not shape
        or name in _OVER_EXAMPLES
        or len(shape) < 2
    ):
        return None
    first = value.dims[0].axes if value.dims else None
    if (
        first is None
        or any(dim.axes != () for dim in value.dims[1:])
        or sharded(value) & value.varying
    ):
        return None
    return [first, *[()] * (len(shape) - 1)]
