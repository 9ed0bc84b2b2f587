"""One run: find files, read, lower, follow imports, analyse, place and filter. Answers are data; printing is elsewhere.

Files with the same settings are one project: each is analysed with its own settings, beside all other files of that
project, whether or not they were asked for. So a file has the same findings in a run over it alone.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from shardlint import decoding, ir, jax_version, messages, module_names, notebooks
from shardlint.baseline import Baseline
from shardlint.cache import Cache, digest
from shardlint.config import Config, ConfigError, find
from shardlint.discovery import MAX_FILES, Discovery, Skipped, shown
from shardlint.fingerprints import Identities
from shardlint.found import Found, Proposal, ShownType
from shardlint.knowledge import Knowledge
from shardlint.made_axes import made_axes
from shardlint.module_names import folder_name, source_file
from shardlint.notebooks import Notebook, OtherLanguage, in_cells
from shardlint.problems import Problem
from shardlint.project import AXES, Project
from shardlint.relevance import imported_names, relevant
from shardlint.remedies import with_remedy
from shardlint.repeats import without_repeats
from shardlint.reuse import Earlier
from shardlint.selection import (
    REPORTED_BY_RUNS,
    UNPARSABLE,
    Selection,
    config_findings,
    silenced,
    wrong_comments,
)
from shardlint.sources import Modules, Source
from shardlint.suppress import MARK
from shardlint.syntax import UnparsableFile, check_syntax
from shardlint.workers import State, analyse_one, each, lower_one
from shardtypes.lang.diagnostics import Diagnostic, Edit, Fix, Place, Related

Settings: TypeAlias = Callable[[Path], Config]
"""The settings in force in a folder."""

Tell: TypeAlias = Callable[[str, int, int], None]
"""Is told what has been done with how many of how many files: ``"checked", 3, 20``."""


@dataclass(slots=True)
class Report:
    """What a run found. ``problems`` are about work that could not be done, ``skipped`` what was not
    checked on purpose."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)
    types: list[ShownType] = field(default_factory=list)
    uses: list[ShownType] = field(default_factory=list)
    arrays: dict[str, str] = field(default_factory=dict)
    """What the expressions of each file are that give arrays, as ``shardlint.array_places`` writes it."""
    proposals: list[Proposal] = field(default_factory=list)
    texts: dict[str, bytes] = field(default_factory=dict)
    notebooks: dict[str, Notebook] = field(default_factory=dict)
    checked: int = 0
    dependents: int = 0
    """How many of the checked files were not asked for: they use those that were."""
    skipped: list[Skipped] = field(default_factory=list)
    knowledge: list[Knowledge] = field(default_factory=list)
    """How much is known of what is or may be an array, file by file."""
    fixable_notebooks: set[str] = field(default_factory=set)
    """Notebooks with findings that have a fix, which is not applied there."""
    gaps: Counter[str] = field(default_factory=Counter)
    """What the analysis could not follow, and how often."""
    seconds: dict[str, float] = field(default_factory=dict)
    """The processor time that each file took, but for those that had been analysed before."""
    anchors: dict[Diagnostic, tuple[int, ...]] = field(default_factory=dict)
    """The lines on which a comment silences a finding; those of the file that it is in."""
    judged: dict[str, Callable[[str], bool]] = field(default_factory=dict)
    """For each file that was asked for: whether all findings of a code in it are certain to be among these."""
    baselines: dict[Path, Baseline] = field(default_factory=dict)
    """Those that are in force, by path."""
    earlier: int = 0
    """How many findings were left out because an earlier revision has them."""
    files: set[Path] = field(default_factory=set)
    """All files that were read, asked for or not."""

    @property
    def known(self) -> Knowledge:
        """How much is known of all of it."""
        return Knowledge.of_all(self.knowledge)

    def lines(self, place: Place) -> list[str]:
        """The lines that a place counts: of a file of this run, or of the cell of a notebook (empty where it has no
        readable text)."""
        text = self.texts.get(place.path, b"")
        if place.cell:
            return self.notebooks[place.path].lines(text, place.cell)
        return decoding.lines(decoding.decoded(text))


