"""One line a finding: ``path:line:column: CODE message``."""

from __future__ import annotations

from shardlint.render import Outcome
from shardlint.render.style import Style
from shardtypes.lang.diagnostics import Diagnostic


def render(outcome: Outcome) -> str:
    """See the package."""
    lines = [_line(found, outcome.style) for found in outcome.diagnostics]
    return "".join(lines)


def _line(found: Diagnostic, style: Style) -> str:
    message = " ".join(found.message.split())
    code = style.code(found.code, found.severity)
    place = style.strong(str(found.place))
    return f"{place}: {code} {message}\n"
