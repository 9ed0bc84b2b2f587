"""One run: read, lower, follow imports, analyse, place and filter. Answers are data; printing is elsewhere."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from shardlint import files, messages
from shardlint.cache import Cache, digest
from shardlint.config import Config
from shardlint.files import SourceFile
from shardlint.made_axes import made_axes
from shardlint.project import AXES, Project
from shardlint.relevance import imported_names, relevant
from shardlint.reuse import Earlier
from shardlint.selection import Selection, config_findings, suppressed
from shardlint.sources import Modules, Source
from shardlint.suppress import MARK
from shardlint.syntax import UnparsableFile, check_syntax
from shardlint.workers import Found, ShownType, State, analyse_one, each, lower_one
from shardtypes.lang.diagnostics import Diagnostic, Place


@dataclass(slots=True)
class Report:
    """What a run found. ``problems`` are lines for stderr about work that could not be done."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)
    types: list[ShownType] = field(default_factory=list)
    uses: list[ShownType] = field(default_factory=list)
    texts: dict[str, bytes] = field(default_factory=dict)
    checked: int = 0
    gaps: Counter[str] = field(default_factory=Counter)
    """What the analysis could not follow, and how often."""

    def lines(self, path: str) -> list[str]:
        """The lines of a file of this run (empty where it has no readable text)."""
        return self.texts.get(path, b"").decode("utf-8", "replace").splitlines()


def check(
    paths: Iterable[str],
    config: Config,
    *,
    cache: bool = True,
    overlay: Mapping[Path, bytes] | None = None,
    show_types: bool = False,
) -> Report:
    """Check every Python file under ``paths``. ``overlay`` gives the text of files that are not saved yet.

    Raises:
        RuleError: a rule module cannot be used.
    """
    files.locate.cache_clear()  # files come and go between the runs of one process
    selection = Selection.of(config)
    report = Report()
    run = _Run(config, Cache(config.root / config.cache_dir if cache else None), overlay or {}, report)
    paths = list(paths)
    run.complete = any(Path(os.path.abspath(path)) in (config.root, *config.root.parents) for path in paths)
    requested = run.read_requested(paths)
    report.checked = len(requested)
    for diagnostic in config_findings(config):
        report.diagnostics.append(diagnostic)
    relevant_names = run.lower_all(requested)
    results = run.analyse([s for s in requested if s.file.module in relevant_names and s.summary], show_types)
    for source in requested:
        if source.failure is not None:
            report.diagnostics += selection.keep(source.file.path, [_unparsable(source.failure)])
            continue
        found = results.get(source.file.module, Found())
        if found.crash is not None:
            report.problems.append(found.crash[0])
            report.tracebacks.append(found.crash[1])
        comments = source.summary[1] if source.summary else ()
        chosen = selection.keep_pairs(source.file.path, zip(found.raw, found.anchors, strict=True))
        kept, extra = suppressed(chosen, comments, source.file.shown, selection, complete=found.crash is None)
        report.diagnostics += kept + selection.keep(source.file.path, extra)
        report.types += found.types
        report.uses += found.uses
        report.gaps.update(dict(found.gaps))
    run.cache.prune()
    report.diagnostics.sort(key=lambda d: (d.place, d.code, d.message))
    return report