def check(
    paths: Iterable[str],
    settings: Config | Settings = find,
    *,
    cache: bool = True,
    overlay: Mapping[Path, bytes] | None = None,
    show_types: bool = False,
    around: bool = True,
    dependents: bool = False,
    arrays: bool = False,
    progress: Tell | None = None,
    cell_fixes: bool = False,
) -> Report:
    """Check every Python file and notebook under ``paths``. ``settings`` are those of all files, or what gives those of
    a folder. ``overlay`` gives the text of files that are not saved yet. Without ``around`` the project is not read
    beyond what the files import. With ``dependents`` the files of the project that use these are checked, too.
    With ``arrays`` what expressions are that give some is told, too. ``progress`` is told how far the run is. With
    ``cell_fixes`` findings in notebooks keep fixes that change their own cell.

    Raises:
        ConfigError: settings that cannot be used.
        RuleError: a rule module cannot be used.
    """
    module_names.forget()
    jax_version.required_jax.cache_clear()
    report = Report()
    discovery = Discovery(_by_folder(settings))
    unsaved = dict(overlay or {})
    named = [path for path in paths if Path(os.path.abspath(path)) not in unsaved]
    requested = [path for path in discovery.files(named) if path not in unsaved]
    requested += [path for path in unsaved if discovery.admits(path)]
    report.problems += discovery.problems
    report.skipped += discovery.skipped
    projects: dict[tuple[Path, Path | None], tuple[Config, list[Path]]] = {}
    for path in requested:
        config = discovery.config(path.parent)
        projects.setdefault((config.root, config.source), (config, []))[1].append(path)
    if not projects:
        config = discovery.config(Path.cwd())
        projects[config.root, config.source] = config, []
    whole = [Path(os.path.abspath(path)) for path in named]
    for config, files in projects.values():
        run = _Run(
            config,
            Cache(config.root / config.cache_dir if cache else None),
            unsaved,
            report,
            progress,
            arrays,
            cell_fixes,
        )
        beside: Iterable[Path] | None = None
        if any(path in (config.root, *config.root.parents) for path in whole):
            beside = (path for path in requested if path.is_relative_to(config.root))
        elif around and config.project:
            beside = _walk(config.root, discovery.settings)
        run.check(files, beside, show_types, dependents)
        report.files.update(run.paths)
    report.diagnostics.sort(key=_order)
    return report


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that is to be looked at, in its project; ``sources`` are the texts of all modules."""

    project: Project
    module: ir.Module
    sources: Mapping[str, tuple[bytes, bool]]
    config: Config


def opened(path: str, settings: Settings) -> Opened:
    """Read a file and the project around it, and check nothing.

    Raises:
        ConfigError: no such file, or one that is no Python.
    """
    module_names.forget()
    jax_version.required_jax.cache_clear()
    file = Path(os.path.abspath(path))
    config = settings(file.parent)
    try:
        file.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError("", messages.cannot_be_read(path, reason)) from None
    report = Report()
    run = _Run(config, Cache(None), {}, report)
    source = run.read_alone(file, settings)
    if source is None:
        reasons = [*map(str, report.problems), *(one.reason for one in report.skipped)]
        raise ConfigError(path, "; ".join(reasons))
    if source.failure is not None:
        where = f"{source.failure.path}:{source.failure.line}"
        raise ConfigError(where, source.failure.message)
    return run.opened(source)


@dataclass(frozen=True, slots=True)
class ReadProject:
    """The files that were read, by module, in their project."""

    project: Project
    sources: Mapping[str, Source]


def read_project(
    path: Path, config: Config, overlay: Mapping[Path, bytes]
) -> ReadProject:
    """Read the whole project of a file, with the texts of ``overlay`` in place of its files, and check nothing."""
    module_names.forget()
    cache = Cache(config.root / config.cache_dir)
    run = _Run(config, cache, overlay, Report())
    beside = None
    if config.project or config.source is not None:
        beside = _walk(config.root, lambda folder: config)
    return run.read_with([path, *overlay], beside)


def _order(found: Diagnostic) -> tuple[object, str, str]:
    return notebooks.order(found.place), found.code, found.message


def _by_folder(settings: Config | Settings) -> Settings:
    return (lambda folder: settings) if isinstance(settings, Config) else settings


def _walk(root: Path, settings: Settings) -> Iterator[Path]:
    """The files of a project that was not asked for as a whole."""
    return Discovery(settings).walk(root)


class _Run:
    """The run over the files of one project."""

    def __init__(
        self,
        config: Config,
        cache: Cache,
        overlay: Mapping[Path, bytes],
        report: Report,
        progress: Tell | None = None,
        arrays: bool = False,
        cell_fixes: bool = False,
    ) -> None:
        self.config = config
        self.cell_fixes = cell_fixes
        self.progress = progress or _no_progress
        self.cache = cache
        self.overlay = overlay
        self.report = report
        self.arrays = arrays
        self.sources: dict[str, Source] = {}
        self.paths: dict[Path, str] = {}
        self.links: dict[str, dict[str, str]] = {}
        self.jobs = config.jobs or os.cpu_count() or 1
        self.complete = False
        self.imported_elsewhere: set[str] = set()

    def check(
        self,
        paths: Iterable[Path],
        beside: Iterable[Path] | None,
        show_types: bool,
        dependents: bool = False,
    ) -> None:
        """Analyse ``paths``, and with ``dependents`` the files that use them; ``beside`` are the files of the project,
        which are read as well, where it is one."""
        report, selection = self.report, Selection.of(self.config)
        earlier = len(report.diagnostics)
        requested = [
            source
            for path in paths
            if (source := self._read(path, required=True)) is not None
        ]
        report.diagnostics += config_findings(self.config)
        context = self._read_around(beside)
        relevant_names = self.lower_all(requested, context)
        importing: list[Source] = []
        if dependents and beside is None:
            folder = shown(self.config.root)
            report.problems.append(
                Problem(messages.no_project(folder), folder, is_setting=True)
            )
        elif dependents:
            importing = self._importing(requested, context)
        relevant_ones = [s for s in requested if s.file.module in relevant_names]
        wanted = [s for s in (*relevant_ones, *importing) if s.summary]
        results = self.analyse(wanted, show_types)
        named = {s.file.module for s in requested}
        for source in importing:
            if _looks_into(results[source.file.module], named):
                requested.append(source)
                report.dependents += 1
            else:
                del results[source.file.module]
        report.checked += len(requested)
        found = without_repeats(results)
        used = self._silence(found, selection)
        self.imported_elsewhere = self._imported_by_others(requested)
        for source in requested:
            one = found.get(source.file.module, Found())
            self._conclude(source, one, used[source.file.shown], selection)
        self._hide_known(earlier)
        self.cache.prune()

    def _hide_known(self, earlier: int) -> None:
        """Take the findings of the baseline away from those of this project, which come after ``earlier`` ones."""
        report, path = self.report, self.config.baseline
        if path is None:
            return
        if path not in report.baselines:
            report.baselines[path] = Baseline.load(path)
        mine = sorted(report.diagnostics[earlier:], key=_order)
        identities = Identities(report.lines)
        report.diagnostics[earlier:] = report.baselines[path].remaining(
            mine, identities
        )

    def _silence(
        self, found: Mapping[str, Found], selection: Selection
    ) -> dict[str, set[tuple[int, str]]]:
        """Put the findings into the report that no comment silences; gives the comments that do, by file. What running
        a program finds may lie in a file that it imports, and so may the comment."""
        files = {source.file.shown: source for source in self.sources.values()}
        used: dict[str, set[tuple[int, str]]] = defaultdict(set)
        for module, one in found.items():
            for diagnostic, lines in zip(one.raw, one.anchors, strict=True):
                there = files.get(diagnostic.place.path, self.sources[module])
                if not selection.on(diagnostic.code, there.file.path):
                    continue
                comments = silenced(diagnostic, lines, there.comments)
                used[there.file.shown] |= comments
                if not comments:
                    shown = self._shown(with_remedy(diagnostic, there.text))
                    self.report.diagnostics.append(shown)
                    self.report.anchors[shown] = lines
        return used

    def _conclude(
        self,
        source: Source,
        found: Found,
        used: Set[tuple[int, str]],
        selection: Selection,
    ) -> None:
        """Put into the report what is wrong with one file itself and its comments, and what is known of it."""
        report = self.report
        broken = source.notebook.broken if source.notebook is not None else ()
        failures = [*broken, *([source.failure] if source.failure is not None else [])]
        wrong = [_unparsable(failure) for failure in failures]
        if source.failure is None:
            if found.crash is not None:
                text, trace = found.crash
                report.problems.append(Problem(text, source.file.shown))
                report.tracebacks.append(trace)
            judged = partial(self._is_judged, source, found, selection)
            wrong += wrong_comments(source.comments, used, source.file.shown, judged)
        report.diagnostics += [
            self._shown(with_remedy(one, source.text))
            for one in selection.keep(source.file.path, wrong)
        ]
        report.judged[source.file.shown] = partial(
            self._is_judged, source, found, selection
        )
        report.arrays[source.file.shown] = found.arrays
        report.types += [self._moved(one) for one in found.types]
        report.uses += [self._moved(one) for one in found.uses]
        if source.notebook is None:
            report.proposals += found.proposals
        report.gaps.update(dict(found.gaps))
        if found.seconds:
            report.seconds[source.file.shown] = found.seconds
        report.knowledge.append(found.known)

    def _importing(
        self, requested: Sequence[Source], context: Sequence[Source]
    ) -> list[Source]:
        """Those of the other files that import some which were asked for, directly or through others: a package may
        hand on what it imports, and what a function without annotations gives is what its callees give."""
        importers: dict[str, set[str]] = defaultdict(set)
        for importer, links in self.links.items():
            for module in links.values():
                importers[module].add(importer)
        found: set[str] = set()
        waiting = [source.file.module for source in requested]
        while waiting:
            new = importers[waiting.pop()] - found
            found |= new
            waiting += new
        return [s for s in context if s.file.module in found and s.summary]

    def _is_judged(
        self, source: Source, found: Found, selection: Selection, code: str
    ) -> bool:
        """Is a finding with this code in this file certain to be among what was found?"""
        if found.crash is not None or code not in selection.codes:
            return False
        if source.failure is not None:
            return code == UNPARSABLE
        if code not in REPORTED_BY_RUNS:
            return True
        if not self.config.evaluate or source.file.module in self.imported_elsewhere:
            return False
        # Outside a project nothing tells who imports a file.
        return self.complete or (
            source.summary is not None and source.summary[2].maps_functions
        )

    def _imported_by_others(self, requested: Iterable[Source]) -> set[str]:
        """The modules that files import which were not asked for, themselves or by others: a program there may be what
        a finding is of."""
        asked = {source.file.module for source in requested}
        found: set[str] = set()
        waiting = [name for name in self.links if name not in asked]
        while waiting:
            new = set(self.links.get(waiting.pop(), {}).values()) - found
            found |= new
            waiting += new
        return found

    def _shown(self, found: Diagnostic) -> Diagnostic:
        """A finding as the user sees it: by cell in a notebook, where fixes are not applied."""
        known = self.report.notebooks
        if not known:
            return found
        related = tuple(
            Related(in_cells(one.place, known), one.message) for one in found.related
        )
        place = in_cells(found.place, known)
        fix = found.fix
        if fix is not None and place.cell:
            self.report.fixable_notebooks.add(place.path)
            fix = self._cell_fix(fix, place)
        return replace(found, place=place, related=related, fix=fix)

    def _cell_fix(self, fix: Fix, place: Place) -> Fix | None:
        """A fix in a notebook, if it is wanted and changes nothing but the cell."""
        if not self.cell_fixes:
            return None
        edits = []
        for edit in fix.edits:
            there = in_cells(edit.place, self.report.notebooks)
            if (there.path, there.cell) != (place.path, place.cell):
                return None
            edits.append(Edit(there, edit.replacement))
        return replace(fix, edits=tuple(edits))

    def _moved(self, one: ShownType) -> ShownType:
        return replace(one, place=in_cells(one.place, self.report.notebooks))

    # --- reading ------------------------------------------------------------------------------------------------

    def _read_around(self, beside: Iterable[Path] | None) -> list[Source]:
        """The other files of the project; none of them where they are too many."""
        if beside is None:
            return []
        found = [
            path
            for path in islice(beside, MAX_FILES + len(self.paths) + 1)
            if path not in self.paths
        ]
        if len(found) > MAX_FILES:
            self.report.skipped.append(
                Skipped(self.config.root, messages.too_many_files(MAX_FILES))
            )
            return []
        self.complete = True
        return [
            source
            for path in found
            if (source := self._read(path, required=False)) is not None
        ]

    def _read(self, path: Path, required: bool) -> Source | None:
        file = source_file(path, self.config)
        if file.module in self.sources:
            # Two scripts of one name: the later goes by its path, which no import statement says.
            file = replace(file, module=".".join(path.with_suffix("").parts[1:]))
        try:
            text = self.overlay[path] if path in self.overlay else path.read_bytes()
        except OSError as error:
            if required:
                reason = error.strerror or str(error)
                problem = messages.unreadable(file.shown, reason)
                self.report.problems.append(Problem(problem, file.shown))
            return None
        source = Source(file, text, "")
        if path.suffix == ".ipynb" and not self._open_notebook(source, required):
            return None
        source.key = digest(
            "lower", file.module, file.shown, str(file.is_package), source.text
        )
        self.sources[file.module] = source
        self.paths[path] = file.module
        self.report.texts[file.shown] = text
        return source

    def _open_notebook(self, source: Source, required: bool) -> bool:
        """Put its program in place of a notebook. False where it holds another language."""
        try:
            notebook = notebooks.read(source.text, source.file.shown)
        except OtherLanguage as language:
            if required:
                self.report.skipped.append(
                    Skipped(source.file.path, messages.other_language(str(language)))
                )
            return False
        except UnparsableFile as error:
            source.failure = error
            return True
        source.notebook = self.report.notebooks[source.file.shown] = notebook
        source.text = notebook.text.encode("utf-8", "surrogatepass")
        return True

    # --- lowering -----------------------------------------------------------------------------------------------

    def lower_all(
        self, requested: Sequence[Source], context: Sequence[Source]
    ) -> set[str]:
        """Lower what matters of both and all that it imports. Returns the names of what matters."""
        known = [s for s in (*requested, *context) if s.failure is None]
        outside = {s.file.module for s in known if self._imports_unread(s)}
        names = relevant(
            {s.file.module: (s.file.module, s.text) for s in known}, outside
        )
        pending = [s for s in context if s.failure is None and s.file.module in names]
        for source in requested:
            if source.failure is not None:
                continue
            if source.file.module in names or MARK in source.text:
                pending.append(source)
            else:
                self._syntax_only(source, pending)
        while pending:
            self._lower(pending)
            pending = list(
                {
                    new.file.module: new
                    for source in pending
                    for new in self._imports(source)
                }.values()
            )
        return names

    def _imports_unread(self, source: Source) -> bool:
        """Does the text import a project file that is not among the requested ones, whose text was not seen?"""
        for name in imported_names(source.text):
            parts = name.lstrip(".").split(".")
            dots = len(name) - len(name.lstrip("."))
            for end in range(1, len(parts) + 1):
                prefix = ".".join(parts[:end])
                path = source.file.locate(prefix, dots)
                if path is not None and path not in self.paths:
                    return True
            if (
                parts[-1]
                and path is None
                and source.file.locate_folder(prefix, dots) is not None
            ):
                # of a package without a file of its own it may import any module
                return True
        return False

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
        results = each(lower_one, tasks, self.jobs, size)
        for done, (source, result) in enumerate(zip(sources, results, strict=True), 1):
            self.progress("read", done, len(tasks))
            if isinstance(result, UnparsableFile):
                source.failure = result
            elif result is None:
                self.report.problems.append(Problem(messages.worker_died()))
            else:
                source.module, source.summary = result
                self.cache.put(source.key, source.module)
                self.cache.put(digest("summary", source.key), source.summary)

    def _imports(self, source: Source) -> Iterator[Source]:
        """Project files that ``source`` imports and that were not lowered yet."""
        if source.summary is None:
            return
        links = self.links.setdefault(source.file.module, {})
        for dotted in source.summary[0]:
            path = source.file.locate(dotted)
            if path is None:
                folder = source.file.locate_folder(dotted)
                if folder is not None:
                    links[dotted] = folder_name(folder, self.config)
                continue
            other = self.sources.get(self.paths.get(path, "")) or self._read(
                path, required=False
            )
            if other is None:
                continue
            links[dotted] = other.file.module
            if other.summary is None and other.failure is None:
                yield other

    def read_alone(self, path: Path, settings: Settings) -> Source | None:
        """Read and lower one file that is asked for, with its project."""
        source = self._read(path, required=True)
        if source is None:
            return None
        beside = _walk(self.config.root, settings) if self.config.project else None
        self.lower_all([source], self._read_around(beside))
        if source.failure is None and source.summary is None:
            self._lower([source])  # it says nothing of arrays
        return source

    def read_with(
        self, paths: Iterable[Path], beside: Iterable[Path] | None
    ) -> ReadProject:
        """Read and lower files, and what matters of those beside."""
        requested = []
        for path in dict.fromkeys(paths):
            source = self._read(path, required=False)
            if source is not None:
                requested.append(source)
        self.lower_all(requested, self._read_around(beside))
        sources = {
            name: s for name, s in sorted(self.sources.items()) if s.summary is not None
        }
        return ReadProject(self._project(sources), sources)

    def opened(self, source: Source) -> Opened:
        """A file that was read, in its project."""
        sources = {
            name: s for name, s in sorted(self.sources.items()) if s.summary is not None
        }
        project = self._project(sources)
        texts = {name: (s.text, s.file.is_package) for name, s in sources.items()}
        module = project.modules[source.file.module]
        return Opened(project, module, texts, self.config)

    # --- analysis -----------------------------------------------------------------------------------------------

    def analyse(self, wanted: Sequence[Source], show_types: bool) -> dict[str, Found]:
        """The findings in ``wanted``, all lowered. One entry of the cache holds those of the whole run, others those of
        each file."""
        sources = {
            name: s for name, s in sorted(self.sources.items()) if s.summary is not None
        }
        asked = "arrays" if self.arrays else ""
        settings = (self.config.analysis_key, str(self.complete), asked)
        key = digest(
            "found",
            *settings,
            *(s.file.module for s in wanted),
            "",
            *(s.key for s in sources.values()),
        )
        hit = None if show_types or not wanted else self.cache.get(key)
        if hit is not None:
            return {
                s.file.module: replace(Found(*kept), read=read)
                for s, (kept, read) in zip(wanted, hit, strict=True)
            }
        project = self._project(sources)
        earlier = Earlier(self.cache, project, self.config, settings)
        found: dict[str, Found] = {}
        changed: list[Source] = []
        for source in wanted:
            known = None if show_types else earlier.found(source)
            if known is None:
                changed.append(source)
            else:
                found[source.file.module] = known
        texts = {name: (s.text, s.file.is_package) for name, s in sources.items()}
        state = State(project, texts, self.config, show_types, self.arrays)
        for source, result in zip(changed, self._analysed(changed, state), strict=True):
            found[source.file.module] = result
            if result.crash is None and not show_types:
                earlier.keep(source, result)
        # in the order in which they are kept
        found = {s.file.module: found[s.file.module] for s in wanted}
        # what other files say decides, too
        beyond = any(("note", AXES) in result.read for result in found.values())
        if (
            not show_types
            and not beyond
            and all(result.crash is None for result in found.values())
        ):
            self.cache.put(key, [(one.kept, one.read) for one in found.values()])
        return found

    def _analysed(self, changed: Sequence[Source], state: State) -> Iterator[Found]:
        """What is found in each file; the worker that has one may end without a result."""
        names = [source.file.module for source in changed]
        size = sum(len(source.text) for source in changed)
        results = each(analyse_one, names, self.jobs, size, state)
        for done, result in enumerate(results, 1):
            self.progress("checked", done, len(names))
            yield (
                result
                if result is not None
                else Found(crash=(messages.worker_died(), ""))
            )

    def _project(self, sources: Mapping[str, Source]) -> Project:
        """The modules by name, with the imports that lead to modules of other names."""
        links = {
            name: {a: b for a, b in found.items() if a != b}
            for name, found in self.links.items()
        }
        return Project(
            Modules(sources, self.cache),
            {name: found for name, found in links.items() if found},
            self.complete,
            {
                name: s.summary[2]
                for name, s in sources.items()
                if s.summary is not None
            },
            {name: s.key for name, s in sources.items()},
            partial(made_axes, self.config),
        )


def _looks_into(found: Found, modules: Set[str]) -> bool:
    """Whether the analysis of a file asked what is in one of the modules, and not only which modules there are. One
    that failed may have."""
    if found.crash is not None:
        return True
    return any(kind == "module" and name in modules for kind, name in found.read)


def _no_progress(what: str, done: int, total: int) -> None:
    """Nobody wants to know."""


def _unparsable(error: UnparsableFile) -> Diagnostic:
    place = Place(error.path, error.line, error.column, error.line, error.column + 1)
    return Diagnostic("ST902", "unparsable-file", error.message, place)
