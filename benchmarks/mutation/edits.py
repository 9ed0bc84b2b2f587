"""Edits of a node's text, the registry of the operators that make them, and how these read a syntax tree."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import libcst as cst


@dataclass(frozen=True)
class Edit:
    """``source[start:end]`` becomes ``text``."""

    operator: str
    start: int
    end: int
    text: str


class File(Protocol):
    """What operators ask of the file they work on."""

    functions: frozenset[str]
    source: bytes

    def text(self, node: cst.CSTNode) -> str: ...

    def span(self, node: cst.CSTNode) -> tuple[int, int]: ...


@dataclass(frozen=True)
class Scope:
    """A function or class, and the dimension names that its annotations use. ``annotated`` tells the functions (and
    those inside them) and classes that say what shapes they mean from those that say nothing."""

    name: str
    names: tuple[str, ...]
    annotated: bool = True
    is_class: bool = False

    @classmethod
    def of(cls, node: cst.FunctionDef | cst.ClassDef, outer: Scope) -> Scope:
        strings = _AnnotationStrings()
        node.visit(strings)
        words = itertools.chain.from_iterable(s.split() for s in strings.found)
        names = dict.fromkeys(
            w for w in words if re.fullmatch(r"[A-Za-z]\w*(/\w+)*", w)
        )
        name = f"{outer.name}.{node.name.value}" if outer.name else node.name.value
        inside = (
            isinstance(node, cst.FunctionDef)
            and outer.annotated
            and bool(outer.names)
            and not outer.is_class
        )
        return cls(
            name, tuple(names), bool(names) or inside, isinstance(node, cst.ClassDef)
        )


class _AnnotationStrings(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def visit_Annotation(self, node: cst.Annotation) -> bool:
        self.found += [n.raw_value for n in strings(node)]
        return False


def strings(node: cst.CSTNode) -> Iterator[cst.SimpleString]:
    """The strings in a node."""
    if isinstance(node, cst.SimpleString):
        yield node
    for child in node.children:
        yield from strings(child)


Operator = Callable[[cst.CSTNode, File, Scope], Iterator[Edit]]
_OPERATORS: dict[str, list[tuple[type[cst.CSTNode], Operator]]] = {}


def operator(family: str, *kinds: type[cst.CSTNode]) -> Callable[[Operator], Operator]:
    """Register an operator for nodes of these kinds."""

    def add(function: Operator) -> Operator:
        _OPERATORS.setdefault(family, []).extend((kind, function) for kind in kinds)
        return function

    return add


def edits_at(
    node: cst.CSTNode, file: File, scope: Scope, family: str
) -> Iterator[Edit]:
    """Every edit that an operator of the family makes at this node."""
    for kind, function in _OPERATORS.get(family, ()):
        if isinstance(node, kind):
            yield from function(node, file, scope)


def replace(name: str, file: File, node: cst.CSTNode, text: str) -> Edit:
    """The node's text becomes ``text``."""
    return Edit(name, *file.span(node), text)


def swap(name: str, file: File, left: cst.CSTNode, right: cst.CSTNode) -> Edit:
    """Two nodes change places; what stands between them stays."""
    (start, middle), (resume, end) = file.span(left), file.span(right)
    between = file.source[middle:resume].decode()
    return Edit(name, start, end, file.text(right) + between + file.text(left))


def dotted(node: cst.CSTNode) -> str:
    """``jnp.sum`` for the expression of that name, else an empty string."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr.value}" if base else f".{node.attr.value}"
    return ""


def last_name(call: cst.Call) -> str:
    """The last part of what is called: ``sum`` of both ``jnp.sum(x)`` and ``f(x).sum()``."""
    return (
        call.func.attr.value
        if isinstance(call.func, cst.Attribute)
        else dotted(call.func)
    )


def is_method(call: cst.Call) -> bool:
    """A method of a value, not a function of a module."""
    base = dotted(call.func).split(".")[0]
    return isinstance(call.func, cst.Attribute) and base not in _MODULES


_MODULES = frozenset({"jnp", "jax", "lax", "np", "nn", "einops", "eqx", "optax"})


def keyword(call: cst.Call, name: str) -> cst.Arg | None:
    """The argument of that keyword."""
    return next(
        (a for a in call.args if a.keyword is not None and a.keyword.value == name),
        None,
    )


def positional(call: cst.Call) -> list[cst.Arg]:
    """The arguments without keyword or star."""
    return [a for a in call.args if a.keyword is None and not a.star]


def elements(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """What a tuple or list display holds."""
    return (
        [e.value for e in node.elements]
        if isinstance(node, (cst.Tuple, cst.List))
        else []
    )
