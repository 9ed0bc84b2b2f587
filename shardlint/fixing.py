"""Applying fixes to text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shardlint.edits import line_starts, replaced, span_of
from shardlint.rewriting import Change
from shardlint.run import Report
from shardtypes.lang.diagnostics import Diagnostic


def fixing(unsafe: bool) -> Change[Diagnostic]:
    """Applies the fixes of findings: safe ones, or all."""

    def change(
        text: str, found: Sequence[Diagnostic], report: Report
    ) -> tuple[str, int]:
        return apply(text, found, unsafe)

    return change


def apply(
    text: str, diagnostics: Iterable[Diagnostic], unsafe: bool
) -> tuple[str, int]:
    """``text`` with the fixes of one file's findings, and how many were applied.

    A fix whose edits touch those of an earlier one is left for the next pass.
    """
    replacements, count = chosen(text, diagnostics, unsafe)
    return replaced(text, replacements), count


def chosen(
    text: str, diagnostics: Iterable[Diagnostic], unsafe: bool
) -> tuple[list[tuple[int, int, str]], int]:
    """What one pass replaces in ``text``: from where to where (in characters) and by what, in order and apart from each
    other; and how many fixes that is."""
    starts = line_starts(text)
    taken: list[tuple[int, int, str]] = []
    count = 0
    for diagnostic in diagnostics:
        fix = diagnostic.fix
        if fix is None or (fix.applicability == "unsafe" and not unsafe):
            continue
        spans = [span_of(edit, starts) for edit in fix.edits]
        if any(
            (a < end and start < b) or (a, b) == (start, end)
            for a, b, _ in spans
            for start, end, _ in taken
        ):
            continue
        taken += spans
        count += 1
    return [_tidied(text, one) for one in sorted(taken)], count


def _tidied(text: str, span: tuple[int, int, str]) -> tuple[int, int, str]:
    """A comment that is removed leaves no blanks behind it."""
    start, end, replacement = span
    if replacement:
        return span
    line_end = text.find("\n", end)
    if not text[end : line_end if line_end >= 0 else len(text)].strip():
        start = len(text[:start].rstrip(" \t"))
    return start, end, replacement
