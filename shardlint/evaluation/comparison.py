"""Is what a program computes on many devices what it computes on one? Decided in numbers, by running it on both.

Every mapped function that is called gives its results on each mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardlint.evaluation import mapping, meshes, modules
from shardlint.evaluation.asserted import failed_comparison
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.flat_state import (
    moved_members,
    numbered_members,
    reordered_state,
)
from shardlint.evaluation.guards import (
    TOO_MANY_STEPS,
    Change,
    Run,
    code_of,
    running,
)
from shardlint.evaluation.layouts import ReplicatedState
from shardlint.evaluation.mapping import Region
from shardlint.evaluation.padded import paddings
from shardlint.evaluation.recording import Alike, Recorder, Where
from shardlint.evaluation.refusals import Refusal, refusal
from shardlint.evaluation.relations import (
    TOLERANCE,
    Lengths,
    close,
    trimmed,
    without_padding,
)
from shardlint.evaluation.row_orders import RowOrder
from shardlint.evaluation.sending import Sending
from shardtypes.semantics.array import Array, NotConcrete
from shardtypes.semantics.local_sizes import Ample, with_ample_capacities
from shardtypes.semantics.lowerings.collectives import bound, telling_reductions
from shardtypes.semantics.primitive import evaluation
from shardtypes.semantics.primitives.random import (
    telling_draws,
    without_own_draws,
)
from shardtypes.semantics.rounding import without_rounding
from shardtypes.semantics.trees import flatten, paths_of

CONVERGED = 1e-3
"""The share by which results of two loops may differ that end when they are good enough."""
STOPPED = "stopped where it was asked to"
ALLOWANCE = 900_000  # steps of all runs that one comparison takes together
CHARACTERS = 50  # of modules that are imported, that take as long to run as a step
Stop = Callable[[list[Region]], bool]
StopBefore = Callable[[int, Any, Any], bool]
"""Takes the number of the call of a mapped function that begins, the function and what it is given."""
Entry = Callable[[modules.World], Any]


@dataclass(frozen=True)
class Outcome:
    """One run: the mapped functions that were called, in order.

    ``written`` are the numbers in the program's text that it came by; ``reason`` says why it ended early, ``answer`` is
    what the entry gave otherwise. A ``refusal`` is an early end that JAX brings about too; ``failed`` is where an
    assertion of the program itself ended it, of numbers that are to be the same. ``alike`` are the draws that all
    devices made with the same key; ``idles`` tells that a reduction was given what all devices hold alike;
    ``states`` are replicated where their parameters are not.
    """

    regions: tuple[Region, ...]
    machine: meshes.Machine
    recorder: Recorder | None
    written: Mapping[modules.Where, int]
    reason: str = ""
    answer: Any = None
    refusal: Refusal | None = None
    failed: Where | None = None
    alike: Alike = field(default_factory=Alike)
    idles: bool = False
    states: tuple[ReplicatedState, ...] = ()

    @property
    def sizes(self) -> dict[str, int]:
        """The axes of all meshes that were made; of those that have one, the last with several devices along it: a
        program computes on one device what it compares itself with."""
        found: dict[str, int] = {}
        for mesh in self.machine.made:
            for name, size in zip(mesh.axis_names, mesh.sizes, strict=True):
                if size > 1 or name not in found:
                    found[name] = int(size)
        return found

    @property
    def devices_used(self) -> int:
        """How many devices the largest mesh has."""
        return max((mesh.size for mesh in self.machine.made), default=1)

    def origins(self, axis: str) -> tuple[modules.Where, ...]:
        """Where the size of an axis is written, as far as it is and was not computed: once for each mesh that is made
        with it."""
        size = self.sizes.get(axis)
        found = [
            own.where
            for mesh in self.machine.made
            for name, own in zip(mesh.axis_names, mesh.sizes, strict=True)
            if name == axis and own == size and isinstance(own, modules.Written)
        ]
        return tuple(dict.fromkeys(found))


@dataclass
class Allowance:
    """The steps that are left for all runs of a program together, and of several programs that share ``common``."""

    steps: int
    common: Allowance | None = None

    @property
    def left(self) -> int:
        return self.steps if self.common is None else min(self.steps, self.common.left)

    @property
    def is_spent(self) -> bool:
        return self.left <= 0

    def spend(self, steps: int) -> None:
        """Take steps away here, and from what is shared."""
        self.steps -= steps
        if self.common is not None:
            self.common.spend(steps)


@dataclass(frozen=True)
class Program:
    """What is run: the sources, and where it begins; ``steps`` bound one run. What ``before`` runs is no part of the
    comparison. Along the axes ``without`` no device draws random numbers of its own, and with ``ample`` capacities no
    device leaves out what it has no room for; with ``rounds`` false, nothing is rounded; with ``takes_varying`` a run
    goes on where JAX refuses a result that varies and is returned as replicated; mapped functions are given their
    rows in a ``row_order``, if there is one. With ``excuses`` false, nothing that depends on the number of devices is
    taken as meant."""

    find: modules.Find
    entry: Entry
    steps: int
    before: Entry | None = None
    allowance: Allowance = field(default_factory=lambda: Allowance(ALLOWANCE))
    without: frozenset[str] = frozenset()
    ample: Ample | None = None
    rounds: bool = True
    takes_varying: bool = False
    row_order: RowOrder | None = None
    excuses: bool = True

    def run(
        self,
        devices: int,
        literals: Mapping[modules.Where, int] | None = None,
        record: bool = False,
        until: Stop | None = None,
        changes: Mapping[Where, Change] | None = None,
        sending: Sending | None = None,
        before: StopBefore | None = None,
    ) -> Outcome:
        """Run it on so many devices, with other values for some numbers that are written in it, up to the first call of
        a mapped function after which ``until`` or before which ``before`` says so, and with some ``changes``, recorded
        where these need it. ``sending`` is told what gradients send."""
        machine = meshes.Machine(devices)
        regions: list[Region] = []
        changes = changes or {}
        is_recorded = record or any(one.needs_recorder for one in changes.values())
        recorder = Recorder() if is_recorded else None
        if self.allowance.is_spent:
            return Outcome((), machine, recorder, {}, TOO_MANY_STEPS)
        world = modules.World(self.find, literals)
        reason = ""
        answer = None
        refused = None
        failed = None
        run = Run(
            min(self.steps, self.allowance.left),
            recorder,
            changes,
            takes_varying=self.takes_varying,
            row_order=self.row_order,
            sending=sending,
        )
        given = run.steps
        draws = without_own_draws(
            self.without, lambda: not self.without.isdisjoint(bound().axes)
        )
        with (
            evaluation(),
            meshes.on_machine(machine),
            running(run),
            draws,
            telling_draws(run.tell_draw),
            telling_reductions(run.tell_reduction),
            with_ample_capacities(self.ample),
            without_rounding(not self.rounds),
            nullcontext() if sending is None else sending.heard(),
            np.errstate(all="ignore"),
        ):
            try:
                if self.before is not None:
                    self.before(world)
                with observed(regions, until, before):
                    answer = self.entry(world)
            except (NotEvaluable, NotConcrete) as error:
                reason = reason_of(error)
            except Exception as error:  # noqa: BLE001 - whatever the program raises
                reason = reason_of(error)
                refused = refusal(error, world.paths)
                failed = failed_comparison(error, world)
        self.allowance.spend(given - run.steps + world.characters // CHARACTERS)
        return Outcome(
            tuple(regions),
            machine,
            recorder,
            world.met,
            reason,
            answer,
            refused,
            failed,
            run.alike,
            run.idles,
            tuple(run.layouts.states.values()),
        )


def reason_of(error: BaseException) -> str:
    """Why an evaluation ended, by what was raised."""
    if isinstance(error, NotEvaluable):
        return error.reason
    if isinstance(error, NotConcrete):
        return "a number that differs between devices, or is not known"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"


@contextmanager
def observed(
    regions: list[Region], until: Stop | None, before: StopBefore | None = None
) -> Iterator[None]:
    """Collect the regions that are run in the block."""

    def observe(region: Region) -> None:
        regions.append(region)
        if until is not None and until(regions):
            raise NotEvaluable(STOPPED)

    def enter(function: Any, given: Any) -> None:
        if before is not None and before(len(regions), function, given):
            raise NotEvaluable(STOPPED)

    mapping.observers.append(observe)
    mapping.entered.append(enter)
    try:
        yield
    finally:
        mapping.observers.pop()
        mapping.entered.pop()


def as_far_as(other: Outcome) -> Stop:
    """Stop once a run has called as many mapped functions as another did. What follows, often what the program computes
    to compare with, is nothing that two runs are compared by. (Where the other was cut off, one that goes further is
    seen to.)"""
    last = len(other.regions) + (other.reason == TOO_MANY_STEPS)
    return lambda regions: len(regions) >= last


def differs_from(other: Outcome) -> Stop:
    """Stop where a run gives something else than another did, or has come as far."""
    is_as_far = as_far_as(other)

    def until(regions: list[Region]) -> bool:
        number = len(regions) - 1
        return (
            is_as_far(regions) or compared(regions, other.regions, number) is not None
        )

    return until


def is_given_others_than(other: Outcome) -> StopBefore:
    """Stop where a mapped function is given other numbers than in another run, in whatever order: what it makes of them
    is not compared."""

    def before(number: int, function: Any, given: Any) -> bool:
        if number >= len(other.regions):
            return False
        region = other.regions[number]
        is_same = _defined_at(function) == _defined_at(region.function)
        if region.stacked is not None or not is_same:
            return False
        return _hold_others(region.arguments, given)

    return before


def _defined_at(function: Any) -> Where | None:
    """Where a function of the program is defined; None for any other."""
    code = code_of(function)
    return None if code is None else Where.of_definition(code)


def agree_in_another_order(one: Outcome, other: Outcome) -> bool:
    """Whether all calls of mapped functions in two runs are given the same numbers, and give the same: in another order
    what some call is given, as where a program lays rows out for its devices, and then maybe what it gives."""
    if len(one.regions) != len(other.regions):
        return False
    is_reordered = False
    for region, twin in zip(one.regions, other.regions, strict=True):
        if region.stacked is not None or twin.stacked is not None:
            return False
        if _hold_others(region.arguments, twin.arguments):
            return False
        is_reordered |= not are_given_the_same(region, twin)
        if is_reordered:
            is_other = _hold_others(region.results, twin.results)
        else:
            is_other = results_apart(region, twin) != []
        if is_other:
            return False
    return is_reordered


def _hold_others(first: Any, second: Any) -> bool:
    """Whether two trees have other numbers, in whatever order."""
    padded = paddings(first, second, numbers_of)
    apart = differences(first, second, padded=padded, tolerance=CONVERGED)
    if not isinstance(apart, list):
        return True
    leaves, structure = flatten(first)
    others, _ = flatten(second)
    pairs = dict(
        zip(paths_of(structure), zip(leaves, others, strict=True), strict=True)
    )
    return any(not _are_reordered(*pairs[one.path]) for one in apart)


def _are_reordered(one: Any, other: Any) -> bool:
    """Whether two arrays have the same numbers in another order."""
    x, y = np.sort(numbers_of(one), axis=None), np.sort(numbers_of(other), axis=None)
    return x.shape == y.shape and furthest_apart(x, y, CONVERGED) is None


@dataclass(frozen=True)
class Difference:
    """An entry in which two values differ that should be the same: ``path`` leads to the array in a tree."""

    path: str
    index: tuple[int, ...]
    first: float
    second: float


@dataclass(frozen=True)
class Resized:
    """Two arrays that should be the same and are not of one shape."""

    path: str
    first: tuple[int, ...]
    second: tuple[int, ...]

    @property
    def reason(self) -> str:
        return f"shapes {self.first} and {self.second} at {self.path}"


@dataclass(frozen=True)
class Incomparable:
    """Why two values cannot be compared."""

    reason: str


def numbers_of(leaf: Any) -> Any:
    """The numbers of an array that all devices hold; None for one that differs between them, or is not known."""
    if isinstance(leaf, Array):
        return None if leaf.value is None or leaf.value.axes else leaf.value.at({})
    return (
        np.asarray(leaf)
        if isinstance(leaf, (int, float, np.ndarray, np.generic))
        else None
    )


def has_nan(results: Any) -> bool:
    """Whether a tree has an entry that is no number: it equals itself, whatever it should be."""
    return any(map(_is_nan_somewhere, flatten(results)[0]))


def _is_nan_somewhere(leaf: Any) -> bool:
    if not isinstance(leaf, Array) or leaf.value is None:
        return False
    parts = map(np.asarray, leaf.value.parts)
    return any(np.isnan(part).any() for part in parts if part.dtype.kind in "fc")


def differences(
    first: Any,
    second: Any,
    stacked: tuple[int, int] | None = None,
    padded: Collection[Lengths] = (),
    tolerance: float = TOLERANCE,
) -> list[Difference] | Resized | Incomparable:
    """Where two trees differ: the entry of each array that is furthest apart. With ``stacked`` arrays have the values
    of so many devices one after another. What lies beyond the shorter of two ``padded`` lengths is left out, and
    differences within a ``tolerance`` are due to rounding."""
    a, structure = flatten(first)
    b, other = flatten(second)
    if paths_of(structure) != paths_of(other):
        return Incomparable("values of different structure")
    found = []
    for path, one, two in zip(paths_of(structure), a, b, strict=True):
        x, y = numbers_of(one), numbers_of(two)
        if x is None or y is None:
            return Incomparable(f"the array at {path or 'its result'} is not computed")
        if stacked is not None:
            x, y = _unstacked(x, y, stacked)
        if x.shape != y.shape:
            same = trimmed(x, y, padded) or without_padding(x, y)
            if same is None:
                return Resized(path, x.shape, y.shape)
            x, y = same
        index = furthest_apart(x, y, tolerance)
        if index is not None:
            found.append(
                Difference(path, index, complex(x[index]).real, complex(y[index]).real)
            )
    return found


def _unstacked(x: Any, y: Any, counts: tuple[int, int]) -> tuple[Any, Any]:
    """What two numbers of devices have, in a form that is the same for both: the one value that all have, the values
    one after another, or their mean."""
    if x.shape[:1] != (counts[0],) or y.shape[:1] != (counts[1],):
        return x, y
    if x.shape[1:] == y.shape[1:]:
        if x.dtype.kind not in "fc" or (_is_all_the_same(x) and _is_all_the_same(y)):
            return x[0], y[0]
        return x.mean(axis=0), y.mean(axis=0)
    return x.reshape(-1, *x.shape[2:]), y.reshape(-1, *y.shape[2:])


def _is_all_the_same(rows: Any) -> bool:
    """Whether the rows of an array are the same."""
    return all(furthest_apart(row, rows[0]) is None for row in rows)


def _is_all_alike(arguments: Any, count: int) -> bool:
    """Whether arguments have the values of so many devices, and all devices the same ones."""
    numbers = [numbers_of(leaf) for leaf in flatten(arguments)[0]]
    stacked = [one for one in numbers if one is not None and one.shape[:1] == (count,)]
    return bool(stacked) and all(map(_is_all_the_same, stacked))


def _divides(region: Region, twin: Region) -> bool:
    """Whether a call is given an array that is divided among the devices, so that with more of them each has less: what
    all have alike there and in later calls are copies, then."""
    if region.stacked is None or twin.stacked is None:
        return False
    counts = region.stacked, twin.stacked
    pairs = zip(flatten(region.arguments)[0], flatten(twin.arguments)[0], strict=False)
    return any(_are_shards(numbers_of(x), numbers_of(y), counts) for x, y in pairs)


def _are_shards(x: Any, y: Any, counts: tuple[int, int]) -> bool:
    if x is None or y is None or min(x.ndim, y.ndim) < 2:
        return False
    is_stacked = (len(x), len(y)) == counts
    is_shorter = x.shape[1] != y.shape[1]
    return is_stacked and is_shorter and len(x) * x.shape[1] == len(y) * y.shape[1]


def furthest_apart(
    x: Any, y: Any, tolerance: float = TOLERANCE
) -> tuple[int, ...] | None:
    """Where two arrays are furthest apart, if they differ by more than a share of their largest entry."""
    if x.dtype.kind not in "fc":
        unequal = np.argwhere(x != y)
        return tuple(int(i) for i in unequal[0]) if len(unequal) else None
    near = close(x, y, tolerance)
    if np.all(near):
        return None
    distance = np.where(near, 0, np.nan_to_num(np.abs(x - y), nan=np.inf))
    return tuple(
        int(i) for i in np.unravel_index(int(np.argmax(distance)), distance.shape)
    )


def first_difference(
    one: Outcome, other: Outcome
) -> tuple[int, Difference | Resized] | Incomparable | None:
    """The first call of a mapped function that was given the same in both runs, or computed from the same, and gives
    something else. Of a run that is cut off, what comes after it is not known: one that was cut off before agrees with
    it as far as it went."""
    for number in range(_common(one, other)):
        found = compared(one.regions, other.regions, number)
        if isinstance(found, Incomparable):
            return found
        if found is not None:
            return number, found
    is_cut_off = one.reason == other.reason == TOO_MANY_STEPS
    if is_cut_off and one.regions and other.regions:
        return None
    if len(one.regions) != len(other.regions):
        return Incomparable(
            one.reason or other.reason or "another number of mapped functions is called"
        )
    return None


def are_near(one: Outcome, other: Outcome, share: float) -> bool:
    """Whether all calls of mapped functions give nearly the same in two runs: what differs by a share of the largest
    entry at most."""
    pairs = zip(one.regions, other.regions, strict=False)
    return all(
        differences(region.results, twin.results, tolerance=share) == []
        for region, twin in pairs
    )


def agreeing(one: Outcome, other: Outcome) -> int:
    """With how many calls of mapped functions two runs begin that are given the same, and give the same."""
    for number in range(_common(one, other)):
        if compared(one.regions, other.regions, number) is not None:
            return number
    return _common(one, other)


def _common(one: Outcome, other: Outcome) -> int:
    """How many calls of mapped functions both runs have."""
    return min(len(one.regions), len(other.regions))


def compared(
    regions: Sequence[Region], others: Sequence[Region], number: int
) -> Difference | Resized | Incomparable | None:
    """The first difference between the results of two calls of a mapped function, those of this number in two runs. A
    program that gives it something else means to: more examples, or a larger step, on more devices."""
    region, twin = regions[number], others[number]
    if region.stacked is not None or twin.stacked is not None:
        return _compared_stacked(regions, others, number)
    padded = padded_lengths(region, twin)
    given = _arguments_apart(region, twin, padded)
    if region.is_gradient and given:
        return None  # what is computed of the results of mapped functions may be another function's
    if isinstance(given, (Resized, Incomparable)):
        return Incomparable(given.reason)
    if given:
        reordered = reordered_state(
            region.arguments, twin.arguments, region.results, numbers_of
        )
        if any(one.path not in reordered for one in given):
            return Incomparable("the mapped function is given something else")
    results = _results_apart(region, twin, padded)
    if isinstance(results, Incomparable) and region.is_gradient:
        return None
    if isinstance(results, (Resized, Incomparable)):
        return results
    return results[0] if results else None


def are_given_the_same(region: Region, twin: Region) -> bool:
    """Whether two calls of a function that is mapped by its specs are given the same, in the same order."""
    return _arguments_apart(region, twin, padded_lengths(region, twin)) == []


def _arguments_apart(
    region: Region, twin: Region, padded: frozenset[Lengths]
) -> list[Difference] | Resized | Incomparable:
    tolerance = _tolerance(region, twin)
    return differences(
        region.arguments, twin.arguments, padded=padded, tolerance=tolerance
    )


def _tolerance(region: Region, twin: Region) -> float:
    """How far results may be apart. A loop that ends when an error is small enough leaves an error, another one if it
    ends after another number of rounds."""
    return TOLERANCE if region.rounds == twin.rounds else CONVERGED


def padded_lengths(region: Region, twin: Region) -> frozenset[Lengths]:
    """The lengths to which arguments of two calls are filled up."""
    return paddings(region.arguments, twin.arguments, numbers_of)


def results_apart(
    region: Region, twin: Region
) -> list[Difference] | Resized | Incomparable:
    """Where the results of two calls of a mapped function differ, but for the order of state that is kept flat, and of
    members that a number tells apart."""
    return _results_apart(region, twin, padded_lengths(region, twin))


def _results_apart(
    region: Region, twin: Region, padded: frozenset[Lengths]
) -> list[Difference] | Resized | Incomparable:
    counts = None
    if region.stacked is not None and twin.stacked is not None:
        counts = region.stacked, twin.stacked
        padded = frozenset()
    tolerance = _tolerance(region, twin)
    found = differences(region.results, twin.results, counts, padded, tolerance)
    if counts is not None or not isinstance(found, list) or not found:
        return found
    reordered = reordered_state(
        region.results, twin.results, region.arguments, numbers_of
    )
    reordered |= moved_members(region.results, twin.results, numbers_of)
    left = [one for one in found if one.path not in reordered]
    # of members in other places the numbers at one place are those of different ones
    members = numbered_members(region.results, numbers_of)
    return sorted(left, key=lambda one: one.path in members)


def _compared_stacked(
    regions: Sequence[Region], others: Sequence[Region], number: int
) -> Difference | Incomparable | None:
    """As ``compared``, of what has the values of all devices one after another. How a program shares its examples and
    its keys out among them is its own affair: where it does so in another way, nothing can be compared."""
    region, twin = regions[number], others[number]
    if region.stacked is None or twin.stacked is None:
        return Incomparable("another kind of mapped function")
    counts = region.stacked, twin.stacked
    given = differences(region.arguments, twin.arguments, counts)
    if isinstance(given, (Resized, Incomparable)):
        return Incomparable(given.reason)
    if given:
        return Incomparable("the devices are given something else")
    results = results_apart(region, twin)
    if isinstance(results, (Resized, Incomparable)):
        return Incomparable(results.reason)
    if not results:
        return None
    so_far = slice(number + 1)
    is_open = _is_all_alike(region.arguments, counts[0])
    if is_open and not any(map(_divides, regions[so_far], others[so_far])):
        return Incomparable(
            "all devices are given the same, which may be copies or examples of each device's own"
        )
    return results[0]
