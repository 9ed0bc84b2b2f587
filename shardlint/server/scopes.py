"""The scopes of a project that bind the names of dimensions, as the linter reads its annotations.

A function has a scope, and so has a class, whose methods see the names of its fields. Strings are in the scopes that
they bind names in: those of an alias in each that uses it, those of the fields of a ``pytree_dataclass`` in each that
takes or returns one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from shardlint import ir
from shardlint.engine.annotations import Definition, array_form, resolve
from shardlint.engine.classes import decorator_names
from shardlint.engine.evaluator import Evaluator
from shardlint.engine.scopes import shares_scope
from shardlint.engine.types import ArrayType, has_own_scope
from shardlint.project import Project, is_library
from shardlint.server.named import At
from shardlint.server.words import is_stack, words_in
from shardlint.values import ClassValue, ExternalValue
from shardlint.walking import below
from shardtypes.lang import Shape

#: How deep aliases are followed.
_DEPTH = 12

Key: TypeAlias = tuple[str, int]
"""A string: its module, and the number of its node."""
Strings: TypeAlias = dict[Key, frozenset[str]]
"""Strings, each with the names of its dimensions."""


@dataclass(slots=True, eq=False)
class Scope:
    """A function, a class, or the module ``around``; ``at`` is its node. ``words`` are those written in it."""

    module: str
    around: Scope | None
    at: int = -1
    strings: Strings = field(default_factory=dict)
    inside: list[Scope] = field(default_factory=list)
    words: list[At] = field(default_factory=list)

    def strings_with(self, name: str) -> Iterator[Key]:
        """Its strings that have a name."""
        for key, names in self.strings.items():
            if name in names:
                yield key

    def words_with(self, name: str) -> Iterator[At]:
        """The dimensions of a name that are written in it."""
        for one in self.words:
            if one.word.is_dimension(name):
                yield one

    def has(self, name: str) -> bool:
        """Whether a dimension is called so in it."""
        if any(self.words_with(name)):
            return True
        return any(self.strings_with(name))

    def within_sight(self) -> Iterator[Scope]:
        """The scopes whose names it sees, and those that see its names."""
        around = self.around
        while around is not None:
            yield around
            around = around.around
        yield from self._below()

    def _below(self) -> Iterator[Scope]:
        for scope in self.inside:
            yield scope
            yield from scope._below()


class Scopes:
    """Those of a project, by module; what is around comes before what is inside."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._it = Evaluator(project)
        self._fields: dict[ClassValue, Strings] = {}
        self.by_module: dict[str, list[Scope]] = {}
        for module in project.modules:
            if not is_library(module):
                self._read(module)

    def __iter__(self) -> Iterator[Scope]:
        for scopes in self.by_module.values():
            yield from scopes

    def number(self, module: str, name: str) -> Key | None:
        """Where a module makes a name a number, which the linter takes for the size of that name."""
        found = self._it.static_name(module, name)
        if not isinstance(found, Definition):
            return None
        expr = found.expr
        if isinstance(expr, ir.Const) and isinstance(expr.value, int):
            return found.module, expr.at
        return None

    def _read(self, module: str) -> None:
        body = self._project.modules[module].body
        outermost = Scope(module, None)
        self.by_module[module] = [outermost]
        self._variables(outermost, body)
        self._definitions(outermost, body)

    def _definitions(
        self, around: Scope, body: tuple[ir.Stmt, ...], is_class: bool = False
    ) -> None:
        for node in ir.statements(body):
            if isinstance(node, ir.Function):
                self._function(around, node, is_class)
            elif isinstance(node, ir.Class):
                self._class(around, node)

    def _made(self, around: Scope, at: int) -> Scope:
        scope = Scope(around.module, around, at)
        around.inside.append(scope)
        self.by_module[around.module].append(scope)
        return scope

    def _function(self, around: Scope, node: ir.Function, is_method: bool) -> None:
        is_static = is_method and "staticmethod" in decorator_names(node)
        if is_static and around.around is not None:
            # it sees no names of its class
            around = around.around
        scope = self._made(around, node.at)
        reading = _Annotations(self._it, self._fields, _assigned_attributes(node))
        for param in node.params:
            reading.read(scope.strings, param.annotation, scope.module)
        reading.read(scope.strings, node.returns, scope.module)
        self._variables(scope, node.body)
        self._definitions(scope, node.body)

    def _class(self, around: Scope, node: ir.Class) -> None:
        scope = self._made(around, node.at)
        self._variables(scope, node.body)
        cls = self._it.static_name(scope.module, node.name)
        if isinstance(cls, ClassValue) and cls.node is node:
            reading = _Annotations(self._it, self._fields)
            for field_, module in self._it.fields(cls).values():
                reading.read(scope.strings, field_.annotation, module)
        self._definitions(scope, node.body, is_class=True)

    def _variables(self, scope: Scope, body: tuple[ir.Stmt, ...]) -> None:
        """What annotates variables."""
        reading = _Annotations(self._it, self._fields)
        for node in ir.statements(body):
            if isinstance(node, ir.AnnAssign):
                reading.read(scope.strings, node.annotation, scope.module)


