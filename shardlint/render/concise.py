"""One line a finding: ``path:line:column: CODE message``."""

from __future__ import annotations

from collections.abc import Sequence

from shardlint.render import Lines
from shardtypes.lang.diagnostics import Diagnostic


def render(diagnostics: Sequence[Diagnostic], lines: Lines) -> str:
    """See the package."""
    return "".join(map(_line, diagnostics))


def _line(found: Diagnostic) -> str:
    message = " ".join(found.message.split())
    return f"{found.place}: {found.code} {message}\n"
