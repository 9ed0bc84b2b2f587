"""A program on another number of devices along one axis of its mesh.

The size of the axis is changed where the program says it, so that whatever else follows from that number changes with
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from shardlint.evaluation import modules, rings
from shardlint.evaluation.comparison import (
    STOPPED,
    Difference,
    Incomparable,
    Outcome,
    Program,
    Resized,
    Stop,
    agree_in_another_order,
    agreeing,
    are_given_the_same,
    differences,
    differs_from,
    first_difference,
    has_nan,
    is_given_others_than,
)
from shardlint.evaluation.guards import TOO_MANY_STEPS
from shardlint.evaluation.recording import Where

DEVICES = 8  # that a program finds if it asks
MOST_RING_LENGTHS = 8  # numbers that are tried as such
MOST_TOGETHER = 4  # of which each choice is tried
MOST_NUMBERS = 24  # in the text of a program that might stand for a size of its mesh


@dataclass(frozen=True)
class Setting:
    """What a run starts from."""

    devices: int
    literals: Mapping[modules.Where, int]


@dataclass(frozen=True)
class OtherRun:
    """The program with another number of devices along an axis."""

    setting: Setting
    outcome: Outcome
    differs: bool
    is_resized: bool = False
    is_tied: bool = False
    """Whether the length of a ring that is written in it had to follow."""
    is_refuting: bool = False
    """Whether an assertion of the program holds there that fails on its own mesh."""
    has_fewer_rounds: bool = False
    """Whether it is with one device, and the program goes round the devices of the axis."""


def other_run(program: Program, declared: Outcome, axis: str) -> OtherRun | str:
    """The first other size of an axis with which a program runs as far as with its own, or why there is none. If it
    gives what is no number on both, the first with which it does not."""
    reason = "its size cannot be changed"
    resized: OtherRun | None = None
    agreed: OtherRun | None = None
    undefined: OtherRun | None = None
    plain: list[Outcome] = []
    for setting, outcome in _changed_runs(program, declared, axis):
        is_guess = not setting.literals.keys() <= set(declared.origins(axis))
        if not is_guess:
            plain.append(outcome)
        tied = _tied(program, declared, setting, outcome, axis)
        setting, outcome = tied or (setting, outcome)
        difference = first_difference(declared, outcome)
        if not outcome.regions:
            reason = outcome.reason or reason
        elif isinstance(difference, Incomparable):
            reason = difference.reason
        elif is_guess and _parts_earlier(declared, difference, plain):
            continue  # due to that number, which is another one: without it, nothing differs there
        elif difference is None and any(
            has_nan(one.results) for one in declared.regions
        ):
            agreed = agreed or OtherRun(setting, outcome, False)
        elif difference is not None and _is_undefined_there(declared, outcome):
            undefined = undefined or OtherRun(setting, outcome, True)
        elif difference is None or isinstance(difference[1], Difference):
            return OtherRun(
                setting, outcome, difference is not None, is_tied=tied is not None
            )
        else:
            resized = resized or OtherRun(
                setting, outcome, True, is_resized=True, is_tied=tied is not None
            )
    if program.allowance.is_spent:
        return TOO_MANY_STEPS
    if agreed is not None:
        return agreed
    if undefined is not None:
        return undefined
    if resized is None:
        return reason
    return _with_another_number(program, declared, resized, axis) or resized


def _parts_earlier(
    declared: Outcome,
    difference: tuple[int, Difference | Resized] | None,
    others: Sequence[Outcome],
) -> bool:
    """Whether one of the other runs agrees with that of the program's own mesh beyond where this one differs."""
    if difference is None:
        return False
    return any(difference[0] < agreeing(declared, one) for one in others)


def _is_undefined_there(declared: Outcome, outcome: Outcome) -> bool:
    """Whether a program gives what is no number with another size of the mesh, and not with its own: a variance of one
    row on each device, say. Nothing tells where such numbers come from."""
    pairs = zip(declared.regions, outcome.regions, strict=False)
    return any(
        has_nan(twin.results) and not has_nan(region.results) for region, twin in pairs
    )


def _changed_runs(
    program: Program, declared: Outcome, axis: str
) -> Iterator[tuple[Setting, Outcome]]:
    """The runs with another size of an axis alone. Only where there is none can a number that is that of all devices by
    chance not be mistaken for one that the mesh is made of."""
    for tried in (settings(declared, axis), _with_totals(declared, axis)):
        is_found = False
        for setting in tried:
            if program.allowance.is_spent:
                return
            outcome = program.run(
                setting.devices, setting.literals, until=differs_from(declared)
            )
            if _is_changed_alone(axis, declared, outcome):
                is_found = True
                yield setting, outcome
        if is_found:
            return