class _Annotations:
    """Finds the strings that annotations bind names by. ``fields`` has those of classes that were read before; a
    function that assigns to one of the ``attributes`` of an instance shares names with its class, whatever it is."""

    def __init__(
        self,
        it: Evaluator,
        fields: dict[ClassValue, Strings],
        attributes: frozenset[str] = frozenset(),
    ) -> None:
        self._it = it
        self._fields = fields
        self._attributes = attributes

    def read(
        self, found: Strings, expr: ir.Node | None, module: str, depth: int = 0
    ) -> None:
        """Put the strings of an annotation with the others."""
        if depth > _DEPTH:
            return
        match expr:
            case None:
                return
            case ir.Const(value=str(text)):
                named = _dotted(text)
                if named is not None:
                    self.read(found, named, module, depth + 1)
            case ir.Name() | ir.Attr():
                self._named(found, expr, module, depth)
            case ir.Subscript():
                self._subscript(found, expr, module, depth)
            case _:
                for child in below(expr):
                    self.read(found, child, module, depth + 1)

    def _named(
        self, found: Strings, expr: ir.Name | ir.Attr, module: str, depth: int
    ) -> None:
        meant = self._it.resolve_static(expr, module)
        if isinstance(meant, Definition):
            self.read(found, meant.expr, meant.module, depth + 1)
        elif isinstance(meant, ClassValue):
            if shares_scope(meant) or self._changes(meant):
                found.update(self._of_class(meant))

    def _changes(self, cls: ClassValue) -> bool:
        if not self._attributes:
            return False
        return not self._attributes.isdisjoint(self._it.fields(cls))

    def _of_class(self, cls: ClassValue) -> Strings:
        """Those of the fields that a scope which is given an instance shares."""
        known = self._fields.get(cls)
        if known is not None:
            return known
        strings: Strings = {}
        self._fields[cls] = strings  # a class may mention itself
        reading = _Annotations(self._it, self._fields)
        fields = self._it.fields(cls)
        for node, module in fields.values():
            annotation = node.annotation
            type_ = resolve(self._it, annotation, module)
            if not has_own_scope(type_):
                reading.read(strings, annotation, module)
        return strings

    def _subscript(
        self, found: Strings, expr: ir.Subscript, module: str, depth: int
    ) -> None:
        meant = self._it.resolve_static(expr.obj, module)
        qualname = meant.qualname if isinstance(meant, ExternalValue) else ""
        items: tuple[ir.Expr, ...] = (expr.index,)
        if isinstance(expr.index, ir.Sequence):
            items = expr.index.items
        if array_form(qualname) is not None:
            type_ = resolve(self._it, expr, module)
            if isinstance(type_, ArrayType) and type_.shape is not None:
                key = type_.module, type_.at
                found[key] = _names(type_.shape)
            return
        if is_stack(qualname) and items:
            front, *items_behind = items
            items = tuple(items_behind)
            if isinstance(front, ir.Const) and isinstance(front.value, str):
                names = [name for _, name, _ in words_in(front.value)]
                key = module, front.at
                found[key] = frozenset(names)
        self.read(found, expr.obj, module, depth + 1)
        for item in items:
            self.read(found, item, module, depth + 1)


def _dotted(text: str) -> ir.Expr | None:
    """A quoted annotation that is a dotted name."""
    head, *rest = text.strip().split(".")
    if not all(part.isidentifier() for part in (head, *rest)):
        return None
    expr: ir.Expr = ir.Name(-1, head)
    for part in rest:
        expr = ir.Attr(-1, expr, part)
    return expr


def _names(shape: Shape) -> frozenset[str]:
    variadic = (dim.name for dim in shape.dims if dim.kind == "variadic")
    return shape.names.union(name for name in variadic if name)


def _assigned_attributes(node: ir.Function) -> frozenset[str]:
    found: set[str] = set()
    for statement in ir.statements(node.body):
        match statement:
            case ir.Assign(targets=targets):
                found.update(_attributes(targets))
            case ir.AugAssign(target=target) | ir.AnnAssign(target=target):
                found.update(_attributes((target,)))
            case _:
                pass
    return frozenset(found)


def _attributes(targets: tuple[ir.Expr, ...]) -> Iterator[str]:
    for target in targets:
        if isinstance(target, ir.Attr):
            yield target.name
        elif isinstance(target, ir.Sequence):
            yield from _attributes(target.items)
