"""Lists, dicts and instances that a program changes in place.

What is known of an object is a value; the object is that value's identity. A change gives the object a new value under
every name that holds it, and in every object that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import containers
from shardlint.engine.class_index import EVERY_NAME
from shardlint.engine.containers import CHANGED
from shardlint.engine.frames import Frame
from shardlint.engine.instances import without
from shardlint.engine.joining import join
from shardlint.values import (
    CollectionValue,
    DictValue,
    ExternalValue,
    FunctionValue,
    InstanceValue,
    Literal,
    MethodValue,
    PartialValue,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
)
from shardlint.walking import walk

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_MUTATORS = frozenset(
    """append extend insert remove pop clear sort reverse update setdefault popitem __setitem__ add discard appendleft
    popleft extendleft rotate""".split()
)
_SETTERS = frozenset({"builtins.setattr", "builtins.object.__setattr__"})
#: They may write any attribute of their argument, or give what lets others do so.
_OPENING = frozenset({*_SETTERS, "builtins.delattr", "builtins.vars"})
NEXT = "builtins.next"


def note(
    it: Interpreter, frame: Frame, expr: ir.Call, func: Value, args: list[Value], kwargs: dict[str, Value]
) -> Value | None:
    """Bring the variables up to date with what the call does to its receiver and its arguments, where its body is not
    evaluated for it. What the call gives, where that is known."""
    if isinstance(func, MethodValue) and isinstance(expr.func, ir.Attr) and func.name in _MUTATORS:
        if not isinstance(func.receiver, (SequenceValue, DictValue, CollectionValue)):
            return None
        found = containers.call(func.receiver, func.name, args, kwargs)
        after, result = (CHANGED, None) if found is None else found
        replaced(it, frame, func.receiver, after)
        return result
    if isinstance(func, ExternalValue):
        return _note_external(it, frame, expr, func.qualname, args)
    if isinstance(func, Unknown):
        _note_unknown(it, frame, expr, [*args, *kwargs.values()])
    return None


def note_open(it: Interpreter, frame: Frame, expr: ir.Call, func: Value, values: list[Value]) -> None:
    """The same for a call whose arguments are not all known."""
    if isinstance(func, MethodValue) and isinstance(expr.func, ir.Attr) and func.name in _MUTATORS:
        if isinstance(func.receiver, (SequenceValue, DictValue, CollectionValue)):
            replaced(it, frame, func.receiver, CHANGED)
    elif not isinstance(func, ExternalValue):
        starred = [_held(it, frame, arg.value) for arg in expr.args if arg.star]
        _note_unknown(it, frame, expr, [func, *values, *starred])


def _note_external(it: Interpreter, frame: Frame, expr: ir.Call, name: str, args: list[Value]) -> Value | None:
    if name in _SETTERS and len(args) == 3 and isinstance(args[1], Literal) and isinstance(args[1].value, str):
        it.assign(frame, ir.Attr(-1, expr.args[0].value, args[1].value), args[2])
        return Literal(None)
    if name in _OPENING and args and isinstance(args[0], InstanceValue):
        volatile = it.classes.volatile(args[0].cls) if name == "builtins.vars" else EVERY_NAME
        replaced(it, frame, args[0], without(args[0], volatile))
    for value in args:
        if isinstance(value, SequenceValue) and value.kind == "iterator":
            rest = CHANGED if name != NEXT or not value.items else containers.rest(value)
            replaced(it, frame, value, rest)
            if name == NEXT:
                return value.items[0] if value.items else args[1] if len(args) > 1 else Unknown("an iterator's end")
    return None


def _note_unknown(it: Interpreter, frame: Frame, expr: ir.Call, values: list[Value]) -> None:
    """Something unknown may change whatever it gets hold of."""
    if isinstance(expr.func, ir.Attr):
        _renew(it, frame, expr.func.obj)
        values = [*values, _held(it, frame, expr.func.obj)]
    for arg in expr.args:
        _renew(it, frame, arg.value)
    for value in values:
        forget(it, frame, value)
        if isinstance(value, (DictValue, CollectionValue)) or _is_open_sequence(value):
            replaced(it, frame, value, CHANGED)
        for one in value.either if isinstance(value, Unknown) else ():
            replaced(it, frame, one, CHANGED)


def _held(it: Interpreter, frame: Frame, expr: ir.Expr) -> Value:
    """What a name, or a part of what it holds, is; nothing is called for it."""
    inner = expr
    while isinstance(inner, (ir.Attr, ir.Subscript)):
        inner = inner.obj
    return it.evaluate(frame, expr) if isinstance(inner, ir.Name) else Unknown()


def _is_open_sequence(value: Value) -> bool:
    return isinstance(value, SequenceValue) and value.kind in ("list", "iterator", "deque")


def _renew(it: Interpreter, frame: Frame, expr: ir.Expr) -> None:
    """The attributes of something unknown may be others from here on."""
    while isinstance(expr, (ir.Attr, ir.Subscript)):
        expr = expr.obj
    held = frame.find(expr.id) if isinstance(expr, ir.Name) else None
    if isinstance(held, Unknown) and held.size is not None and isinstance(expr, ir.Name):
        frame.variables[expr.id] = Unknown(held.reason, it.named(expr.id))
    elif isinstance(held, InstanceValue):
        forget(it, frame, held)


def consumed(it: Interpreter, frame: Frame, value: Value) -> None:
    """Something has taken all items of an iterator, or some."""
    if isinstance(value, SequenceValue) and value.kind == "iterator":
        replaced(it, frame, value, CHANGED)


def can_change(value: Value) -> bool:
    """Whether a function that is given the value can change something in it."""
    match value:
        case InstanceValue() | DictValue() | CollectionValue():
            return True
        case SequenceValue(items=items):
            return _is_open_sequence(value) or any(map(can_change, items))
        case PartialValue(func=func, args=args, kwargs=kwargs):
            return can_change(func) or any(map(can_change, args)) or any(can_change(held) for _, held in kwargs)
        case WrappedValue(func=func):
            return can_change(func)
        case _:
            return False


def replaced(it: Interpreter, frame: Frame, old: Value, new: Value) -> None:
    """Give the changed object its new value. What the functions around hold of it is what both values have in common,
    as it is not known when they look."""
    if new is old:
        return
    others: dict[int, Value] = {}  # it is one of these, which may have been one of others
    pending = list(_alternatives(old))
    while pending:
        one = pending.pop()
        if id(one) not in others:
            others[id(one)] = CHANGED
            pending += _alternatives(one)
    inside = {**others, id(old): containers.substitute(new, others, {}) if others else new}
    both = isinstance(old, InstanceValue) and isinstance(new, InstanceValue)
    outside = {**others, id(old): join(old, inside[id(old)]) if both else CHANGED}
    _substitute(frame, inside)
    seen, around, found = [frame], frame.parent, False
    while around is not None:
        found |= _substitute(around, outside)
        seen.append(around)
        around = around.parent
    if found:
        for caller in it.callers:
            if not any(caller is one for one in seen):
                _substitute(caller, outside)


def _alternatives(value: Value) -> tuple[Value, ...]:
    return value.either if isinstance(value, (InstanceValue, SequenceValue, DictValue)) else ()


def _substitute(frame: Frame, changes: dict[int, Value]) -> bool:
    """Give changed objects, by their ids, their new values in all that a frame holds; whether it held any."""
    done: dict[int, Value] = {}
    without: set[int] = set()
    found = False
    for name, held in list(frame.variables.items()):
        if id(held) in changes:
            frame.variables[name], found = changes[id(held)], True
        elif isinstance(held, containers.Container) and _holds(held, changes, without):
            changed = containers.substitute(held, changes, done)
            if changed is not held:
                frame.variables[name], found = changed, True
    return found


def _holds(value: Value, changes: dict[int, Value], without: set[int]) -> bool:
    """Whether one of the objects is somewhere in a value: much quicker than to make the value anew. ``without`` are
    values that were looked through before."""
    pending = [value]
    while pending:
        one = pending.pop()
        if id(one) in changes:
            without.clear()  # among them are now some that lead to it
            return True
        if isinstance(one, containers.Container) and id(one) not in without:
            without.add(id(one))
            pending += _parts(one)
    return False


def settled(it: Interpreter, frame: Frame, old: Value, new: Value, certain: bool) -> None:
    """Take over what a function left of an argument; not ``certain`` if it may have been called any number of times."""
    if new is old:
        return
    if isinstance(old, (SequenceValue, PartialValue, WrappedValue)) and not _is_open_sequence(old):
        before, after = _parts(old), _parts(new)
        for index, part in enumerate(before):
            settled(it, frame, part, after[index] if len(after) == len(before) else CHANGED, certain)
        return
    if new is not CHANGED and not certain:
        new = join(old, new)
    replaced(it, frame, old, new)
    kept = {id(one) for one in _objects(new)}
    for inner in _objects(old):
        if inner is not old and id(inner) not in kept:  # it was changed itself, or only taken out
            replaced(it, frame, inner, CHANGED)


def _parts(value: Value) -> list[Value]:
    match value:
        case SequenceValue(items=items):
            return list(items)
        case PartialValue(func=func, args=args, kwargs=kwargs):
            return [func, *args, *(held for _, held in kwargs)]
        case WrappedValue(func=func):
            return [func]
        case InstanceValue(fields=fields):
            return [held for _, held in fields]
        case DictValue(items=pairs):
            return [held for _, held in pairs]
        case CollectionValue(item=item):
            return [item]
        case _:
            return []


def _objects(value: Value) -> Iterator[Value]:
    """The objects in a value that can change, itself included."""
    if not can_change(value):
        return
    if not isinstance(value, (PartialValue, WrappedValue)):
        yield value
    for part in _parts(value):
        yield from _objects(part)


def share(value: Value, others: list[Value]) -> bool:
    """Whether a value holds an object that is in one of the others."""
    own = {id(one) for one in _objects(value)}
    return bool(own) and any(id(one) in own for other in others for one in _objects(other))


def forget(it: Interpreter, frame: Frame, value: Value, depth: int = 0) -> None:
    """Something may write what is not fixed by constructors, in all instances that the value leads to."""
    if isinstance(value, FunctionValue) and isinstance(value.closure, Frame) and depth < 2:
        names = {node.id for node in walk((value.node,), frozenset({ir.Name})) if isinstance(node, ir.Name)}
        for held in [value.closure.find(name) for name in sorted(names)] if value.closure.parent else []:
            if held is not None and not isinstance(held, FunctionValue):
                forget(it, frame, held, depth + 1)
    for one in list(_objects(value)):
        if isinstance(one, InstanceValue):
            replaced(it, frame, one, without(one, it.classes.volatile(one.cls)))


def forgotten(it: Interpreter, frame: Frame) -> None:
    """The same for all that a frame holds: what uses it may run at any time."""
    for name in list(frame.variables):
        forget(it, frame, frame.variables[name])


def not_followed(it: Interpreter, frame: Frame, func: FunctionValue, bound: dict[str, Value]) -> None:
    """A function was called whose body was not evaluated for it."""
    if not any(map(can_change, bound.values())):
        return
    names = mutated_names(func.node.body) if isinstance(func.node, ir.Function) else set()
    for name, value in bound.items():
        forget(it, frame, value)
        if name in names and not isinstance(value, InstanceValue):
            replaced(it, frame, value, CHANGED)


def mutated_names(body: tuple[ir.Stmt, ...]) -> set[str]:
    """The names of what a body certainly, or possibly, changes in place itself."""
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
