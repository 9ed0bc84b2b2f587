"""One line a finding: ``path:line:column: CODE message``."""

from __future__ import annotations

from collections.abc import Sequence

from shardlint.render import Lines
from shardtypes.lang.diagnostics import Diagnostic


def render(diagnostics: Sequence[Diagnostic], lines: Lines) -> str:
    """See the package."""
    return "".join(map(_line, diagnostics))


def _line(found: Diagnostic) -> str:
    place = found.place
    return f"{place.shown_path}:{place.line}:{place.column}: {found.code} {' '.join(found.message.split())}\n"
