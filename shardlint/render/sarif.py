"""SARIF 2.1.0, for code scanning services."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import PurePath
from urllib.parse import quote

from shardlint.addresses import DOCUMENTATION, rule_page
from shardlint.fingerprints import Identities, unique
from shardlint.problems import Problem
from shardlint.render import Outcome, from_repository
from shardlint.rules import all_rules
from shardlint.rules.base import Rule
from shardtypes.lang.diagnostics import Diagnostic, Edit, Fix, Place

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
#: The key says how the fingerprint is made: another way takes the next number.
_FINGERPRINT = "shardlint/v1"


def render(outcome: Outcome) -> str:
    """See the package."""
    rules = all_rules()
    indices = {rule.code: number for number, rule in enumerate(rules)}
    driver = {
        "name": "shardlint",
        "version": version("shardtypes"),
        "informationUri": DOCUMENTATION,
        "rules": [_rule(rule) for rule in rules],
    }
    identified = unique(outcome.diagnostics, Identities(outcome.lines))
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(outcome.problems)],
        "results": [
            _result(one, indices[one.code], fingerprint)
            for one, fingerprint in identified
        ],
    }
    whole = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _rule(rule: Rule) -> dict[str, object]:
    url = rule_page(rule.code)
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary()},
        "fullDescription": {"text": _plain(rule.docs().section("What it does"))},
        "help": {"text": f"{rule.summary()} {url}", "markdown": rule.text()},
        "helpUri": url,
        "defaultConfiguration": {
            "enabled": rule.default,
            "level": _level(rule.severity),
        },
    }


def _plain(text: str) -> str:
    return " ".join(text.split())


def _level(severity: str) -> str:
    return "warning" if severity == "warning" else "error"


def _invocation(problems: Sequence[Problem]) -> dict[str, object]:
    """Whether the work was done: without that, no finding does not mean that there is none."""
    found: dict[str, object] = {"executionSuccessful": not problems}
    of_settings = [_notification(one) for one in problems if one.is_setting]
    of_run = [_notification(one) for one in problems if not one.is_setting]
    if of_settings:
        found["toolConfigurationNotifications"] = of_settings
    if of_run:
        found["toolExecutionNotifications"] = of_run
    return found


def _notification(problem: Problem) -> dict[str, object]:
    found: dict[str, object] = {
        "level": "error",
        "message": {"text": problem.text},
    }
    if problem.path is not None:
        found["locations"] = [_whole_file(problem.path)]
    return found


def _whole_file(path: str) -> dict[str, object]:
    file = {"uri": _uri(path)}
    return {
        "physicalLocation": {
            "artifactLocation": file,
        }
    }


def _result(diagnostic: Diagnostic, rule: int, fingerprint: str) -> dict[str, object]:
    result: dict[str, object] = {
        "ruleId": diagnostic.code,
        "ruleIndex": rule,
        "level": _level(diagnostic.severity),
        "message": {"text": diagnostic.message},
        "locations": [_location(diagnostic.place)],
        "partialFingerprints": {_FINGERPRINT: fingerprint},
    }
    if diagnostic.related:
        result["relatedLocations"] = [
            {"id": n, "message": {"text": r.message}, **_location(r.place)}
            for n, r in enumerate(diagnostic.related)
        ]
    if diagnostic.fix is not None and not diagnostic.place.cell:
        result["fixes"] = [_fix(diagnostic.fix)]
    return result


def _location(place: Place) -> dict[str, object]:
    if place.cell:  # a region would count the lines of the file that holds the cells
        name = f"cell {place.cell}"
        logical = {
            "name": name,
            "fullyQualifiedName": f"{name}:{place.line}:{place.column}",
            "kind": "element",
        }
        return {
            **_whole_file(place.path),
            "logicalLocations": [logical],
        }
    return {"physicalLocation": _in_file(place)}


def _in_file(place: Place) -> dict[str, object]:
    return {
        "artifactLocation": {"uri": _uri(place.path)},
        "region": _region(place),
    }


def _region(place: Place) -> dict[str, object]:
    return {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }


def _fix(fix: Fix) -> dict[str, object]:
    by_path: dict[str, list[Edit]] = {}
    for edit in fix.edits:
        by_path.setdefault(edit.place.path, []).append(edit)
    changes = [
        {
            "artifactLocation": {"uri": _uri(path)},
            "replacements": [_replacement(edit) for edit in edits],
        }
        for path, edits in by_path.items()
    ]
    return {"description": {"text": fix.title}, "artifactChanges": changes}


def _replacement(edit: Edit) -> dict[str, object]:
    return {
        "deletedRegion": _region(edit.place),
        "insertedContent": {"text": edit.replacement},
    }


def _uri(path: str) -> str:
    """A relative reference where the path is relative: the service knows the folder of the repository."""
    if PurePath(path).is_absolute():
        return PurePath(path).as_uri()
    # a colon in the first part would end a scheme, and is quoted with the rest
    return quote(from_repository(path), errors="surrogateescape")
