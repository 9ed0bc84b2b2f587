"""The files of a project, as programs import them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from shardlint.evaluation.assignments import assigned
from shardlint.evaluation.change import Repair
from shardlint.evaluation.recording import Where
from shardlint.project import Project, is_library


@dataclass(frozen=True)
class Files:
    """The files of a project, as programs import them: only those that were, so that nothing depends on the others."""

    project: Project
    sources: Mapping[str, tuple[bytes, bool]]
    _texts: dict[str, str] = field(default_factory=dict)
    _lines: dict[str, list[bytes]] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    """The modules of the files, by path."""

    def find(self, name: str, importer: str) -> tuple[str, str, str] | None:
        project = self.project
        full = project.links.get(importer, {}).get(name, name)
        project.read.update({("links", importer), ("module", full)})
        if full not in project.modules or full not in self.sources or is_library(full):
            return None
        path = project.modules[full].path
        self._names[path] = full
        return full, path, self.text(full)

    def text(self, name: str) -> str:
        if name not in self._texts:
            self._texts[name] = self.sources[name][0].decode("utf-8", "replace")
        return self._texts[name]

    def has(self, path: str) -> bool:
        """Whether a file is of the project: what maps functions for the program may be of ours."""
        return path in self._names

    def assigned(self, mended: Repair) -> Iterator[Where]:
        """Where the argument is assigned that a repair is of."""
        if mended.argument is None or not self.has(mended.where.path):
            return
        text = b"\n".join(self.lines(mended.where.path)).decode("utf-8", "replace")
        where = assigned(text, mended.where, *mended.argument)
        if where is not None:
            yield where

    def lines(self, path: str) -> list[bytes]:
        if path not in self._lines:
            name = self._names[path]
            self._lines[path] = self.sources[name][0].splitlines()
        return self._lines[path]
