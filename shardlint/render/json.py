"""One array of objects, or an object where there is more to say: `shardlint schema` has the keys."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from shardlint.addresses import rule_page
from shardlint.render import Outcome
from shardlint.render.types import Shown
from shardtypes.lang.diagnostics import Diagnostic


def render(outcome: Outcome) -> str:
    """See the package."""
    if outcome.problems:
        return render_with(outcome, {})
    return _text(_findings(outcome))


def render_with(outcome: Outcome, more: Mapping[str, object]) -> str:
    """One object: the array as ``findings``, what could not be done, and what else was asked for."""
    problems = [{"message": one.text, "path": one.path} for one in outcome.problems]
    return _text({"findings": _findings(outcome), "problems": problems, **more})


def _findings(outcome: Outcome) -> list[dict[str, object]]:
    return [_finding(one) for one in outcome.diagnostics]


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