def _tied(
    program: Program, declared: Outcome, setting: Setting, outcome: Outcome, axis: str
) -> tuple[Setting, Outcome] | None:
    """The run in which the length of a ring follows that is written in the program; None where none has to."""
    left_out = rings.left_out(declared.machine, axis)
    if rings.left_out(outcome.machine, axis) == left_out:
        return None
    return _with_ring_lengths(program, declared, setting, outcome, axis)


def _with_ring_lengths(
    program: Program, declared: Outcome, setting: Setting, outcome: Outcome, axis: str
) -> tuple[Setting, Outcome] | None:
    """The run in which the fewest numbers stand for the size of the mesh besides so that the permutations along an axis
    leave out as many devices as they do on its own, if there is one."""
    size = outcome.sizes[axis]
    left_out = rings.left_out(declared.machine, axis)

    def run(chosen: Sequence[modules.Where]) -> tuple[Setting, Outcome] | None:
        tied = _changed(setting, chosen, size)
        found = program.run(tied.devices, tied.literals, until=differs_from(declared))
        if found.reason not in ("", STOPPED) or not _is_changed_alone(
            axis, declared, found
        ):
            return None
        return (
            (tied, found) if rings.left_out(found.machine, axis) == left_out else None
        )

    needed = _equal_numbers(declared, axis, setting)
    if len(needed) > MOST_RING_LENGTHS or run(needed) is None:
        return None
    for one in list(needed):
        fewer = [other for other in needed if other != one]
        if run(fewer) is not None:
            needed = fewer
    return run(needed)


def _with_another_number(
    program: Program, declared: Outcome, resized: OtherRun, axis: str
) -> OtherRun | None:
    """The program with results of the shapes that it has, because one more number in its text stands for the size of
    the mesh: one with which the results agree, if there is one."""
    found: OtherRun | None = None
    for setting, outcome in _with_numbers(program, declared, resized, axis):
        difference = first_difference(declared, outcome)
        if difference is None:
            return OtherRun(setting, outcome, False)
        comparable = not isinstance(difference, Incomparable) and isinstance(
            difference[1], Difference
        )
        if found is None and comparable:
            found = OtherRun(setting, outcome, True)
    return None if program.allowance.is_spent else found


def _is_changed_alone(axis: str, declared: Outcome, outcome: Outcome) -> bool:
    """Whether an axis has another size in a run, and no other one has but those that are the same devices."""
    changed = {
        name for name, size in outcome.sizes.items() if size != declared.sizes.get(name)
    }
    same = declared.machine.pmapped if axis in declared.machine.pmapped else frozenset()
    return axis in changed and changed <= {axis, *same}


def settings(declared: Outcome, axis: str) -> Iterator[Setting]:
    """What to change for another size: the number that a mesh is made with; where it is made of all devices, or is that
    of the rows which ``pmap`` maps over, the number of devices, or one that is written with it. One device comes last:
    for that, programs may take another way."""
    for other in _other_sizes(declared.sizes[axis]):
        yield from _settings_with(declared, axis, other)


def _settings_with(declared: Outcome, axis: str, other: int) -> Iterator[Setting]:
    size = declared.sizes[axis]
    written = declared.origins(axis)
    devices = DEVICES * other // size
    if not written:
        yield Setting(devices, {})
        for place in _equal_numbers(declared, axis, Setting(devices, {})):
            yield Setting(max(devices, 1), {place: other})
    else:
        changed = dict.fromkeys(written, other)
        yield Setting(max(devices, 1), changed)
        yield Setting(DEVICES, changed)


def refuting_run(program: Program, declared: Outcome, axis: str) -> OtherRun | None:
    """The run with one device along an axis, if an assertion of the program itself holds there that fails on its own
    mesh."""
    if declared.failed is None:
        return None
    found = _on_one_device(program, declared, axis)
    if found is None or found.outcome.reason:
        return None
    return replace(found, is_refuting=True)


