"""What is known of a value of which an annotation says something, and the program something else besides."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.engine import stacked_trees
from shardlint.engine.sharding import manual_calls, manual_entry, outside
from shardlint.ops.sharding.explicit import placed
from shardlint.ops.sharding.state import sharded, state
from shardlint.values import (
    ArrayValue,
    Dimension,
    InstanceValue,
    SequenceValue,
    Unknown,
    Value,
)
from shardtypes.lang import dtypes

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


def meet(it: Interpreter, promised: Value, found: Value) -> Value:
    """What holds of a value that is as ``promised``, and as it was ``found``. The object found stays the one it is,
    unless more is known of it now."""
    return _meet(it, stacked_trees.without_ranks(it, promised), found)


def _meet(it: Interpreter, promised: Value, found: Value) -> Value:
    match promised, found:
        case ArrayValue(dims=dims), Unknown():
            known = outside.operand(it.view, found)
            if isinstance(known, Unknown) and known.leaf is not None:
                known = known.leaf if dims is None else manual_entry.ranked(known, dims)
            return (
                filled(it, known, promised)
                if isinstance(known, ArrayValue)
                else promised
            )
        case _, Unknown():
            return promised
        case ArrayValue(), ArrayValue():
            return filled(it, found, promised)
        case SequenceValue(items=wanted), SequenceValue(items=items) if len(
            wanted
        ) == len(items):
            made = tuple(
                _meet(it, one, item) for one, item in zip(wanted, items, strict=True)
            )
            return (
                found
                if all(a is b for a, b in zip(made, items, strict=True))
                else replace(found, items=made)
            )
        case InstanceValue(), InstanceValue() if promised.cls is found.cls:
            declared = dict(promised.fields)
            fields = tuple(
                (name, _meet(it, declared.pop(name, item), item))
                for name, item in found.fields
            )
            changed = any(
                a[1] is not b[1] for a, b in zip(fields, found.fields, strict=True)
            )
            return (
                replace(found, fields=(*fields, *declared.items()))
                if changed or declared
                else found
            )
        case _:
            return found


def filled(it: Interpreter, value: ArrayValue, promised: ArrayValue) -> ArrayValue:
    """An array, its gaps filled from what is promised of it."""
    dims = value.dims
    if dims is None:
        dims = promised.dims
    elif promised.dims is not None and len(dims) == len(promised.dims):
        axes = set() if placed(value) else sharded(promised)
        unknown = {
            axis
            for axis in axes
            if state(value, axis) in ("unclear", "varying", "pending")
        }
        dims = tuple(
            _dimension(a, b, unknown) for a, b in zip(dims, promised.dims, strict=True)
        )
    known = replace(value, dims=dims, dtype=dtypes.both(value.dtype, promised.dtype))
    return known if it.view is None else manual_calls.annotated(value, known, promised)


def _dimension(found: Dimension, promised: Dimension, unknown: set[str]) -> Dimension:
    """A dimension, its gaps filled. A size that nothing explains is none where the annotation names one; a dimension
    that is whole as far as is known is split over the axes over which devices hold, or may hold, different values."""
    names_size = promised.size is not None and not promised.size.is_opaque
    open_size = found.size is None or (found.size.is_opaque and names_size)
    splits = bool(promised.axes) and unknown.issuperset(promised.axes or ())
    open_axes = found.axes is None or (found.axes == () and splits)
    return Dimension(
        promised.size if open_size else found.size,
        promised.axes if open_axes else found.axes,
        promised.label or found.label,
    )
