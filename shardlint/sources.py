"""The files of a run: their texts, and what they lower to, which is loaded where something asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shardlint import ir
from shardlint.cache import Cache
from shardlint.lower_ast import read_module
from shardlint.module_names import SourceFile
from shardlint.notebooks import Notebook
from shardlint.syntax import UnparsableFile
from shardlint.workers import Summary


@dataclass(slots=True)
class Source:
    """One file. ``text`` is its program, of a notebook that of its cells; ``key`` tells its content; ``summary`` is
    known once it is lowered."""

    file: SourceFile
    text: bytes
    key: str
    summary: Summary | None = None
    module: ir.Module | None = None
    failure: UnparsableFile | None = None
    notebook: Notebook | None = None

    @property
    def task(self) -> tuple[bytes, str, str, bool]:
        """What lowering needs."""
        return self.text, self.file.module, self.file.shown, self.file.is_package

    @property
    def comments(self) -> tuple[ir.Suppression, ...]:
        """Those that silence findings."""
        return self.summary[1] if self.summary is not None else ()


class Modules(Mapping[str, ir.Module]):
    """The lowered files by module name, each read from the cache when it is first asked for."""

    def __init__(self, sources: Mapping[str, Source], cache: Cache) -> None:
        self._sources = sources
        self._cache = cache

    def __getitem__(self, name: str) -> ir.Module:
        source = self._sources[name]
        if source.module is None:
            source.module = self._cache.get(source.key)
        if source.module is None:  # its entry was pruned, or could not be written
            source.module = read_module(*source.task)
            self._cache.put(source.key, source.module)
        return source.module

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)
