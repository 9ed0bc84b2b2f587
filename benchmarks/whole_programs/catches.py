"""What a tool says of a changed program that it does not say of the correct one, and how near to the change."""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from benchmarks.findings import Finding, statements
from benchmarks.tools import Tool

NEAR = 3
"""So many lines above or below the changed statement."""


def read(tool: Tool, name: str, source: str) -> set[Finding]:
    """What the tool says of a module of that name, in a folder with nothing else.

    Raises:
        subprocess.TimeoutExpired: it took too long.
    """
    translated = tool.transform(source.encode()) if tool.transform else None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve() / f"{name}.py"
        path.write_text(translated.text if translated else source)
        said = [one for one in tool.run(path.parent) if one[0].resolve() == path]
    found = set()
    for _, line, message, related in said:
        found.add(
            Finding(
                name,
                translated.original(line) if translated else line,
                message,
                related,
            )
        )
    return found


@dataclass(frozen=True)
class Catch:
    """What a tool says of a mistake. ``place``: in the changed statement. ``near``: there or within three lines, or
    naming the changed statement as a place that it is about. ``anywhere``: at all. ``messages``: of the new findings
    in place first, then of all others. ``ended``: the tool was ended for taking too long.
    """

    place: bool = False
    near: bool = False
    anywhere: bool = False
    messages: tuple[str, ...] = ()
    ended: bool = False


def catch(
    original: str, changed: str, before: Collection[Finding], after: Collection[Finding]
) -> Catch:
    """Compare what a tool said of the correct program with what it said of the changed one."""
    earlier, lines = _compared(original, changed)
    known = {(f.line, f.message, f.related) for f in before}
    new = [
        f
        for f in sorted(after)
        if not any((line, f.message, f.related) in known for line in earlier[f.line])
    ]
    reported = [f for f in new if not f.related]
    places = [
        (first, last)
        for _, first, last in statements(
            {"": changed.encode()}, (("", line) for line in lines)
        )
    ]
    here = [f for f in reported if _within(f, places, 0)]
    near = [f for f in reported if _within(f, places, NEAR)]
    named = [f for f in new if f.related and _within(f, places, 0)]
    others = [f for f in reported if f not in here]
    messages = tuple(f.message for f in (*here, *others))
    return Catch(
        bool(here), bool(reported and (near or named)), bool(reported), messages
    )


def _within(finding: Finding, places: Collection[tuple[int, int]], margin: int) -> bool:
    return any(
        first - margin <= finding.line <= last + margin for first, last in places
    )


def changed_lines(original: str, changed: str) -> list[int]:
    """The lines of ``changed`` that are new; where lines are only left out, the line that now stands there."""
    return _compared(original, changed)[1]


def _compared(original: str, changed: str) -> tuple[dict[int, range], list[int]]:
    """For every line of ``changed``, the lines of ``original`` that it stands for; and the lines that are new."""
    earlier: dict[int, range] = {}
    lines: list[int] = []
    before, after = original.splitlines(), changed.splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, stop, first, last in matcher.get_opcodes():
        if kind == "equal":
            for offset in range(last - first):
                earlier[first + offset + 1] = range(
                    start + offset + 1, start + offset + 2
                )
            continue
        for line in range(first + 1, last + 1):
            earlier[line] = range(start + 1, stop + 1)
        lines += (
            range(first + 1, last + 1) if last > first else [min(first + 1, len(after))]
        )
    return earlier, lines
