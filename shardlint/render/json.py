"""One array of objects; see the documentation of the command line for the keys."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from shardlint.addresses import rule_page
from shardlint.render import Outcome
from shardlint.render.types import Shown
from shardtypes.lang.diagnostics import Diagnostic


def render(outcome: Outcome) -> str:
    """See the package."""
    found = [_finding(one) for one in outcome.diagnostics]
    return _text(found)


def render_with(diagnostics: Sequence[Diagnostic], more: Mapping[str, object]) -> str:
    """One object: the array as ``findings``, and what else was asked for."""
    found = [_finding(one) for one in diagnostics]
    return _text({"findings": found, **more})


def types(types: Sequence[Shown]) -> list[dict[str, object]]:
    """What ``--show-types`` shows, why one is not known included."""
    return [
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


def _text(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _finding(one: Diagnostic) -> dict[str, object]:
    return {**one.to_json(), "url": rule_page(one.code)}
