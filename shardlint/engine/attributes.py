"""Assignments to attributes: fields, properties with a setter, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import containers, instances, matching, objects
from shardlint.engine.annotations import resolve
from shardlint.engine.class_index import EVERY_NAME
from shardlint.engine.frames import Frame
from shardlint.engine.methods import find_method, find_setter
from shardlint.values import ArrayValue, FunctionValue, InstanceValue, Unknown, Value

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

#: Attributes of NumPy's arrays that can be set; the array has another shape or dtype from then on.
_IN_PLACE = frozenset({"shape", "dtype", "strides"})


def assign(
    it: Interpreter, frame: Frame, owner: ir.Expr, name: str, value: Value, at: int
) -> None:
    """``owner.name = value``."""
    instance = it.evaluate(frame, owner)
    if isinstance(instance, Unknown):
        if isinstance(owner, ir.Name) and instance.size is not None:
            frame.variables[owner.id] = replace(instance, size=it.named(owner.id))
        objects.replaced(
            it, frame, [(one, containers.CHANGED) for one in instance.either]
        )
    if isinstance(instance, ArrayValue) and name in _IN_PLACE:
        objects.replaced(
            it, frame, [(instance, ArrayValue(None, numpy=instance.numpy))]
        )
    if isinstance(instance, InstanceValue):
        _assign(it, frame, owner, instance, name, value, at)


def _assign(
    it: Interpreter,
    frame: Frame,
    owner: ir.Expr,
    instance: InstanceValue,
    name: str,
    value: Value,
    at: int,
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
    declared = it.fields(instance.cls).get(name)
    if declared is not None:
        type_ = resolve(it, declared[0].annotation, declared[1])
        what = (
            f"{owner.id}.{name}"
            if isinstance(owner, ir.Name)
            else f"field {name} of {instance.cls.name}"
        )
        found = matching.check(it, type_, value, frame.bindings, frame.facts, what)
        if found is not None:
            it.report(frame, found.code or "ST203", at, found.message, found.witness)
    fields = dict(instance.fields)
    fields[name] = value
    objects.replaced(
        it, frame, [(instance, replace(instance, fields=tuple(fields.items())))]
    )
