"""Functions of Python that call functions, or ask about objects: ``map``, ``reduce``, ``isinstance``, ``getattr``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint.engine import builtin, classes, containers, python_types
from shardlint.engine.frames import Frame
from shardlint.engine.joining import join_all
from shardlint.engine.libraries import knows
from shardlint.engine.methods import find_method
from shardlint.engine.narrowing import of_type
from shardlint.engine.plain import constant, iterate, listed, plain_key
from shardlint.engine.sharding import specs
from shardlint.engine.sharding.site import Site
from shardlint.values import (
    ArrayValue,
    CollectionValue,
    DictValue,
    ExternalValue,
    InstanceValue,
    Literal,
    PartialValue,
    SequenceValue,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_NAMED = "collections.namedtuple"


@knows(prefixes=("builtins.",))
def call(site: Site) -> Value | None:
    """Python's own functions: those that call others or ask about objects, and those of plain values."""
    it, frame, at, args = site.it, site.frame, site.at, site.args
    name = site.qualname.removeprefix("builtins.")
    if name == "super":
        return classes.super_of(frame, args)
    plain = builtin.call(name, [listed(a) for a in args], site.kwargs)
    if plain is not None:
        return plain
    match name, len(args):
        case "isinstance", _:
            return _is_instance(args)
        case "type", 1 if not site.kwargs:
            return python_types.of(args[0], it.classes)
        case "hasattr" | "callable", _:
            return Unknown("a question about a type")
        case "getattr", 2 | 3:
            return _attribute(it, frame, args, at)
        case "sorted", 1 if not site.kwargs:
            return _sorted(args[0])
        case "map", _ if len(args) > 1 and not site.kwargs:
            return _mapped(it, frame, args[0], args[1:], at)
        case "sum", 1 | 2 if not site.kwargs:
            return _summed(it, frame, args, at)
        case _:
            return None


def _is_instance(args: list[Value]) -> Value:
    if specs.is_other(args):
        return Literal(False)
    verdict = of_type(args[0], args[1])[0] if len(args) == 2 else None
    if verdict is None:
        return Unknown("a question about a type")
    return Literal(verdict)


@knows(("collections.OrderedDict",))
def ordered(site: Site) -> Value | None:
    """``OrderedDict()`` or ``OrderedDict(pairs)``."""
    if len(site.args) > 1:
        return None
    return containers.as_dict(site.args[0] if site.args else DictValue(()))


@knows(("functools.reduce",))
def reduced(site: Site) -> Value | None:
    """``reduce(f, items, first)``."""
    if len(site.args) not in (2, 3):
        return None
    return _reduced(site.it, site.frame, site.args, site.at)


@knows((_NAMED,))
def named_tuple(site: Site) -> Value | None:
    """``namedtuple(name, fields)``."""
    return _named(site.args[1], site.kwargs) if len(site.args) == 2 else None


@knows((f"{_NAMED}.new",))
def made(site: Site) -> Value:
    """A tuple whose items have names."""
    return _made(site.args, site.kwargs)


@knows(prefixes=("operator.",))
def operation(site: Site) -> Value | None:
    """``operator.add(a, b)`` is ``a + b``."""
    name = site.qualname.removeprefix("operator.")
    if len(site.args) != 2 or site.kwargs:
        return None
    op = next(
        (op for op, one in _OPERATORS.items() if one in (name, name.rstrip("_"))), None
    )
    if op is None:
        return None
    return site.it.binary(site.frame, op, site.args[0], site.args[1], site.at)


def _attribute(
    it: Interpreter, frame: Frame, args: list[Value], at: int
) -> Value | None:

    name = args[1].value if isinstance(args[1], Literal) else None
    if not isinstance(name, str):
        return None
    found = it.attribute(frame, args[0], name, at)
    return (
        found
        if len(args) == 2 or not isinstance(found, Unknown)
        else Unknown("an attribute, or a default")
    )


def _sorted(value: Value) -> Value | None:
    """The keys of a dict, or constants of one kind, in order."""
    items = (
        [constant(key) for key, _ in value.items]
        if isinstance(value, DictValue)
        else iterate(value)
    )
    keys = [plain_key(item) for item in items or ()]
    if (
        items is None
        or len({type(key) for key in keys}) > 1
        or not all(isinstance(key, (str, int)) for key in keys)
    ):
        return None
    return SequenceValue(tuple(constant(key) for key in sorted(keys)), "list")  # type: ignore[type-var]  # of one kind


