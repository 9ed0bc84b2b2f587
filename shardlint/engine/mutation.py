"""Lists, dicts and instances that a call changes in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import containers
from shardlint.engine.class_index import CONSTRUCTORS
from shardlint.engine.containers import CHANGED
from shardlint.engine.frames import Frame
from shardlint.engine.instances import without
from shardlint.values import (
    CollectionValue,
    DictValue,
    ExternalValue,
    FunctionValue,
    InstanceValue,
    MethodValue,
    PartialValue,
    SequenceValue,
    Unknown,
    Value,
)
from shardlint.walking import walk

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_MUTATORS = frozenset(
    """append extend insert remove pop clear sort reverse update setdefault popitem __setitem__ add discard""".split()
)
_CHANGING = frozenset({"builtins.next", "builtins.setattr", "builtins.delattr"})


def note(
    it: Interpreter, frame: Frame, expr: ir.Call, func: Value, args: list[Value], kwargs: dict[str, Value]
) -> Value | None:
    """Bring the variables up to date with what the call does to its receiver and its arguments. What a method that
    changes a list or dict gives, where that is known."""
    if isinstance(func, MethodValue) and isinstance(expr.func, ir.Attr) and func.name in _MUTATORS:
        if not isinstance(func.receiver, (SequenceValue, DictValue, CollectionValue)):
            return None
        found = containers.call(func.receiver, func.name, args, kwargs)
        after, result = (CHANGED, None) if found is None else found
        replaced(frame, expr.func.obj, func.receiver, after)
        return result
    _note_arguments(it, frame, expr, func)
    return None


def note_unknown(it: Interpreter, frame: Frame, expr: ir.Call, func: Value) -> None:
    """The same for a call whose arguments are not known."""
    if isinstance(func, MethodValue) and isinstance(expr.func, ir.Attr) and func.name in _MUTATORS:
        if isinstance(func.receiver, (SequenceValue, DictValue, CollectionValue)):
            replaced(frame, expr.func.obj, func.receiver, CHANGED)
    else:
        _note_arguments(it, frame, expr, func)


def _note_arguments(it: Interpreter, frame: Frame, expr: ir.Call, func: Value) -> None:
    if isinstance(func, ExternalValue) and func.qualname not in _CHANGING:
        return
    if isinstance(func, Unknown) and isinstance(expr.func, ir.Attr):
        _renew(it, frame, expr.func.obj)
    changed = _changed_parameters(func)
    for index, arg in enumerate(expr.args):
        if changed is not None and (arg.keyword or index) not in changed:
            continue
        held = frame.find(arg.value.id) if isinstance(arg.value, ir.Name) else None
        _renew(it, frame, arg.value)
        if isinstance(held, InstanceValue):
            replaced(frame, arg.value, held, without(held, it.classes.volatile(held.cls)))
        if isinstance(held, (DictValue, CollectionValue)) or (isinstance(held, SequenceValue) and held.kind == "list"):
            replaced(frame, arg.value, held, CHANGED)


def _renew(it: Interpreter, frame: Frame, expr: ir.Expr) -> None:
    """The attributes of something unknown may be others from here on."""
    while isinstance(expr, (ir.Attr, ir.Subscript)):
        expr = expr.obj
    held = frame.find(expr.id) if isinstance(expr, ir.Name) else None
    if isinstance(held, Unknown) and held.size is not None and isinstance(expr, ir.Name):
        frame.variables[expr.id] = Unknown(held.reason, it.named(expr.id))


def after_method(it: Interpreter, frame: Frame, expr: ir.Call, func: Value) -> None:
    """Bring the instance up to date whose method was called: a constructor's work is known, of others it is only
    known what they may have written."""
    if not (isinstance(expr.func, ir.Attr) and isinstance(func, PartialValue) and func.args):
        return
    instance = func.args[0]
    if not isinstance(instance, InstanceValue):
        return
    left = it.left
    if expr.func.name in CONSTRUCTORS and isinstance(left, InstanceValue) and left.cls is instance.cls:
        replaced(frame, expr.func.obj, instance, left)
    else:
        replaced(frame, expr.func.obj, instance, without(instance, it.classes.volatile(instance.cls)))


def replaced(frame: Frame, target: ir.Expr, old: Value, new: Value) -> None:
    """Give the changed object its new value under every name that holds it, and in every object that does; what the
    functions around hold is not known afterwards."""
    if new is old:
        return
    owner: Frame | None = frame
    depth = 0
    done: dict[int, Value] = {}
    while owner is not None:
        for name, held in list(owner.variables.items()):
            if held is old:
                owner.variables[name] = new if depth == 0 else CHANGED
            elif isinstance(held, containers.Container):
                changed = containers.substitute(held, old, new, done)
                if changed is not held:
                    owner.variables[name] = changed if depth == 0 else CHANGED
        owner, depth = owner.parent, depth + 1
    if isinstance(target, ir.Name) and frame.find(target.id) is old:
        frame.variables[target.id] = CHANGED


def _changed_parameters(func: Value) -> set[object] | None:
    """Positions and names of the parameters that a function may change; None if it may change any."""
    if isinstance(func, PartialValue):
        inner = _changed_parameters(func.func)
        return None if inner is None or (inner and func.args) else inner
    if not isinstance(func, FunctionValue):
        return None if isinstance(func, Unknown) else set()
    node = func.node
    if isinstance(node, ir.Lambda):
        return set()
    names = _mutated_names(node.body)
    changed: set[object] = set()
    for index, param in enumerate(node.params):
        if param.name in names:
            changed |= {index, param.name}
    return changed


def _mutated_names(body: tuple[ir.Stmt, ...]) -> set[str]:
    found: set[str] = set()
    for node in walk(body):
        match node:
            case ir.Call(func=ir.Attr(obj=ir.Name(id=name), name=method)) if method in _MUTATORS:
                found.add(name)
            case ir.Assign(targets=targets):
                parts = [t for t in targets if isinstance(t, (ir.Subscript, ir.Attr))]
                found |= {t.obj.id for t in parts if isinstance(t.obj, ir.Name)}
            case (
                ir.AugAssign(target=ir.Subscript(obj=ir.Name(id=name)))
                | ir.AugAssign(target=ir.Attr(obj=ir.Name(id=name)))
                | ir.AugAssign(target=ir.Name(id=name))
            ):
                found.add(name)
            case ir.Delete(targets=targets):
                found |= {t.obj.id for t in targets if isinstance(t, ir.Subscript) and isinstance(t.obj, ir.Name)}
            case _:
                pass
    return found
