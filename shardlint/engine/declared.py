"""Annotations that go on to hold: of names that are assigned again, and of what lists and dicts are given later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import matching, typed_dicts
from shardlint.engine.annotations import resolve
from shardlint.engine.field_types import field_types
from shardlint.engine.frames import Frame
from shardlint.engine.joining import join
from shardlint.engine.plain import iterate, plain_key
from shardlint.engine.types import (
    AnyType,
    ClassType,
    MappingType,
    RepeatedType,
    Type,
    says_something,
    shape_dialects,
)
from shardlint.values import (
    ArrayValue,
    CollectionValue,
    DictValue,
    InstanceValue,
    Literal,
    Value,
)
from shardtypes.lang import Bindings

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

#: Methods of lists and deques that put in their last argument, and those that put in its items.
_ONE = frozenset({"append", "appendleft", "insert"})
_ALL = frozenset({"extend", "extendleft"})


def declare(frame: Frame, name: str, type_: Type) -> None:
    """``name: annotation``: what the name is assigned from here on is held against it."""
    if is_held(type_):
        frame.local_types[name] = type_
    else:
        frame.local_types.pop(name, None)


def is_held(type_: Type) -> bool:
    """Whether it tells shapes that are checked at each assignment. jaxtyping's are checked where the annotation
    stands, and its users give such names arrays of other shapes."""
    return says_something(type_) and shape_dialects(type_) <= {"shardtypes"}


def assigned(it: Interpreter, frame: Frame, name: str, value: Value, at: int) -> Value:
    """What a name with an annotation holds after it was assigned a value."""
    type_ = frame.local_types[name]
    mark = frame.bindings.mark()
    found = matching.check_at(it, frame, type_, value, frame.bindings, name, at)
    if found is None:
        return matching.refine(it, type_, value, frame.bindings)
    _report(it, frame, found, at)
    frame.bindings.rollback(mark)
    del frame.local_types[name]
    promised = matching.instantiate(it, type_, frame.bindings, matching.Opaque(it))
    # either may be meant: what both agree on is known
    return join(promised, value)


def called(
    it: Interpreter, frame: Frame, expr: ir.Call, method: str, args: list[Value]
) -> None:
    """``owner.method(*args)``, which may put something into a list or a dict."""
    if not isinstance(expr.func, ir.Attr) or not args:
        return
    owner = expr.func.obj
    if method in _ONE:
        put(it, frame, owner, args[-1], expr.args[-1].value.at)
    elif method in _ALL:
        extended(it, frame, owner, args[0], expr.args[0].value.at)
    elif method == "update" and isinstance(args[0], DictValue):
        for key, value in args[0].items:
            put(it, frame, owner, value, expr.args[0].value.at, Literal(key))


def extended(
    it: Interpreter, frame: Frame, owner: ir.Expr, more: Value, at: int
) -> None:
    """All items of ``more`` are put into a list."""
    items = [more.item] if isinstance(more, CollectionValue) else iterate(more)
    for value in items or ():
        put(it, frame, owner, value, at)


def put(
    it: Interpreter,
    frame: Frame,
    owner: ir.Expr,
    value: Value,
    at: int,
    key: Value | None = None,
) -> None:
    """Hold something that is put into a list or a dict against the annotation of its items."""
    name = plain_key(key) if key is not None else None
    text = name if isinstance(name, str) else None
    item = _item_type(it, type_of(it, frame, owner), text)
    if item is None:
        return
    mark = frame.bindings.mark()
    written = _written(owner)
    what = f"item of {written}" if text is None else f"{written}[{text!r}]"
    found = matching.check_at(it, frame, item, value, frame.bindings, what, at)
    # names that nothing else has bound may differ from item to item
    frame.bindings.rollback(mark)
    if found is not None:
        _report(it, frame, found, at)


def yielded(it: Interpreter, frame: Frame, value: Value, at: int) -> None:
    """Hold a value that a generator yields against ``Iterator[annotation]``."""
    if frame.promised_items is None or frame.function is None:
        return
    mark = frame.bindings.mark()
    what = f"value that {frame.function.name} yields"
    found = matching.check_at(
        it, frame, frame.promised_items, value, frame.bindings, what, at
    )
    frame.bindings.rollback(mark)
    if found is not None:
        _report(it, frame, found, at, "ST201")


def check_default(it: Interpreter, frame: Frame, param: ir.Param, type_: Type) -> None:
    """Hold the default of a parameter against its annotation."""
    if param.default is None or not says_something(type_):
        return
    value = it.evaluate(frame.parent or frame, param.default)
    if not isinstance(value, ArrayValue):
        return
    # a caller may give all other arguments: their sizes say nothing here
    found = matching.check(
        it, type_, value, Bindings(), frame.facts, f"default of {param.name}"
    )
    if found is not None:
        _report(it, frame, found, param.default.at, "ST202")


def _report(
    it: Interpreter,
    frame: Frame,
    found: matching.Problem,
    at: int,
    code: str = "ST203",
) -> None:
    it.report(
        frame, found.code or code, at, found.message, found.witness, found.declared
    )


def _item_type(it: Interpreter, type_: Type, key: str | None) -> Type | None:
    match type_:
        case RepeatedType(item=item) | MappingType(value=item) if is_held(item):
            return item
        case ClassType(cls=cls) if key is not None and typed_dicts.is_typed_dict(cls):
            return field_types(it, cls).get(key)
        case _:
            return None


def type_of(it: Interpreter, frame: Frame, owner: ir.Expr) -> Type:
    """What the program writes of a local, a parameter or a field."""
    match owner:
        case ir.Name(id=name):
            if name in frame.local_types:
                return frame.local_types[name]
            return _of_parameter(it, frame, name)
        case ir.Attr(obj=ir.Name() as instance, name=name):
            held = it.evaluate(frame, instance)
            fields = it.fields(held.cls) if isinstance(held, InstanceValue) else {}
            if name not in fields:
                return AnyType()
            field, module = fields[name]
            return resolve(it, field.annotation, module)
        case ir.Subscript(obj=inner, index=index):
            key = plain_key(it.evaluate(frame, index))
            of_dict = key if isinstance(key, str) else None
            return _item_type(it, type_of(it, frame, inner), of_dict) or AnyType()
        case _:
            return AnyType()


def _of_parameter(it: Interpreter, frame: Frame, name: str) -> Type:
    """The annotation of a parameter that still has its argument; nothing holds others against it."""
    function = frame.function
    if function is None or frame.is_bound_again(name):
        return AnyType()
    for param in function.node.params:
        if param.name == name:
            return resolve(it, param.annotation, frame.module)
    return AnyType()


def _written(owner: ir.Expr) -> str:
    if isinstance(owner, ir.Attr):
        return f"{_written(owner.obj)}.{owner.name}"
    if isinstance(owner, ir.Subscript):
        return f"{_written(owner.obj)}[…]"
    return owner.id if isinstance(owner, ir.Name) else "it"
