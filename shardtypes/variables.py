"""Which annotated variables there are in a source, and to which function or module each belongs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPED = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
# What has variables: what is around a function is given from the outermost, which is its module, to the innermost.
Scope = Function | ast.ClassDef | ast.Module


def own_nodes(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """All nodes below some statements, without those inside functions and classes defined there."""
    for node in body:
        yield node
        if not isinstance(node, SCOPED):
            yield from own_nodes([*ast.iter_child_nodes(node)])


def annotations_of(body: Sequence[ast.stmt]) -> dict[str, list[ast.expr]]:
    """The different annotations of each variable (``h``, ``self.q``, ``parts[0]``), in the order of the source."""
    found: dict[str, list[ast.expr]] = {}
    for node in own_nodes(body):
        if isinstance(node, ast.AnnAssign):
            several = found.setdefault(ast.unparse(node.target), [])
            if all(ast.dump(node.annotation) != ast.dump(other) for other in several):
                several.append(node.annotation)
    return found


def parameter_names(function: Function) -> set[str]:
    """The names of all parameters."""
    arguments = function.args
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    return {argument.arg for argument in every if argument is not None}


@dataclass(frozen=True)
class Outer:
    """A variable from around a function that assigns to it: ``nonlocal`` of a function, ``global`` of the module."""

    owner: Function | ast.Module
    depth: int  # how many scopes are around its owner
    # the names that stand for something else there than where the variable belongs
    hidden: frozenset[str]


def outer_variables(scope: Scope, around: Sequence[Scope]) -> dict[str, Outer]:
    """The variables from around it that a function or class declares to assign to."""
    found: dict[str, Outer] = {}
    for node in own_nodes(scope.body):
        if isinstance(node, (ast.Nonlocal, ast.Global)):
            for name in node.names:
                depth = _owner(name, around) if isinstance(node, ast.Nonlocal) else 0
                owner = around[depth] if depth is not None and around else None
                if depth is not None and isinstance(owner, (*FUNCTIONS, ast.Module)):
                    between = (*around[depth + 1 :], scope)
                    found[name] = Outer(
                        owner, depth, frozenset().union(*map(bound_names, between))
                    )
    return found


def _owner(name: str, around: Sequence[Scope]) -> int | None:
    """The innermost function that has a variable of this name; those of classes are not seen inside of them."""
    for depth in reversed(range(len(around))):
        if isinstance(around[depth], FUNCTIONS) and name in bound_names(around[depth]):
            return depth
    return None


def bound_names(scope: Scope) -> set[str]:
    """The variables of a function or class itself: what it assigns, defines or imports, and its parameters."""
    found: set[str] = set()
    elsewhere: set[str] = set()
    for node in _outside_targets(scope.body):
        if isinstance(node, (ast.Nonlocal, ast.Global)):
            elsewhere.update(node.names)
        elif isinstance(node, ast.Name):
            found |= {node.id} if not isinstance(node.ctx, ast.Load) else set()
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
        else:  # a function, class, exception or pattern
            found |= {
                getattr(node, "name", None) or "",
                getattr(node, "rest", None) or "",
            }
    if isinstance(scope, FUNCTIONS):
        found |= parameter_names(scope)
    return found - elsewhere


def _outside_targets(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """As ``own_nodes``, without what comprehensions bind, which is theirs."""
    for node in nodes:
        yield node
        if isinstance(node, ast.comprehension):
            yield from _outside_targets([node.iter, *node.ifs])
        elif not isinstance(node, SCOPED):
            yield from _outside_targets([*ast.iter_child_nodes(node)])


def inner_scopes(
    scope: Scope, around: Sequence[Scope]
) -> Iterator[tuple[Function | ast.ClassDef, tuple[Scope, ...]]]:
    """All functions and classes inside of one, at any depth, each with what is around it."""
    inside = (*around, scope)
    for node in own_nodes(scope.body):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield node, inside
            yield from inner_scopes(node, inside)


def variables_assigned_inside(function: Function, around: Sequence[Scope]) -> set[str]:
    """The variables of a function that functions inside of it assign to."""
    return {
        name
        for scope, outside in inner_scopes(function, around)
        for name, outer in outer_variables(scope, outside).items()
        if outer.owner is function
    }
