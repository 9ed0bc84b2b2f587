"""JUnit's XML: each finding is a test that failed, in the suite of its file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from shardlint.render import Outcome
from shardtypes.lang.diagnostics import Diagnostic

#: What XML 1.0 has no way to write.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(outcome: Outcome) -> str:
    """See the package."""
    found, problems = outcome.diagnostics, outcome.problems
    tests = max(len(found) + len(problems), 1)
    totals = f'tests="{tests}" failures="{len(found)}" errors="{len(problems)}"'
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>\n',
        f'<testsuites name="shardlint" {totals}>\n',
    ]
    for path, group in groupby(found, key=lambda one: one.place.path):
        parts += _suite(path, list(group))
    if problems:
        parts += _problems(problems)
    if not found and not problems:
        # A report without tests counts as one that was not made.
        parts += _opened("shardlint", 1, 0, 0)
        parts.append('    <testcase name="No findings" classname="shardlint"/>\n')
        parts.append("  </testsuite>\n")
    return "".join([*parts, "</testsuites>\n"])


def _suite(path: str, found: Sequence[Diagnostic]) -> Iterator[str]:
    yield from _opened(path, len(found), len(found), 0)
    for one in found:
        place = one.place
        name = f"{one.code} {one.name} at {_where(one)}"
        yield (
            f"    <testcase name={_quoted(name)} classname={_quoted(path)} "
            f'file={_quoted(path)} line="{place.line}">\n'
        )
        yield (
            f"      <failure type={_quoted(one.code)} message={_quoted(one.message)}>"
            f"{_escaped(f'{place}: {one.code} {one.message}')}</failure>\n"
        )
        yield "    </testcase>\n"
    yield "  </testsuite>\n"


def _problems(problems: Sequence[str]) -> Iterator[str]:
    yield from _opened("shardlint", len(problems), 0, len(problems))
    for number, problem in enumerate(problems, 1):
        yield f'    <testcase name="problem {number}" classname="shardlint">\n'
        yield f"      <error message={_quoted(problem)}/>\n"
        yield "    </testcase>\n"
    yield "  </testsuite>\n"


def _opened(name: str, tests: int, failures: int, errors: int) -> Iterator[str]:
    yield (
        f'  <testsuite name={_quoted(name)} tests="{tests}" failures="{failures}" '
        f'errors="{errors}">\n'
    )


def _where(found: Diagnostic) -> str:
    place = found.place
    cell = f"cell {place.cell}, " if place.cell else ""
    return f"{cell}{place.line}:{place.column}"


def _quoted(text: str) -> str:
    return quoteattr(_NO_XML.sub("\ufffd", text))


def _escaped(text: str) -> str:
    return escape(_NO_XML.sub("\ufffd", text))