def _mapped(
    it: Interpreter, frame: Frame, func: Value, columns: list[Value], at: int
) -> Value:

    known = [items for column in columns if (items := iterate(column)) is not None]
    if len(known) == len(columns):
        rows = zip(*known, strict=False)
        return SequenceValue(
            tuple(it.call(frame, func, list(row), {}, at) for row in rows),
            "list",
        )
    items = [
        column.item
        for column in columns
        if isinstance(column, CollectionValue) and column.kind != "dict"
    ]
    if len(items) == len(columns):
        return CollectionValue(it.call(frame, func, items, {}, at))
    return Unknown("a map over something of unknown length")


def _reduced(it: Interpreter, frame: Frame, args: list[Value], at: int) -> Value:

    items = iterate(args[1])
    if isinstance(args[1], CollectionValue) and args[1].kind != "dict":
        # however many there are
        some = [SequenceValue((args[1].item,) * count) for count in (2, 3)]
        return join_all(
            [_reduced(it, frame, [args[0], one, *args[2:]], at) for one in some]
        )
    if items is None or not (items or len(args) == 3):
        return Unknown("reduces something of unknown length")
    result, rest = (args[2], items) if len(args) == 3 else (items[0], items[1:])
    for item in rest:
        result = it.call(frame, args[0], [result, item], {}, at)
    return result


def _summed(it: Interpreter, frame: Frame, args: list[Value], at: int) -> Value | None:
    """The sum of arrays."""

    items = iterate(args[0])
    if not items:
        return None
    total: Value = args[1] if len(args) == 2 else constant(0)
    for item in items:
        total = it.binary(frame, "+", total, item, at)
    return total


def _named(fields: Value, kwargs: dict[str, Value]) -> Value | None:
    """``namedtuple(name, fields)``: calling it makes a tuple whose items have names."""
    if kwargs:
        return None
    if isinstance(fields, Literal) and isinstance(fields.value, str):
        names: list[Value] = [
            Literal(name) for name in fields.value.replace(",", " ").split()
        ]
    else:
        names = iterate(fields) or []
    if not names or not all(
        isinstance(name, Literal) and isinstance(name.value, str) for name in names
    ):
        return None
    return PartialValue(ExternalValue(f"{_NAMED}.new"), (SequenceValue(tuple(names)),))


def _made(args: list[Value], kwargs: dict[str, Value]) -> Value:
    fields = args[0]
    assert isinstance(fields, SequenceValue)
    names = tuple(str(name.value) for name in fields.items if isinstance(name, Literal))
    given = dict(zip(names, args[1:], strict=False)) | kwargs
    if given.keys() != set(names) or len(args) - 1 > len(names):
        return Unknown("arguments do not fit the fields")
    return SequenceValue(tuple(given[name] for name in names), names=names)


_OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "&": "and", "|": "or", "^": "xor",
}  # fmt: skip


def operator(
    it: Interpreter, frame: Frame, op: str, left: Value, right: Value, at: int
) -> Value:
    """An operator of a class of the project: its method, or the reflected one of the other operand."""

    name = _OPERATORS.get(op)
    for prefix, one, other in (("", left, right), ("r", right, left)):
        if (
            name is None
            or not isinstance(one, InstanceValue)
            or (prefix and isinstance(other, InstanceValue))
        ):
            continue
        if prefix and not isinstance(other, ArrayValue):
            continue
        if find_method(one.cls, f"__{prefix}{name}__") is not None:
            method = classes.attribute(it, frame, one, f"__{prefix}{name}__")
            return it.call(frame, method, [other], {}, at)
    return Unknown("an operator of a class")


def method(
    it: Interpreter, frame: Frame, value: Value, name: str, args: list[Value], at: int
) -> Value | None:
    """What a method that Python calls by itself gives of an instance; None where it has none."""

    if not isinstance(value, InstanceValue) or find_method(value.cls, name) is None:
        return None
    return it.call(frame, classes.attribute(it, frame, value, name), args, {}, at)
