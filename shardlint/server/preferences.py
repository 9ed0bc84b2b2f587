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
    """``inlay_hints``: whether types are shown as hints."""

    inlay_hints: bool = True


#: The names that editors use, and the fields that they set.
KEYS = {"inlayHints": "inlay_hints"}


def section(settings: object) -> object:
    """Our part of all settings of an editor; None where it has none."""
    return settings.get(SECTION) if isinstance(settings, Mapping) else None


def read(given: object, before: Preferences) -> tuple[Preferences, list[str]]:
    """The preferences with those that are given in place of what was before, and what is wrong with these."""
    if given is None:
        return before, []
    if not isinstance(given, Mapping):
        return before, [messages.no_preferences(given)]
    changes: dict[str, Any] = {}
    problems = []
    for key, value in given.items():
        name = KEYS.get(str(key))
        if name is None:
            problems.append(messages.unknown_preference(str(key), KEYS))
        elif not isinstance(value, bool):
            problems.append(messages.wrong_type(str(key), "true or false", value))
        else:
            changes[name] = value
    return replace(before, **changes), problems