def _on_one_device(
    program: Program, declared: Outcome, axis: str, until: Stop | None = None
) -> OtherRun | None:
    """The run with one device along an axis, if it gives something else than the program's own mesh."""
    for setting in _settings_with(declared, axis, 1):
        outcome = program.run(setting.devices, setting.literals, until=until)
        if not _is_changed_alone(axis, declared, outcome):
            continue
        found = first_difference(declared, outcome)
        if found is None or isinstance(found, Incomparable):
            return None
        is_resized = isinstance(found[1], Resized)
        return OtherRun(setting, outcome, True, is_resized)
    return None


def differing_run(program: Program, declared: Outcome, axis: str) -> OtherRun | str:
    """A run with another size of an axis: one that gives something else, if there is one."""
    other = other_run(program, declared, axis)
    if isinstance(other, str) or other.differs:
        return other
    return _one_device_run(program, declared, axis, other) or other


def _one_device_run(
    program: Program, declared: Outcome, axis: str, agreeing_run: OtherRun
) -> OtherRun | None:
    """The run with one device along an axis, if it gives something else than the program's own mesh, and takes the same
    way there: what many devices get wrong alike, whatever their number."""
    found = _on_one_device(program, declared, axis, differs_from(declared))
    if found is None or found.is_resized:
        return None
    own = _counts(program, axis, Setting(DEVICES, {}))
    alone = _counts(program, axis, found.setting)
    if own is None or alone is None:
        return None
    if own.of == alone.of:
        return found
    others = _counts(program, axis, agreeing_run.setting)
    if others is None or not _are_in_line(own, others, alone):
        return None
    return replace(found, has_fewer_rounds=True)


@dataclass(frozen=True)
class _Counts:
    """How often a program evaluates each expression with so many devices along an axis."""

    devices: int
    of: Counter[Where]


def _counts(program: Program, axis: str, setting: Setting) -> _Counts | None:
    """Those of a run; None where it does not come to its end, or to numbers."""
    run = program.run(setting.devices, setting.literals, record=True)
    if run.reason or run.recorder is None or program.allowance.is_spent:
        return None
    if any(has_nan(one.results) for one in run.regions):
        return None
    return _Counts(run.sizes[axis], run.recorder.met)


def _are_in_line(first: _Counts, second: _Counts, alone: _Counts) -> bool:
    """Whether each expression is evaluated as often whatever the number of devices, or so much more often as there are
    more of them. (What one device sends to itself is no value of its own.)"""
    if second.devices == alone.devices:
        return False
    return all(
        _is_in_line(first, second, alone, where)
        or _is_in_line(first, second, _Counts(0, alone.of), where)
        for where in first.of
    )


def _is_in_line(a: _Counts, b: _Counts, c: _Counts, where: Where) -> bool:
    return (a.of[where] - c.of[where]) * (b.devices - c.devices) == (
        b.of[where] - c.of[where]
    ) * (a.devices - c.devices)


def agrees_with_one_device(program: Program, declared: Outcome) -> bool:
    """Whether a program gives the same with one device along all axes, in each call of a mapped function, and
    is given the same there: then it computes what it means, along each of them. (Of what ``pmap`` gives, means may be
    the same where devices differ.)"""
    if any(one.stacked is not None or has_nan(one.results) for one in declared.regions):
        return False
    outcome = _on_a_single_device(program, declared, differs_from(declared))
    if outcome is None or outcome.sizes.keys() != declared.sizes.keys():
        return False
    if agreeing(declared, outcome) < len(declared.regions):
        return False
    pairs = zip(declared.regions, outcome.regions, strict=False)
    return all(are_given_the_same(one, twin) for one, twin in pairs)


def holds_on_one_device(program: Program, declared: Outcome) -> bool:
    """Whether an assertion of the program itself fails that holds on one device."""
    if declared.failed is None:
        return False
    outcome = _on_a_single_device(program, declared)
    return outcome is not None and bool(outcome.regions) and not outcome.reason


def _on_a_single_device(
    program: Program, declared: Outcome, until: Stop | None = None
) -> Outcome | None:
    """The run with one device along all axes; None if some axis has more there, too."""
    places = [where for axis in declared.sizes for where in declared.origins(axis)]
    outcome = program.run(1, dict.fromkeys(places, 1), until=until)
    is_alone = all(size == 1 for size in outcome.sizes.values())
    return outcome if is_alone else None