class _Run:
    def __init__(self, config: Config, cache: Cache, overlay: Mapping[Path, bytes], report: Report) -> None:
        self.config = config
        self.cache = cache
        self.overlay = overlay
        self.report = report
        self.sources: dict[str, Source] = {}
        self.paths: dict[Path, str] = {}
        self.links: dict[str, dict[str, str]] = {}
        self.jobs = config.jobs or os.cpu_count() or 1
        self.complete = False

    # --- reading ------------------------------------------------------------------------------------------------

    def read_requested(self, paths: Iterable[str]) -> list[Source]:
        found = []
        remaining = [p for p in paths if Path(os.path.abspath(p)) not in self.overlay and self._exists(p)]
        for path in (*files.discover(remaining, self.config), *self.overlay):
            if path not in self.paths:
                source = self._read(path, required=True)
                if source is not None:
                    found.append(source)
        return found

    def _exists(self, path: str) -> bool:
        if os.path.lexists(path):
            return True
        self.report.problems.append(messages.gone(path))
        return False

    def _read(self, path: Path, required: bool, name: str | None = None) -> Source | None:
        file = files.source_file(path, name)
        if file.module in self.sources:
            # Two scripts of one name: the later goes by its path, which no import statement says.
            file = replace(file, module=".".join(path.with_suffix("").parts[1:]))
        try:
            text = self.overlay[path] if path in self.overlay else path.read_bytes()
        except OSError as error:
            if required:
                self.report.problems.append(messages.unreadable(file.shown, error.strerror or str(error)))
            return None
        source = Source(file, text, digest("lower", file.module, file.shown, str(file.is_package), text))
        self.sources[file.module] = source
        self.paths[path] = file.module
        self.report.texts[file.shown] = text
        return source

    # --- lowering -----------------------------------------------------------------------------------------------

    def lower_all(self, requested: Sequence[Source]) -> set[str]:
        """Lower what matters of ``requested`` and all that it imports. Returns the names of what matters."""
        outside = {s.file.module for s in requested if self._imports_unread(s)}
        names = relevant({s.file.module: (s.file.module, s.text) for s in requested}, outside)
        pending = []
        for source in requested:
            if source.file.module in names or MARK in source.text:
                pending.append(source)
            else:
                self._syntax_only(source, pending)
        while pending:
            self._lower(pending)
            pending = [new for source in pending for new in self._imports(source)]
        return names

    def _imports_unread(self, source: Source) -> bool:
        """Does the text import a project file that is not among the requested ones, whose text was not seen?"""
        for name in imported_names(source.text):
            dots = len(name) - len(name.lstrip("."))
            roots = self._roots(source.file) if not dots else (source.file.path.parents[dots - 1],)
            parts = name[dots:].split(".")
            for end in range(1, len(parts) + 1):
                path = files.locate(".".join(parts[:end]), roots)
                if path is not None and path not in self.paths:
                    return True
        return False

    def _roots(self, file: SourceFile) -> tuple[Path, ...]:
        roots = (file.root, *(self.config.root / s for s in self.config.src))
        return tuple(dict.fromkeys(roots))

    def _syntax_only(self, source: Source, pending: list[Source]) -> None:
        """A file that can have no finding still has to be Python; the interpreter's own parser is quickest."""
        key = digest("syntax", source.key)
        if self.cache.get(key):
            return
        try:
            if check_syntax(source.text, source.file.shown) is None:
                self.cache.put(key, True)
            else:
                pending.append(source)
        except UnparsableFile as error:
            source.failure = error

    def _lower(self, sources: Sequence[Source]) -> None:
        fresh = []
        for source in sources:
            source.summary = self.cache.get(digest("summary", source.key))
            if source.summary is None:
                fresh.append(source)
        self._lower_fresh(fresh)

    def _lower_fresh(self, sources: Sequence[Source]) -> None:
        size = sum(len(s.text) for s in sources)
        tasks = [s.task for s in sources]
        for source, result in zip(sources, each(lower_one, tasks, self.jobs, size), strict=True):
            if isinstance(result, UnparsableFile):
                source.failure = result
            elif result is None:
                self.report.problems.append(messages.worker_died())
            else:
                source.module, source.summary = result
                self.cache.put(source.key, source.module)
                self.cache.put(digest("summary", source.key), source.summary)

    def _imports(self, source: Source) -> Iterator[Source]:
        """Project files that ``source`` imports and that were not read yet."""
        if source.summary is None:
            return
        roots = self._roots(source.file)
        for dotted in source.summary[0]:
            path = files.locate(dotted, roots)
            if path is None:
                continue
            other = self.sources.get(self.paths.get(path, ""))
            new = other is None
            if other is None:
                other = self._read(path, required=False, name=dotted)
            if other is None:
                continue
            if other.file.module != dotted:
                self.links.setdefault(source.file.module, {})[dotted] = other.file.module
            if new or (other.summary is None and other.failure is None):
                yield other

    # --- analysis -----------------------------------------------------------------------------------------------

    def analyse(self, wanted: Sequence[Source], show_types: bool) -> dict[str, Found]:
        """The findings in ``wanted``, all lowered. One entry of the cache holds those of the whole run, others those of
        each file."""
        sources = {name: s for name, s in sorted(self.sources.items()) if s.summary is not None}
        settings = (self.config.analysis_key, str(self.complete))
        key = digest("found", *settings, *(s.file.module for s in wanted), "", *(s.key for s in sources.values()))
        hit = None if show_types or not wanted else self.cache.get(key)
        if hit is not None:
            return {s.file.module: Found(*found) for s, found in zip(wanted, hit, strict=True)}
        project = Project(
            Modules(sources, self.cache),
            self.links,
            self.complete,
            {name: s.summary[2] for name, s in sources.items() if s.summary is not None},
            {name: s.key for name, s in sources.items()},
            partial(made_axes, self.config),
        )
        earlier = Earlier(self.cache, project, self.config, settings)
        results = {s.file.module: None if show_types else earlier.found(s) for s in wanted}
        changed = [s for s in wanted if results[s.file.module] is None]
        texts = {name: (s.text, s.file.is_package) for name, s in sources.items()}
        state = State(project, texts, self.config, show_types)
        names, size = [s.file.module for s in changed], sum(len(s.text) for s in changed)
        for source, result in zip(changed, each(analyse_one, names, self.jobs, size, state), strict=True):
            results[source.file.module] = result if result is not None else Found(crash=(messages.worker_died(), ""))
            if result is not None and result.crash is None and not show_types:
                earlier.keep(source, result)
        found = {name: result for name, result in results.items() if result is not None}
        beyond = any(("note", AXES) in result.read for result in found.values())  # what other files say decides, too
        if not show_types and not beyond and all(result.crash is None for result in found.values()):
            self.cache.put(key, [(result.raw, result.anchors, result.gaps) for result in found.values()])
        return found


def _unparsable(error: UnparsableFile) -> Diagnostic:
    place = Place(error.path, error.line, error.column, error.line, error.column + 1)
    return Diagnostic("ST902", "unparsable-file", error.message, place)
