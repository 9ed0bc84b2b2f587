"""JUnit's XML: each finding is a test that failed, in the suite of its file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from shardlint.addresses import rule_page
from shardlint.problems import Problem
from shardlint.render import Outcome
from shardtypes.lang.diagnostics import Diagnostic

#: What XML 1.0 has no way to write.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(outcome: Outcome) -> str:
    """See the package."""
    found, problems = outcome.diagnostics, outcome.problems
    totals = _counts(len(found), len(problems))
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="shardlint" {totals}>',
    ]
    for path, group in groupby(found, key=_path):
        parts += _suite(path, list(group))
    if problems:
        parts += _problems(problems)
    elif not found:
        parts += _nothing()
    parts.append("</testsuites>")
    return "".join(f"{part}\n" for part in parts)


def _path(found: Diagnostic) -> str:
    return found.place.path


def _suite(path: str, found: Sequence[Diagnostic]) -> Iterator[str]:
    name = _quoted(path)
    counts = _counts(len(found), 0)
    yield f"  <testsuite name={name} {counts}>"
    for one in found:
        yield from _failure(one)
    yield "  </testsuite>"


def _failure(found: Diagnostic) -> Iterator[str]:
    place = found.place
    where = f"{place.line}:{place.column}"
    if place.cell:
        where = f"cell {place.cell}, {where}"
    name = _quoted(f"{found.code} {found.name} at {where}")
    path = _quoted(place.path)
    kind = _quoted(found.code)
    message = _quoted(found.message)
    page = rule_page(found.code)
    text = _escaped(f"{place}: {found.code} {found.message}\n{page}")
    yield (
        f'    <testcase name={name} classname={path} file={path} line="{place.line}">'
    )
    yield f"      <failure type={kind} message={message}>{text}</failure>"
    yield "    </testcase>"


def _problems(problems: Sequence[Problem]) -> Iterator[str]:
    counts = _counts(0, len(problems))
    yield f'  <testsuite name="shardlint" {counts}>'
    for number, problem in enumerate(problems, 1):
        message = _quoted(problem.text)
        file = ""
        if problem.path is not None:
            file = f" file={_quoted(problem.path)}"
        yield f'    <testcase name="problem {number}" classname="shardlint"{file}>'
        yield f"      <error message={message}/>"
        yield "    </testcase>"
    yield "  </testsuite>"


def _nothing() -> Iterator[str]:
    """A report without tests counts as one that was not made."""
    counts = _counts(0, 0)
    yield f'  <testsuite name="shardlint" {counts}>'
    yield '    <testcase name="No findings" classname="shardlint"/>'
    yield "  </testsuite>"


def _counts(failures: int, errors: int) -> str:
    tests = max(failures + errors, 1)
    return f'tests="{tests}" failures="{failures}" errors="{errors}"'


def _quoted(text: str) -> str:
    return quoteattr(_NO_XML.sub("\ufffd", text))


def _escaped(text: str) -> str:
    return escape(_NO_XML.sub("\ufffd", text))
