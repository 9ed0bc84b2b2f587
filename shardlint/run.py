"""One run: read, lower, follow imports, analyse, place and filter. Answers are data; printing is elsewhere."""

from __future__ import annotations

import gc
import multiprocessing
import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias, TypeVar

from shardlint import files, ir, messages
from shardlint.cache import Cache, digest
from shardlint.config import Config
from shardlint.files import SourceFile
from shardlint.imports import imported
from shardlint.project import Project
from shardlint.relevance import imported_names, relevant
from shardlint.selection import Selection, config_findings, suppressed
from shardlint.suppress import MARK
from shardlint.syntax import UnparsableFile, check_syntax
from shardtypes.lang.diagnostics import Diagnostic, Place

#: Below this much new source text, starting processes costs more than it saves.
_PARALLEL_BYTES = 200_000

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ShownType:
    """What ``--show-types`` prints of one local."""

    place: Place
    name: str
    text: str
    why: str | None

    @property
    def is_array(self) -> bool:
        """An array of known rank."""
        return self.why is None and self.text.endswith("']")


@dataclass(slots=True)
class Report:
    """What a run found. ``problems`` are lines for stderr about work that could not be done."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)
    types: list[ShownType] = field(default_factory=list)
    texts: dict[str, bytes] = field(default_factory=dict)
    checked: int = 0
    gaps: Counter[str] = field(default_factory=Counter)
    """What the analysis could not follow, and how often."""

    def lines(self, path: str) -> list[str]:
        """The lines of a file of this run (empty where it has no readable text)."""
        return self.texts.get(path, b"").decode("utf-8", "replace").splitlines()


@dataclass(frozen=True, slots=True)
class _Found:
    """One analysed file. ``raw`` are findings before selection and suppression, with the line that anchors each."""

    raw: tuple[Diagnostic, ...] = ()
    anchors: tuple[tuple[int, ...], ...] = ()
    gaps: tuple[tuple[str, int], ...] = ()
    types: tuple[ShownType, ...] = ()
    crash: tuple[str, str] | None = None


@dataclass(slots=True)
class _Source:
    """One file. ``summary`` is known once it is lowered; ``module`` is only loaded where something is analysed."""

    file: SourceFile
    text: bytes
    key: str
    summary: _Summary | None = None
    module: ir.Module | None = None
    failure: UnparsableFile | None = None


_Summary: TypeAlias = tuple[tuple[str, ...], tuple[ir.Suppression, ...]]
"""What a file imports, and its suppression comments."""


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
        found = results.get(source.file.module, _Found())
        if found.crash is not None:
            report.problems.append(found.crash[0])
            report.tracebacks.append(found.crash[1])
        comments = source.summary[1] if source.summary else ()
        chosen = selection.keep_pairs(source.file.path, zip(found.raw, found.anchors, strict=True))
        kept, extra = suppressed(chosen, comments, source.file.shown, selection, complete=found.crash is None)
        report.diagnostics += kept + selection.keep(source.file.path, extra)
        report.types += found.types
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
        self.sources: dict[str, _Source] = {}
        self.paths: dict[Path, str] = {}
        self.links: dict[str, dict[str, str]] = {}
        self.jobs = config.jobs or os.cpu_count() or 1
        self.complete = False

    # --- reading ------------------------------------------------------------------------------------------------

    def read_requested(self, paths: Iterable[str]) -> list[_Source]:
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

    def _read(self, path: Path, required: bool, name: str | None = None) -> _Source | None:
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
        source = _Source(file, text, digest("lower", file.module, file.shown, str(file.is_package), text))
        self.sources[file.module] = source
        self.paths[path] = file.module
        self.report.texts[file.shown] = text
        return source

    # --- lowering -----------------------------------------------------------------------------------------------

    def lower_all(self, requested: Sequence[_Source]) -> set[str]:
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

    def _imports_unread(self, source: _Source) -> bool:
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

    def _syntax_only(self, source: _Source, pending: list[_Source]) -> None:
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

    def _lower(self, sources: Sequence[_Source]) -> None:
        fresh = []
        for source in sources:
            source.summary = self.cache.get(digest("summary", source.key))
            if source.summary is None:
                fresh.append(source)
        self._lower_fresh(fresh)

    def _lower_fresh(self, sources: Sequence[_Source]) -> None:
        tasks = [(s.text, s.file.module, s.file.shown, s.file.is_package) for s in sources]
        size = sum(len(s.text) for s in sources)
        for source, result in zip(sources, self._map(_lower_one, tasks, size, None), strict=True):
            if isinstance(result, ir.Module):
                source.module = result
                source.summary = (imported(result), result.suppressions)
                self.cache.put(source.key, result)
                self.cache.put(digest("summary", source.key), source.summary)
            elif isinstance(result, UnparsableFile):
                source.failure = result
            else:
                self.report.problems.append(messages.worker_died())

    def _imports(self, source: _Source) -> Iterator[_Source]:
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

    def analyse(self, wanted: Sequence[_Source], show_types: bool) -> dict[str, _Found]:
        """The findings in ``wanted``, all lowered. One entry of the cache holds those of the whole run."""
        project = {name: s for name, s in sorted(self.sources.items()) if s.summary is not None}
        names = [s.file.module for s in wanted]
        settings = (self.config.analysis_key, str(self.complete))
        key = digest("found", *settings, *names, "", *(s.key for s in project.values()))
        hit = None if show_types or not wanted else self.cache.get(key)
        if hit is not None:
            return {name: _Found(*found) for name, found in zip(names, hit, strict=True)}
        for source in project.values():
            source.module = source.module or self.cache.get(source.key)
        self._lower_fresh([s for s in project.values() if s.module is None])
        state = _State(
            Project({name: s.module for name, s in project.items() if s.module}, self.links, self.complete),
            {name: (s.text, s.file.is_package) for name, s in project.items()},
            self.config,
            show_types,
        )
        size = sum(len(s.text) for s in wanted)
        results: dict[str, _Found] = {}
        for name, result in zip(names, self._map(_analyse_one, names, size, state), strict=True):
            results[name] = result if result is not None else _Found(crash=(messages.worker_died(), ""))
        if not show_types and all(found.crash is None for found in results.values()):
            self.cache.put(key, [(found.raw, found.anchors, found.gaps) for found in results.values()])
        return results

    def _map(self, work: Callable[[T], R], tasks: Sequence[T], size: int, state: _State | None) -> Iterator[R | None]:
        """``work`` of every task, in order; None for those that a dying process took along."""
        global _STATE
        if self.jobs == 1 or len(tasks) < 2 or size < _PARALLEL_BYTES:
            _STATE = state
            with _few_collections():
                yield from map(work, tasks)
            return
        method = "fork" if "fork" in multiprocessing.get_all_start_methods() and os.name == "posix" else "spawn"
        context = multiprocessing.get_context(method)
        done = 0
        try:
            with ProcessPoolExecutor(min(self.jobs, len(tasks)), context, _set_state, (state,)) as pool:
                for result in pool.map(work, tasks, chunksize=max(1, len(tasks) // (8 * self.jobs))):
                    done += 1
                    yield result
        except BrokenProcessPool:
            for _ in range(len(tasks) - done):
                yield None


@dataclass(frozen=True, slots=True)
class _State:
    """What every worker process needs to analyse a file."""

    project: Project
    sources: Mapping[str, tuple[bytes, bool]]
    config: Config
    show_types: bool


_STATE: _State | None = None


def _set_state(state: _State | None) -> None:
    global _STATE
    _STATE = state
    gc.disable()  # as in _few_collections, for the life of the process


@contextmanager
def _few_collections() -> Iterator[None]:
    """Trees have no cycles; looking for cycles in them takes a fifth of the time. ``_tidy`` does it now and then."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_tasks_done = 0


