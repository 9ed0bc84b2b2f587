"""How dense the sources are, measured, and held so that they only get lighter.

A line of code is one that is not blank, a comment or a docstring. What stands on it is counted in nodes of the syntax
tree: expressions and statements; a branch is an ``if``, a loop, a conditional expression, each further operand of
``and`` and ``or``, a condition of a comprehension, an exception or a case that is handled.

Where a package is above a goal, its limit is what it has now. Who makes it lighter lowers the limit here; a limit that
is well above what is measured fails, too.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from shardlint.engine import analyze
from shardlint.lower import lower
from shardlint.project import Project
from tests.support import ROOT
from tests.test_imports import imports

pytestmark = pytest.mark.once

#: The goals, for every package: expressions and statements a line, branches a line, paths through a function.
DENSITY, BRANCHING, COMPLEXITY = 5.3, 0.3, 25
#: Above the goal: packages by how many expressions and statements there are a line,
DENSITIES: dict[str, float] = {
    "shardlint/ops/sharding": 5.45,
    "shardtypes/lang": 5.46,
    "shardtypes/laws": 5.36,
    "shardtypes/proving/exact": 6.34,
}
#: by how many branches a line,
BRANCHINGS: dict[str, float] = {
    "shardlint/engine/sharding": 0.317,
    "shardlint/ops/sharding": 0.332,
}
#: and functions by their complexity.
COMPLEXITIES: dict[str, float] = {
    "shardlint/engine/__init__.py:_body": 32,
    "shardlint/engine/inline.py:in_place": 29,
}
#: Files whose functions run when a plain einsum is checked: 25 is the goal.
ENTERED, FEW = 63, 25
_SLACK = 0.15  # of a limit over what is measured
_PACKAGES = ("shardtypes", "shardlint", "pytest_shardtypes")
_NO_CODE = frozenset(
    (
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    )
)
_BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.match_case,
)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True)
class Measure:
    """Of some source text."""

    lines: int
    nodes: int
    branches: int

    def __add__(self, other: Measure) -> Measure:
        return Measure(
            self.lines + other.lines,
            self.nodes + other.nodes,
            self.branches + other.branches,
        )

    @property
    def density(self) -> float:
        return self.nodes / max(self.lines, 1)

    @property
    def branching(self) -> float:
        return self.branches / max(self.lines, 1)


def measured(source: str) -> Measure:
    tree = ast.parse(source)
    everything = list(ast.walk(tree))
    nodes = sum(isinstance(node, (ast.expr, ast.stmt)) for node in everything)
    return Measure(len(_lines(source, tree)), nodes, sum(map(_branches, everything)))


def _lines(source: str, tree: ast.Module) -> set[int]:
    """The numbers of the lines of code."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            found.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return found


def _branches(node: ast.AST) -> int:
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return len(node.ifs)
    return int(isinstance(node, _BRANCHES))


def complexities(source: str) -> Iterator[tuple[str, int]]:
    """Each function with the number of its branches and comprehensions, and one; functions inside it count alone."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = list(_inside(node))
            loops = sum(isinstance(one, ast.comprehension) for one in inside)
            yield node.name, 1 + loops + sum(map(_branches, inside))


def _inside(function: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, _SCOPES):
            yield child
            yield from _inside(child)


@cache
def sources() -> dict[str, str]:
    """All source files by path."""
    paths = [
        path for package in _PACKAGES for path in sorted((ROOT / package).rglob("*.py"))
    ]
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in paths
    }


@cache
def by_folder() -> dict[str, Measure]:
    found: dict[str, Measure] = {}
    for name, source in sources().items():
        folder = Path(name).parent.as_posix()
        found[folder] = found.get(folder, Measure(0, 0, 0)) + measured(source)
    return found


def imported() -> dict[str, set[str]]:
    """The modules of ours that each module of ours imports, anywhere in it."""
    known = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name
        for name in sources()
    }
    graph: dict[str, set[str]] = {}
    for module, path in known.items():
        source = (ROOT / path).read_text(encoding="utf-8")
        found = {
            name for name, _ in imports(source, module, path.endswith("__init__.py"))
        }
        mine = {name if name in known else name.rpartition(".")[0] for name in found}
        graph[module] = {name for name in mine if name in known and name != module}
    return graph


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of several modules of which each reaches each (Kosaraju's algorithm)."""
    order: list[str] = []
    seen: set[str] = set()
    for start in graph:
        _walked(graph, start, seen, order)
    reverse: dict[str, set[str]] = {name: set() for name in graph}
    for name, targets in graph.items():
        for target in targets:
            reverse[target].add(name)
    seen = set()
    found: list[set[str]] = []
    for start in reversed(order):
        component: list[str] = []
        _walked(reverse, start, seen, component)
        if len(component) > 1:
            found.append(set(component))
    return found


