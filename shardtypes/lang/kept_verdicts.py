"""What test runs said of the functions that map over devices, kept in pytest's cache for editors to show."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

FOLDER = Path(".pytest_cache", "d", "shardtypes")
"""Ours in pytest's cache, below the root folder of the tests, unless its ``cache_dir`` is another."""
NAME = "verdicts.json"
_VERSION = 1
#: Of several calls, what is said of the function: the first of these that one call has.
_WORST_FIRST = ("refuted", "could not tell", "agrees in numbers", "not compared")


@dataclass(frozen=True)
class KeptVerdict:
    """What the calls of one function gave. ``file`` is relative to the root folder, ``line`` that of the definition,
    ``verdict`` one word for all ``calls``. Of a refuted one ``culprit`` is the file and line to blame. ``read`` are the
    files that it may depend on, with their digests when it ran."""

    file: str
    function: str
    line: int
    verdict: str
    calls: int = 1
    culprit: str = ""
    read: Mapping[str, str] = field(default_factory=dict)

    def with_call(self, other: KeptVerdict) -> KeptVerdict:
        """The same with another call of the function."""
        worse = self
        for verdict in reversed(_WORST_FIRST):
            for one in (self, other):
                if one.verdict == verdict:
                    worse = one
        return replace(worse, calls=self.calls + other.calls)

    def still_holds(self, digest_of: Callable[[str], str]) -> bool:
        """Whether all files that it may depend on are as they were."""
        found = {file: digest_of(file) for file in self.read}
        return found == self.read


def digest(data: bytes) -> str:
    """What tells two texts of a file apart."""
    return hashlib.sha256(data).hexdigest()[:16]


def write(folder: Path, found: Iterable[KeptVerdict], root: Path) -> None:
    """Keep the verdicts of a run in a folder, with those of earlier runs on other functions in files that still exist.

    Raises:
        OSError: the file cannot be written.
    """
    kept = {}
    for one in read(folder):
        if (root / one.file).exists():
            kept[one.file, one.function] = one
    fresh: dict[tuple[str, str], KeptVerdict] = {}
    for one in found:
        key = one.file, one.function
        if key in fresh:
            fresh[key] = fresh[key].with_call(one)
        else:
            fresh[key] = one
    kept.update(fresh)
    rows = [asdict(one) for one in kept.values()]
    document = {"version": _VERSION, "functions": rows}
    text = json.dumps(document, indent=1)
    (folder / NAME).write_text(text, "utf-8")


def read(folder: Path) -> list[KeptVerdict]:
    """The verdicts that are kept in a folder; none where there is no file of ours."""
    try:
        text = (folder / NAME).read_text("utf-8")
        found = json.loads(text)
        if found["version"] != _VERSION:
            return []
        return [KeptVerdict(**row) for row in found["functions"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
