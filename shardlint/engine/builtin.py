"""Python's own functions over abstract values; None where a function is not handled here."""

from __future__ import annotations

import math
from collections.abc import Callable

from shardlint.engine import containers, lists, tree_paths
from shardlint.engine.plain import MAX_ITEMS, element, iterate, plain_key
from shardlint.values import (
    ArrayValue,
    CollectionValue,
    DictValue,
    IntValue,
    Literal,
    ScalarValue,
    SequenceValue,
    StringValue,
    Unknown,
    Value,
    WrappedValue,
    number_in,
)
from shardtypes.lang import Size

ITERATOR = "builtins.iter"


def call(name: str, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """The result of ``builtins.name``, if it is handled."""
    if name == "zip":
        kwargs = {key: value for key, value in kwargs.items() if key != "strict"}
    if name == "enumerate" and kwargs.keys() == {"start"}:
        args, kwargs = [*args, kwargs["start"]], {}
    if args and not kwargs:
        listed = lists.builtin(name, args)
        if listed is not None:
            return listed
    if (
        name == "dict"
        and len(args) == 1
        and (pairs := containers.as_dict(args[0])) is not None
    ):
        if not kwargs:
            return pairs
        return DictValue(tuple(dict([*pairs.items, *kwargs.items()]).items()))
    if name == "dict" and (not args or isinstance(args[0], DictValue)):
        held = args[0].items if args and isinstance(args[0], DictValue) else ()
        return (
            DictValue(tuple(dict([*held, *kwargs.items()]).items()))
            if len(args) < 2
            else None
        )
    handler = _HANDLERS.get(name)
    if handler is None or kwargs or not args:
        return None
    return handler(args)


def _length(args: list[Value]) -> Value:
    match args[0]:
        case SequenceValue(items=items) | DictValue(items=items):
            return IntValue(Size.const(len(items)))
        case ArrayValue(dims=dims) if dims:
            return IntValue(dims[0].size)
        case Literal(value=str() | bytes() as text):
            return IntValue(Size.const(len(text)))
        case _:
            return IntValue(None)


def _range(args: list[Value]) -> Value:
    bounds = [number_in(a) for a in args]
    known = [b for b in bounds if b is not None]
    if (
        len(known) != len(bounds)
        or len(known) > 3
        or (len(known) == 3 and known[2] == 0)
    ):
        return Unknown("a range of unknown length")
    numbers = range(*known)
    if len(numbers) > MAX_ITEMS:
        return Unknown("a long range")
    devices = frozenset[str]().union(
        *(a.devices for a in args if isinstance(a, IntValue))
    )
    return SequenceValue(tuple(IntValue(Size.const(n), devices) for n in numbers))


def _items(value: Value) -> list[Value] | None:
    if isinstance(value, DictValue):
        return [_constant(key) for key, _ in value.items]
    return iterate(value)


def _constant(key: object) -> Value:
    return (
        IntValue(Size.const(key))
        if isinstance(key, int) and not isinstance(key, bool)
        else Literal(key)
    )


def _iterator(args: list[Value]) -> Value:
    """An iterator: what it still gives, or where that is not known, what each step gives."""
    items = _items(args[0])
    return (
        WrappedValue(ITERATOR, element(args[0]))
        if items is None
        else SequenceValue(tuple(items), "iterator")
    )


def _next(args: list[Value]) -> Value:
    held = args[0]
    return (
        held.func
        if isinstance(held, WrappedValue) and held.kind == ITERATOR
        else Unknown("the next item")
    )


def _enumerate(args: list[Value]) -> Value:
    items = _items(args[0])
    if items is None or len(args) > 1:
        return _each(SequenceValue((IntValue(None), element(args[0]))), args[:1])
    return SequenceValue(
        tuple(SequenceValue((IntValue(Size.const(i)), v)) for i, v in enumerate(items))
    )


def _zip(args: list[Value]) -> Value:
    columns = [_items(arg) for arg in args]
    known = [column for column in columns if column is not None]
    if len(known) != len(columns):
        return _each(SequenceValue(tuple(element(arg) for arg in args)), args)
    return SequenceValue(tuple(SequenceValue(row) for row in zip(*known, strict=False)))


def _each(item: Value, given: list[Value], kind: str = "tuple") -> Value:
    """A sequence of unknown length whose items are all like this one, if anything is known of what it is made of."""
    if all(isinstance(element(value), Unknown) for value in given):
        return Unknown("of unknown length")
    return CollectionValue(item, kind)


def _sequence(kind: str) -> Callable[[list[Value]], Value]:
    def make(args: list[Value]) -> Value:
        items = _items(args[0])
        if items is None:
            return _each(element(args[0]), args[:1], kind)
        return SequenceValue(tuple(items), kind)

    return make


def _reversed(args: list[Value]) -> Value:
    items = _items(args[0])
    if items is None:
        return _each(element(args[0]), args[:1])
    return SequenceValue(tuple(reversed(items)))


def _extremum(args: list[Value], make: Callable[..., Size]) -> Value:
    items = _items(args[0]) if len(args) == 1 else args
    sizes = [item.size if isinstance(item, IntValue) else None for item in items or ()]
    known = [size for size in sizes if size is not None]
    if not sizes or len(known) != len(sizes):
        return (
            IntValue(None)
            if items and all(isinstance(i, IntValue) for i in items)
            else Unknown("min or max")
        )
    return IntValue(make(*known))


def _sum(args: list[Value]) -> Value | None:
    """The sum of numbers; what operators give of arrays is not known here."""
    items = _items(args[0]) if len(args) == 1 else None
    if any(isinstance(item, ArrayValue) for item in items or ()):
        return None
    sizes = [item.size if isinstance(item, IntValue) else None for item in items or ()]
    known = [size for size in sizes if size is not None]
    if items is None or len(known) != len(items):
        return Unknown("a sum")
    total = Size.const(0)
    for size in known:
        total = total + size
    return IntValue(total)


def _int(args: list[Value]) -> Value:
    held = args[0]
    if isinstance(held, Unknown) and held.size is not None and not held.size.is_opaque:
        return IntValue(held.size)
    return held if isinstance(held, IntValue) else IntValue(None)


def _str(args: list[Value]) -> Value:
    key = plain_key(args[0])
    text = str(key) if isinstance(key, (str, int)) else tree_paths.text(args[0])
    return StringValue() if text is None else Literal(text)


def _abs(args: list[Value]) -> Value | None:
    match args:
        case [IntValue(size=Size(constant=int(number)))]:
            return IntValue(Size.const(abs(number)))
        case [Literal(value=float(number))]:
            return Literal(abs(number))
        case [IntValue()]:
            return IntValue(None)
        case [ScalarValue(kind="float")]:
            return args[0]
        case _:
            return None


def _divmod(args: list[Value]) -> Value | None:
    match args:
        case [IntValue(size=Size() as whole), IntValue(size=Size() as part)] if (
            part != 0
        ):
            count = whole // part
            return SequenceValue((IntValue(count), IntValue(whole - count * part)))
        case [IntValue(), IntValue()]:
            return SequenceValue((IntValue(None), IntValue(None)))
        case _:
            return None


def _round(args: list[Value]) -> Value | None:
    match args:
        case [IntValue() as number]:
            return number
        case [Literal(value=float(number))] if math.isfinite(number):
            return IntValue(Size.const(round(number)))
        case [ScalarValue() | Literal(value=float())]:
            return IntValue(None)
        case [ScalarValue() | Literal(value=float()), _]:
            return ScalarValue("float")
        case _:
            return None


_HANDLERS: dict[str, Callable[[list[Value]], Value | None]] = {
    "len": _length,
    "range": _range,
    "enumerate": _enumerate,
    "zip": _zip,
    "iter": _iterator,
    "next": _next,
    "list": _sequence("list"),
    "tuple": _sequence("tuple"),
    "reversed": _reversed,
    "reveal_type": lambda args: args[0],
    "min": lambda args: _extremum(args, Size.minimum),
    "max": lambda args: _extremum(args, Size.maximum),
    "sum": _sum,
    "int": _int,
    "float": lambda args: ScalarValue("float"),
    "bool": lambda args: ScalarValue("bool"),
    "str": _str,
    "abs": _abs,
    "divmod": _divmod,
    "round": _round,
}