def _walked(
    graph: dict[str, set[str]], start: str, seen: set[str], order: list[str]
) -> None:
    """Add what is reached from the start and was not seen, each after what it reaches."""
    waiting = [(start, False)]
    while waiting:
        name, is_done = waiting.pop()
        if is_done:
            order.append(name)
        elif name not in seen:
            seen.add(name)
            waiting.append((name, True))
            waiting.extend((target, False) for target in graph[name])


EINSUM = """
import jax.numpy as jnp
from shardtypes import f32

def project(x: f32['B M'], w: f32['M F']) -> f32['B F']:
    return jnp.einsum('bm,mf->bf', x, w)
"""


def entered() -> set[str]:
    """The files of ours of which a function runs while the engine checks a plain einsum."""
    module = lower(EINSUM.encode(), "example", "example.py").module
    project = Project({"example": module})
    analyze(project, module)  # what is imported when it is first needed is imported now
    files: set[str] = set()
    sys.setprofile(
        lambda frame, event, argument: (
            files.add(frame.f_code.co_filename) if event == "call" else None
        )
    )
    try:
        assert analyze(project, module) == []
    finally:
        sys.setprofile(None)
    return {
        name
        for name in files
        if name.startswith(tuple(str(ROOT / package) for package in _PACKAGES))
    }


def off(measures: dict[str, float], limits: dict[str, float], goal: float) -> list[str]:
    """What is above its limit, and which limits are no longer needed or too high."""
    wrong = [f"{name} has {value:.3f}, at most {limits.get(name, goal)}" for name, value in measures.items()
             if value > limits.get(name, goal)]  # fmt: skip
    for name, limit in limits.items():
        value = measures.get(name, 0.0)
        if value <= goal:
            wrong.append(f"{name} reaches the goal of {goal}: remove its limit")
        elif limit > value * (1 + _SLACK):
            wrong.append(f"{name} has {value:.3f}: lower its limit of {limit}")
    return wrong


def test_packages_get_no_denser() -> None:
    assert (
        off(
            {name: one.density for name, one in by_folder().items()}, DENSITIES, DENSITY
        )
        == []
    )


def test_packages_branch_no_more() -> None:
    assert (
        off(
            {name: one.branching for name, one in by_folder().items()},
            BRANCHINGS,
            BRANCHING,
        )
        == []
    )


def test_no_function_gets_more_complex() -> None:
    found = {
        f"{path}:{name}": float(value)
        for path, source in sources().items()
        for name, value in complexities(source)
    }
    assert off(found, COMPLEXITIES, COMPLEXITY) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for types and inside functions included."""
    assert circles(imported()) == []


def test_a_plain_einsum_enters_few_files() -> None:
    assert off({"einsum": float(len(entered()))}, {"einsum": ENTERED}, FEW) == []


def test_a_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"e"}}
    assert circles(graph) == [{"a", "b", "c"}]


def test_what_is_measured() -> None:
    text = '''
"""A docstring."""

x = 1  # a comment
y = [
    z for z in (x, 2) if z and x
]


def f(a):
    """Another."""
    if a:
        return (1 if a > 1 else
                2)
    return lambda: a or x
'''
    one = measured(text)
    assert one.lines == 9
    assert one.branches == 1 + 1 + 1 + 1 + 1
    assert list(complexities(text)) == [("f", 3)]


def test_a_limit_fails_on_both_sides() -> None:
    assert off({"a": 6.0}, {}, 5.3) == ["a has 6.000, at most 5.3"]
    assert off({"a": 6.0}, {"a": 6.1}, 5.3) == []
    assert off({"a": 6.0}, {"a": 7.5}, 5.3) == ["a has 6.000: lower its limit of 7.5"]
    assert off({"a": 5.0}, {"a": 6.1}, 5.3) == [
        "a reaches the goal of 5.3: remove its limit"
    ]
