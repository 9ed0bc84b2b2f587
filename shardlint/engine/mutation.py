"""What calls do to the lists, dicts and instances that they are given, where they are evaluated and where not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.changes import MUTATORS
from shardlint.engine import boxes, containers, declared
from shardlint.engine.class_index import EVERY_NAME
from shardlint.engine.containers import CHANGED
from shardlint.engine.frames import Frame
from shardlint.engine.instances import without
from shardlint.engine.joining import join
from shardlint.engine.objects import (
    can_change,
    is_open_sequence,
    objects,
    parts,
    replaced,
)
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

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_SETTERS = frozenset({"builtins.setattr", "builtins.object.__setattr__"})
#: They may write any attribute of their argument, or give what lets others do so.
_OPENING = frozenset({*_SETTERS, "builtins.delattr", "builtins.vars"})
NEXT = "builtins.next"
#: Their functions call what they are given, any number of times.
_CALLING = ("builtins.", "functools.", "itertools.")
_MOST_CALLS = 3  # of one function by another, through which changes are looked for


def note(
    it: Interpreter,
    frame: Frame,
    expr: ir.Call,
    func: Value,
    args: list[Value],
    kwargs: dict[str, Value],
) -> Value | None:
    """Bring the variables up to date with what the call does to its receiver and its arguments, where its body is not
    evaluated for it. What the call gives, where that is known."""
    if (
        isinstance(func, MethodValue)
        and isinstance(expr.func, ir.Attr)
        and func.name in MUTATORS
    ):
        if not isinstance(func.receiver, (SequenceValue, DictValue, CollectionValue)):
            return None
        declared.called(it, frame, expr, func.name, args)
        found = containers.call(func.receiver, func.name, args, kwargs)
        after, result = (CHANGED, None) if found is None else found
        replaced(it, frame, [(func.receiver, after)])
        return result
    if isinstance(func, MethodValue):
        return boxes.called(it, frame, func.receiver, func.name, args)
    if isinstance(func, ExternalValue):
        return _note_external(it, frame, expr, func.qualname, args)
    if isinstance(func, Unknown):
        if isinstance(expr.func, ir.Attr) and expr.func.name in MUTATORS:
            declared.called(it, frame, expr, expr.func.name, args)
        _note_unknown(it, frame, expr, [*args, *kwargs.values()])
    return None


def note_open(
    it: Interpreter, frame: Frame, expr: ir.Call, func: Value, values: list[Value]
) -> None:
    """The same for a call whose arguments are not all known."""
    if (
        isinstance(func, MethodValue)
        and isinstance(expr.func, ir.Attr)
        and func.name in MUTATORS
    ):
        if isinstance(func.receiver, (SequenceValue, DictValue, CollectionValue)):
            replaced(it, frame, [(func.receiver, CHANGED)])
    elif not isinstance(func, ExternalValue):
        starred = [_held(it, frame, arg.value) for arg in expr.args if arg.star]
        _note_unknown(it, frame, expr, [func, *values, *starred])


def _note_external(
    it: Interpreter, frame: Frame, expr: ir.Call, name: str, args: list[Value]
) -> Value | None:
    if (
        name in _SETTERS
        and len(args) == 3
        and isinstance(args[1], Literal)
        and isinstance(args[1].value, str)
    ):
        it.assign(frame, ir.Attr(-1, expr.args[0].value, args[1].value), args[2])
        return Literal(None)
    if name in _OPENING and args and isinstance(args[0], InstanceValue):
        volatile = (
            it.classes.volatile(args[0].cls) if name == "builtins.vars" else EVERY_NAME
        )
        replaced(it, frame, [(args[0], without(args[0], volatile))])
    if name.startswith(_CALLING):
        changes = _Changes(it)
        for value in args:
            changes.open_captured(value)
        changes.made(frame)
    for value in args:
        if isinstance(value, SequenceValue) and value.kind == "iterator":
            rest = (
                CHANGED if name != NEXT or not value.items else containers.rest(value)
            )
            replaced(it, frame, [(value, rest)])
            if name == NEXT:
                return (
                    value.items[0]
                    if value.items
                    else args[1]
                    if len(args) > 1
                    else Unknown("an iterator's end")
                )
    return None


def _note_unknown(
    it: Interpreter, frame: Frame, expr: ir.Call, values: list[Value]
) -> None:
    """Something unknown may change whatever it gets hold of."""
    changes = _Changes(it)
    if isinstance(expr.func, ir.Attr):
        _renew(it, frame, expr.func.obj, changes)
        changes = changes.made(frame)
        values = [*values, _held(it, frame, expr.func.obj)]
    for arg in expr.args:
        _renew(it, frame, arg.value, changes)
    for value in values:
        changes.forget(value)
        changes.open_captured(value)
        if isinstance(value, (DictValue, CollectionValue)) or is_open_sequence(value):
            changes.add(value, CHANGED)
        for one in value.either if isinstance(value, Unknown) else ():
            changes.add(one, CHANGED)
    changes.made(frame)


def _held(it: Interpreter, frame: Frame, expr: ir.Expr) -> Value:
    """What a name, or a part of what it holds, is; nothing is called for it."""
    inner = expr
    while isinstance(inner, (ir.Attr, ir.Subscript)):
        inner = inner.obj
    return it.evaluate(frame, expr) if isinstance(inner, ir.Name) else Unknown()


def _renew(it: Interpreter, frame: Frame, expr: ir.Expr, changes: _Changes) -> None:
    """The attributes of something unknown may be others from here on."""
    while isinstance(expr, (ir.Attr, ir.Subscript)):
        expr = expr.obj
    held = frame.find(expr.id) if isinstance(expr, ir.Name) else None
    if (
        isinstance(held, Unknown)
        and held.size is not None
        and isinstance(expr, ir.Name)
    ):
        frame.variables[expr.id] = Unknown(held.reason, it.named(expr.id))
    elif isinstance(held, InstanceValue):
        changes.forget(held)


def consumed(it: Interpreter, frame: Frame, value: Value) -> None:
    """Something has taken all items of an iterator, or some."""
    if isinstance(value, SequenceValue) and value.kind == "iterator":
        replaced(it, frame, [(value, CHANGED)])


class _Changes:
    """What becomes of objects, to be made known at once."""

    def __init__(self, it: Interpreter) -> None:
        self._it = it
        self._changes: list[tuple[Value, Value]] = []
        self._forgotten: set[int] = set()

    def add(self, old: Value, new: Value) -> None:
        self._changes.append((old, new))

    def made(self, frame: Frame) -> _Changes:
        """A new list, once these are made known to those who hold the objects."""
        replaced(self._it, frame, self._changes)
        return _Changes(self._it)

    def settle(self, old: Value, new: Value, certain: bool) -> None:
        """What a function left of an argument; not ``certain`` if it may have been called any number of times."""
        if new is old:
            return
        if isinstance(
            old, (SequenceValue, PartialValue, WrappedValue)
        ) and not is_open_sequence(old):
            before, after = parts(old), parts(new)
            for index, part in enumerate(before):
                self.settle(
                    part,
                    after[index] if len(after) == len(before) else CHANGED,
                    certain,
                )
            return
        if new is not CHANGED and not certain:
            new = join(old, new)
        self.add(old, new)
        kept = objects(new)
        for key, inner in objects(old).items():
            # it was changed itself, or only taken out
            if inner is not old and key not in kept:
                self.add(inner, CHANGED)

    def forget(self, value: Value, depth: int = 0) -> None:
        """Something may write what is not fixed by constructors, in all instances that the value leads to."""
        if (
            isinstance(value, FunctionValue)
            and isinstance(value.closure, Frame)
            and depth < 2
        ):
            names = self._it.names_in(value.node) if value.closure.parent else ()
            for held in [value.closure.find(name) for name in names]:
                if held is not None and not isinstance(held, FunctionValue):
                    self.forget(held, depth + 1)
        for key, one in objects(value).items():
            if isinstance(one, InstanceValue) and key not in self._forgotten:
                self._forgotten.add(key)
                self.add(one, without(one, self._it.classes.volatile(one.cls)))

    def open_captured(self, value: Value) -> None:
        """What a function has from around it, and changes in place itself or through others from there, may be anything
        from here on."""
        seen: set[int] = set()
        nearest = [value]
        for _ in range(_MOST_CALLS + 1):
            called: list[Value] = []
            for one in nearest:
                if isinstance(one, FunctionValue) and id(one.node) not in seen:
                    seen.add(id(one.node))
                    called += self._opened(one)
            nearest = called

    def _opened(self, function: FunctionValue) -> list[Value]:
        """The functions around one that it may call, after what it changes itself was opened."""
        closure = function.closure
        if not isinstance(closure, Frame):
            return []
        for name in self._it.names_changed_in(function.node):
            held = closure.find(name)
            if isinstance(held, (DictValue, CollectionValue)) or (
                held is not None and is_open_sequence(held)
            ):
                self.add(held, CHANGED)
        around = (closure.find(name) for name in self._it.names_in(function.node))
        return [held for held in around if isinstance(held, FunctionValue)]


def settled(
    it: Interpreter,
    frame: Frame,
    before: Sequence[Value],
    after: Sequence[Value],
    certain: bool,
) -> None:
    """Take over what a function left of its arguments; not ``certain`` if it may have been called any number of
    times."""
    changes = _Changes(it)
    for old, new in zip(before, after, strict=True):
        changes.settle(old, new, certain)
    changes.made(frame)


def forgotten(it: Interpreter, frame: Frame) -> None:
    """Something may write what is not fixed by constructors, in all that a frame holds: what uses it may run at any
    time."""
    changes = _Changes(it)
    for held in frame.variables.values():
        changes.forget(held)
    changes.made(frame)


def changed_at_any_time(it: Interpreter, frame: Frame, name: str, is_set: bool) -> None:
    """What a name of a module holds may be changed, or be something else altogether, whenever it is looked at."""
    held = frame.variables.get(name)
    if held is not None and is_set:
        frame.variables[name] = Unknown("set from elsewhere")
    elif isinstance(held, (SequenceValue, DictValue, CollectionValue)):
        changes = _Changes(it)
        for one in objects(held).values():
            changes.add(one, CHANGED)
        changes.made(frame)
        if not (isinstance(held, SequenceValue) and held.kind == "tuple"):
            frame.variables[name] = CHANGED


def unfilled(it: Interpreter, frame: Frame) -> None:
    """What a module leaves empty is there for others to fill, which are not all known."""
    changes = _Changes(it)
    for held in objects(*frame.variables.values()).values():
        if isinstance(held, (SequenceValue, DictValue)) and not held.items:
            changes.add(held, CHANGED)
    changes.made(frame)


def open_to_change(it: Interpreter, frame: Frame, values: Sequence[Value]) -> None:
    """Code that is not followed may change anything in these values, and in what the frame holds."""
    values = [*frame.variables.values(), *values]
    changes = _Changes(it)
    for held in values:
        changes.forget(held)
    for one in objects(*values).values():
        if isinstance(one, (DictValue, CollectionValue)) or is_open_sequence(one):
            changes.add(one, CHANGED)
    changes.made(frame)


def not_followed(
    it: Interpreter, frame: Frame, func: FunctionValue, bound: dict[str, Value]
) -> None:
    """A function was called whose body was not evaluated for it."""
    changes = _Changes(it)
    changes.open_captured(func)
    is_named = isinstance(func.node, ir.Function)
    names = it.names_changed_in(func.node) if is_named else frozenset()
    for name, value in bound.items():
        if not can_change(value):
            continue
        changes.forget(value)
        if name in names and not isinstance(value, InstanceValue):
            changes.add(value, CHANGED)
    changes.made(frame)
