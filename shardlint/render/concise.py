"""One line a finding: ``path:line:column: CODE message``."""

from __future__ import annotations

from collections.abc import Sequence

from shardlint.render import Lines
from shardtypes.lang.diagnostics import Diagnostic


def render(diagnostics: Sequence[Diagnostic], lines: Lines) -> str:
    """See the package."""
    return "".join(
        f"{d.place.path}:{d.place.line}:{d.place.column}: {d.code} {' '.join(d.message.split())}\n" for d in diagnostics
    )
