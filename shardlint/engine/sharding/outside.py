"""What manual code takes from outside of it: an array or a number that it closes over is the same on every device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.axis_set import EVERY_AXIS, NO_AXIS
from shardlint.ops.sharding.view import View, replicated
from shardlint.values import (
    ArrayValue,
    DictValue,
    InstanceValue,
    PartialValue,
    SequenceValue,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_DEPTH = 4  # of the objects that are looked into
#: Functions of several arrays that may be given a number of which nothing else is known.
_ARITHMETIC = frozenset(
    f"jax.numpy.{name}"
    for name in "add subtract multiply divide true_divide power where maximum minimum".split()
)


def taken(it: Interpreter, value: Value) -> Value:
    """A value that was made where no device had its own, as code of the view in force sees it."""
    view = it.view
    if view is None:
        return value
    key = (id(value), view)
    found = it.taken.get(key)
    if found is None:
        # kept, so that no other value has its id
        found = it.taken[key] = (value, seen(view, value))
    return found[1]


def seen(view: View, value: Value, depth: int = 0) -> Value:
    """The same, with every part of it. In lists and dicts manual code may have put what nothing is known of."""
    if not view.bordered or depth > _DEPTH:
        return value
    match value:
        case Unknown(leaf=None):
            return replace(value, outer=True)
        case ArrayValue(manual=False, numpy=False):
            return _same(view, value)
        case SequenceValue(items=items):
            made = [_put(view, item, depth, value.kind == "tuple") for item in items]
            return replace(value, items=tuple(made)) if _changed(made, items) else value
        case DictValue(items=pairs):
            found = [(key, _put(view, item, depth, False)) for key, item in pairs]
            return (
                replace(value, items=tuple(found))
                if _changed_pairs(found, pairs)
                else value
            )
        case PartialValue(args=args, kwargs=kwargs):
            bound = tuple(seen(view, item, depth + 1) for item in args)
            return replace(
                value,
                args=bound,
                kwargs=tuple(
                    (name, seen(view, item, depth + 1)) for name, item in kwargs
                ),
            )
        case InstanceValue(fields=fields):
            held = [(name, seen(view, item, depth + 1)) for name, item in fields]
            return (
                replace(value, fields=tuple(held))
                if _changed_pairs(held, fields)
                else value
            )
        case _:
            return value


def _put(view: View, value: Value, depth: int, fixed: bool) -> Value:
    return (
        value
        if isinstance(value, Unknown) and not fixed
        else seen(view, value, depth + 1)
    )


def _changed(new: Sequence[Value], old: Sequence[Value]) -> bool:
    return any(one is not other for one, other in zip(new, old, strict=True))


def _changed_pairs(
    new: Sequence[tuple[object, Value]], old: Sequence[tuple[object, Value]]
) -> bool:
    return _changed([value for _, value in new], [value for _, value in old])


def _same(view: View, value: ArrayValue) -> ArrayValue:
    """The array, the same along every axis of the view."""
    found = replicated(value)
    return (
        found
        if view.complete
        else replace(found, unclear=EVERY_AXIS.minus(axis for axis, _ in view.axes))
    )


def operand(view: View | None, value: Value) -> Value:
    """Something unknown from outside as arithmetic with arrays takes it: an array of unknown rank."""
    if (
        view is not None
        and isinstance(value, Unknown)
        and value.outer
        and value.leaf is None
    ):
        return _same(view, ArrayValue(None, pending=frozenset(), unclear=NO_AXIS))
    return value


def operands(it: Interpreter, qualname: str, args: list[Value]) -> list[Value]:
    """The arguments of a function of arrays, where another of them is one."""
    if it.view is None:
        return args
    arithmetic = qualname in _ARITHMETIC or qualname.startswith("optax.")
    among_arrays = any(isinstance(arg, ArrayValue) for arg in args)
    if not arithmetic or not among_arrays:
        return args
    return [operand(it.view, arg) for arg in args]
