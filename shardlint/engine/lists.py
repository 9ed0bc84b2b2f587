"""Lists, tuples and dicts of unknown length, all of whose items are alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shardlint import ir
from shardlint.engine.plain import MAX_ITEMS, operand
from shardlint.values import (
    ArrayValue,
    CollectionValue,
    IntValue,
    Literal,
    MaybeValue,
    MethodValue,
    SequenceValue,
    SliceValue,
    StringValue,
    Unknown,
    Value,
    number_in,
    size_in,
)
from shardtypes.lang import Size

#: Functions that join a list of arrays to one.
JOINING = frozenset(
    f"{module}.{name}"
    for module in ("jax.numpy", "numpy")
    for name in "stack concatenate vstack hstack dstack column_stack array asarray".split()
)

_OF_NAMES = frozenset({"set", "frozenset", "tuple", "list", "sorted"})


def item(value: CollectionValue, index: Value) -> Value:
    """``value[index]``."""
    if isinstance(index, SliceValue):
        return (
            replace(value, length=None)
            if value.kind != "dict"
            else Unknown("a slice of a dict")
        )
    return value.item


def of_tree(func: Value, expr: ir.Expr) -> Value:
    """What is called: ``items``, ``keys`` or ``values`` of a tree in manual code tell that the tree is a dict."""
    if (
        not isinstance(func, Unknown)
        or func.leaf is None
        or not isinstance(expr, ir.Attr)
    ):
        return func
    if expr.name in ("items", "keys", "values"):
        # a part lies as the tree does
        return MethodValue(CollectionValue(func, "dict"), expr.name)
    return func


def method(value: CollectionValue, name: str, args: list[Value]) -> Value:
    """``value.name(*args)``, for what only reads."""
    match value.kind, name:
        case "dict", "values":
            return replace(value, kind="list")
        case "dict", "items":
            return CollectionValue(
                SequenceValue((StringValue(), value.item)), "list", value.length
            )
        case "dict", "keys":
            return CollectionValue(StringValue(), "list", value.length)
        case "dict", "get" if len(args) == 1:
            return MaybeValue(value.item)
        case _, "copy":
            return value
        case _:
            return Unknown(f"what .{name} gives of a collection")


def repeated(left: Value, right: Value) -> CollectionValue | None:
    """``[item] * count`` for a count beyond what is followed one by one; None for anything else."""
    sequence, times = (
        (left, right) if isinstance(left, SequenceValue) else (right, left)
    )
    if not isinstance(sequence, SequenceValue) or len(sequence.items) != 1:
        return None
    count = number_in(times)
    if count is None or count <= MAX_ITEMS:
        return None
    return CollectionValue(sequence.items[0], sequence.kind, Size.const(count))


def builtin(name: str, args: list[Value]) -> Value | None:
    """What Python's own functions make of collections; None where none is among the arguments."""
    length = size_in(args[0]) if name == "range" and len(args) == 1 else None
    if length is not None:
        if length.constant is not None:
            return None
        return CollectionValue(IntValue(None), "range", length)
    if len(args) == 1 and isinstance(args[0], SequenceValue) and name in _OF_NAMES:
        return _of_names(name, args[0])
    if not any(isinstance(arg, CollectionValue) for arg in args):
        return None
    result = None
    if name == "zip":
        result = _zipped(args)
    elif isinstance(args[0], CollectionValue):
        result = _of_collection(name, args[0], len(args) == 1)
    return result or Unknown(f"what {name} gives of a collection")


def _zipped(args: list[Value]) -> Value | None:
    columns = [arg for arg in args if isinstance(arg, CollectionValue)]
    if len(columns) < len(args) or any(column.kind == "dict" for column in columns):
        return None
    lengths = {column.length for column in columns}
    length = lengths.pop() if len(lengths) == 1 else None
    items = SequenceValue(tuple(column.item for column in columns))
    return CollectionValue(items, "list", length)


def _of_collection(name: str, value: CollectionValue, alone: bool) -> Value | None:
    """What a function of Python makes of a collection, which is its only argument or its first one."""
    if name == "len":
        return IntValue(value.length)
    if name == "sum":
        one = operand(value.item)
        if alone and isinstance(one, ArrayValue):
            return replace(one, weak=False)
        return None
    if value.kind == "dict":
        return None
    match name:
        case "list" | "tuple":
            return replace(value, kind=name)
        case "reversed" | "sorted":
            return replace(value, kind="list")
        case "enumerate":
            item = SequenceValue((IntValue(None), value.item))
            return replace(value, item=item, kind="list")
        case _:
            return None


def _of_names(name: str, given: SequenceValue) -> Value | None:
    """Sets of names, such as those of mesh axes, and what is made of them; None for anything else."""
    names = {
        item.value
        for item in given.items
        if isinstance(item, Literal) and isinstance(item.value, str)
    }
    if name.endswith("set"):
        known = len(names) == len(set(given.items))
        return (
            SequenceValue(tuple(dict.fromkeys(given.items)), "set") if known else None
        )
    if given.kind != "set":
        return None
    if name == "sorted":
        return SequenceValue(tuple(Literal(one) for one in sorted(names)), "list")
    return (
        Unknown("in the order of a set")
        if len(names) > 1
        else SequenceValue(given.items, name)
    )


def joined(value: CollectionValue, join: Callable[[Value], Value]) -> Value:
    """What joining all items gives: their number is told by what one item more adds."""
    two, three = (
        join(SequenceValue((value.item,) * count, "list")) for count in (2, 3)
    )
    if not (isinstance(two, ArrayValue) and isinstance(three, ArrayValue)):
        return two
    if two.dims is None or three.dims is None or len(two.dims) != len(three.dims):
        return two
    dims = []
    for a, b in zip(two.dims, three.dims, strict=True):
        size = a.size
        if a.size is not None and b.size is not None and a.size != b.size:
            size = (
                None
                if value.length is None
                else a.size + (b.size - a.size) * (value.length - Size.const(2))
            )
        dims.append(replace(a, size=size))
    return replace(two, dims=tuple(dims))
