"""One array of objects; see the documentation of the command line for the keys."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shardlint.addresses import rule_page
from shardlint.render import Outcome
from shardlint.render.types import Shown
from shardtypes.lang.diagnostics import Diagnostic


def render_with_types(diagnostics: Sequence[Diagnostic], types: Sequence[Shown]) -> str:
    """One object: ``findings`` as without ``--show-types``, and ``types``, why one is not known included."""
    shown = [
        {
            "path": one.place.path,
            "cell": one.place.cell or None,
            "line": one.place.line,
            "column": one.place.column,
            "name": one.name,
            "type": one.text,
            "why": one.why,
        }
        for one in types
    ]
    whole = {"findings": [_finding(one) for one in diagnostics], "types": shown}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def render(outcome: Outcome) -> str:
    """See the package."""
    found = [_finding(one) for one in outcome.diagnostics]
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _finding(one: Diagnostic) -> dict[str, object]:
    return {**one.to_json(), "url": rule_page(one.code)}
