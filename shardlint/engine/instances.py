"""Instances of classes: what their constructors leave in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import matching
from shardlint.engine.annotations import resolve
from shardlint.engine.arguments import bound_arguments
from shardlint.engine.field_types import field_types
from shardlint.engine.frames import Frame
from shardlint.engine.interpreter import LeftFields, StepLimit
from shardlint.engine.methods import find_method
from shardlint.engine.types import AnyType, ScalarType
from shardlint.values import (
    ArrayValue,
    ClassValue,
    DictValue,
    ExternalValue,
    FunctionValue,
    InstanceValue,
    IntValue,
    MaybeValue,
    PartialValue,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
)
from shardtypes.lang import Bindings, Size

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_OPAQUE = re.compile(r"\?(?P<name>.*?)[.#](?P<number>\d+)")
_Fields = tuple[tuple[str, Value], ...]
_Change = Callable[[Size | None], Size | None]

#: What runs after the fields of a dataclass, or of a flax module, are set.
_AFTER = ("__post_init__", "setup")


def construct(
    it: Interpreter,
    frame: Frame,
    cls: ClassValue,
    args: list[Value],
    kwargs: dict[str, Value],
    at: int,
    places: tuple[int, ...],
) -> Value:
    """``Cls(…)`` of a class with an ``__init__`` of its own, or none."""

    if find_method(cls, "__new__") is not None or _is_special(cls):
        return Unknown(f"an instance of {cls.name}")
    start = InstanceValue(cls, tuple(_declared(it, cls).items()), exact=True)
    found = find_method(cls, "__init__")
    if found is None:
        return start
    func = _method(it, *found)
    if found[0].decorators:
        return start
    fits = bound_arguments(it, frame, func, [start, *args], kwargs, at, (at, *places))
    if fits is None:
        return Unknown("arguments do not fit the parameters")
    it.left = None
    it.in_place(frame, func, fits.bound, at)
    return (
        it.left if isinstance(it.left, InstanceValue) and it.left.cls is cls else start
    )


def completed(
    it: Interpreter, frame: Frame, instance: InstanceValue, at: int
) -> InstanceValue:
    """A dataclass instance after its ``__post_init__``, a flax module after its ``setup``."""
    for name in _AFTER:
        instance = _run(it, frame, instance, name, at)
    return instance


def _run(
    it: Interpreter, frame: Frame, instance: InstanceValue, name: str, at: int
) -> InstanceValue:

    found = find_method(instance.cls, name)
    if found is None or len(found[0].params) != 1:
        return instance
    it.left = None
    it.in_place(frame, _method(it, *found), {found[0].params[0].name: instance}, at)
    return (
        it.left
        if isinstance(it.left, InstanceValue) and it.left.cls is instance.cls
        else instance
    )


def without(instance: InstanceValue, names: frozenset[str]) -> InstanceValue:
    """The instance, nothing known of some attributes."""
    if not any(name in names for name, _ in instance.fields):
        return instance
    return replace(
        instance,
        fields=tuple(field for field in instance.fields if field[0] not in names),
    )


def replaced(value: Value, changes: dict[str, Value]) -> Value:
    """The instance with other values in some fields, as ``dataclasses.replace`` makes it."""
    if not isinstance(value, InstanceValue) or not changes.keys() <= {
        name for name, _ in value.fields
    }:
        return Unknown("a changed copy of something unknown")
    return replace(
        value,
        fields=tuple((name, changes.get(name, held)) for name, held in value.fields),
    )


def _declared(it: Interpreter, cls: ClassValue) -> dict[str, Value]:
    """What the annotations of a class say of its fields."""
    bindings = Bindings()
    found: dict[str, Value] = {}
    for name, type_ in field_types(it, cls).items():
        value = matching.instantiate(it, type_, bindings, matching.Opaque(it))
        found[name] = matching.number_field(it, cls, name, value)
    return found


def _is_special(cls: ClassValue) -> bool:
    """Whether calling the class may give something else, as an enumeration does, or its metaclass decides."""
    return any(arg.keyword == "metaclass" for arg in cls.node.bases) or is_enum(cls)


def is_enum(cls: ClassValue) -> bool:
    return any(
        base.qualname.startswith("enum.")
        if isinstance(base, ExternalValue)
        else isinstance(base, ClassValue) and is_enum(base)
        for base in cls.bases
    )


def _method(it: Interpreter, node: ir.Function, owner: ClassValue) -> FunctionValue:
    return FunctionValue(node, owner.module, closure_of(it, owner), owner, node.name)


def closure_of(it: Interpreter, cls: ClassValue) -> Frame:
    """Where the names in the methods of a class are looked up."""
    return (
        cls.closure if isinstance(cls.closure, Frame) else it.module_frame(cls.module)
    )


def left_by_constructors(
    it: Interpreter, cls: ClassValue, declared: _Fields
) -> _Fields:
    """What the constructors leave in every instance, whatever they are given; ``declared`` are the annotated fields."""

    if find_method(cls, "__init__") is not None:
        return _generic_fields(it, cls)
    if cls in it.generic or not any(find_method(cls, name) for name in _AFTER):
        return ()
    # while it runs: its methods may make others of its kind
    it.generic[cls] = LeftFields()
    left, view, it.view = it.left, it.view, None
    frame = Frame(cls.module, silent=1)
    instance = InstanceValue(cls, declared)
    try:
        for name in _AFTER:
            instance = _run(it, frame, instance, name, -1)
    finally:
        del it.generic[cls]
        it.left, it.view = left, view
    return _lasting(it, instance)


def _generic_fields(it: Interpreter, cls: ClassValue) -> _Fields:
    """What ``__init__`` leaves. Sizes are new for each caller."""
    known = it.generic.get(cls)
    if known is None:
        # while it is found out: a class may hold instances of itself
        it.generic[cls] = LeftFields()
        first = it.counter + 1
        fields = _generic(it, cls)
        parts = matching.parts_in([value for _, value in fields])
        known = it.generic[cls] = LeftFields(fields, first, it.counter, parts)
    if not matching.has_room(it, known.parts):
        return ()
    fields, first, last = known.fields, known.first, known.last
    if last < first or not fields:
        return fields
    new: dict[str, Size] = {}

    def fresh(name: str) -> Size | None:
        found = _OPAQUE.match(name)
        if found is None or not first <= int(found["number"]) <= last:
            return None
        return new.get(name) or new.setdefault(name, it.fresh(found["name"]))

    def renamed(size: Size | None) -> Size | None:
        if size is None:
            return None
        table = {
            name: other for name in size.symbols if (other := fresh(name)) is not None
        }
        return size.substitute(table) if table else size

    return tuple((name, _with_sizes(value, renamed)) for name, value in fields)


def _with_sizes(value: Value, change: _Change) -> Value:
    match value:
        case ArrayValue(dims=dims) if dims is not None:
            return replace(
                value, dims=tuple(replace(d, size=change(d.size)) for d in dims)
            )
        case IntValue(size=size):
            return IntValue(change(size))
        case SequenceValue(items=items):
            return replace(
                value, items=tuple(_with_sizes(item, change) for item in items)
            )
        case DictValue(items=pairs):
            return DictValue(
                tuple((key, _with_sizes(item, change)) for key, item in pairs)
            )
        case InstanceValue(fields=fields):
            return replace(
                value,
                fields=tuple(
                    (name, _with_sizes(item, change)) for name, item in fields
                ),
            )
        case MaybeValue(value=inner):
            return MaybeValue(_with_sizes(inner, change))
        case PartialValue(func=func, args=args, kwargs=kwargs):
            named = tuple((name, _with_sizes(item, change)) for name, item in kwargs)
            return replace(
                value,
                func=_with_sizes(func, change),
                args=tuple(_with_sizes(a, change) for a in args),
                kwargs=named,
            )
        case WrappedValue(func=func, options=options):
            named = tuple((name, _with_sizes(item, change)) for name, item in options)
            return replace(value, func=_with_sizes(func, change), options=named)
        case _:
            return value


def _generic(it: Interpreter, cls: ClassValue) -> _Fields:

    if _is_special(cls):
        return ()
    frame = Frame(cls.module, silent=1)
    instance = InstanceValue(cls, tuple(_declared(it, cls).items()))
    left, view, it.view = it.left, it.view, None
    try:
        found = find_method(cls, "__init__")
        if found is not None and not found[0].decorators and found[0].params:
            it.left = None
            it.in_place(frame, _method(it, *found), _assumed(it, found, instance), -1)
            instance = (
                it.left
                if isinstance(it.left, InstanceValue) and it.left.cls is cls
                else instance
            )
    except StepLimit:
        return ()
    finally:
        it.left, it.view = left, view
    return _lasting(it, instance)


def _lasting(it: Interpreter, instance: InstanceValue) -> _Fields:
    written, overridden = (
        it.classes.volatile(instance.cls),
        it.classes.overridden(instance.cls),
    )
    return tuple(
        (n, value)
        for n, value in instance.fields
        if n not in written and n not in overridden
    )


def _assumed(
    it: Interpreter, found: tuple[ir.Function, ClassValue], instance: InstanceValue
) -> dict[str, Value]:
    """Any arguments that the annotations allow."""
    node, owner = found
    bound: dict[str, Value] = {node.params[0].name: instance}
    bindings = Bindings()
    for param in node.params[1:]:
        type_ = resolve(it, param.annotation, owner.module)
        if param.kind in ("*", "**") or isinstance(type_, AnyType):
            bound[param.name] = Unknown(
                f"parameter {param.name} has no array annotation"
            )
        elif type_ == ScalarType("int") and not isinstance(param.default, ir.Unary):
            bound[param.name] = IntValue(it.fresh(param.name))
        else:
            bound[param.name] = matching.instantiate(
                it, type_, bindings, matching.Opaque(it)
            )
        if isinstance(param.default, ir.Const) and param.default.value is None:
            bound[param.name] = Unknown("may be None")
    return bound
