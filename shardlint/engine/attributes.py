"""Assignments to attributes: fields, properties with a setter, and what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import boxes, containers, declared, instances, matching, objects
from shardlint.engine.annotations import resolve
from shardlint.engine.class_index import EVERY_NAME
from shardlint.engine.field_types import of_instance
from shardlint.engine.frames import Frame
from shardlint.engine.methods import find_method, find_setter
from shardlint.engine.types import ClassType
from shardlint.values import (
    ArrayValue,
    ClassValue,
    FunctionValue,
    InstanceValue,
    Unknown,
    Value,
)
from shardlint.walking import nodes_of
from shardtypes.lang import Bindings

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

#: Attributes of NumPy's arrays that can be set; the array has another shape or dtype from then on.
_IN_PLACE = frozenset({"shape", "dtype", "strides"})


def assign(
    it: Interpreter,
    frame: Frame,
    owner: ir.Expr,
    name: str,
    value: Value,
    at: int,
    source: int,
) -> None:
    """``owner.name = value``, at ``at``; ``source`` is the place of what gives the value."""
    instance = it.evaluate(frame, owner)
    if isinstance(instance, Unknown):
        if isinstance(owner, ir.Name) and instance.size is not None:
            frame.variables[owner.id] = replace(instance, size=it.named(owner.id))
        objects.replaced(
            it, frame, [(one, containers.CHANGED) for one in instance.either]
        )
    boxes.assigned(it, frame, instance, name, value)
    if isinstance(instance, ArrayValue) and name in _IN_PLACE:
        objects.replaced(
            it, frame, [(instance, ArrayValue(None, numpy=instance.numpy))]
        )
    if isinstance(instance, InstanceValue):
        _assign(it, frame, owner, instance, name, value, at, source)


def _assign(
    it: Interpreter,
    frame: Frame,
    owner: ir.Expr,
    instance: InstanceValue,
    name: str,
    value: Value,
    at: int,
    source: int,
) -> None:

    if find_method(instance.cls, "__setattr__") is not None:
        objects.replaced(
            it, frame, [(instance, instances.without(instance, EVERY_NAME))]
        )
        return
    setter = find_setter(instance.cls, name)
    if setter is not None:
        node, cls = setter
        func = FunctionValue(
            node, cls.module, instances.closure_of(it, cls), cls, node.name
        )
        it.call_function(frame, func, [instance, value], {}, at, (at, at))
        return
    found = _conflict(it, frame, owner, instance, name, value, source)
    if found is not None:
        it.report(frame, found.code or "ST203", at, found.message, found.witness)
    fields = dict(instance.fields)
    fields[name] = value
    objects.replaced(
        it, frame, [(instance, replace(instance, fields=tuple(fields.items())))]
    )


def _conflict(
    it: Interpreter,
    frame: Frame,
    owner: ir.Expr,
    instance: InstanceValue,
    name: str,
    value: Value,
    source: int,
) -> matching.Problem | None:
    """Why a value is not what the class says of an attribute."""
    bindings = frame.bindings
    written = it.fields(instance.cls).get(name)
    if written is None:
        written = _in_methods(instance.cls).get(name)
        # its names are those of a method
        bindings = Bindings()
    if written is None:
        return None
    type_ = resolve(it, written[0].annotation, written[1])
    whole = declared.type_of(it, frame, owner)
    if isinstance(whole, ClassType) and whole.cls is instance.cls and whole.args:
        type_ = of_instance(it, whole).get(name, type_)
    what = f"field {name} of {instance.cls.name}"
    if isinstance(owner, ir.Name):
        what = f"{owner.id}.{name}"
    return matching.check_at(it, frame, type_, value, bindings, what, source)


@lru_cache(maxsize=1024)
def _in_methods(cls: ClassValue) -> Mapping[str, tuple[ir.AnnAssign, str]]:
    """The attributes that methods of a class annotate, ``self.w: f32["M"] = w``, and the module of each."""
    found: dict[str, tuple[ir.AnnAssign, str]] = {}
    for method in cls.node.body:
        if not isinstance(method, ir.Function) or not method.params:
            continue
        receiver = method.params[0].name
        for node in nodes_of(method.body, ir.AnnAssign):
            target = node.target
            if isinstance(target, ir.Attr) and isinstance(target.obj, ir.Name):
                if target.obj.id == receiver:
                    found.setdefault(target.name, (node, cls.module))
    return found
