"""Where an argument of a call is assigned, by the text."""

from __future__ import annotations

import ast

import pytest

from shardlint.evaluation.assignments import assigned
from shardlint.evaluation.recording import Where

pytestmark = pytest.mark.once  # JAX has no part in it

#: The line of the assignment by the program, in which ``ppermute`` is called once.
PROGRAMS = {
    "def f(x):\n    pairs = [(0, 1)]\n    return ppermute(x, 't', pairs)\n": 2,
    "def f(x):\n    pairs = [(0, 1)]\n    return ppermute(x, 't', perm=pairs)\n": 2,
    "def f(x):\n    n, pairs = 2, [(0, 1)]\n"
    "    def inner(x):\n        return ppermute(x, 't', pairs)\n    return inner(x)\n": 2,
    "pairs = [(0, 1)]\ndef g():\n    pairs = []\ndef f(x):\n    return ppermute(x, 't', pairs)\n": 1,
    "def f(x):\n    if x:\n        pairs = [(0, 1)]\n    else:\n        pairs = []\n"
    "    return ppermute(x, 't', pairs)\n": None,
    "def f(x, pairs):\n    return ppermute(x, 't', pairs)\n": None,
    "def f(x):\n    return ppermute(x, 't', [(0, 1)])\n": None,
    "def f(x):\n    return ppermute(x, 't')\n": None,
}


@pytest.mark.parametrize("text", PROGRAMS)
def test_where_it_is_assigned(text: str) -> None:
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    (call,) = [
        node
        for node in calls
        if isinstance(node.func, ast.Name) and node.func.id == "ppermute"
    ]
    assert call.end_lineno is not None and call.end_col_offset is not None
    place = call.lineno, call.col_offset, call.end_lineno, call.end_col_offset
    found = assigned(text, Where("program.py", place), 2, "perm")
    assert (None if found is None else found.place[0]) == PROGRAMS[text]
