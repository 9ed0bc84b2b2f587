"""Findings about whole programs: one that depends on how many devices it runs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shardlint import ir, messages
from shardlint.config import Config
from shardlint.evaluation.comparison import Program
from shardlint.evaluation.departures import Departure, judge
from shardlint.evaluation.recording import Where
from shardlint.evaluation.wording import departure_text
from shardlint.project import Project
from shardlint.rules import rule
from shardlint.workers import Found
from shardtypes.lang.diagnostics import Diagnostic, Place, Related

CODE = "ST316"
STEPS = 30_000  # calls, loops and operators that one run may take; a program of 200 lines takes some thousand


def runs_as_program(project: Project, text: bytes) -> bool:
    """Whether a file is a script of a project that maps functions over devices."""
    return b"__main__" in text and project.some_outline("maps_functions")


def with_findings(
    found: Found, project: Project, module: ir.Module, sources: Mapping[str, tuple[bytes, bool]], config: Config
) -> Found:
    """What was found in a file, and what running it as a program finds out besides."""
    if not config.evaluate or not runs_as_program(project, sources[module.name][0]):
        return found

    def find(name: str, importer: str) -> tuple[str, str, str] | None:
        full = project.links.get(importer, {}).get(name, name)
        project.read.update({("links", importer), ("module", full)})
        if full not in project.modules or full not in sources:
            return None
        return full, project.modules[full].path, sources[full][0].decode("utf-8", "replace")

    judgement = judge(Program(find, lambda world: world.run_program(module.name), STEPS))
    lines = {
        project.modules[name].path: text.splitlines() for name, (text, _) in sources.items() if name in project.modules
    }
    extra = [_diagnostic(departure, module.path, lines) for departure in judgement.departures]
    known = {one.place.line for one in found.raw}
    fresh = [one for one in extra if one.place.line not in known]
    gaps = tuple((messages.not_compared(module.path, reason), 1) for reason in judgement.reasons)
    return replace(
        found,
        raw=(*found.raw, *fresh),
        anchors=(*found.anchors, *((one.place.line, one.place.end_line) for one in fresh)),
        gaps=(*found.gaps, *gaps),
        read=tuple(sorted(project.read)),
    )


def _diagnostic(departure: Departure, path: str, lines: Mapping[str, list[bytes]]) -> Diagnostic:
    about = rule(CODE)
    if about is None:
        raise LookupError(f"there is no rule {CODE}")
    place = _place(departure.culprit.step.value.key[0], lines)
    related: tuple[Related, ...] = ()
    if departure.culprit.begun is not None:
        related = (Related(_place(departure.culprit.begun.value.key[0], lines), "the factor comes from here"),)
    return Diagnostic(CODE, about.name, departure_text(departure), place, about.severity, related=related)


def _place(where: Where, lines: Mapping[str, list[bytes]]) -> Place:
    line, start, end_line, end = where.place
    text = lines[where.path]

    def column(number: int, offset: int) -> int:
        return len(text[number - 1][:offset].decode("utf-8", "replace")) + 1

    return Place(where.path, line, column(line, start), end_line, column(end_line, end))
