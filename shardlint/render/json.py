"""One array of objects; see the documentation of the command line for the keys."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shardlint.render import Lines
from shardtypes.lang.diagnostics import Diagnostic


def render(diagnostics: Sequence[Diagnostic], lines: Lines) -> str:
    """See the package."""
    return json.dumps([d.to_json() for d in diagnostics], indent=2, ensure_ascii=False) + "\n"
