"""What the names of a file mean: those that it imports, and those that something in it binds anew."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from shardtypes.lang.array_names import SHARDTYPES_DTYPES

HOME = "shardtypes"
ANNOTATED_HOME = "shardtypes.annotated"
#: Where the dtypes can be imported from.
_HOMES = (ANNOTATED_HOME, "shardtypes.dtypes", HOME)
ARRAYS = frozenset(("jax.Array", "jax.numpy.ndarray", "jaxtyping.Array"))
ANNOTATED = frozenset(("typing.Annotated", "typing_extensions.Annotated"))
STACKED = frozenset(("shardtypes.Array", "shardtypes.stacked.Array"))

ImportStatement: TypeAlias = ast.Import | ast.ImportFrom
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef)


@dataclass(frozen=True)
class Imported:
    """A name that a statement at the top level imports. ``means`` is dotted; ``block`` are the statements around."""

    name: str
    means: str
    alias: ast.alias
    statement: ImportStatement
    block: Sequence[ast.stmt]


def dtype_of(means: str) -> str | None:
    """``f32`` of ``shardtypes.annotated.f32``; None for what is no dtype."""
    home, _, name = means.rpartition(".")
    if home in _HOMES and name in SHARDTYPES_DTYPES:
        return name
    return None


def imports_of(tree: ast.Module) -> list[Imported]:
    """What a file imports at its top level, below conditions and in ``try`` as well."""
    found: list[Imported] = []
    for block in _blocks(tree.body):
        for statement in block:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                found += _imported(statement, block)
    return found


def _imported(
    statement: ImportStatement, block: Sequence[ast.stmt]
) -> Iterator[Imported]:
    for alias in statement.names:
        name = alias.asname or alias.name
        means = alias.name
        if isinstance(statement, ast.ImportFrom):
            dots = "." * statement.level
            means = f"{dots}{statement.module or ''}.{alias.name}"
        elif alias.asname is None:
            name = alias.name.partition(".")[0]
            means = name
        yield Imported(
            name,
            means,
            alias,
            statement,
            block,
        )


def _blocks(body: Sequence[ast.stmt]) -> Iterator[Sequence[ast.stmt]]:
    """The statements that stand beside each other, outside definitions."""
    yield body
    for statement in body:
        if isinstance(statement, _SCOPES):
            continue
        for _, value in ast.iter_fields(statement):
            if not isinstance(value, list):
                continue
            for one in value:
                if isinstance(one, ast.ExceptHandler):
                    yield from _blocks(one.body)
            if value and isinstance(value[0], ast.stmt):
                yield from _blocks(value)


def bindings(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Every name that something in a tree binds, but for its imports, with what binds it; inner scopes as well."""
    for node in ast.walk(tree):
        yield from _bound_by(node)


def bound_in(scope: ast.AST, imports: bool = True) -> set[str]:
    """The names that a module, function or class binds itself, those that it imports among them or not."""
    found: set[str] = set()
    elsewhere: set[str] = set()
    for node in _own_nodes(scope):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            elsewhere.update(node.names)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            if imports:
                found.update(one.name for one in _imported(node, ()))
        else:
            found.update(name for name, _ in _bound_by(node))
    return found - elsewhere


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """What is in a scope, with the definitions in it and without what is in those."""
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.AnnAssign) and node.value is None:
            continue
        if not isinstance(node, _SCOPES):
            pending += ast.iter_child_nodes(node)


def _bound_by(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name, node
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name, node
        case ast.ClassDef(name=name) | ast.arg(arg=name):
            yield name, node
        case (
            ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
        ):
            yield name, node
        case ast.MatchMapping(rest=str(name)):
            yield name, node
        case _:
            pass


@dataclass(frozen=True)
class Names:
    """What names mean at the top level of a file. ``conflicting`` are those that do not always mean the same,
    ``unnamed`` the dtypes that it imports with a star, or inside functions."""

    imports: Sequence[Imported]
    meanings: Mapping[str, str]
    conflicting: frozenset[str]
    unnamed: frozenset[str]

    @classmethod
    def of(cls, tree: ast.Module) -> Names:
        """Those of a file."""
        imports = imports_of(tree)
        meanings: dict[str, str] = {}
        conflicting: set[str] = set()
        for one in imports:
            known = meanings.setdefault(
                one.name,
                one.means,
            )
            if known != one.means:
                conflicting.add(one.name)
        conflicting |= bound_in(tree, imports=False) & meanings.keys()
        unnamed = _unnamed(tree) - meanings.keys()
        return cls(
            imports,
            meanings,
            frozenset(conflicting),
            frozenset(unnamed),
        )

    def meaning(
        self,
        node: ast.expr,
        hidden: Container[str] = (),
    ) -> str | None:
        """The dotted name of an expression; None where it has none, or begins with a name that is ``hidden``."""
        if isinstance(node, ast.Attribute):
            home = self.meaning(
                node.value,
                hidden,
            )
            return None if home is None else f"{home}.{node.attr}"
        if isinstance(node, ast.Name) and node.id not in hidden:
            return self.meanings.get(node.id)
        return None


def _unnamed(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.module not in _HOMES:
            continue
        for alias in node.names:
            name = alias.asname or alias.name
            found.update(SHARDTYPES_DTYPES if name == "*" else [name])
    return found & SHARDTYPES_DTYPES.keys()
