"""What an editor may choose of what the server shows. All else is set by the project, for all its users alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shardlint import messages

#: The part of an editor's settings that is ours.
SECTION = "shardlint"


@dataclass(frozen=True, slots=True)
class Preferences:
    """``inlay_hints``: whether types are shown as hints; ``shape_hints`` and ``sharding_hints``: what of them is shown;
    ``hover_pictures``: whether hover draws sharded arrays, for editors that show images in Markdown;
    ``workspace_findings``: whether those of files that are not open are told."""

    inlay_hints: bool = True
    shape_hints: bool = True
    sharding_hints: bool = True
    hover_pictures: bool = False
    workspace_findings: bool = False


#: The names that editors use, and the fields that they set.
KEYS = {
    "inlayHints": "inlay_hints",
    "shapeHints": "shape_hints",
    "shardingHints": "sharding_hints",
    "hoverPictures": "hover_pictures",
    "workspaceFindings": "workspace_findings",
}


def section(settings: object) -> object:
    """Our part of all settings of an editor; None where it has none."""
    if not isinstance(settings, Mapping):
        return None
    return settings.get(SECTION)


def read(given: object, before: Preferences) -> tuple[Preferences, list[str]]:
    """The preferences with those that are given in place of what was before, and what is wrong with these."""
    if given is None:
        return before, []
    if not isinstance(given, Mapping):
        problem = messages.no_preferences(given)
        return before, [problem]
    changes: dict[str, Any] = {}
    problems = []
    for key, value in given.items():
        called = str(key)
        name = KEYS.get(called)
        if name is None:
            problem = messages.unknown_preference(called, KEYS)
            problems.append(problem)
        elif not isinstance(value, bool):
            problem = messages.wrong_type(called, "true or false", value)
            problems.append(problem)
        else:
            changes[name] = value
    return replace(before, **changes), problems
