"""What tools found is kept in a file, so that a run of hours that was cut off goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

from benchmarks.findings import Said
from benchmarks.tools import Tool


class Kept:
    """A file with a line for each text that a tool has read: the tool, a digest of the text, and what it found.

    What a tool finds is taken from there as long as the text is the same; whether the tool is, the caller knows.

    Raises:
        ValueError: a line of the file is not of that form.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._found: dict[tuple[str, str], list[list[Any]]] = {}
        lines = path.read_text().splitlines() if path.exists() else []
        for number, line in enumerate(lines, 1):
            try:
                tool, digest, found = json.loads(line)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"{path}:{number}: not what this benchmark keeps ({error}): take another file"
                ) from error
            self._found[tool, digest] = found

    def around(self, tool: Tool) -> Tool:
        """The same tool, which reads only what it has not read yet."""
        return replace(tool, run=_Remembering(self, tool))

    def found(self, tool: Tool, folder: Path) -> list[Said]:
        """What the tool finds in a folder: as it is kept, or anew.

        Raises:
            subprocess.TimeoutExpired: it took too long. Nothing is kept of that.
        """
        key = tool.name, _digest(folder)
        if key not in self._found:
            said = [
                [path.name, line, message, related]
                for path, line, message, related in tool.run(folder)
            ]
            self._keep(key, said)
        return [
            (folder / name, line, message, related)
            for name, line, message, related in self._found[key]
        ]

    def _keep(self, key: tuple[str, str], said: list[list[Any]]) -> None:
        with self._lock:
            self._found[key] = said
            with self._path.open("a") as file:
                file.write(json.dumps([*key, said]) + "\n")


@dataclass(frozen=True)
class _Remembering:
    kept: Kept
    tool: Tool

    def __call__(self, folder: Path) -> Iterator[Said]:
        return iter(self.kept.found(self.tool, folder))


def _digest(folder: Path) -> str:
    """Tells the texts in a folder apart, by their names too."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        total.update(f"{path.relative_to(folder)}\0".encode())
        total.update(path.read_bytes())
    return total.hexdigest()
