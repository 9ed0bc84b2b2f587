"""Changing files until nothing is left to change: in memory first, then on the disk or as a difference."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

from shardlint import decoding, messages
from shardlint.problems import Problem
from shardlint.run import Report
from shardlint.whole_files import write_whole
from shardtypes.lang.diagnostics import Place

#: A change may uncover another finding; changes that do not settle in this many passes are in each other's way.
_PASSES = 10


class Placed(Protocol):
    """What stands somewhere: a finding, or a proposal."""

    @property
    def place(self) -> Place: ...


PlacedT = TypeVar("PlacedT", bound=Placed)
Change: TypeAlias = Callable[[str, Sequence[PlacedT], Report], tuple[str, int]]
"""A text with the changes for what was found in it, and for how much of that."""
Find: TypeAlias = Callable[[Report], Iterable[PlacedT]]
"""What is to be changed, of what a run found."""


@dataclass(slots=True)
class Rewriting:
    """What became of a run over files that are changed. ``before`` are the texts of those that changed, ``counts`` for
    how many findings."""

    report: Report
    before: dict[str, bytes] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def difference(self) -> list[str]:
        """The lines of a unified difference of all files."""
        found: list[str] = []
        for path, old in self.before.items():
            first, second = (
                decoding.lines(decoding.decoded(text), keepends=True)
                for text in (old, self.report.texts[path])
            )
            found += difflib.unified_diff(first, second, f"a/{path}", f"b/{path}")
        return found

    def write(self, skip: str | None = None) -> None:
        """Write the files, but the one that came from standard input; what cannot be written is a problem."""
        for path in self.before:
            if path == skip:
                continue
            try:
                write_whole(Path(path), self.report.texts[path])
            except OSError as error:
                reason = error.strerror or str(error)
                text = messages.not_written(path, reason)
                self.report.problems.append(Problem(text, path))
                del self.counts[path]


def rewrite(
    report: Report,
    run: Callable[[], Report],
    overlay: MutableMapping[Path, bytes],
    change: Change[PlacedT],
    find: Find[PlacedT],
) -> Rewriting:
    """Change the files of a run and run again, over texts in ``overlay``, until nothing changes. Notebooks stay as they
    are."""
    made = Rewriting(report)
    for _ in range(_PASSES):
        if not _pass(made, overlay, change, find):
            break
        again = run()
        problems = dict.fromkeys([*made.report.problems, *again.problems])
        made.report = replace(again, problems=list(problems))
    return made


def _pass(
    made: Rewriting,
    overlay: MutableMapping[Path, bytes],
    change: Change[PlacedT],
    find: Find[PlacedT],
) -> bool:
    changed = False
    report = made.report
    by_path: dict[str, list[PlacedT]] = {}
    for one in find(report):
        if not one.place.cell:
            by_path.setdefault(one.place.path, []).append(one)
    for path, found in by_path.items():
        old = report.texts.get(path)
        text = _decoded(old) if old is not None else None
        # A file that only was imported would be one of those that are asked for, once its text is given.
        if old is None or text is None or path not in report.judged:
            continue
        decoded, encoding = text
        new, count = change(decoded, found, report)
        if not count or new == decoded:
            continue
        try:
            encoded = new.encode(encoding)
        except UnicodeEncodeError:
            problem = messages.not_encodable(path, encoding)
            report.problems.append(Problem(problem, path))
            continue
        made.before.setdefault(path, old)
        overlay[Path(os.path.abspath(path))] = encoded
        made.counts[path] += count
        changed = True
    return changed


def _decoded(text: bytes) -> tuple[str, str] | None:
    """A text and its encoding; None where it cannot be read, which the run reports."""
    try:
        encoding = decoding.encoding_of(text)
        return text.decode(encoding), encoding
    except (SyntaxError, UnicodeDecodeError):
        return None
