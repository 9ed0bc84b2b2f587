"""What a keystroke changes, found again at once: the function that it is in, and those that use it.

A session keeps a document's units lowered, beside what it imports as that was when the session began, so that after an
edit one unit is lowered and checked. What it tells of a unit is what a run over everything tells, where all code that
leads there is checked too; elsewhere it is silent, and the findings from before stay until everything was run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from shardlint import ir
from shardlint.cache import Cache
from shardlint.config import Config
from shardlint.decoding import encoded
from shardlint.discovery import Discovery
from shardlint.edits import HasPlaces
from shardlint.engine import Part, run
from shardlint.engine.expected_errors import expects_any
from shardlint.lower import Lowered, lower
from shardlint.outline import Outline, outline
from shardlint.placing import Places, placed
from shardlint.positions import Positions
from shardlint.project import MAPPED, Project
from shardlint.run import Report, _Run
from shardlint.selection import Selection, silenced
from shardlint.server.checking import settings_of
from shardlint.server.documents import Results, Snapshot
from shardlint.server.units import AHEAD, Lines, Unit, source
from shardlint.walking import walk
from shardtypes.lang.diagnostics import Place

#: Node numbers of one unit.
_STRIDE = 1 << 20
#: Units that are checked again at once; more of them wait for the run over everything.
_MOST = 8


@dataclass(slots=True)
class _Part:
    """One unit, lowered: its statements, its suppression comments (lines from 1), every name in it, the imports in it,
    and what the project has to know of it."""

    lines: Lines
    body: tuple[ir.Stmt, ...]
    comments: tuple[ir.Suppression, ...]
    names: frozenset[str]
    imports: tuple[ir.Stmt, ...]
    expects_errors: bool
    outline: Outline | None = None
    lowered: Lowered | None = None
    positions: Positions | None = None

    @property
    def kinds(self) -> list[tuple[type[ir.Stmt], str]]:
        """What it binds, and how."""
        return [(type(one), getattr(one, "name", "")) for one in self.body]

    @property
    def is_definition(self) -> bool:
        """One function or class."""
        if len(self.body) != 1:
            return False
        only = self.body[0]
        return isinstance(only, (ir.Function, ir.Class))


@dataclass(frozen=True, slots=True)
class Fresh:
    """What was found at once in a snapshot: in the units of these numbers, and in no other."""

    snapshot: Snapshot
    results: Results
    numbers: frozenset[int]


@dataclass(slots=True)
class Session:
    """One document among what it imports. ``parts`` are its units by number; ``files`` all that were read; it is
    ``alone`` if none of the others imports it."""

    config: Config
    project: Project
    sources: Mapping[str, tuple[bytes, bool]]
    module: ir.Module
    parts: dict[int, _Part]
    alone: bool
    files: frozenset[Path]
    others: dict[str, HasPlaces] = field(default_factory=dict)

    @classmethod
    def begin(
        cls,
        path: Path,
        snapshot: Snapshot,
        texts: Mapping[Path, str],
        before: Session | None = None,
    ) -> Session | None:
        """Read and lower what there is, but for what an earlier session has lowered; None where the settings leave the
        file out, or nothing in it is relevant.

        Raises:
            ConfigError: settings that cannot be used.
        """
        config = _settings(path)
        if not Discovery(lambda folder: config).admits(path):
            return None
        overlay = {path: encoded(snapshot.text)}
        for other, text in texts.items():
            if other != path and _settings(other).root == config.root:
                overlay[other] = encoded(text)
        reading = _Run(config, Cache(config.root / config.cache_dir), overlay, Report())
        requested = [reading._read(other, required=False) for other in overlay]
        names = reading.lower_all([one for one in requested if one is not None], [])
        name = reading.paths[path]
        own = reading.sources[name]
        if name not in names or own.summary is None or own.failure is not None:
            return None
        known = {n: s for n, s in sorted(reading.sources.items()) if s.summary}
        project = reading._project(known)
        file = own.file
        earlier = before.parts if before is not None else {}
        parts = {}
        for number, lines in zip(snapshot.numbers, snapshot.lines, strict=True):
            part = earlier.get(number)
            if part is None or part.lines is not lines:
                part = _part(lines, number, name, file.shown, file.is_package)
            parts[number] = part
        module = ir.Module(name, file.shown, file.is_package, _body(parts), ())
        for part in parts.values():
            part.outline = _outline_of(module, part, parts)
        alone = all(
            name not in links.values()
            for other, links in reading.links.items()
            if other != name
        )
        sources = {}
        for called, one in known.items():
            sources[called] = one.text, one.file.is_package
        files = frozenset(reading.paths)
        return cls(config, project, sources, module, parts, alone, files)

    def check(self, units: Sequence[Unit]) -> Fresh | None:
        """What is found in the units that have changed since, and in those that use them; None where that takes a run
        over everything, and a new session."""
        changed = self._follow(units)
        if changed is None:
            return None
        snapshot = Snapshot.of(units)
        checked = self._users(changed)
        if len(checked) > _MOST:
            checked = set() if self._is_mapped() else changed
        if self._is_mapped() and not self.alone:
            checked = set()
        if not checked:
            return Fresh(snapshot, Results(()), frozenset())
        return Fresh(snapshot, self._found(snapshot, checked), frozenset(checked))

    def _follow(self, units: Sequence[Unit]) -> set[int] | None:
        """Take over the units that have changed: their numbers. None where other things than functions and classes
        have changed, or what they say of the project."""
        if {unit.number for unit in units} != self.parts.keys():
            return None
        module = self.module
        fresh = {}
        for unit in units:
            before = self.parts[unit.number]
            if before.lines is unit.good or before.lines == unit.good:
                continue
            part = _part(
                unit.good,
                unit.number,
                module.name,
                module.path,
                module.is_package,
                keep_nodes=True,
            )
            part.outline = _outline_of(module, part, self.parts)
            same = part.kinds == before.kinds and part.outline == before.outline
            if not (same and part.is_definition):
                return None
            fresh[unit.number] = part
        self.parts.update(fresh)
        self.module = replace(module, body=_body(self.parts))
        return set(fresh)

    def _users(self, changed: set[int]) -> set[int]:
        """Those units and all that mention their names, directly or not."""
        found, waiting = set(changed), list(changed)
        while waiting and len(found) <= _MOST:
            names = {name for _, name in self.parts[waiting.pop()].kinds}
            for number, part in self.parts.items():
                if number not in found and not names.isdisjoint(part.names):
                    found.add(number)
                    waiting.append(number)
        return found

    def _is_mapped(self) -> bool:
        """Whether what runs a function decides what is right in it."""
        return any(
            self.project.fact("some outline", has) == "True"
            for has in ("maps_functions", "gives_rules", "switches_axes")
        )

    def _found(self, snapshot: Snapshot, checked: set[int]) -> Results:
        body = _body({number: self.parts[number] for number in checked})
        expects = any(part.expects_errors for part in self.parts.values())
        project = self._project()
        analysis = run(
            project, self.module, self.config, uses=True, part=Part(body, expects)
        )
        places = _DocumentPlaces(project, self.sources, self, snapshot)
        found = placed(analysis, places, True, lambda at: at // _STRIDE in checked)
        selection = Selection.of(self.config)
        path = Path(self.module.path).absolute()
        comments = list(self._comments(snapshot, checked))
        kept = [
            diagnostic
            for diagnostic, lines in zip(found.raw, found.anchors, strict=True)
            if selection.on(diagnostic.code, path)
            and not silenced(diagnostic, lines, comments)
        ]
        return Results(kept, found.types, found.uses)

    def _project(self) -> Project:
        """The project with the document as it is now. What was noted of all of it holds, as outlines are the same."""
        before = self.project
        notes = dict(before.notes)
        if self._is_mapped():
            notes = {n: note for n, note in notes.items() if not n.startswith(MAPPED)}
        modules = _WithOne(before.modules, self.module)
        self.project = Project(
            modules,
            before.links,
            before.complete,
            before.outlines,
            before.keys,
            before.made_axes,
            notes=notes,
        )
        return self.project

    def _comments(
        self, snapshot: Snapshot, checked: set[int]
    ) -> Iterator[ir.Suppression]:
        for number, start in zip(snapshot.numbers, snapshot.starts, strict=True):
            if number in checked:
                for one in self.parts[number].comments:
                    yield replace(one, line=one.line + start, covers=one.covers + start)


def _settings(path: Path) -> Config:
    return settings_of(path.parent)


class _WithOne(Mapping[str, ir.Module]):
    """Modules, one of them another one."""

    def __init__(self, others: Mapping[str, ir.Module], own: ir.Module) -> None:
        self._others = getattr(others, "unrecorded", others)
        if isinstance(self._others, _WithOne):
            self._others = self._others._others
        self._own = own

    def __getitem__(self, name: str) -> ir.Module:
        return self._own if name == self._own.name else self._others[name]

    def __contains__(self, name: object) -> bool:
        return name in self._others

    def __iter__(self) -> Iterator[str]:
        return iter(self._others)

    def __len__(self) -> int:
        return len(self._others)


class _DocumentPlaces(Places):
    """Places in the document by unit, and those of other files."""

    def __init__(
        self,
        project: Project,
        sources: Mapping[str, tuple[bytes, bool]],
        session: Session,
        snapshot: Snapshot,
    ) -> None:
        super().__init__(project, sources)
        self._built = session.others
        self._session = session
        self._here = _UnitPlaces(session, snapshot)

    def of(self, module: str) -> HasPlaces:
        if module == self._session.module.name:
            return self._here
        return super().of(module)


class _UnitPlaces:
    """Places in the document, by the number of the node."""

    def __init__(self, session: Session, snapshot: Snapshot) -> None:
        self._session = session
        self._starts = dict(zip(snapshot.numbers, snapshot.starts, strict=True))

    def place(self, at: int) -> Place:
        positions, own, start = self._unit(at)
        return _below(positions.place(own), start)

    def within(self, at: int, start: int, end: int) -> Place:
        positions, own, line = self._unit(at)
        return _below(positions.within(own, start, end), line)

    def _unit(self, at: int) -> tuple[Positions, int, int]:
        number = at // _STRIDE
        part, module = self._session.parts[number], self._session.module
        if part.positions is None:
            lowered = part.lowered or lower(
                source(part.lines),
                module.name,
                module.path,
                module.is_package,
                keep_nodes=True,
            )
            part.positions = Positions.of(lowered, module.path)
            part.lowered = None
        return part.positions, at % _STRIDE, self._starts[number] - AHEAD


def _below(place: Place, lines: int) -> Place:
    return replace(place, line=place.line + lines, end_line=place.end_line + lines)


def _part(
    lines: Lines,
    number: int,
    name: str,
    path: str,
    is_package: bool,
    keep_nodes: bool = False,
) -> _Part:
    first = number * _STRIDE
    lowered = lower(source(lines), name, path, is_package, keep_nodes, first)
    body = lowered.module.body
    names: set[str] = set()
    for node in walk(body):
        if isinstance(node, ir.Name):
            names.add(node.id)
        elif isinstance(node, ir.Attr):
            names.add(node.name)
        elif isinstance(node, ir.Const) and isinstance(node.value, str):
            names.add(node.value)
    comments = tuple(
        replace(one, line=one.line - AHEAD, covers=one.covers - AHEAD)
        for one in lowered.module.suppressions
    )
    imports = tuple(
        node
        for node in ir.statements(body, True)
        if isinstance(node, (ir.Import, ir.ImportFrom))
    )
    return _Part(
        lines,
        body,
        comments,
        frozenset(names),
        imports,
        expects_any(body),
        lowered=lowered if keep_nodes else None,
    )


def _body(parts: Mapping[int, _Part]) -> tuple[ir.Stmt, ...]:
    return tuple(one for number in sorted(parts) for one in parts[number].body)


def _outline_of(module: ir.Module, part: _Part, parts: Mapping[int, _Part]) -> Outline:
    """What the project has to know of one unit, with the names that the file imports."""
    imports = tuple(one for other in parts.values() for one in other.imports)
    return outline(replace(module, body=(*imports, *part.body)))
