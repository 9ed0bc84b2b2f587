"""SARIF 2.1.0, for code scanning services."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shardlint.render import Lines
from shardtypes.lang.diagnostics import Diagnostic, Place

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(diagnostics: Sequence[Diagnostic], lines: Lines) -> str:
    """See the package."""
    rules = dict(sorted({d.code: d.name for d in diagnostics}.items()))
    indices = {code: n for n, code in enumerate(rules)}
    run = {
        "tool": {
            "driver": {
                "name": "shardlint",
                "rules": [{"id": c, "name": n} for c, n in rules.items()],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(d, indices[d.code]) for d in diagnostics],
    }
    return (
        json.dumps(
            {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]},
            indent=2,
            ensure_ascii=False,
        )
        + "\n"
    )


def _result(diagnostic: Diagnostic, rule: int) -> dict[str, object]:
    result: dict[str, object] = {
        "ruleId": diagnostic.code,
        "ruleIndex": rule,
        "level": "warning" if diagnostic.severity == "warning" else "error",
        "message": {"text": diagnostic.message},
        "locations": [_location(diagnostic.place)],
    }
    if diagnostic.related:
        result["relatedLocations"] = [
            {"id": n, "message": {"text": r.message}, **_location(r.place)}
            for n, r in enumerate(diagnostic.related)
        ]
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
            "physicalLocation": {"artifactLocation": {"uri": place.path}},
            "logicalLocations": [logical],
        }
    return {"physicalLocation": _in_file(place)}


def _in_file(place: Place) -> dict[str, object]:
    return {
        "artifactLocation": {"uri": place.path},
        "region": {
            "startLine": place.line,
            "startColumn": place.column,
            "endLine": place.end_line,
            "endColumn": place.end_column,
        },
    }