def _tidy() -> None:
    """Collect the cycles among what the last files left."""
    global _tasks_done
    _tasks_done += 1
    if _tasks_done % 32 == 0 and not gc.isenabled():
        gc.collect(1)


def _lower_one(task: tuple[bytes, str, str, bool]) -> ir.Module | UnparsableFile:
    # libcst takes a good part of a second to import: not in a run that finds everything in the cache.
    from shardlint.lower import lower

    try:
        return lower(*task).module
    except UnparsableFile as error:
        return error
    finally:
        _tidy()


def _analyse_one(name: str) -> _Found:
    state = _STATE
    assert state is not None
    module = state.project.modules[name]
    try:
        from shardlint.placing import found_in

        raw, anchors, gaps = found_in(state.project, module, state.sources, state.config)
        types: tuple[ShownType, ...] = ()
        if state.show_types:
            from shardlint.placing import types_in

            types = tuple(ShownType(*t) for t in types_in(state.project, module, state.sources, state.config))
        return _Found(raw, anchors, gaps, types)
    except Exception as error:  # noqa: BLE001  # a bug of ours becomes exit status 2; the other files are still checked
        return _Found(crash=(messages.crashed(module.path, error), traceback.format_exc()))
    finally:
        _tidy()


def _unparsable(error: UnparsableFile) -> Diagnostic:
    place = Place(error.path, error.line, error.column, error.line, error.column + 1)
    return Diagnostic("ST902", "unparsable-file", error.message, place)
