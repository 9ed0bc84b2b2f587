"""Every rule about sharding and logical names has cases in several spellings: a mistake is seldom written plainly."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from shardlint.rules import all_rules
from tests.engine.test_cases import CASES, expected

PROGRAMS = {
    "ST316",
    "ST318",
    "ST319",
}  # about whole programs, whose cases are in tests/evaluation
CODES = sorted(
    rule.code
    for rule in all_rules()
    if rule.code not in PROGRAMS
    and rule.default
    and (
        rule.code in ("ST102", "ST103", "ST104") or rule.code.startswith(("ST3", "ST4"))
    )
)
_LOOPS = frozenset({"scan", "fori_loop", "while_loop"})
WANTED = 4


@cache
def table() -> dict[str, dict[str, str]]:
    """By code, the spellings of its cases, each with a place where it stands."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for path in sorted(CASES.rglob("*.py")):
        lines = expected(path)
        if not lines:
            continue
        tree = ast.parse(path.read_text())
        functions = {
            node.name for node in tree.body if isinstance(node, ast.FunctionDef)
        }
        imported = set(_imported(tree))
        for line, code in lines:
            for spelling in _spellings(tree, line, functions, imported):
                found[code].setdefault(spelling, f"{path.relative_to(CASES)}:{line}")
    return found


def _spellings(
    tree: ast.Module, line: int, functions: set[str], imported: set[str]
) -> Iterator[str]:
    scopes = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda)
    )
    around = [node for node in scopes if _first(node) <= line <= (node.end_lineno or 0)]
    inside = [node for node in around if isinstance(node, ast.FunctionDef | ast.Lambda)]
    if any(isinstance(node, ast.ClassDef) for node in around) and inside:
        yield "method"
    if len(inside) > 1:
        yield "nested function"
    outer = (
        inside[0]
        if inside
        else next(
            (n for n in tree.body if _first(n) <= line <= (n.end_lineno or 0)), None
        )
    )
    if outer is None:
        return
    names = {node.id for node in ast.walk(outer) if isinstance(node, ast.Name)}
    own = outer.name if isinstance(outer, ast.FunctionDef) else ""
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    if (functions - {own}) & names or own in called:
        yield "helper"
    if imported & names:
        yield "across files"
    if any(name.isupper() for name in names):
        yield "constant"
    attributes = [node for node in ast.walk(outer) if isinstance(node, ast.Attribute)]
    if any(
        isinstance(node.value, ast.Name) and node.value.id in _parameters(inside)
        for node in attributes
    ):
        yield "field"
    if any(node.attr in _LOOPS for node in attributes):
        yield "carry"
    if not isinstance(outer, ast.FunctionDef) or outer.decorator_list:
        yield "module level"


def _first(node: ast.AST) -> int:
    decorators = getattr(node, "decorator_list", [])
    return int(min([node.lineno, *(d.lineno for d in decorators)]))  # type: ignore[attr-defined]  # statements have one


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level:
            yield from (alias.asname or alias.name for alias in node.names)


def _parameters(inside: list[ast.FunctionDef | ast.Lambda]) -> set[str]:
    return {
        arg.arg for node in inside for arg in (*node.args.args, *node.args.kwonlyargs)
    }


@pytest.mark.once
@pytest.mark.parametrize("code", CODES)
def test_a_rule_has_cases_in_several_spellings(code: str) -> None:
    spellings = table()[code]
    assert len(spellings) >= WANTED, f"{code}: {spellings}"


@pytest.mark.once
def test_spellings_are_told_apart(tmp_path: Path) -> None:
    program = (
        "from .specs import SPEC\n\nclass A:\n    def method(self, x):\n        return place(x, self.spec, SPEC)\n\n"
        "def place(x, spec, other):\n    def body(c, _):\n        return other(c), None\n    return lax.scan(body, x)\n"
    )
    tree = ast.parse(program)
    functions, imported = {"place"}, set(_imported(tree))
    assert set(_spellings(tree, 5, functions, imported)) == {
        "method",
        "helper",
        "across files",
        "constant",
        "field",
    }
    assert set(_spellings(tree, 9, functions, imported)) == {
        "nested function",
        "helper",
        "carry",
    }
