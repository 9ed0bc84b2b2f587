"""What is found at once after an edit, beside a run over everything.

``pytest --hypothesis-profile deep`` edits twenty times as many files.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from shardlint.server.checking import Request, answer
from shardlint.server.documents import Document, Results, Snapshot
from shardlint.server.quick import Session
from tests.support import ROOT

pytestmark = pytest.mark.once

LINT = ROOT / "fixtures" / "lint"
_WORD = re.compile(r"[A-Za-z_]\w*|\d+|[-+*/@]|'[^'\n]*'|\"[^\"\n]*\"")
TEXT = """\
import jax.numpy as jnp
from shardtypes import f32

WIDTH = 4


def first(x: f32["B M"], w: f32["F M"]) -> f32["B F"]:
    return x @ w


# what it is for
def helper(x):
    return jnp.sum(x, axis=1)


def second(x: f32["B M"]) -> f32["B"]:
    y = helper(x)
    return y
"""


@pytest.mark.long
def test_edits_are_answered_as_by_a_run_over_everything() -> None:
    """At random, in every kind of program: what is told at once of the changed units and of those that use them is what
    a run over everything tells, findings, types and uses; what is told of the others stays."""
    count = settings().max_examples // 5
    paths = sorted(LINT.rglob("*.py"))
    chooser = random.Random(7)
    chooser.shuffle(paths)
    answered = 0
    for path in paths[:count]:
        answered += _followed(chooser, path)
    assert answered >= count // 2


def _followed(chooser: random.Random, path: Path) -> int:
    """How many edits of a file were answered at once."""
    document = Document(path, path.read_text(encoding="utf-8"), 0)
    session: Session | None = None
    answered = 0
    for text in ("".join(document.lines), *_edits(chooser, document)):
        before = _known(document)
        changed = {unit.number for unit in document.change(text, 0)}
        same = {unit.number for unit in document.units} - changed
        assert not document.failures
        fresh = session.check(document.units) if session is not None else None
        now = _cold(path, text, document.shown)
        snapshot = Snapshot.of(document.units)
        if fresh is not None:
            document.take(fresh.snapshot, fresh.results, fresh.numbers)
            told = _known(document)
            everything = _by_unit(snapshot, now)
            for number in snapshot.numbers:
                found = told.get(number, [])
                if number in fresh.numbers:
                    assert found == everything.get(number, []), path.name
                elif number in same:
                    assert found == before.get(number, []), path.name
                else:  # what was said of the changed line is gone
                    assert set(found) <= set(before.get(number, [])), path.name
            answered += bool(fresh.numbers)
        document.take(snapshot, now)
        assert _known(document) == _by_unit(snapshot, now)
        if fresh is None:
            session = Session.begin(path, snapshot, {}, session)
    return answered


def test_what_is_found_at_once() -> None:
    path = ROOT / "model.py"
    document = Document(path, TEXT, 0)
    session = Session.begin(path, Snapshot.of(document.units), {})
    assert session is not None

    def names(text: str) -> list[str] | None:
        document.change(text, 0)
        fresh = session.check(document.units)
        if fresh is None:
            return None
        found = [unit.name for unit in document.units if unit.number in fresh.numbers]
        document.take(fresh.snapshot, fresh.results, fresh.numbers)
        return found

    assert names(TEXT) == []
    assert names(TEXT.replace("@ w", "@ w.T")) == ["first"]
    assert not list(document.findings())
    assert names(TEXT) == ["first"]
    assert [one.place.line for one in document.findings()] == [8]
    assert names(TEXT.replace("axis=1", "axis=0")) == ["helper", "second"]
    codes = [(one.code, one.place.line) for one in document.findings()]
    assert codes == [("ST204", 8), ("ST201", 18)]
    silent = TEXT.replace("# what", "# shardlint: ignore[ST201]\\n# what")
    assert names(silent) == ["helper", "second"]
    # what others may read of the module waits
    assert names(TEXT.replace("WIDTH = 4", "WIDTH = 5")) is None


def _edits(chooser: random.Random, document: Document) -> Iterator[str]:
    """The text with one word after another replaced, in functions and classes."""
    for _ in range(4):
        named = [unit for unit in document.units if unit.name]
        if not named:
            return
        unit = chooser.choice(named)
        body = "".join(unit.lines[1:])
        words = list(_WORD.finditer(body))
        if not words:
            continue
        old, new = chooser.choice(words), chooser.choice(words)
        changed = unit.lines[0] + body[: old.start()] + new[0] + body[old.end() :]
        lines = "".join(document.lines)
        start = document.start(unit)
        head = "".join(document.lines[:start])
        text = head + changed + lines[len(head) + len("".join(unit.lines)) :]
        if not Document(document.path, text, 0).failures:
            yield text


def _cold(path: Path, text: str, shown: str) -> Results:
    found = answer(Request({path: text}, evaluate=False))
    assert not found.problems
    own = [one for one in found.diagnostics if one.place.path == shown]
    return Results(own, found.types, found.uses)


def _known(document: Document) -> dict[int, list[str]]:
    """All that is known, by unit, in lines of the unit."""
    last = len(document.lines)
    found = Results(
        list(document.findings()),
        list(document.types(0, last)),
        list(document.uses(0, last)),
    )
    return _by_unit(Snapshot.of(document.units), found)


def _by_unit(snapshot: Snapshot, results: Results) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for one in (*results.diagnostics, *results.types, *results.uses):
        index = snapshot.unit_of(one.place.line)
        line = one.place.line - snapshot.starts[index]
        what = str(getattr(one, "message", getattr(one, "text", "")))
        said = f"{line}:{one.place.column} {one.name} {what}"
        found.setdefault(snapshot.numbers[index], []).append(said)
    return {number: sorted(all_) for number, all_ in found.items()}
