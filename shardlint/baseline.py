"""The findings that a project lives with for now: a file of them, which hides exactly these.

An entry is a path (relative to the file), a code, a fingerprint (see ``shardlint.fingerprints``) and how often it
occurs. The scope and the message are there for the reader.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from shardlint import messages
from shardlint.config import ConfigError
from shardlint.discovery import shown
from shardlint.fingerprints import Identities
from shardlint.whole_files import write_whole
from shardtypes.lang.diagnostics import Diagnostic
from shardtypes.lang.frozen import frozen

DEFAULT_NAME = "shardlint-baseline.json"
VERSION = 1

Key: TypeAlias = tuple[str, str, str]
"""Path, code and fingerprint."""

Judged: TypeAlias = Mapping[str, Callable[[str], bool]]
"""For each file that was checked (by its printed path): whether all findings of a code are among what was found."""


@frozen
class Entry:
    """One kind of finding in one file, and how often it occurs."""

    path: str
    code: str
    fingerprint: str
    count: int
    scope: str
    message: str

    @property
    def key(self) -> Key:
        return self.path, self.code, self.fingerprint


class Baseline:
    """A baseline that is in force: each of its findings is hidden once."""

    def __init__(self, path: Path, entries: Iterable[Entry]) -> None:
        self.path = path
        self.entries = tuple(entries)
        self.hidden = 0
        self._left: Counter[Key] = Counter()
        for entry in self.entries:
            self._left[entry.key] += entry.count

    @classmethod
    def load(cls, path: Path) -> Baseline:
        """Raises ``ConfigError``: the file is not there, or is no baseline."""
        return cls(path, read(path))

    def remaining(
        self, diagnostics: Iterable[Diagnostic], identities: Identities
    ) -> list[Diagnostic]:
        """The findings that it does not hide, in order."""
        return [one for one in diagnostics if not self._hides(one, identities)]

    def _hides(self, found: Diagnostic, identities: Identities) -> bool:
        key = (
            relative(found.place.path, self.path.parent),
            found.code,
            identities.of(found).fingerprint,
        )
        if self._left[key] <= 0:
            return False
        self._left[key] -= 1
        self.hidden += 1
        return True

    def gone(self, judged: Judged) -> int:
        """How many of its findings certainly do not occur any more: a run that leaves a file or a rule out says nothing
        of them."""
        asked = _by_relative_path(judged, self.path.parent)
        judged_keys = {
            entry.key
            for entry in self.entries
            if _is_judged(entry, asked, self.path.parent)
        }
        return sum(self._left[key] for key in judged_keys)


def read(path: Path) -> tuple[Entry, ...]:
    """The entries of a file. Raises ``ConfigError``."""
    name = shown(path)
    try:
        document = json.loads(path.read_bytes().decode("utf-8", "surrogateescape"))
    except FileNotFoundError:
        raise ConfigError(name, messages.no_baseline()) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(name, messages.unreadable_baseline(reason)) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(name, messages.broken_baseline(str(error))) from None
    if not isinstance(document, dict) or not isinstance(document.get("findings"), list):
        raise ConfigError(name, messages.broken_baseline("it has no 'findings'"))
    if document.get("version") != VERSION:
        raise ConfigError(name, messages.newer_baseline(document.get("version")))
    return tuple(
        _entry(item, number, name)
        for number, item in enumerate(document["findings"], 1)
    )


def _entry(item: Any, number: int, name: str) -> Entry:
    if not isinstance(item, dict):
        raise ConfigError(name, messages.broken_entry(number, "is no object"))
    path, code, fingerprint = (item.get(key) for key in ("path", "code", "fingerprint"))
    count = item.get("count")
    if (
        not (isinstance(path, str) and isinstance(code, str))
        or not isinstance(fingerprint, str)
        or type(count) is not int
        or count < 1
    ):
        reason = "has no path, code, fingerprint and count"
        raise ConfigError(name, messages.broken_entry(number, reason))
    scope, message = str(item.get("scope", "")), str(item.get("message", ""))
    return Entry(path, code, fingerprint, count, scope, message)


def entries_of(
    diagnostics: Iterable[Diagnostic], identities: Identities, folder: Path
) -> list[Entry]:
    """The entries for findings, in a file in ``folder``."""
    counts: Counter[Key] = Counter()
    about: dict[Key, tuple[str, str]] = {}
    for one in diagnostics:
        identity = identities.of(one)
        key = (relative(one.place.path, folder), one.code, identity.fingerprint)
        counts[key] += 1
        about[key] = (identity.scope, identity.message)
    return [Entry(*key, count, *about[key]) for key, count in counts.items()]


def merged(
    old: Iterable[Entry], new: Iterable[Entry], judged: Judged, folder: Path
) -> list[Entry]:
    """What a file of ``old`` entries holds after a run that found the ``new`` ones: of files and rules that the run
    left out it keeps what it has."""
    asked = _by_relative_path(judged, folder)
    found = {entry.key: entry for entry in new}
    for entry in old:
        is_kept = not _is_judged(entry, asked, folder)
        is_more = entry.key not in found or found[entry.key].count < entry.count
        if is_kept and is_more:
            found[entry.key] = entry
    return list(found.values())


def write(path: Path, entries: Iterable[Entry]) -> None:
    """Write a file, an entry a line, so that two branches that change it can be merged. Raises ``OSError``."""
    ordered = sorted(entries, key=lambda e: (e.path, e.code, e.scope, e.fingerprint))
    rows = [json.dumps(_row(entry), ensure_ascii=False) for entry in ordered]
    body = ",\n".join(f"  {row}" for row in rows)
    listed = f"[\n{body}\n ]" if rows else "[]"
    text = f'{{\n "version": {VERSION},\n "findings": {listed}\n}}\n'
    write_whole(path, text.encode("utf-8", "surrogateescape"))


def _row(entry: Entry) -> dict[str, object]:
    return {
        "path": entry.path,
        "code": entry.code,
        "count": entry.count,
        "scope": entry.scope,
        "message": entry.message,
        "fingerprint": entry.fingerprint,
    }


def relative(path: str, folder: Path) -> str:
    """A printed path as a file in ``folder`` names it, with ``/`` on every system."""
    try:
        found = os.path.relpath(path, folder)
    except ValueError:  # another drive
        return Path(os.path.abspath(path)).as_posix()
    return found.replace(os.sep, "/")


def _by_relative_path(judged: Judged, folder: Path) -> Judged:
    return {relative(path, folder): codes for path, codes in judged.items()}


def _is_judged(entry: Entry, asked: Judged, folder: Path) -> bool:
    """Whether a run says all about what an entry stands for."""
    if entry.path in asked:
        return asked[entry.path](entry.code)
    return not (folder / entry.path).exists()
