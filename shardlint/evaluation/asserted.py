"""Where an assertion of a program fails by which numbers are to be the same as others.

What is to be smaller, or to have become better, may turn out otherwise by rounding: that says nothing of the mesh.
"""

from __future__ import annotations

import ast
import traceback
from pathlib import Path

import numpy as np

from shardlint.evaluation.modules import World
from shardlint.evaluation.recording import Where
from shardlint.evaluation.refusals import raised_at

_NUMPY_TESTING = Path(np.testing.__file__).parent
_OF_ORDER = "assert_array_less"
#: Functions that tell whether numbers are the same, or how far apart they are, by the last part of their names.
_COMPARING = frozenset(
    """allclose isclose array_equal array_equiv approx abs absolute fabs norm tree_all""".split()
)
_OF_SHAPES = frozenset(
    """shape ndim size dtype len sharding spec devices device_count local_device_count""".split()
)


def failed_comparison(error: Exception, world: World) -> Where | None:
    """Where such an assertion fails; None for other errors."""
    if not isinstance(error, AssertionError):
        return None
    where = raised_at(error, world.paths)
    if where is None:
        return None
    frames = traceback.extract_tb(error.__traceback__)
    of_numpy = {
        one.name for one in frames if _NUMPY_TESTING in Path(one.filename).parents
    }
    if of_numpy:
        return None if _OF_ORDER in of_numpy else where
    return where if _compares(world, where) else None


def _compares(world: World, where: Where) -> bool:
    """Whether the statement there is an ``assert`` of numbers that are the same."""
    for module in list(world.modules.values()):
        found = world.find(module.name, module.name)
        if module.path == where.path and found is not None:
            _, _, text = found
            return any(map(_is_comparison, _assertions(text, where.place[0])))
    return False


def _assertions(text: str, line: int) -> list[ast.Assert]:
    return [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assert)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]


def _is_comparison(statement: ast.Assert) -> bool:
    """Whether it asserts that numbers are the same: not that they differ, and not how many there are."""
    parts = list(ast.walk(statement.test))
    names = {_name(node) for node in parts}
    if names & _OF_SHAPES or any(isinstance(node, ast.Not) for node in parts):
        return False
    equal = any(isinstance(node, ast.Eq) for node in parts)
    return equal or not names.isdisjoint(_COMPARING)


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
