"""What is known of the open documents: one run of the linter over their unsaved texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from shardlint import decoding
from shardlint.config import Config, find
from shardlint.discovery import shown
from shardlint.found import ShownType
from shardlint.run import Report, check
from shardtypes.lang.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True)
class Checked:
    """The findings and types of one document. ``lines`` is the text that their places refer to."""

    lines: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    types: tuple[ShownType, ...] = ()
    uses: tuple[ShownType, ...] = ()


def check_documents(texts: Mapping[Path, str]) -> tuple[dict[Path, Checked], list[str]]:
    """Check all of ``texts`` (absolute path to text) at once, each project with its own settings. With the results come
    lines about work that could not be done.

    Raises:
        ConfigError: settings that cannot be used.
        RuleError: a rule module cannot be used.
    """
    overlay = {path: _saved(text) for path, text in texts.items()}
    # Not the files around them: the first answer would have to wait until a whole project is read.
    report = check((), _settings, overlay=overlay, show_types=True, around=False)
    return {path: _part(report, shown(path)) for path in overlay}, report.problems


def _saved(text: str) -> bytes:
    """The bytes of a document as they would be in its file, in the encoding that it declares."""
    plain = text.encode("utf-8", "surrogatepass")
    try:
        return text.encode(decoding.encoding_of(plain))
    except (SyntaxError, UnicodeEncodeError):  # which the run reports
        return plain


def _settings(folder: Path) -> Config:
    """An open file is left out where the settings exclude it. One process: forking under the threads of a server is not
    safe, and an open file is small."""
    return replace(find(folder), jobs=1, force_exclude=True)


def _part(report: Report, path: str) -> Checked:
    text = decoding.decoded(report.texts.get(path, b""))
    return Checked(
        tuple(decoding.lines(text, keepends=True)),
        tuple(d for d in report.diagnostics if d.place.path == path),
        tuple(t for t in report.types if t.place.path == path),
        tuple(t for t in report.uses if t.place.path == path),
    )
