"""What the linter finds after an error is wrong, whichever operand has the error: JAX refuses it with fitting ones."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

CASES = (
    Path(__file__).parents[2]
    / "fixtures"
    / "lint"
    / "after_errors"
    / "wrong"
    / "results.py"
)
#: Distinct, and ``e`` not below ``d``: a fitting operand is a part of what is there.
SIZES = {"b": 2, "t": 3, "d": 5, "f": 7, "e": 11, "a": 13}
FITS = re.compile(r"( *)# fits: (.*)\n *(\w+) = .*  # expect: .*\n")
REFUSALS = (TypeError, ValueError, IndexError)


def functions(text: str) -> dict[str, ast.FunctionDef]:
    """The functions of a case's text with a line ``# fits:``."""
    nodes = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return {
        node.name: node
        for node in nodes
        if FITS.search(ast.get_source_segment(text, node) or "")
    }


def repaired(text: str) -> str:
    """The text with what fits in place of each error above which it stands."""
    return FITS.sub(r"\1\3 = \2\n", text)


def refused_line(text: str, node: ast.FunctionDef) -> str:
    """The line of the case at which JAX refuses a function, or the run time its result; "" where neither does."""
    scope: dict[str, Any] = {}
    exec(compile(text, "case", "exec", dont_inherit=True), scope)
    function = scope[node.name]
    shapes = {
        name: t.__args__[0].decode() for name, t in function.__annotations__.items()
    }
    promised = shapes.pop("return", None)
    arguments = [
        jnp.zeros([SIZES[d] for d in shape.split()]) for shape in shapes.values()
    ]
    try:
        result = jax.eval_shape(function, *arguments)
    except REFUSALS as error:
        frames = []
        trace = error.__traceback__
        while trace is not None:
            frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
            trace = trace.tb_next
        line = [number for file, number in frames if file == "case"][-1]
        return text.splitlines()[line - 1]
    if promised is not None and result.shape != tuple(
        SIZES[d] for d in promised.split()
    ):
        return next(
            line for line in text.splitlines()[node.lineno :] if "return" in line
        )
    return ""


@pytest.mark.parametrize("name", functions(CASES.read_text()))
def test_jax_refuses_what_follows_an_error(name: str) -> None:
    text = repaired(CASES.read_text())
    assert "# expect:" in refused_line(text, functions_named(text)[name])


def functions_named(text: str) -> dict[str, ast.FunctionDef]:
    return {
        node.name: node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }


def test_each_case_is_replayed() -> None:
    text = CASES.read_text()
    assert len(functions(text)) == text.count("  # fits:") == 11


def test_what_is_right_is_not_refused() -> None:
    text = repaired(CASES.read_text()).replace(
        "y.sum(axis=3)  # expect: ST208", "y.sum(axis=2)"
    )
    assert refused_line(text, functions_named(text)["named_equation"]) == ""
