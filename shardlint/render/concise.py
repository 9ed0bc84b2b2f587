"""One line a finding: ``path:line:column: CODE message``."""

from __future__ import annotations

from shardlint.render import Outcome
from shardlint.render.style import Style
from shardtypes.lang.diagnostics import Diagnostic


def render(outcome: Outcome) -> str:
    """See the package."""
    return "".join(_line(one, outcome.style) for one in outcome.diagnostics)


def _line(found: Diagnostic, style: Style) -> str:
    message = " ".join(found.message.split())
    code = style.code(found.code, found.name, found.severity)
    return f"{style.strong(str(found.place))}: {code} {message}\n"
