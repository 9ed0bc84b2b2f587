"""Displays of thousands of literals are folded: what stands around them keeps its place, and their shape is known."""

from __future__ import annotations

import ast
from pathlib import Path

import libcst as cst
import pytest

from shardlint import folding
from shardlint.config import Config
from shardlint.lower import lower
from shardlint.run import check

NUMBERS = ", ".join(f"{i}.5" for i in range(1, 2001))
ROWS = ",\n    ".join(f"[{i}, -{i}, {i}]" for i in range(1, 1001))
NAMES = ",\n".join(f"'n{i}'" for i in range(2000))
PAIRS = ",\n".join(f"'n{i}': {i}" for i in range(2000))
PROGRAM = f"""import jax.numpy as jnp
from shardtypes import f32

ROWS = [
    {ROWS},
]; AFTER = 7
A = [{NUMBERS}]; B = ({NUMBERS}); C = 3
NAMES = {{
{NAMES}}}
PAIRS = {{{PAIRS}}}

def f(x: f32['B 2000'], y: f32['1000 4']):
    one = x + jnp.array(A) * jnp.asarray(B)
    other = y + jnp.array(ROWS)
    known = jnp.zeros((len(ROWS), AFTER, C))
    first, row, pair, name = A[0], ROWS[1], PAIRS['n1'], jnp.array(NAMES)
    return known + x
"""

pytestmark = pytest.mark.once


def types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> tuple[dict[str, str], list[tuple[str, int]]]:
    (tmp_path / "a.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    report = check(["a.py"], Config(), cache=False, show_types=True)
    assert report.problems == []
    return {t.name: t.text for t in report.types}, [
        (d.code, d.place.line) for d in report.diagnostics
    ]


def test_what_is_known_of_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, found = types(tmp_path, monkeypatch, PROGRAM)
    lines = PROGRAM.split("\n")
    wrong = [
        lines.index(next(line for line in lines if start in line)) + 1
        for start in ("other =", "known + x")
    ]
    assert found == [("ST204", line) for line in wrong]
    assert shown["one"] == "float32['B 2000']"
    assert shown["known"] == "float32['1000 7 3']"
    assert (shown["first"], shown["row"]) == ("float", "[int, int, int]")


def test_the_text_shrinks_and_keeps_its_lines() -> None:
    text = PROGRAM.encode()
    folded, found = folding.fold(text, ast.parse(text))
    assert len(found) == 5
    assert folded.count(b"\n") == text.count(b"\n")
    assert len(lower(text, "a", "a.py", keep_nodes=True).nodes) < 200

    def of_line(source: bytes, line: bytes) -> int:
        return next(
            at for at, content in enumerate(source.split(b"\n")) if line in content
        )

    assert of_line(folded, b"AFTER = 7") == of_line(text, b"AFTER = 7")
    same = b"; C = 3"
    assert folded.split(b"\n")[of_line(folded, same)].index(same) == text.split(b"\n")[
        of_line(text, same)
    ].index(same)
    assert cst.parse_module(folded).code.encode() == folded


STAYS = {
    "no brackets": f"A = {NUMBERS}\n",
    "a name among them": f"A = [{NUMBERS}, b]\n",
    "arguments": f"A = f({NUMBERS})\n",
    "a string": f"A = '''[{NUMBERS}]'''\n",
    "a formatted string": f"A = f'{{[{NUMBERS}]}}'\n",
    "an encoding": f"# coding: latin-1\nA = [{NUMBERS}]\n",
    "our own name": f"__table_0 = [{NUMBERS}]\n",
    "other ends of lines": f"A = [{NUMBERS}]\r\n",
    "an unpacked dict": f"A = {{**b, {PAIRS}}}\n",
    "few": "A = [" + ", ".join("1" * 50) + "]\n",
}


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS.keys())
def test_anything_else_stays(text: str) -> None:
    source = text.encode()
    assert folding.fold(source, ast.parse(source)) == (source, {})


def test_tables_inside_other_displays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"import jax.numpy as jnp\nD = {{'a': [{NUMBERS}], 'b': 3}}\nx = jnp.array(D['a'])\ny = jnp.ones(D['b'])\n"
    shown, found = types(tmp_path, monkeypatch, text)
    assert (shown["x"], shown["y"], found) == ("float32['2000']", "float32['3']", [])


def test_rows_that_differ_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"import jax.numpy as jnp\nA = [{ROWS}, 5]\nx = jnp.array(A)\nn = jnp.ones(len(A))\n"
    shown, found = types(tmp_path, monkeypatch, text)
    assert shown["x"] == "array['...']"
    assert (shown["n"], found) == ("float32['1001']", [])


def test_a_table_changed_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"""import jax.numpy as jnp
def f(x):
    row = []
    many = [row] * 5000
    row.append(jnp.ones(3))
    first = many[0]
    table = [{NUMBERS}]
    table[0] = x
    other = table[0]
    return first, other
"""
    shown, _ = types(tmp_path, monkeypatch, text)
    assert shown["first"] == "[float32['3']]"
    assert shown["other"].startswith("unknown")
