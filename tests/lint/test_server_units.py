"""Half-typed code in an open document: what it costs, and what goes on."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from shardlint.server.bridging import bridged
from shardlint.server.checking import Request, answer
from shardlint.server.documents import Document, Results, Snapshot
from shardlint.server.units import Unit, edited, numbered, repaired, split
from tests.support import ROOT

pytestmark = pytest.mark.once

#: Of these some functions have findings and others have none.
FILES = (
    "right/flow.py",
    "right/transformer.py",
    "right/networks.py",
    "wrong/transforms.py",
    "wrong/flow.py",
    "sharding_manual/wrong/collectives.py",
)
TYPED = '()[]{}\'""":=,.@#\\ \n+-x0deflambda'

TEXT = '''\
import jax
CODE = """
def inside():
    a string
"""

# above g
@jax.jit
def g(x: int) -> int:
    return x


class A:
    size: int

    def m(self, x):
        return x

    def n(self):
        return 2


def h():
    pass
'''


def test_units_are_statements_with_the_comments_above() -> None:
    units = numbered(split(TEXT.splitlines(keepends=True)))
    assert [unit.name for unit in units] == ["", "", "g", "A", "h"]
    assert units[2].lines[0] == "# above g\n"
    assert _text(units) == TEXT
    assert all(unit.lines is unit.good and unit.failure is None for unit in units)


@pytest.mark.parametrize(
    ("whole", "half", "damaged"),
    [
        ("    return x\n\n\nclass", "    return x + (\n\n\nclass", "g"),
        ("        return 2", "        return '''2", "A"),
        ("def h():", "def h(", "h"),
        ("CODE = ", "CODE == (", ""),
    ],
)
def test_damage_is_one_unit(whole: str, half: str, damaged: str) -> None:
    """Whether it is typed or there from the start; what is analysed has as many lines, or is what parsed last."""
    lines = TEXT.replace(whole, half, 1).splitlines(keepends=True)
    before = numbered(split(TEXT.splitlines(keepends=True)))
    typed = edited(before, lines)
    assert [unit.name for unit in typed if unit.failure is not None] == [damaged]
    assert _text(typed) == "".join(lines)
    assert [unit.good for unit in typed] == [unit.good for unit in before]
    opened = split(lines)
    assert _text(opened) == "".join(lines)
    compile("".join(line for unit in opened for line in unit.good), "", "exec")
    others = [unit.lines for unit in opened if unit.failure is None]
    assert {unit.lines for unit in typed if unit.failure is None} <= set(others)


def test_a_bridge_keeps_what_is_sure() -> None:
    assert bridged(["def f(x: int) -> int:\n", "    y = (\n", "    return y\n"]) == (
        "def f(x: int) -> int:\n",
        " ...\n",
        "\n",
    )
    cls = ["class A:\n", "    def m(self):\n", "        (\n", "    n: int\n"]
    assert bridged(cls) == (
        "class A:\n",
        "    def m(self):\n",
        "     ...\n",
        "    n: int\n",
    )
    assert bridged(["def f(x\n", "    return x\n"]) == ("pass\n", "\n")


def test_a_string_over_several_units_is_seen_when_all_is_looked_at() -> None:
    lines = TEXT.splitlines(keepends=True)
    opened = [*lines[:6], '"""\n', *lines[6:]]
    units = edited(numbered(split(lines)), opened)
    assert any(unit.failure is not None for unit in units)
    closed = [*opened[:-2], '"""\n']
    units = repaired(edited(units, closed))
    assert [unit.failure for unit in units] == [None] * len(units)
    assert _text(units) == "".join(closed)


def test_numbers_stay_and_grow() -> None:
    units = numbered(split(TEXT.splitlines(keepends=True)))
    for index in range(40):
        text = _text(units).replace("def h", f"def new{index}(): pass\n\ndef h")
        after = edited(units, text.splitlines(keepends=True))
        numbers = [unit.number for unit in after]
        assert numbers == sorted(set(numbers)) and len(after) == len(units) + 1
        units = after


@pytest.mark.parametrize("name", FILES)
def test_typing_in_one_function_leaves_the_others_alone(name: str) -> None:
    """Their findings and types stay those of the text as it was, and none is lost, whatever stands in the function; a
    text that is opened in this state can be analysed."""
    path = ROOT / "fixtures" / "lint" / name
    text = path.read_text(encoding="utf-8")
    document = Document(path, text, 0)
    snapshot = Snapshot.of(document.units)
    found = answer(Request({path: text}, evaluate=False))
    assert not found.problems
    document.take(snapshot, Results(found.diagnostics, found.types, found.uses))
    chooser = random.Random(name)
    unit = chooser.choice([unit for unit in document.units if unit.name])
    clean = _outside(document, unit.number)
    assert clean
    damaged = 0
    for typed in _typing(chooser, document, unit):
        document.change(typed, 1)
        damaged += bool(document.failures)
        assert _outside(document, unit.number) == clean
        assert "".join(document.lines) == typed
        analysed = Snapshot.of(document.units).text
        compile(analysed, name, "exec", dont_inherit=True)
        opened = Document(path, typed, 0)
        assert "".join(opened.lines) == typed
        compile(Snapshot.of(opened.units).text, name, "exec", dont_inherit=True)
    assert damaged > 10


def test_a_document_that_is_opened_damaged_is_checked() -> None:
    text = (
        "import jax.numpy as jnp\nfrom shardtypes import f32\n\n"
        'def f(x: f32["B M"]) -> f32["B M"]:\n    return jnp.sum(\n\n'
        'def g(x: f32["B M"], w: f32["F M"]) -> f32["B F"]:\n    return f(x) @ w\n'
    )
    path = ROOT / "model.py"
    document = Document(path, text, 0)
    assert [place[:2] for place in document.failures] == [(5, 19)]
    snapshot = Snapshot.of(document.units)
    found = answer(Request({path: snapshot.text}, evaluate=False))
    document.take(snapshot, Results(found.diagnostics, found.types, found.uses))
    assert [(one.code, one.place.line) for one in document.findings()] == [("ST204", 8)]


def _text(units: Sequence[Unit]) -> str:
    return "".join(line for unit in units for line in unit.lines)


def _outside(document: Document, number: int) -> list[tuple[object, ...]]:
    """Findings and types of all other units, by the line that they are on."""
    found: list[tuple[object, ...]] = []
    last = len(document.lines)
    types = [("type", one.name, one.text, one.place) for one in document.types(0, last)]
    findings = [(one.code, one.message, "", one.place) for one in document.findings()]
    for *what, place in (*types, *findings):
        unit = document.unit_at(place.line - 1)
        assert unit is not None
        if unit.number != number:
            line = document.lines[place.line - 1]
            found.append((*what, place.column, place.line - document.start(unit), line))
    return found


def _typing(chooser: random.Random, document: Document, unit: Unit) -> Iterator[str]:
    """The text while something is typed in one function: cut off somewhere, with characters put in one by one."""
    start = document.start(unit)
    before = "".join(document.lines[:start])
    after = "".join(document.lines[start + len(unit.lines) :])
    text = "".join(unit.lines)
    body = text.index("\n") + 1
    for _ in range(4):
        at = chooser.randrange(body, len(text))
        rest = text[at:] if chooser.random() < 0.7 else "\n" + " " * 4 + "\n\n"
        typed = ""
        for _ in range(8):
            typed += chooser.choice(TYPED)
            yield before + text[:at] + typed + rest + after
