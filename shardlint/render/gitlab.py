"""GitLab's Code Quality report: one array, whose paths are relative to the repository."""

from __future__ import annotations

import json

from shardlint import messages
from shardlint.addresses import rule_page
from shardlint.fingerprints import Identities, fingerprint_of, unique
from shardlint.render import Outcome, from_repository, in_cell
from shardtypes.lang.diagnostics import Diagnostic, Place

_FIRST = {"begin": 1, "end": 1}
"""Of what has no line in the file that GitLab shows."""


def render(outcome: Outcome) -> str:
    """See the package."""
    identified = unique(outcome.diagnostics, Identities(outcome.lines))
    found = [_issue(one, fingerprint) for one, fingerprint in identified]
    problems = dict.fromkeys(outcome.problems)
    for one in problems:
        # an issue without a file is none
        if one.path is not None:
            found.append(_problem(one.text, one.path))
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _issue(found: Diagnostic, fingerprint: str) -> dict[str, object]:
    place = found.place
    message = found.message
    if place.cell:
        message = f"{in_cell(place)}: {message}"
    return {
        "type": "issue",
        "check_name": f"{found.code} {found.name}",
        "description": f"{found.code}: {message}",
        "content": {"body": rule_page(found.code)},
        "categories": ["Bug Risk"],
        "severity": "minor" if found.severity == "warning" else "major",
        "fingerprint": fingerprint,
        "location": {"path": from_repository(place.path), "lines": _lines(place)},
    }


def _problem(text: str, path: str) -> dict[str, object]:
    return {
        "type": "issue",
        "check_name": messages.NOT_DONE,
        "description": text,
        "categories": ["Bug Risk"],
        "severity": "critical",
        "fingerprint": fingerprint_of(text, path),
        "location": {"path": from_repository(path), "lines": _FIRST},
    }


def _lines(place: Place) -> dict[str, int]:
    # GitLab counts the lines of the file that holds the cells of a notebook
    if place.cell:
        return _FIRST
    return {"begin": place.line, "end": place.end_line}
