"""Python's standard library, and what NumPy adds for sizes: namespaces, iterators, ``asdict``, products of sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.libraries import knows
from shardlint.engine.plain import MAX_ITEMS, iterate
from shardlint.engine.sharding.site import Site
from shardlint.ops.registry import static_int
from shardlint.values import (
    ClassValue,
    DictValue,
    InstanceValue,
    IntValue,
    SequenceValue,
    Unknown,
    Value,
    size_in,
)
from shardtypes.lang import Size

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

#: A class without methods, whose instances have whatever attributes they are given.
NAMESPACE = ClassValue(ir.Class(-1, "Namespace", (), (), (), -1), "types", "Namespace")
_NAMESPACES = frozenset({"types.SimpleNamespace", "argparse.Namespace"})


@knows(_NAMESPACES)
def namespace(site: Site) -> Value | None:
    """``SimpleNamespace(**names)``."""
    if site.args:
        return None
    return InstanceValue(NAMESPACE, tuple(site.kwargs.items()), exact=True)


@knows(("enum.member",))
def enum_member(site: Site) -> Value | None:
    """``enum.member(value)``: the value, which the member's ``.value`` is."""
    return site.args[0] if len(site.args) == 1 else None


@knows(("math.prod", "numpy.prod"))
def product(site: Site) -> Value | None:
    """``prod(sizes)``."""
    if len(site.args) != 1 or site.kwargs:
        return None
    return _product(site.args[0], numpy=site.qualname == "numpy.prod")


@knows(("dataclasses.asdict",))
def as_dict(site: Site) -> Value | None:
    """``asdict(instance)``."""
    if len(site.args) != 1 or site.kwargs:
        return None
    value = site.args[0]
    return _as_dict(site.it, value) if isinstance(value, InstanceValue) else None


@knows(("collections.deque",))
def deque(site: Site) -> Value | None:
    """``deque()`` or ``deque(items)``."""
    if len(site.args) > 1 or site.kwargs:
        return None
    items = iterate(site.args[0]) if site.args else []
    return None if items is None else SequenceValue(tuple(items), "deque")


def _product(value: Value, numpy: bool) -> Value | None:
    items = iterate(value)
    found = [size_in(item) for item in items or ()]
    sizes = [size for size in found if size is not None]
    if items is None or len(sizes) < len(items) or (numpy and not items):
        return None if numpy else Unknown("a product of something unknown")
    total = prod(sizes, start=Size.const(1))
    # NumPy's number is one like others as a size, but not among arrays, where it has a dtype of its own.
    return Unknown("a number of NumPy's", total) if numpy else IntValue(total)


def _as_dict(it: Interpreter, value: Value) -> Value | None:
    """Fields by name, those of inner dataclasses too."""
    match value:
        case InstanceValue(cls=cls, fields=fields) if cls.is_dataclass:
            known, pairs = dict(fields), []
            for name in it.fields(cls):
                inner = _as_dict(it, known[name]) if name in known else None
                if inner is None:
                    return None
                pairs.append((name, inner))
            return DictValue(tuple(pairs))
        case SequenceValue(items=items, kind="tuple" | "list" as kind):
            parts = [_as_dict(it, item) for item in items]
            return (
                None
                if None in parts
                else SequenceValue(
                    tuple(p for p in parts if p is not None), kind, value.names
                )
            )
        case InstanceValue() | DictValue() | SequenceValue():
            return None
        case _:
            return value


def _columns(values: Sequence[Value]) -> list[list[Value]] | None:
    columns = [iterate(value) for value in values]
    known = [column for column in columns if column is not None]
    return known if len(known) == len(columns) else None


def _chain(*values: Value) -> list[Value] | None:
    columns = _columns(values)
    return None if columns is None else [item for column in columns for item in column]


def _chain_of(*values: Value) -> list[Value] | None:
    items = iterate(values[0]) if len(values) == 1 else None
    return None if items is None else _chain(*items)


def _pairwise(*values: Value) -> list[Value] | None:
    items = iterate(values[0]) if len(values) == 1 else None
    return (
        None
        if items is None
        else [SequenceValue(pair) for pair in itertools.pairwise(items)]
    )


def _cartesian(*values: Value) -> list[Value] | None:
    columns = _columns(values)
    if columns is None or prod(map(len, columns)) > MAX_ITEMS:
        return None
    return [SequenceValue(row) for row in itertools.product(*columns)]


def _repeated(*values: Value) -> list[Value] | None:
    times = static_int(values[1]) if len(values) == 2 else None
    return None if times is None or not 0 <= times <= MAX_ITEMS else [values[0]] * times


_ITERATORS: dict[str, Callable[..., Sequence[Value] | None]] = {
    "itertools.chain": _chain,
    "itertools.chain.from_iterable": _chain_of,
    "itertools.pairwise": _pairwise,
    "itertools.product": _cartesian,
    "itertools.repeat": _repeated,
}


@knows(_ITERATORS)
def iterator(site: Site) -> Value | None:
    """A function of ``itertools``."""
    found = None if site.kwargs else _ITERATORS[site.qualname](*site.args)
    if found is None or len(found) > MAX_ITEMS:
        return None
    return SequenceValue(tuple(found), "iterator")
