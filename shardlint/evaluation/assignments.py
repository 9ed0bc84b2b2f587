"""Where what a call is given is assigned, by reading the program's text."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.evaluation.recording import Place, Where


def assigned(text: str, call: Where, position: int, name: str) -> Where | None:
    """Where an argument of a call is assigned, if it is a variable that is assigned once in the functions around the
    call."""
    tree = ast.parse(text)
    node = _call_at(tree, call.place)
    if node is None:
        return None
    argument = _argument(node, position, name)
    if not isinstance(argument, ast.Name):
        return None
    found = [
        one for one in _assignments(tree, call.place) if _assigns(one, argument.id)
    ]
    if len(found) != 1:
        return None
    return Where(call.path, _place(found[0]))


def _call_at(tree: ast.Module, place: Place) -> ast.Call | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _place(node) == place:
            return node
    return None


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    if position < len(call.args):
        return call.args[position]
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return None


def _assignments(tree: ast.Module, place: Place) -> Iterator[ast.Assign]:
    """The assignments in the functions that an expression stands in, but not in other functions in them."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Assign):
            yield node
        for child in ast.iter_child_nodes(node):
            is_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            if not is_function or _has(child, place):
                waiting.append(child)


def _assigns(statement: ast.Assign, name: str) -> bool:
    for target in statement.targets:
        for one in ast.walk(target):
            if isinstance(one, ast.Name) and one.id == name:
                return True
    return False


def _has(node: ast.AST, place: Place) -> bool:
    around = _place(node)
    return around[:2] <= place[:2] and place[2:] <= around[2:]


def _place(node: ast.AST) -> Place:
    assert isinstance(node, (ast.expr, ast.stmt))
    return (
        node.lineno,
        node.col_offset,
        node.end_lineno or node.lineno,
        node.end_col_offset or node.col_offset,
    )
