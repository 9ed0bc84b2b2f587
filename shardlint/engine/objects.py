"""The objects in values: lists, dicts and instances, which a program tells apart and changes in place.

What is known of an object is a value; the object is that value's identity. A change gives the object a new value under
every name that holds it, and in every object that does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from shardlint.engine import containers
from shardlint.engine.containers import CHANGED
from shardlint.engine.frames import Frame
from shardlint.engine.joining import join
from shardlint.values import (
    CollectionValue,
    DictValue,
    InstanceValue,
    PartialValue,
    SequenceValue,
    Value,
    WrappedValue,
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_OPEN = frozenset({"list", "iterator", "deque"})


def is_open_sequence(value: Value) -> bool:
    """Whether a value is a sequence that can be changed."""
    return isinstance(value, SequenceValue) and value.kind in _OPEN


def can_change(value: Value) -> bool:
    """Whether a function that is given the value can change something in it."""
    match value:
        case InstanceValue() | DictValue() | CollectionValue():
            return True
        case SequenceValue(items=items, kind=kind):
            return kind in _OPEN or any(map(can_change, items))
        case PartialValue(func=func, args=args, kwargs=kwargs):
            return (
                can_change(func)
                or any(map(can_change, args))
                or any(can_change(held) for _, held in kwargs)
            )
        case WrappedValue(func=func):
            return can_change(func)
        case _:
            return False


def parts(value: Value) -> Sequence[Value]:
    """What a container holds."""
    match value:
        case InstanceValue(fields=pairs) | DictValue(items=pairs):
            return [held for _, held in pairs]
        case SequenceValue(items=items):
            return items
        case PartialValue(func=func, args=args, kwargs=kwargs):
            return [func, *args, *(held for _, held in kwargs)]
        case WrappedValue(func=func):
            return [func]
        case CollectionValue(item=item):
            return [item]
        case _:
            return ()


def objects(*values: Value) -> dict[int, Value]:
    """The objects in values that can change, by their ids: what holds others before what it holds."""
    found: dict[int, Value] = {}
    _collect(values, found, set())
    return found


def _collect(values: Iterable[Value], found: dict[int, Value], seen: set[int]) -> None:
    for value in values:
        if type(value) in containers.CONTAINERS and id(value) not in seen:
            seen.add(id(value))
            if can_change(value):
                if not isinstance(value, (PartialValue, WrappedValue)):
                    found[id(value)] = value
                _collect(parts(value), found, seen)


def share(value: Value, others: Sequence[Value]) -> bool:
    """Whether a value holds an object that is in one of the others."""
    own = objects(value) if others else {}
    return bool(own) and not own.keys().isdisjoint(objects(*others))


def replaced(
    it: Interpreter, frame: Frame, changes: Sequence[tuple[Value, Value]]
) -> None:
    """Give changed objects their new values, one after the other. What the functions around hold of one is what both
    values have in common, as it is not known when they look."""
    changes = [(old, new) for old, new in changes if new is not old]
    if not changes:
        return
    inside: dict[int, Value] = {}  # what each object is in the end
    first: list[Value] = []  # what each is before the later changes
    for old, new in reversed(changes):
        others = _others(old)
        now = containers.substitute(new, others, {}) if others else new
        first.append(now)
        now = containers.substitute(now, inside, {}) if inside else now
        inside.update(others)
        inside[id(old)] = now
    _substitute(frame, inside)
    chain, around = [frame], frame.parent
    found: set[int] = set()
    while around is not None:
        found |= _held(around, inside)
        chain.append(around)
        around = around.parent
    if not found:
        return
    first.reverse()
    outside = _outside(changes, first, found)
    for one in chain[1:]:
        _substitute(one, outside)
    for caller in it.callers:
        if not any(caller is one for one in chain):
            _substitute(caller, outside)


def _outside(
    changes: Sequence[tuple[Value, Value]], first: Sequence[Value], found: set[int]
) -> dict[int, Value]:
    """What the functions around hold of each object that was found there."""
    outside: dict[int, Value] = {}
    for (old, _), now in zip(reversed(changes), reversed(first), strict=True):
        others = _others(old)
        if id(old) in found or not found.isdisjoint(others):
            both = isinstance(old, InstanceValue) and isinstance(now, InstanceValue)
            value = join(old, now) if both else CHANGED
            value = containers.substitute(value, outside, {}) if outside else value
            outside.update(others)
            outside[id(old)] = value
    return outside


def _others(old: Value) -> dict[int, Value]:
    """Where an object may be one of several, nothing is known of these when it changes."""
    others: dict[int, Value] = {}
    fresh = [old]
    while fresh:
        # after many joins most alternatives are each other's: each is looked at once
        found = {id(one): one for each in fresh for one in _alternatives(each)}
        fresh = [one for key, one in found.items() if key not in others]
        others.update(dict.fromkeys(found, CHANGED))
    return others


def _alternatives(value: Value) -> tuple[Value, ...]:
    if isinstance(value, (InstanceValue, SequenceValue, DictValue)):
        return value.either
    return ()


def _substitute(frame: Frame, changes: dict[int, Value]) -> None:
    """Give changed objects, by their ids, their new values in all that a frame holds."""
    done: dict[int, Value] = {}
    without: set[int] = set()
    for name, held in list(frame.variables.items()):
        if id(held) in changes:
            frame.variables[name] = changes[id(held)]
        elif type(held) in containers.CONTAINERS and _holds(held, changes, without):
            frame.variables[name] = containers.substitute(held, changes, done)


def _holds(value: Value, changes: dict[int, Value], without: set[int]) -> bool:
    """Whether one of the objects is somewhere in a value: much quicker than to make the value anew. ``without`` are
    values that were looked through before."""
    pending = [value]
    while pending:
        one = pending.pop()
        if id(one) in changes:
            without.clear()  # among them are now some that lead to it
            return True
        if type(one) in containers.CONTAINERS and id(one) not in without:
            without.add(id(one))
            pending += parts(one)
    return False


def _held(frame: Frame, changes: dict[int, Value]) -> set[int]:
    """Which of the objects a frame holds somewhere."""
    found: set[int] = set()
    seen: set[int] = set()
    pending = [
        held for held in frame.variables.values() if type(held) in containers.CONTAINERS
    ]
    while pending:
        one = pending.pop()
        if id(one) in changes:
            found.add(id(one))
        if id(one) not in seen and type(one) in containers.CONTAINERS:
            seen.add(id(one))
            pending += parts(one)
    return found
