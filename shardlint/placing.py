"""From the engine's events to findings with places and words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import itemgetter

from shardlint import ir
from shardlint.array_places import written
from shardlint.config import Config
from shardlint.edits import HasPlaces
from shardlint.engine import run
from shardlint.engine.shown import Key, arrays_in, knowledge, rows
from shardlint.events import Event
from shardlint.found import Found, Proposal, ShownType
from shardlint.project import Project
from shardlint.rules import rule
from shardlint.signatures import Signatures
from shardlint.syntax import UnparsableFile
from shardlint.values import Value
from shardtypes.lang.diagnostics import Diagnostic, Place, Related

Sources = Mapping[str, tuple[bytes, bool]]


class Places:
    """Positions of the files that need some, each built once."""

    def __init__(self, project: Project, sources: Sources) -> None:
        self._project = project
        self._sources = sources
        self._built: dict[str, HasPlaces] = {}

    def of(self, module: str) -> HasPlaces:
        if module not in self._built:
            # libcst takes half a second to import: not where nothing is shown
            from shardlint.positions import Positions, TreePositions

            text, is_package = self._sources[module]
            self._project.read.add(("module", module))
            path = self._project.modules[module].path
            try:
                self._built[module] = Positions(text, path, module, is_package)
            except UnparsableFile:  # libcst does not take all that Python does
                self._built[module] = TreePositions(text, path)
        return self._built[module]

    def text(self, module: str) -> bytes:
        """The text of a file, of which the places are."""
        return self._sources[module][0]

    def event(self, module: str, at: int, span: tuple[int, int] | None) -> Place:
        return (
            self.of(module).within(at, *span)
            if span is not None
            else self.of(module).place(at)
        )


def found_in(
    project: Project,
    module: ir.Module,
    sources: Sources,
    config: Config,
    show_types: bool = False,
    arrays: bool = False,
) -> Found:
    """All that is found in one file; with ``arrays`` what expressions are that give some, too."""
    signatures = Signatures() if show_types else None
    analysis = run(
        project,
        module,
        config,
        uses=show_types,
        arrays=arrays,
        signatures=signatures,
    )
    found = placed(analysis, Places(project, sources), show_types)
    return replace(found, read=tuple(sorted(project.read)))


def placed(
    analysis: run,
    places: Places,
    show_types: bool = False,
    among: Callable[[int], bool] = lambda at: True,
) -> Found:
    """What an analysis found at nodes ``among`` those that are asked for, in words and places of files."""
    module = analysis.module
    found: dict[tuple[object, ...], tuple[Diagnostic, tuple[int, ...]]] = {}
    results: list[tuple[str, Place]] = []
    for event in analysis.found():
        if not among(event.at):
            continue
        diagnostic = _diagnostic(event, module.name, places)
        if event.is_of_result:
            results.append((diagnostic.code, diagnostic.place))
        whole = places.of(module.name).place(event.at)
        lines = {
            diagnostic.place.line,
            diagnostic.place.end_line,
            whole.line,
            whole.end_line,
        }
        found.setdefault(
            (diagnostic.code, diagnostic.place), (diagnostic, tuple(sorted(lines)))
        )
    seen = {key: one for key, one in analysis.it.seen.items() if among(key[0])}
    uses = {key: one for key, one in (analysis.it.uses or {}).items() if among(key[0])}
    ordered = sorted(found.values(), key=lambda pair: (pair[0].place, pair[0].code))
    return Found(
        raw=tuple(d for d, _ in ordered),
        anchors=tuple(lines for _, lines in ordered),
        gaps=tuple(analysis.gaps()),
        known=knowledge(analysis.it.seen),
        results=tuple(results),
        arrays=_arrays(analysis, places),
        types=_shown(places, module.name, seen) if show_types else (),
        uses=_shown(places, module.name, uses),
        proposals=_proposed(analysis, places),
    )


def _arrays(analysis: run, places: Places) -> str:
    """What expressions are that give arrays, if somebody asks."""
    seen = analysis.it.arrays
    if seen is None:
        return ""
    found = (
        (at, arrays_in(value))
        for (at, _), (_, value) in sorted(seen.items(), key=itemgetter(0))
    )
    return written(places.text(analysis.module.name), analysis.module.path, found)


def _proposed(analysis: run, places: Places) -> tuple[Proposal, ...]:
    """What functions lack in annotations, if somebody asks."""
    if analysis.it.signatures is None:
        return ()
    # takes its time to import
    from shardlint.annotating.editing import proposals

    name = analysis.module.name
    return proposals(analysis, places.text(name), places.of(name))


def _shown(
    places: Places, module: str, seen: Mapping[Key, tuple[str, Value]]
) -> tuple[ShownType, ...]:
    found = (
        ShownType(places.of(module).place(at), name, text, why)
        for at, name, text, why in rows(seen)
    )
    return tuple(sorted(found, key=lambda one: one.place))


def _diagnostic(event: Event, module: str, places: Places) -> Diagnostic:
    about = rule(event.code)
    if about is None:
        raise LookupError(
            f"the engine reports {event.code}, which no rule module defines"
        )
    return Diagnostic(
        code=event.code,
        name=about.name,
        message=about.message(event),
        place=places.event(module, event.at, event.span),
        severity=about.severity,
        witness=tuple(event.witness.items()),
        related=tuple(
            Related(places.of(m).place(at), text)
            for m, at, text in event.related
            if at >= 0
        ),
    )
