"""The annotated functions of a file as HTML, with a mark on each mesh axis in their signatures."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from pytest_shardtypes.coverage import Coverage
from pytest_shardtypes.reasons import reasons

_TOKEN = re.compile(rb"[^\s'\"]+")
_AXIS = re.compile(rb"(?<!/)/(?!/)\w+")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class _Mark:
    """A piece of one line, in bytes, and the sentence that belongs to it."""

    start: int
    end: int
    verified: bool
    says: str


@dataclass(frozen=True)
class Totals:
    """Of some annotated functions: how many tests called, and how many of their sharded dimensions were verified."""

    called: int
    declared: int
    verified: int
    dimensions: int

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing."""
        return self.called == self.declared and self.verified == self.dimensions


def totals_of(functions: Iterable[str], coverage: Coverage) -> Totals:
    """Those of functions by name."""
    names = set(functions)
    verified = [
        held for (name, *_), held in coverage.dimensions.items() if name in names
    ]
    called = sum(bool(coverage.functions.get(name)) for name in names)
    return Totals(called, len(names), sum(verified), len(verified))


def shown(place: str, root: Path) -> str:
    """A file, or a line in one, without the folder of the project."""
    path = Path(place)
    return str(path.relative_to(root)) if path.is_relative_to(root) else place


def files(coverage: Coverage) -> Mapping[str, Mapping[int, str]]:
    """The annotated functions by the file and the line in which they are defined."""
    found: dict[str, dict[int, str]] = {}
    for name, place in sorted(coverage.declared.items()):
        path, _, line = place.rpartition(":")
        if path and line.isdecimal():
            found.setdefault(path, {})[int(line)] = name
    return found


def source(path: Path, functions: Mapping[int, str], coverage: Coverage) -> str:
    """The functions that begin in these lines. A file that is gone by now is said to be."""
    try:
        text = path.read_bytes()
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError) as error:
        return f"<p>{escape(str(path))} cannot be shown: {escape(str(error))}</p>"
    lines = text.splitlines()
    return "".join(
        _function(node, functions[start], lines, coverage)
        for node in sorted(
            (node for node in ast.walk(tree) if isinstance(node, _Function)),
            key=_first_line,
        )
        if (start := _first_line(node)) in functions
    )


def _function(
    node: _Function, name: str, lines: Sequence[bytes], coverage: Coverage
) -> str:
    calls = coverage.functions.get(name, 0)
    state = "never called by a test"
    if calls:
        state = f"{calls} checked call{'s' * (calls != 1)}"
    marks: dict[int, list[_Mark]] = {}
    for role, annotation in _annotations(node):
        for line, mark in _marks(name, role, annotation, lines, coverage):
            marks.setdefault(line, []).append(mark)
    first, last = _first_line(node), node.end_lineno or node.lineno
    rows = "\n".join(
        f"<span class=number>{number:>5}</span> {_marked(lines[number - 1], marks.get(number, []))}"
        for number in range(first, last + 1)
    )
    head = f"<h4><code>{escape(name)}</code> <small class={'yes' if calls else 'no'}>{state}</small></h4>"
    kind = " class=complete" if totals_of([name], coverage).is_complete else ""
    return f"<div{kind}>{head}<pre>{rows}</pre></div>\n"


def _first_line(node: _Function) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _annotations(node: _Function) -> Iterator[tuple[str, ast.expr]]:
    arguments = node.args
    for arg in (
        *arguments.posonlyargs,
        *arguments.args,
        arguments.vararg,
        *arguments.kwonlyargs,
        arguments.kwarg,
    ):
        if arg is not None and arg.annotation is not None:
            yield f"parameter {arg.arg!r}", arg.annotation
    if node.returns is not None:
        yield "the result", node.returns


def _marks(
    name: str,
    role: str,
    annotation: ast.expr,
    lines: Sequence[bytes],
    coverage: Coverage,
) -> Iterator[tuple[int, _Mark]]:
    texts = [
        part
        for part in ast.walk(annotation)
        if isinstance(part, ast.Constant) and isinstance(part.value, (str, bytes))
    ]
    for text in texts:
        if text.end_lineno != text.lineno or text.end_col_offset is None:
            continue  # a string over several lines has its marks in the table only
        raw = lines[text.lineno - 1][text.col_offset : text.end_col_offset]
        # A quoted annotation has the shape's quotes inside its own.
        opening = re.search(rb"\[\s*['\"]", raw) or re.search(rb"['\"]", raw)
        at = opening.end() if opening else 0
        for dim, token in enumerate(_TOKEN.finditer(raw, at)):
            for axis in _AXIS.finditer(token[0]):
                word = axis[0][1:].decode()
                verified = coverage.dimensions.get((name, role, dim, word))
                if verified is not None:
                    says = f"dimension {dim} over {word}: verified"
                    if not verified:
                        why = "; ".join(reasons(coverage, (name, role, dim, word)))
                        says = f"dimension {dim} over {word}: never verified: {why}"
                    start = text.col_offset + token.start() + axis.start()
                    yield (
                        text.lineno,
                        _Mark(start, start + len(axis[0]), verified, says),
                    )


def _marked(line: bytes, marks: Sequence[_Mark]) -> str:
    parts, at = [], 0
    for mark in sorted(marks, key=lambda mark: mark.start):
        parts.append(_text(line[at : mark.start]))
        kind, sign = ("yes", "✓") if mark.verified else ("no", "✗")
        parts.append(
            f"<mark class={kind} title='{escape(mark.says)}'>{_text(line[mark.start : mark.end])}{sign}</mark>"
        )
        at = mark.end
    return "".join([*parts, _text(line[at:])])


def _text(part: bytes) -> str:
    return escape(part.decode("utf-8", "replace"))