def _with_totals(declared: Outcome, axis: str) -> Iterator[Setting]:
    """The settings in which one more number that is written in the program stands for that of all its devices."""
    written = declared.origins(axis)
    whole = declared.devices_used
    size = declared.sizes[axis]
    if whole == size:
        return
    for other in _other_sizes(size):
        origin = dict.fromkeys(written, other)
        total = whole * other // size
        for place in _places_of(declared, whole, origin) if total else ():
            yield Setting(max(DEVICES, total), {**origin, place: total})


def _other_sizes(size: int) -> list[int]:
    """The sizes to try instead of that of an axis."""
    sizes = [2 * size, 1]
    if size > 2 and size % 2 == 0:
        sizes.insert(0, size // 2)
    return sizes


def is_meant(program: Program, declared: Outcome, other: OtherRun, axis: str) -> bool:
    """Whether the program agrees with itself if another number in its text stands for the size of the mesh too."""
    if other.is_tied:
        return _may_be_meant(program, declared, other, axis)
    runs = _with_numbers(program, declared, other, axis)
    return any(_agrees(declared, outcome, other) for _, outcome in runs)


def _may_be_meant(
    program: Program, declared: Outcome, other: OtherRun, axis: str
) -> bool:
    """The same of a program in which numbers stand for the size of the mesh already: any others may, together."""
    size = other.outcome.sizes[axis]
    places = _equal_numbers(declared, axis, other.setting)
    if len(places) > MOST_TOGETHER:
        return True
    for chosen in _choices(places):
        setting = _changed(other.setting, chosen, size)
        outcome = _again(program, declared, other, axis, setting)
        if outcome is not None and _agrees(declared, outcome, other):
            return True
    return False


def _choices(places: Sequence[modules.Where]) -> Iterator[tuple[modules.Where, ...]]:
    for count in range(1, len(places) + 1):
        yield from combinations(places, count)


def _equal_numbers(
    declared: Outcome, axis: str, setting: Setting
) -> list[modules.Where]:
    """Where the size of an axis is written besides in the program."""
    return _places_of(declared, declared.sizes[axis], setting.literals)


def _places_of(
    declared: Outcome, number: int, besides: Mapping[modules.Where, int]
) -> list[modules.Where]:
    """Where the program has a number in its text, besides places at which it stands for a size already."""
    equal = [where for where, value in declared.written.items() if value == number]
    return [where for where in equal if where not in besides]


def _changed(setting: Setting, places: Sequence[modules.Where], size: int) -> Setting:
    """The setting in which some numbers stand for another size besides."""
    changed = dict.fromkeys(places, size)
    return replace(setting, literals={**setting.literals, **changed})


def _with_numbers(
    program: Program, declared: Outcome, other: OtherRun, axis: str
) -> Iterator[tuple[Setting, Outcome]]:
    """The runs in which another number in the text of a program stands for the size of the mesh too."""
    size = declared.sizes[axis]
    whole = declared.devices_used
    numbers = dict.fromkeys(
        _equal_numbers(declared, axis, other.setting), other.outcome.sizes[axis]
    )
    if whole != size:
        of_all = _places_of(declared, whole, other.setting.literals)
        numbers.update(dict.fromkeys(of_all, other.outcome.devices_used))
    tried = list(numbers)
    for where in tried[:MOST_NUMBERS]:
        value = numbers[where]
        setting = replace(
            other.setting, literals={**other.setting.literals, where: value}
        )
        outcome = _again(program, declared, other, axis, setting)
        if outcome is not None:
            yield setting, outcome


def _again(
    program: Program, declared: Outcome, other: OtherRun, axis: str, setting: Setting
) -> Outcome | None:
    """The other run with more numbers changed, if it comes as far as the program does. One by which the program takes
    another mesh, on which the axis has its own size, says nothing."""
    before = None if other.is_resized else is_given_others_than(declared)
    outcome = program.run(
        setting.devices,
        setting.literals,
        until=differs_from(declared),
        before=before,
    )
    if outcome.sizes.get(axis) != other.outcome.sizes[axis]:
        return None
    return outcome if len(outcome.regions) == len(declared.regions) else None


def _agrees(declared: Outcome, outcome: Outcome, other: OtherRun) -> bool:
    """Whether a run gives what the program gives on its own mesh. Where the other gave arrays of another shape, that is
    enough: with another size the program has other numbers."""
    if not other.is_resized:
        difference = first_difference(declared, outcome)
        return difference is None or agree_in_another_order(declared, outcome)
    pairs = zip(declared.regions, outcome.regions, strict=True)
    return all(
        isinstance(differences(one.results, twin.results), list) for one, twin in pairs
    )
