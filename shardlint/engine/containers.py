"""Lists and dicts that a program changes in place: what an assignment or a method leaves in them, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias, cast, get_args

from shardlint.engine.joining import join
from shardlint.engine.plain import MAX_ITEMS, constant, iterate, plain_key
from shardlint.ops.registry import static_int
from shardlint.values import (
    CollectionValue,
    DictValue,
    InstanceValue,
    Literal,
    PartialValue,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
)

CHANGED = Unknown("changed in place")
Container: TypeAlias = (
    SequenceValue
    | DictValue
    | CollectionValue
    | InstanceValue
    | PartialValue
    | WrappedValue
)
CONTAINERS = frozenset(get_args(Container))
_LISTS = frozenset({"list", "deque"})


def with_item(held: Value, key: Value, value: Value) -> Value:
    """The list or dict after ``held[key] = value``."""
    match held:
        case DictValue(items=pairs):
            name = plain_key(key)
            return (
                CHANGED
                if name is None
                else DictValue(tuple({**dict(pairs), name: value}.items()))
            )
        case SequenceValue(kind=kind, items=items) if kind in _LISTS:
            index = static_int(key)
            if index is None or not -len(items) <= index < len(items):
                return CHANGED
            index %= len(items)
            return replace(held, items=(*items[:index], value, *items[index + 1 :]))
        case CollectionValue(item=item, kind="dict"):
            return CollectionValue(join(item, value), "dict")
        case CollectionValue(item=item, kind="list"):
            return replace(held, item=join(item, value))
        case _:
            return CHANGED


def without_item(held: Value, key: Value) -> Value:
    """The list or dict after ``del held[key]``."""
    match held:
        case DictValue(items=pairs):
            name = plain_key(key)
            return (
                CHANGED
                if name is None
                else DictValue(tuple(pair for pair in pairs if pair[0] != name))
            )
        case SequenceValue(kind="list", items=items) if static_int(key) == 0 and items:
            return replace(held, items=items[1:])
        case _:
            return CHANGED


def call(
    held: Value, name: str, args: list[Value], kwargs: Mapping[str, Value]
) -> tuple[Value, Value] | None:
    """What a method that changes a list or dict leaves of it, and what it gives; None where that is not known."""
    match held:
        case DictValue():
            return _of_dict(held, name, args, kwargs)
        case SequenceValue(kind=kind, items=items) if kind in _LISTS and not kwargs:
            return _of_list(held, items, name, args)
        case _:
            return None


def _of_dict(
    held: DictValue, name: str, args: list[Value], kwargs: Mapping[str, Value]
) -> tuple[Value, Value] | None:
    known: dict[object, Value] = dict(held.items)
    key = plain_key(args[0]) if args else None
    match name, len(args):
        case "update", 0 | 1:
            others = _pairs(args[0]) if args else {}
            if others is None:
                return None
            return DictValue(tuple((known | others | dict(kwargs)).items())), constant(
                None
            )
        case "setdefault", 1 | 2 if key is not None:
            value = known.get(key, args[1] if len(args) > 1 else constant(None))
            return DictValue(tuple({**known, key: value}.items())), value
        case "pop", 1 | 2 if key is not None and (key in known or len(args) > 1):
            value = known.pop(key) if key in known else args[1]
            return DictValue(tuple(known.items())), value
        case "clear", 0:
            return DictValue(()), constant(None)
        case _:
            return None


def _pairs(value: Value) -> dict[object, Value] | None:
    """What ``dict(value)`` holds, where every key is known."""
    if isinstance(value, DictValue):
        return dict(value.items)
    found: dict[object, Value] = {}
    items = iterate(value)
    for item in items or ():
        key = (
            plain_key(item.items[0])
            if isinstance(item, SequenceValue) and len(item.items) == 2
            else None
        )
        if key is None or not isinstance(item, SequenceValue):
            return None
        found[key] = item.items[1]
    return None if items is None else found


def as_dict(value: Value) -> DictValue | None:
    """``dict(value)`` of pairs whose keys are known."""
    if isinstance(value, DictValue):
        return DictValue(value.items, of_mesh=value.of_mesh)
    pairs = _pairs(value)
    return None if pairs is None else DictValue(tuple(pairs.items()))


def _of_list(
    held: SequenceValue, items: tuple[Value, ...], name: str, args: list[Value]
) -> tuple[Value, Value] | None:
    none = Literal(None)
    index = static_int(args[0]) if args else -1
    match name, len(args):
        case "append", 1 if len(items) < MAX_ITEMS:
            return replace(held, items=(*items, args[0])), none
        case "extend", 1 if (more := iterate(args[0])) is not None and len(items) + len(
            more
        ) <= MAX_ITEMS:
            return replace(held, items=(*items, *more)), none
        case "insert", 2 if index is not None and 0 <= index <= len(items) < MAX_ITEMS:
            return replace(held, items=(*items[:index], args[1], *items[index:])), none
        case "pop", 0 | 1 if index is not None and -len(items) <= index < len(items):
            index %= len(items)
            return replace(held, items=(*items[:index], *items[index + 1 :])), items[
                index
            ]
        case "popleft", 0 if items and held.kind == "deque":
            return replace(held, items=items[1:]), items[0]
        case "appendleft", 1 if held.kind == "deque" and len(items) < MAX_ITEMS:
            return replace(held, items=(args[0], *items)), none
        case "reverse", 0:
            return replace(held, items=items[::-1]), none
        case "clear", 0:
            return replace(held, items=()), none
        case _:
            return None


def substitute(
    value: Value, changes: dict[int, Value], done: dict[int, Value]
) -> Value:
    """A value with some of the objects in it, by their ids, as others. ``done`` keeps shared parts shared."""
    if id(value) in changes:
        return changes[id(value)]
    if id(value) in done:
        return done[id(value)]
    if type(value) not in CONTAINERS:
        return value
    changed = rebuilt(cast(Container, value), lambda v: substitute(v, changes, done))
    done[id(value)] = changed
    return changed


def rebuilt(value: Container, change: Callable[[Value], Value]) -> Value:
    """A container with its parts changed; itself where none is."""
    match value:
        case SequenceValue(items=items):
            parts = tuple(map(change, items))
            return (
                value if all(map(_same, parts, items)) else replace(value, items=parts)
            )
        case CollectionValue(item=item):
            one = change(item)
            return value if one is item else replace(value, item=one)
        case DictValue(items=pairs):
            named = tuple((name, change(held)) for name, held in pairs)
            return (
                value
                if all(new[1] is old[1] for new, old in zip(named, pairs, strict=True))
                else DictValue(named)
            )
        case InstanceValue(fields=fields):
            held = tuple((name, change(field)) for name, field in fields)
            same = all(new[1] is old[1] for new, old in zip(held, fields, strict=True))
            return value if same else replace(value, fields=held)
        case PartialValue(func=func, args=args, kwargs=given):
            first, given_args = change(func), tuple(map(change, args))
            options = tuple((name, change(one)) for name, one in given)
            same = first is func and all(map(_same, given_args, args))
            same = same and all(
                new[1] is old[1] for new, old in zip(options, given, strict=True)
            )
            return (
                value
                if same
                else replace(value, func=first, args=given_args, kwargs=options)
            )
        case WrappedValue(func=func):
            inner = change(func)
            return value if inner is func else replace(value, func=inner)


def _same(a: Value, b: Value) -> bool:
    return a is b


def copied(value: Value, done: dict[int, Value] | None = None) -> Value:
    """The same value made of new objects, where a program could change them: what a second call would make.
    ``done`` keeps shared parts shared."""
    table = {} if done is None else done
    if isinstance(value, (DictValue, CollectionValue, InstanceValue)) or (
        isinstance(value, SequenceValue) and value.kind != "keys"
    ):
        if id(value) not in table:
            made = rebuilt(value, lambda one: copied(one, table))
            table[id(value)] = replace(made) if made is value else made
        return table[id(value)]
    return (
        rebuilt(value, lambda one: copied(one, table))
        if isinstance(value, (PartialValue, WrappedValue))
        else value
    )


def rest(iterator: SequenceValue) -> SequenceValue:
    """An iterator after one step."""
    return replace(iterator, items=iterator.items[1:])
