"""From the engine's events to findings with places and words."""

from __future__ import annotations

from collections.abc import Mapping

from shardlint import ir
from shardlint.config import Config
from shardlint.engine import run
from shardlint.engine.shown import Key, rows, share_known
from shardlint.events import Event, EventFix
from shardlint.found import Found, ShownType
from shardlint.positions import Positions
from shardlint.project import Project
from shardlint.rules import rule
from shardlint.values import Value
from shardtypes.lang.diagnostics import Diagnostic, Edit, Fix, Place, Related

Sources = Mapping[str, tuple[bytes, bool]]


class _Places:
    """Positions of the files that need some, each built once."""

    def __init__(self, project: Project, sources: Sources) -> None:
        self._project = project
        self._sources = sources
        self._built: dict[str, Positions] = {}

    def of(self, module: str) -> Positions:
        if module not in self._built:
            text, is_package = self._sources[module]
            self._project.read.add(("module", module))
            self._built[module] = Positions(
                text, self._project.modules[module].path, module, is_package
            )
        return self._built[module]

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
) -> Found:
    """All that is found in one file."""
    places = _Places(project, sources)
    found: dict[tuple[object, ...], tuple[Diagnostic, tuple[int, ...]]] = {}
    analysis = run(project, module, config, uses=show_types)
    for event in analysis.found():
        diagnostic = _diagnostic(event, module.name, places)
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
    known, arrays = share_known(analysis.it.seen)
    ordered = sorted(found.values(), key=lambda pair: (pair[0].place, pair[0].code))
    return Found(
        raw=tuple(d for d, _ in ordered),
        anchors=tuple(lines for _, lines in ordered),
        gaps=tuple(analysis.gaps()),
        known=known,
        arrays=arrays,
        types=_shown(places, module.name, analysis.it.seen) if show_types else (),
        uses=_shown(places, module.name, analysis.it.uses or {}),
        read=tuple(sorted(project.read)),
    )


def _shown(
    places: _Places, module: str, seen: Mapping[Key, tuple[str, Value]]
) -> tuple[ShownType, ...]:
    found = (
        ShownType(places.of(module).place(at), name, text, why)
        for at, name, text, why in rows(seen)
    )
    return tuple(sorted(found, key=lambda one: one.place))


def _diagnostic(event: Event, module: str, places: _Places) -> Diagnostic:
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
        fix=_fix(event.fix, module, places) if event.fix is not None else None,
    )


def _fix(fix: EventFix, module: str, places: _Places) -> Fix:
    edits = tuple(
        Edit(places.event(module, e.at, e.span), e.replacement) for e in fix.edits
    )
    return Fix(fix.title, fix.applicability, edits)
