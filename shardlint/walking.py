"""Every node of a lowered file, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from shardlint import ir

_NodeT = TypeVar("_NodeT", bound=ir.Node)


def walk(
    node: object, kinds: frozenset[type[ir.Node]] | None = None
) -> Iterator[ir.Node]:
    """Every node below, in order; only those of some kinds, where they are given."""
    stack: list[Any] = [node]
    while stack:
        current = stack.pop()
        kind = type(current)
        if kind is tuple:
            stack += current[::-1]
        elif issubclass(kind, ir.Node):
            if kinds is None or kind in kinds:
                yield current
            one, several = _PARTS.get(kind) or _PARTS.setdefault(kind, _parts(kind))
            if one is not None:
                stack.append(one(current))
            elif several is not None:
                stack += several(current)


def nodes_of(node: object, kind: type[_NodeT]) -> Iterator[_NodeT]:
    """Every node of one kind below, in order."""
    found: Iterator[Any] = walk(node, frozenset((kind,)))
    return found


def functions(
    body: tuple[ir.Stmt, ...], around: str = "", nested: bool = False
) -> Iterator[tuple[str, ir.Function]]:
    """Functions and methods with their names, which begin with those of the classes around them; ``nested`` ones as
    well, with the names of the functions around them."""
    for node in ir.statements(body):
        if isinstance(node, ir.Function):
            yield f"{around}{node.name}", node
        if isinstance(node, ir.Class) or (nested and isinstance(node, ir.Function)):
            yield from functions(node.body, f"{around}{node.name}.", nested)


def below(node: object) -> Iterator[ir.Node]:
    """The nodes directly below one, or those of a body, in order."""
    if isinstance(node, tuple):
        for item in node:
            if isinstance(item, ir.Node):
                yield item
            else:
                yield from below(item)
    elif isinstance(node, ir.Node):
        one, several = _PARTS.get(type(node)) or _PARTS.setdefault(
            type(node), _parts(type(node))
        )
        if one is not None:
            yield from below((one(node),))
        elif several is not None:
            yield from below(several(node)[::-1])


_Reader: TypeAlias = Callable[[ir.Node], Any]
_PARTS: dict[type[ir.Node], tuple[_Reader | None, _Reader | None]] = {}
_PLAIN = frozenset({"int", "str", "str | None", "bool", "object"})


def _parts(kind: type[ir.Node]) -> tuple[_Reader | None, _Reader | None]:
    """What reads the one field of a node that may hold nodes, or what reads several of them, last first."""
    names = [f.name for f in reversed(fields(kind)) if f.type not in _PLAIN]
    read = attrgetter(*names) if names else None
    return (None, read) if len(names) > 1 else (read, None)
