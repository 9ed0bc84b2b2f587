"""Every node of a lowered file, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from operator import attrgetter

from shardlint import ir


def walk(node: object) -> Iterator[ir.Node]:
    """Every node below, in order."""
    stack: list[object] = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, tuple):
            stack.extend(current[::-1])
        elif isinstance(current, ir.Node):
            yield current
            kind = type(current)
            parts = _PARTS.get(kind) or _PARTS.setdefault(kind, _parts(kind))
            stack.extend(parts(current))


_PARTS: dict[type[ir.Node], Callable[[ir.Node], tuple[object, ...]]] = {}
_PLAIN = frozenset({"int", "str", "str | None", "bool", "object"})


def _parts(kind: type[ir.Node]) -> Callable[[ir.Node], tuple[object, ...]]:
    """What reads the fields of a node that may hold nodes, last first."""
    names = [f.name for f in reversed(fields(kind)) if f.type not in _PLAIN]
    if len(names) > 1:
        return attrgetter(*names)
    return (lambda node: (getattr(node, names[0]),)) if names else (lambda _: ())
