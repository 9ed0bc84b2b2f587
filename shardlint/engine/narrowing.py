"""What a condition tells about the path that it opens."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.frames import Frame
from shardlint.values import (
    ArrayValue,
    Dimension,
    IntValue,
    Literal,
    MaybeValue,
    SequenceValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size

_MAX_RANK = 16

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


def narrow(it: Interpreter, frame: Frame, test: ir.Expr, holds: bool) -> None:
    """Add to the frame what follows from ``test`` being true, or false."""
    match test:
        case ir.Unary(op="not", value=inner):
            narrow(it, frame, inner, not holds)
        case ir.Bool(op="and", values=values) if holds:
            for value in values:
                narrow(it, frame, value, True)
        case ir.Bool(op="or", values=values) if not holds:
            for value in values:
                narrow(it, frame, value, False)
        case ir.Name(id=name) if holds:
            known = frame.find(name)
            if isinstance(known, MaybeValue):
                frame.variables[name] = known.value
        case ir.Compare(left=left, rest=((op, right),)):
            _comparison(it, frame, left, op, right, holds)
        case _:
            pass


def _comparison(it: Interpreter, frame: Frame, left: ir.Expr, op: str, right: ir.Expr, holds: bool) -> None:
    if op in ("is", "is not") and isinstance(right, ir.Const) and right.value is None:
        is_none = holds == (op == "is")
        if isinstance(left, ir.Name):
            value = frame.find(left.id)
            if isinstance(value, MaybeValue):
                frame.variables[left.id] = Literal(None) if is_none else value.value
        return
    equal = (op == "==" and holds) or (op == "!=" and not holds)
    frame.silent += 1
    try:
        b = it.evaluate(frame, right)
        if equal:
            _of_array(frame, left, b)
        a = it.evaluate(frame, left)
    finally:
        frame.silent -= 1
    if equal:
        _equal(frame, a, b)
    elif isinstance(a, IntValue) and isinstance(b, IntValue) and a.size is not None and b.size is not None:
        if (op in (">=", ">") and holds) or (op in ("<", "<=") and not holds):
            frame.facts = frame.facts.at_least(a.size, b.size)
        elif (op in ("<=", "<") and holds) or (op in (">", ">=") and not holds):
            frame.facts = frame.facts.at_least(b.size, a.size)


def _of_array(frame: Frame, left: ir.Expr, value: Value) -> None:
    """``x.ndim == 3`` and ``x.shape == (b, d)`` tell of a name whose rank, or some of whose sizes, are not known."""
    sizes: list[Size | None] | None = None
    match left:
        case ir.Attr(obj=ir.Name(id=name), name="ndim") | ir.Call(
            func=ir.Name(id="len"), args=(ir.Arg(value=ir.Attr(obj=ir.Name(id=name), name="shape")),)
        ):
            rank = value.size.constant if isinstance(value, IntValue) and value.size is not None else None
            sizes = [None] * rank if rank is not None and 0 <= rank < _MAX_RANK else None
        case ir.Attr(obj=ir.Name(id=name), name="shape") if isinstance(value, SequenceValue):
            sizes = [item.size if isinstance(item, IntValue) else None for item in value.items]
        case _:
            return
    known = frame.find(name)
    if sizes is None or not isinstance(known, (ArrayValue, Unknown)):
        return
    if isinstance(known, Unknown):
        frame.variables[name] = ArrayValue(tuple(Dimension(size) for size in sizes))
    elif known.dims is None:
        frame.variables[name] = replace(known, dims=tuple(Dimension(size) for size in sizes))
    elif len(known.dims) == len(sizes):
        pairs = zip(known.dims, sizes, strict=True)
        dims = tuple(replace(dim, size=size) if dim.size is None else dim for dim, size in pairs)
        frame.variables[name] = replace(known, dims=dims)


def _equal(frame: Frame, a: Value, b: Value) -> None:
    if isinstance(a, IntValue) and isinstance(b, IntValue) and a.size is not None and b.size is not None:
        if a.size != b.size:
            frame.facts = frame.facts.equal(a.size, b.size)
        for one, other in ((a.size, b.size), (b.size, a.size)):
            _divisibility(frame, str(one), one, other.constant)
    elif isinstance(a, SequenceValue) and isinstance(b, SequenceValue) and len(a.items) == len(b.items):
        for x, y in zip(a.items, b.items, strict=True):
            _equal(frame, x, y)


def _divisibility(frame: Frame, _text: str, size: object, other: int | None) -> None:
    """``n % k == 0`` is the fact that k divides n."""
    if other != 0 or not isinstance(size, Size):
        return
    for operation in size.operations():
        if operation.op == "//" and operation.args[0] % operation.args[1] == size:  # how a remainder is kept
            frame.facts = frame.facts.divides(operation.args[1], operation.args[0])
