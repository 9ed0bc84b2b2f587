"""Findings about programs and functions whose results depend on how many devices they run on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from shardlint import ir, messages
from shardlint.evaluation.assertions import FailingAssertion
from shardlint.evaluation.change import Repair
from shardlint.evaluation.comparison import Entry, Program
from shardlint.evaluation.departures import Departure
from shardlint.evaluation.entries import (
    imports,
    is_script,
    mapping_functions,
    trials,
    without_arguments,
)
from shardlint.evaluation.files import Files
from shardlint.evaluation.idle_reductions import IdleReduction
from shardlint.evaluation.judgements import NOTHING_MAPPED, Judgement, judge
from shardlint.evaluation.layouts import ReplicatedState
from shardlint.evaluation.modules import NOT_READ
from shardlint.evaluation.other_ranks import judge_trial
from shardlint.evaluation.recording import Where
from shardlint.evaluation.repairs import leaves_parts_behind, repair
from shardlint.evaluation.repeated_draws import RepeatedDraw
from shardlint.evaluation.replicas import Unequal
from shardlint.evaluation.trails import trail
from shardlint.evaluation.wording import (
    cause,
    departure_text,
    drifting_text,
    failing_text,
    idle_text,
    mended_text,
    repair_text,
    repeated_text,
    state_text,
    unequal_text,
)
from shardlint.found import Found, Way
from shardlint.project import Project
from shardlint.rules import rule
from shardtypes.lang.diagnostics import Diagnostic, Place, Related

CODE = "ST316"
# calls, loops and operators that one run may take; a program of 200 lines takes some thousand
STEPS = 200_000
FUNCTION_STEPS = 6_000  # of a function by itself
ALL_FUNCTIONS = 300_000  # of all runs of all functions of a file
MOST_FUNCTIONS = 24  # of a file that are called by themselves


def with_findings(
    found: Found,
    project: Project,
    module: ir.Module,
    sources: Mapping[str, tuple[bytes, bool]],
) -> Found:
    """What was found in a file, and what running it as a program, or its functions, finds out besides."""
    files = Files(project, sources)
    extra: list[Diagnostic] = []
    ways: list[Way] = []
    origins: dict[int, tuple[Related, ...]] = {}
    reasons: list[str] = []
    meant: list[str] = []
    for judgement, sizes in _judgements(files, module):
        reasons += [one for one in judgement.reasons if one != NOTHING_MAPPED]
        meant += [_meant(one, sizes) for one in judgement.meant]
        for departure in judgement.departures:
            extra.append(_diagnostic(departure, sizes, files))
            ways.append(Way(CODE, extra[-1].place, departure.axis, departure.lines))
        for one in judgement.unequal:
            extra.append(_of_unequal(one, files))
            ways.append(Way("ST301", extra[-1].place, one.axis, one.calls))
        for drift in judgement.drifting:
            taken = _notes([(drift.taken, "one device's is taken here")], files)
            extra.append(
                _of_rule("ST301", drifting_text(drift), drift.where, files, taken)
            )
        for draw in judgement.repeated:
            extra.append(_of_draw(draw, files))
        extra += _of_states(judgement.states, files, found.raw)
        for idle in judgement.idle:
            extra.append(_of_idle(idle, files))
        if judgement.failing is not None:
            extra.append(_of_assertion(judgement.failing, files))
        if judgement.refusal is not None:
            refusal = judgement.refusal
            notes = _notes(((one.where, one.text) for one in judgement.origins), files)
            extra.append(
                _of_rule(refusal.code, refusal.message, refusal.where, files, notes)
            )
            place = extra[-1].place
            origins[place.line] = notes
            # what a rule says of the call itself gets the notes
            if all(one.place.line != place.line for one in found.raw):
                ways += [
                    Way(refusal.code, place, axis, judgement.lines)
                    for axis in sorted(refusal.varying)
                ]
    fresh = _without_repeats(found, extra)
    raw = tuple(_with_notes(one, origins.get(one.place.line, ())) for one in found.raw)
    gaps = [messages.not_compared(module.path, reason) for reason in reasons]
    gaps += meant
    return replace(
        found,
        raw=(*raw, *fresh),
        anchors=(
            *found.anchors,
            *((one.place.line, one.place.end_line) for one in fresh),
        ),
        gaps=(*found.gaps, *((gap, 1) for gap in gaps)),
        ways=tuple(ways),
        read=tuple(sorted(project.read)),
    )


def _judgements(
    files: Files, module: ir.Module
) -> Iterator[tuple[Judgement, Mapping[str, int]]]:
    """About a file as a program, and about its functions by themselves unless the program says all; with the sizes
    that were chosen."""
    text = files.text(module.name)
    has_run = False
    entry = _entry(files, module.name)
    if entry is not None:
        judgement = judge(Program(files.find, entry, STEPS))
        if "__main__" in text or judgement.reasons != (NOTHING_MAPPED,):
            yield judgement, {}
        if judgement.compared and not judgement.reasons:
            return
        has_run = judgement.has_run
    try:
        functions = mapping_functions(text)
        if has_run:
            functions = tuple(
                name for name in functions if name not in without_arguments(text)
            )
    except (SyntaxError, RecursionError):
        yield Judgement(reasons=(NOT_READ,)), {}
        return
    tried_functions = trials(
        files.find,
        module.name,
        text,
        functions[:MOST_FUNCTIONS],
        FUNCTION_STEPS,
        ALL_FUNCTIONS,
    )
    for function, tried in tried_functions:
        if isinstance(tried, str):
            yield Judgement(reasons=(f"{function}: {tried}",)), {}
        else:
            yield _alone(judge_trial(tried), tried.entry.helper), tried.sizes
    for function in functions[MOST_FUNCTIONS:]:
        yield Judgement(reasons=(f"{function}: too many functions in one file",)), {}


def _entry(files: Files, name: str) -> Entry | None:
    """How a file is run as a program; None for one that only defines what others run."""
    text = files.text(name)
    if "__main__" in text:
        return lambda world: world.run_program(name)
    try:
        imported = frozenset(_mapping_imports(files, name))
        is_run = is_script(text, imported)
    except (SyntaxError, RecursionError):
        return None
    return (lambda world: world.run_script(name)) if is_run else None


def _mapping_imports(files: Files, name: str) -> Iterator[str]:
    """The functions that a file imports from others of the project, and that map over devices."""
    for there, whole, here in imports(files.text(name)):
        found = None if whole.startswith(".") else files.find(whole, name)
        if found is not None and there in mapping_functions(found[2]):
            yield here


def _alone(judgement: Judgement, is_helper: bool) -> Judgement:
    """What is found about a function by itself, whoever calls it. Nobody need call it with the sizes that were chosen,
    so that nothing is said of what JAX refuses for them. A helper may leave it to its caller to complete a result, but
    not one that all devices have alike."""
    certain = tuple(
        one
        for one in judgement.departures
        if _is_certain(one) and (one.is_alike or not is_helper)
    )
    unequal = (
        () if is_helper else tuple(one for one in judgement.unequal if not one.selects)
    )
    refused = () if judgement.refusal is None else (judgement.refusal.message,)
    meant = tuple(one for one in judgement.departures if one not in certain)
    return replace(
        judgement,
        departures=certain,
        meant=meant,
        reasons=(*judgement.reasons, *refused),
        unequal=unequal,
        repeated=() if is_helper else judgement.repeated,
        idle=() if is_helper else judgement.idle,
        refusal=None,
    )


def _meant(departure: Departure, sizes: Mapping[str, int]) -> str:
    """What is counted of a departure that is not reported."""
    where = departure.culprit.step.value.where
    place = f"{where.path}:{where.place[0]}"
    return messages.may_be_meant(place, departure_text(departure, sizes))


def _is_certain(departure: Departure) -> bool:
    if departure.refuted_by is not None:
        return True
    return departure.is_wrong_alone or leaves_parts_behind(departure)


def _without_repeats(found: Found, extra: list[Diagnostic]) -> list[Diagnostic]:
    """The findings at lines where there are no others."""
    known = {one.place.line for one in found.raw}
    fresh: dict[Place, Diagnostic] = {}
    for one in extra:
        if one.place.line not in known:
            fresh.setdefault(one.place, one)
    return list(fresh.values())


def _with_notes(finding: Diagnostic, notes: tuple[Related, ...]) -> Diagnostic:
    """A finding, with what a run says besides of the places that it comes from."""
    return replace(
        finding,
        related=(
            *finding.related,
            *(one for one in notes if one not in finding.related),
        ),
    )


def _diagnostic(
    departure: Departure, sizes: Mapping[str, int], files: Files
) -> Diagnostic:
    """At the expression to change where one is found that mends all; else where the runs part."""
    culprit = departure.culprit
    parts = culprit.step.value.where
    mended = repair(departure)
    notes: list[tuple[Where, str]] = []
    if culprit.begun is not None:
        notes.append((culprit.begun.value.where, "the factor comes from here"))
    if mended is not None and _is_to_change(mended, files):
        where = mended.where
        text = mended_text(departure, mended, parts == where, sizes)
        if parts != where:
            notes.append((parts, f"here {cause(departure)}"))
    else:
        where, text = parts, departure_text(departure, sizes)
        if mended is not None:
            notes.append((mended.where, repair_text(departure, mended)))
    if mended is not None and mended.other is not None:
        notes.append((mended.other.where, f"or with {mended.other.text}"))
    if mended is not None:
        notes += [(one, "made here") for one in files.assigned(mended)]
    if departure.refuted_by is not None:
        notes.append((departure.refuted_by, "this fails, and holds on one device"))
    if departure.spec is not None:
        notes.append((departure.spec, "the spec of this result is made here"))
    callers = (culprit.step.value.caller, None if mended is None else mended.caller)
    notes += [
        (where, "called here") for where in dict.fromkeys(callers) if where is not None
    ]
    if mended is None:
        notes += [(one.where, one.text) for one in trail(departure)]
    return _of_rule(CODE, text, where, files, _notes(notes, files))


def _is_to_change(mended: Repair, files: Files) -> bool:
    """Whether a change mends all that departs, and is one of the expression itself, not of its gradient."""
    is_forward = not mended.where.backward
    return is_forward and not mended.left and files.has(mended.where.path)


def _of_unequal(one: Unequal, files: Files) -> Diagnostic:
    notes: list[tuple[Where, str]] = []
    if one.begun is not None:
        notes.append((one.begun, "it begins to vary here"))
    each = f"each device has its own along {one.axis!r}"
    notes += [(where, each) for where in one.collapsed if where != one.begun]
    if one.elsewhere not in (None, one.where):
        notes.append((one.elsewhere, f"reduced here, but not over {one.axis!r}"))
    text = unequal_text(one)
    return _of_rule("ST301", text, one.where, files, _notes(notes, files))


def _of_draw(draw: RepeatedDraw, files: Files) -> Diagnostic:
    notes = [(where, "called here") for where in draw.calls[1:]]
    if draw.calls or draw.overlaps:
        notes.append((draw.draw, "drawn here"))
    notes += [(where, "its key is made here") for where in draw.keys]
    alike = (
        f"these numbers, which make its key, are alike along {draw.axis!r}: add lax.axis_index({draw.axis!r}) times "
        "how many each device has"
    )
    if not draw.overlaps:
        notes += [(where, alike) for where in draw.numbers]
    if draw.given is not None:
        notes.append((draw.given, "its key is given here"))
    text = repeated_text(draw)
    return _of_rule("ST318", text, draw.where, files, _notes(notes, files))


def _of_idle(idle: IdleReduction, files: Files) -> Diagnostic:
    notes = _notes([(one, "reduced here") for one in idle.before], files)
    found = _of_rule("ST303", idle_text(idle), idle.where, files, notes)
    return replace(found, severity="warning")


def _of_states(
    states: Sequence[ReplicatedState], files: Files, known: Sequence[Diagnostic]
) -> Iterator[Diagnostic]:
    """One finding for all that one expression places, unless it is among the ``known`` ones."""
    known_places = {
        (place.path, place.line)
        for one in known
        if one.code == "ST317"
        for place in (one.place, *(note.place for note in one.related))
    }
    places: dict[Where, list[ReplicatedState]] = {}
    for one in states:
        if one.where is not None and files.has(one.where.path):
            places.setdefault(one.where, []).append(one)
    for where, placed in places.items():
        specs = [(one.state.spec, "its spec is made here") for one in placed]
        specs += [(one.parameter.spec, "the other one's here") for one in placed]
        notes = [
            (spec, text)
            for spec, text in dict.fromkeys(specs)
            if spec not in (None, where)
        ]
        finding = _of_rule(
            "ST317", state_text(placed), where, files, _notes(notes, files)
        )
        places_of_it = (finding.place, *(note.place for note in finding.related))
        if known_places.isdisjoint((one.path, one.line) for one in places_of_it):
            yield finding


def _of_assertion(failing: FailingAssertion, files: Files) -> Diagnostic:
    mended = failing.mended
    notes = [(failing.where, "this fails")]
    notes += [(one, "made here") for one in files.assigned(mended)]
    if mended.caller is not None:
        notes.append((mended.caller, "called here"))
    text = failing_text(failing)
    return _of_rule("ST319", text, mended.where, files, _notes(notes, files))


def _notes(notes: Iterable[tuple[Where, str]], files: Files) -> tuple[Related, ...]:
    """What is said of other places, as far as these are of the program."""
    return tuple(
        Related(_place(where, files), text)
        for where, text in notes
        if files.has(where.path)
    )


def _of_rule(
    code: str,
    message: str,
    where: Where,
    files: Files,
    related: tuple[Related, ...] = (),
) -> Diagnostic:
    about = rule(code)
    if about is None:
        raise LookupError(f"there is no rule {code}")
    return Diagnostic(
        code, about.name, message, _place(where, files), about.severity, related=related
    )


def _place(where: Where, files: Files) -> Place:
    line, start, end_line, end = where.place
    text = files.lines(where.path)

    def column(number: int, offset: int) -> int:
        return len(text[number - 1][:offset].decode("utf-8", "replace")) + 1

    return Place(where.path, line, column(line, start), end_line, column(end_line, end))
