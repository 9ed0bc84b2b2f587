"""Where a program departs from what it computes on another number of devices.

Two runs are laid side by side. Over the axis on which they have different numbers of devices, what an expression gave
is a copy, a shard or a partial result of the same value in both, perhaps off by a power of the number of devices. The
culprit is the expression after which it is none of these, though what it was computed from is.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np

from shardlint.evaluation import optimizers, relations
from shardlint.evaluation.recording import KEYS, Key, Recorded, Recorder, Where
from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.relation import SAME, Relation
from shardtypes.semantics.simulated import Simulated

State: TypeAlias = Literal["holds", "off", "lost", "unknown"]
"""A relation holds; one holds up to a power of the number of devices; none does; the runs cannot be compared."""

_PRODUCTS = frozenset({"*", "*=", "jax.numpy.multiply", "jax.lax.mul"})
_JOINING = frozenset(
    {
        "jax.lax.concatenate",
        "jax.lax.dynamic_update_slice",
        "jax.lax.dynamic_update_slice_in_dim",
        "jax.numpy.append",
        "jax.numpy.concatenate",
        "jax.numpy.vstack",
    }
)
_MEANS = frozenset({"average", "mean", "nanmean"})
_SENDING = frozenset({"jax.lax.all_to_all", "jax.lax.ppermute", "jax.lax.pshuffle"})
_REDUCTIONS = frozenset(f"jax.lax.{name}" for name in ("psum", "pmean", "pmax", "pmin"))


@dataclass(frozen=True)
class Step:
    """What one expression gave, and the relation that holds of it; of several that hold, the plainest."""

    value: Recorded
    state: State
    relation: Relation | None

    @property
    def kind(self) -> str:
        """Of its relation; empty where none is known."""
        return "" if self.relation is None else self.relation.kind

    @property
    def dim(self) -> int | None:
        """The dimension that is sharded; None where none is, or it is not known which."""
        return None if self.relation is None else self.relation.dim

    @property
    def monoid(self) -> str:
        """By which parts make a whole; empty where it has none."""
        monoid = None if self.relation is None else self.relation.monoid
        return monoid or ""

    @property
    def power(self) -> Fraction | int:
        return 0 if self.relation is None else self.relation.power

    @property
    def takes_extreme(self) -> bool:
        """Whether what holds of it is that it is the largest or the smallest of all devices, and a function that takes
        such gave it: of other functions, that may be chance."""
        what = self.value.what
        name = getattr(what, "qualname", getattr(what, "__name__", ""))
        is_extreme = self.monoid in ("max", "min")
        return is_extreme and self.monoid in name.rpartition(".")[2]

    @property
    def is_mean_of_zero(self) -> bool:
        """Whether devices have means of their own parts which add up to zero, as where the whole is normalized. So does
        their mean, and it is the mean that is meant."""
        numbers = self.value.array.value
        _, _, name = self.value.name.rpartition(".")
        if numbers is None or name not in _MEANS:
            return False
        parts = np.asarray(numbers.parts)
        largest = np.abs(parts).max(initial=0.0)
        total = np.abs(parts.mean(axis=0))
        return bool(np.all(total <= relations.TOLERANCE * largest))


@dataclass(frozen=True)
class Culprit:
    """The expression at which the runs part; ``operands`` are what it was computed from. ``begun`` is where a factor
    came in that this expression should have taken out. ``local`` are the axes over which dimensions are sharded whose
    local sizes it was given, or numbers that were computed from these. ``is_of_arguments`` tells that it was computed
    from arguments of the mapped function, ``is_short_ring`` that it is the last round of a ring that lacks one."""

    step: Step
    operands: tuple[Step, ...]
    begun: Step | None = None
    local: frozenset[str] = frozenset()
    is_of_arguments: bool = False
    is_short_ring: bool = False

    @property
    def has_partial_sum(self) -> bool:
        """Whether it is a partial sum or mean that the expression is applied to, or gives away as if it were whole. One
        beside a value that is sharded may be meant: devices normalize what they have."""
        kinds = {one.kind for one in self.operands or (self.step,)}
        return "part" in kinds and "split" not in kinds

    @property
    def _sharded_operands(self) -> list[Step]:
        return [one for one in self.operands if one.kind == "split"]

    def mixes_shards(self, axis: str) -> bool:
        """Whether it is one function of JAX's that computes each entry along a dimension from those that one device has
        of it: a softmax, a transform. One that only puts entries in another order may be meant, and so may a
        collective."""
        if axis in self.step.value.given.names:
            return False
        sharded = self._sharded_operands
        is_of_jax = self.step.value.name.startswith("jax.")
        if len(sharded) != 1 or not is_of_jax:
            return False
        given, made = sharded[0].value.array, self.step.value.array
        return given.dims == made.dims and not _is_reordered(given, made)

    @property
    def selects(self) -> bool:
        """Whether it takes some entries of one value that is sharded, as a program does where each device has one: the
        first of its layers, or its own key."""
        if len(self.operands) != 1:
            return False
        (operand,) = self.operands
        given, made = operand.value.array, self.step.value.array
        return operand.kind == "split" and _has_only_entries_of(given, made)

    @property
    def selects_the_only_one(self) -> bool:
        """Whether it takes the one entry that a device has along the sharded dimension."""
        if not self.selects:
            return False
        (operand,) = self.operands
        dimension = operand.dim
        given, made = operand.value.array, self.step.value.array
        if dimension is None or given.dims[dimension] != 1:
            return False
        return made.dims == (*given.dims[:dimension], *given.dims[dimension + 1 :])

    @property
    def groups_rows(self) -> bool:
        """Whether each device forms groups of the rows that it is given, as micro-batches: the first dimension of an
        argument, which is sharded, becomes two. Which rows are together depends on the number of devices then."""
        if len(self.operands) != 1:
            return False
        (operand,) = self.operands
        if not operand.value.is_argument or operand.kind != "split":
            return False
        given, made = operand.value.array.dims, self.step.value.array.dims
        if not given or len(made) != len(given) + 1 or operand.dim != 0:
            return False
        is_reordered = _is_reordered(operand.value.array, self.step.value.array)
        return made[2:] == given[1:] and is_reordered

    @property
    def is_of_examples(self) -> bool:
        """Whether it is applied to a value whose first dimension is sharded."""
        return any(one.dim == 0 for one in self._sharded_operands)

    @property
    def joins_rows(self) -> bool:
        """Whether each device puts some of the rows that it has beside others that it has, or in their place: of a
        queue, of which it keeps a part."""
        return self.step.value.name in _JOINING and self.is_of_examples

    @property
    def takes_blocks(self) -> bool:
        """Whether each device takes, of its shard, what lies at places of its own along a dimension that is whole: a
        block on the diagonal, as preconditioners do. Nothing is lost along the sharded dimension."""
        arrays = self._sharded_operands
        places = [
            one for one in self.operands if not _is_number(one) and one.state == "lost"
        ]
        if (
            len(arrays) != 1
            or not places
            or len(arrays) + len(places) != len(self.operands)
        ):
            return False
        given, made = arrays[0].value.array, self.step.value.array
        dimension = arrays[0].dim
        if dimension is None or given.rank != made.rank:
            return False
        if given.dims == made.dims or given.dims[dimension] != made.dims[dimension]:
            return False  # a mask takes entries, too, and no block
        return _has_only_entries_of(given, made)

    @property
    def scales(self) -> bool:
        """Whether it multiplies by a number that the program takes from the devices, as one does that takes larger
        steps on more of them. A product of what is right by itself is off by such a number only."""
        what = self.step.value.what
        is_product = self.step.value.name in _PRODUCTS
        module = str(getattr(what, "__module__", ""))
        is_product |= module.startswith(optimizers.__name__)
        return (
            is_product
            and not self.step.value.is_backward
            and self.step.state == "off"
            and self.step.power > 0
        )

    @property
    def is_put_together_wrongly(self) -> bool:
        """Whether it is a result that is right as each device has it: shards or copies, of which something else is
        made."""
        return not self.operands and self.step.kind in ("split", "same")

    def repeats(self, axis: str) -> bool:
        """Whether it adds up, over the devices, what all of them have alike, as it follows from their arguments."""
        value = self.step.value
        if not self.is_of_arguments or axis not in value.given.names:
            return False
        if value.name != "jax.lax.psum":
            return False
        if any(one.kind != "same" for one in self.operands):
            return False
        states = [one.state for one in self.operands]
        return "holds" in states

    def divides_by_local_size(self, axis: str) -> bool:
        """Whether it divides a sum over all devices by a number that is smaller on more of them, as is the local size
        of what was summed: the mean is too large by their number."""
        if self.step.state != "off" or len(self.operands) != 1:
            return False
        (operand,) = self.operands
        is_mean = _is_quotient(self.step) and self.step.power == 1
        is_sum = _is_call(operand, "jax.lax.psum") and operand.state == "holds"
        return (
            is_mean
            and is_sum
            and self.step.kind == "same"
            and axis in operand.value.given.names
        )

    def adds_shards(self, axis: str) -> bool:
        """Whether it adds up, over the devices, parts of one array that stand for different entries of it."""
        reduces = (
            self.step.value.name in _REDUCTIONS and axis in self.step.value.given.names
        )
        return reduces and any(one.kind == "split" for one in self.operands)


class Trace:
    """Two runs of one program: with a larger and with a smaller number of devices along an axis."""

    def __init__(
        self,
        many: Recorder,
        few: Recorder,
        axis: str,
        counts: tuple[int, int],
        mesh_axes: frozenset[str] = frozenset(),
        padded: frozenset[relations.Lengths] = frozenset(),
    ) -> None:
        self.many = many
        self._few = few
        self.mesh_axes = mesh_axes
        self.axis = axis
        self.counts = counts
        self._padded = padded
        self._twins = {
            one.key: one
            for one in few.values
            if many.met[one.where] == few.met[one.where]
        }
        self._first = {
            (one.where, one.key[2]): one for one in few.values if one.key[1] == 0
        }
        self._steps: dict[int, Step] = {}
        self._choosing: dict[int, bool] = {}
        self._losing: dict[int, bool] = {}
        self._sizes: dict[int, frozenset[str] | None] = {}

    @functools.cached_property
    def with_first_rounds(self) -> Trace:
        """The same, in which what both runs computed before one of them went another way is compared, too. What follows
        from it may come of what cannot be compared, and says nothing of where they part."""
        alike = _as_long_as_alike(self.many, self._few)
        if alike.keys() <= self._twins.keys():
            return self
        trace = Trace(
            self.many,
            self._few,
            self.axis,
            self.counts,
            self.mesh_axes,
            self._padded,
        )
        trace._twins |= alike
        return trace

    @property
    def recorders(self) -> tuple[Recorder, Recorder]:
        """The arrays of both runs."""
        return self.many, self._few

    def step(self, number: int) -> Step:
        """One recorded value, compared."""
        found = self._steps.get(number)
        if found is None:
            found = self._steps[number] = self._compared(self.many.values[number])
        return found

    @functools.cached_property
    def executions(self) -> Mapping[Where, Sequence[Recorded]]:
        """What each expression gave, in order."""
        found: dict[Where, list[Recorded]] = {}
        for one in self.many.values:
            found.setdefault(one.where, []).append(one)
        return found

    def twin(self, value: Recorded) -> Recorded | None:
        """What an expression gave in the other run."""
        return self._twins.get(value.key)

    def first_twin(self, value: Recorded) -> Recorded | None:
        """The same, and of expressions that are met another number of times there what they gave first."""
        twin = self.twin(value)
        if twin is not None or value.key[1] > 0:
            return twin
        return self._first.get((value.where, value.key[2]))

    def _compared(self, one: Recorded) -> Step:
        held = self._held(one)
        if held == []:
            over_both = (self._held(one, minor) for minor in self._minor_axes)
            held = next((found for found in over_both if found), [])
        if held is None:
            return Step(one, "unknown", None)
        if not held:
            return Step(one, "lost", None)
        # What all devices have alike is a partial sum of what is too large; so the first of all is the plainest.
        alike = [relation for relation in held if relation.kind in ("zero", "same")]
        plainest = min(
            alike or held, key=lambda relation: abs(Fraction(relation.power))
        )
        return Step(one, "holds" if plainest.power == 0 else "off", plainest)

    def _held(self, one: Recorded, minor: str | None = None) -> list[Relation] | None:
        """The relations that hold of a value; None where it cannot be compared."""
        twin = self.twin(one)
        if twin is None:
            return None
        if not one.is_inside and relations.are_laid_out(
            one.array, twin.array, self.counts
        ):
            return [SAME]  # what pmap is to give the devices
        return relations.found(
            one.array, twin.array, self.axis, self.counts, minor, self._padded
        )

    @functools.cached_property
    def _minor_axes(self) -> tuple[str, ...]:
        """The axes over which, after this one, a dimension of an argument is sharded: a device's shard of it lies
        elsewhere with another number of devices along this axis."""
        found: dict[str, None] = {}
        for one in self.many.values:
            if not one.is_argument or one.array.value is None or self._held(one) != []:
                continue
            for minor, _ in one.array.value.axes:
                held = self._held(one, minor) if minor != self.axis else None
                if any(relation.kind == "split" for relation in held or ()):
                    found[minor] = None
        return tuple(found)

    def before(self, step: Step) -> tuple[Step, ...]:
        """What a value was computed from; where that cannot be compared, what it was computed from in turn."""
        reached = self.many.led(
            step.value.sources, lambda one: self.step(one.number).state == "unknown"
        )
        steps = (self.step(number) for number in sorted(reached))
        return tuple(one for one in steps if one.state != "unknown")

    def ancestors(self, sources: Iterable[int]) -> set[int]:
        """The values with these numbers, and all that they were computed from."""
        return self.many.led(sources)

    def has_own(self, sources: Iterable[int]) -> bool:
        """Whether what values are computed from is each device's own: drawn with its own key, or as many as it has room
        for, and not what fewer devices have. Keys that are folded with the number of a row give each row the same draw,
        on whichever device it is."""
        for number in self.ancestors(sources):
            value = self.many.values[number]
            if self.axis not in value.array.own:
                continue
            before = [self.many.values[source] for source in value.sources]
            is_first = all(self.axis not in one.array.own for one in before)
            is_the_same = self.step(number).state == "holds" or self._is_moved(value)
            if is_first and not is_the_same:
                return True
        return False

    def _is_moved(self, value: Recorded) -> bool:
        """Whether a value has the same entries in both runs, each on one device, and it was drawn with keys that each
        row has on whichever device it is: rows were put in another order after that."""
        twin = self.twin(value)
        if twin is None or value.array.value is None or twin.array.value is None:
            return False
        many, few = value.array.value, twin.array.value
        if not np.array_equal(_entries(many), _entries(few)):
            return False
        held = [_entries(one) for one in many.devices((self.axis, self.counts[0]))]
        different = sum(len(np.unique(one)) for one in held)
        if different != len(np.unique(_entries(many))):
            return False
        led = self.many.led(value.sources)
        return any(_is_key(step) and _is_split(step) for step in map(self.step, led))

    def parts_taken(self, value: Recorded) -> list[Recorded]:
        """What each device has its part of where a value is computed, and that leads there by way of parts alone, the
        last ones first."""

        def is_part(number: int) -> bool:
            return self.step(number).kind == "part"

        def follows(one: Recorded) -> bool:
            return one is value or is_part(one.number)

        found = self.many.led({value.number}, follows)
        numbers = sorted(filter(is_part, found), reverse=True)
        return [self.many.values[number] for number in numbers]

    def led(self, sources: Iterable[int]) -> list[Recorded]:
        """The same values, the last ones first."""
        numbers = sorted(self.ancestors(sources), reverse=True)
        return [self.many.values[number] for number in numbers]

    def _computed_from(self, numbers: set[int]) -> Iterator[Recorded]:
        """What was computed from the values with these numbers, in order; also from those that are added on the way."""
        for one in self.many.values[min(numbers, default=0) + 1 :]:
            if not numbers.isdisjoint(one.sources):
                yield one

    def culprit(self, sources: Iterable[int]) -> Culprit | None:
        """The first expression that led to a value and at which the runs part, if it can be told."""
        found = next(self.culprits(sources), None) or self._misplaced(sources)
        return None if found is None else self._inside(found)

    def _inside(self, found: Culprit) -> Culprit:
        """The same, but for what only puts the gradient of a mapped function together, outside of it: where that begins
        which it puts together."""
        value = found.step.value
        if value.is_inside or not value.is_backward:
            return found
        begun = found.begun
        if begun is None:
            not_right = [
                one
                for one in found.operands
                if one.kind == "part" or one.state != "holds"
            ]
            if len(not_right) != 1:
                return found
            begun = self.begin(not_right[0])
        if not begun.value.is_inside or begun.value.is_argument:
            return found
        return self._described(begun, self.before(begun))

    def begin(self, step: Step) -> Step:
        """The first of the values like it that a value was computed from, one after another: of those that are a part,
        off by a factor, or lost."""
        return self.first(step, lambda one: _is_alike(one, step))

    def first(self, step: Step, is_such: Callable[[Step], bool]) -> Step:
        """The first of the values of a kind that a value was computed from, as long as each was computed from one."""
        while True:
            before = map(self.step, step.value.sources)
            such = [one for one in before if is_such(one)]
            if len(such) != 1:
                return step
            (step,) = such

    def culprits(self, sources: Iterable[int]) -> Iterator[Culprit]:
        """The expressions that led to a value and at which the runs part, the likeliest one first."""
        lost = self._lost(sources)
        regained = self._regained(lost)
        for is_regained in (False, True):
            steps = [
                one for one in lost if (one.value.number in regained) is is_regained
            ]
            yield from self._among(steps, lost)

    def _among(self, steps: list[Step], lost: list[Step]) -> Iterator[Culprit]:
        """Those among some of the steps that are ``lost`` on the way to a value."""
        states: tuple[State, State] = ("lost", "off")
        orders = itertools.product((False, True), (False, True), states)
        for choosing, chosen, wanted in orders:
            for step in (one for one in steps if one.state == wanted):
                operands = self.before(step)
                if (
                    self._is_choice(step, operands) is choosing
                    and self._is_of_chosen(operands) is chosen
                    and self._is_first(step, operands)
                ):
                    yield self._completed(step, lost) or self._described(step, operands)

    def _misplaced(self, sources: Iterable[int]) -> Culprit | None:
        """The first expression that goes by positions which every device counts from zero, though what it looks at is
        that device's shard: no average over the devices makes up for that."""
        for number in sorted(self.ancestors(sources)):
            step = self.step(number)
            if step.state != "lost":
                continue
            operands = self.before(step)
            places = [one for one in operands if self._counts_from_zero(one)]
            others = [one for one in operands if one not in places]
            of_shards = any(one.kind == "split" for one in others)
            if places and of_shards and all(_may_hold(one) for one in others):
                return self._described(step, operands)
        return None

    def _counts_from_zero(self, step: Step) -> bool:
        """Whether a value is positions that are made of a local size alone, and are the same on all devices."""
        number = step.value.number
        if step.state != "lost" or _varies_along(step.value.array, self.axis):
            return False
        axes = self._made_of_sizes(number)
        return axes is not None and self.axis in axes and self._only_chooses(number)

    def _regained(self, lost: list[Step]) -> set[int]:
        """The steps that compute something of each shard that is none itself, from which a later one makes shards
        again: as examples of a batch are grouped to microbatches, rows at the edge are sent to the next device, which
        puts them beside its own, or a recurrence of each part is set forth from where the part before it ended."""
        starts = {
            one.value.number
            for one in lost
            if one.state == "lost" and any(map(_is_split, self.before(one)))
        }
        reached = set(starts)
        for one in self._computed_from(reached):
            if self.step(one.number).state == "lost":
                reached.add(one.number)
        leading = set[int]()
        for one in reversed(self.many.values):
            before = reached & one.sources
            if before and (one.number in leading or self._makes_shards(one.number)):
                leading |= before
        return starts & leading

    def _makes_shards(self, number: int) -> bool:
        step = self.step(number)
        return _is_split(step) and _are_numbers(step)

    def _is_of_chosen(self, operands: tuple[Step, ...]) -> bool:
        """Whether an index or a mask among the operands differs: the step may only follow from that."""
        return any(
            not _may_hold(one) and self._only_chooses(one.value.number)
            for one in operands
        )

    def _described(self, step: Step, operands: tuple[Step, ...]) -> Culprit:
        made = [self._made_of_sizes(source) for source in step.value.sources]
        is_of_arguments = None in made
        return Culprit(step, operands, None, self._local(step), is_of_arguments)

    def _local(self, step: Step) -> frozenset[str]:
        """The axes of the local sizes that an expression was given, itself or as arrays made of nothing else."""
        found = set(step.value.given.local)
        for source in step.value.sources:
            axes = self._made_of_sizes(source)
            if axes is not None:
                found |= axes
        return frozenset(found)

    def _made_of_sizes(self, number: int) -> frozenset[str] | None:
        """The axes of the local sizes that a value was computed from; None if there are arguments among its sources."""
        waiting = [number]
        while waiting:
            value = self.many.values[waiting[-1]]
            if value.is_argument:
                self._sizes[waiting.pop()] = None
                continue
            missing = [source for source in value.sources if source not in self._sizes]
            if missing:
                waiting += missing
                continue
            found: set[str] | None = set(value.given.local)
            for source in value.sources:
                axes = self._sizes[source]
                found = None if found is None or axes is None else found | axes
            self._sizes[waiting.pop()] = None if found is None else frozenset(found)
        return self._sizes[number]

    def _completed(self, step: Step, lost: list[Step]) -> Culprit | None:
        """Where a partial result that is off by a factor, as a mean of each device's own examples is, was completed in
        a way that leaves the factor in."""
        if step.state != "off" or step.kind not in ("part", "split"):
            return None
        for later in lost:
            if later.state != "off" or later.kind != "same":
                continue
            operands = self.before(later)
            if any(one.state == "off" and one.kind == "part" for one in operands):
                return Culprit(later, operands, step)
        return None

    def _lost(self, sources: Iterable[int]) -> list[Step]:
        """What led to a value and is not the same in both runs, in the order in which it was computed."""
        reached = self.many.led(sources, lambda one: self._is_lost(one.number))
        return [
            self.step(number)
            for number in sorted(reached)
            if self._is_lost(number) and self.step(number).state != "unknown"
        ]

    def _is_lost(self, number: int) -> bool:
        """Whether a value is not the same in both runs, or not known to be; but for averages that are meant."""
        known = self._losing.get(number)
        if known is None:
            step = self.step(number)
            known = step.state != "holds" and not self._is_average(step)
            self._losing[number] = known
        return known

    def is_averaged_before(self, step: Step) -> bool:
        """Whether a step is computed from an average of what each device has by itself."""
        led = self.ancestors(step.value.sources)
        return any(self._is_average(self.step(number)) for number in led)

    def _is_average(self, step: Step) -> bool:
        """Whether a step averages what each device has by itself, as trainers do that take steps of their own: that is
        meant to depend on how many there are."""
        before = self.before(step)
        if _is_divided(step):
            sums = [one for one in before if _is_call(one, "jax.lax.psum")]
            before = tuple(each for one in sums for each in self.before(one))
        elif _is_call(step, "jax.lax.psum"):
            before = tuple(one for one in before if _is_divided(one))
        elif not _is_call(step, "jax.lax.pmean"):
            return False
        if step.state != "lost" or not self._keeps_its_shape(step.value):
            return False
        own = [one for one in before if self._is_own(one)]
        return bool(own) and not self._mix_shards(own) and not self._mix_sums(own)

    def _mix_shards(self, steps: Iterable[Step]) -> bool:
        """Whether values come from a transform, a softmax or the like of the part that a device has of a dimension
        other than that of the examples: no average makes up for that."""
        for step in self._lost(one.value.number for one in steps):
            found = Culprit(step, self.before(step))
            is_first = all(map(_may_hold, found.operands))
            is_own = self.axis in step.value.array.own
            if not is_first or found.is_of_examples or is_own:
                continue
            if found.mixes_shards(self.axis):
                return True
        return False

    def _mix_sums(self, steps: Iterable[Step]) -> bool:
        """Whether values come from a sum over the devices that is off by their number, beside one that is not, that is
        divided by what each device has a part of, or that has a local size: no device computes that for itself."""
        lost = self._lost(one.value.number for one in steps)
        return any(self._mixes_sum(one) for one in lost if one.state == "lost")

    def _mixes_sum(self, step: Step) -> bool:
        if _is_call(step, "jax.lax.psum") and not self._keeps_its_shape(step.value):
            return True
        operands = self.before(step)
        if len(operands) != 2:
            return False
        for one, other in itertools.permutations(operands):
            if one.kind == "same" and one.state == "off" and other.state == "holds":
                made = self.first(one, lambda each: not _gives_sum(each))
                before = map(self.step, made.value.sources)
                if _gives_sum(one) or any(map(_gives_sum, before)):
                    return True
        whole, other = operands
        is_whole = _is_call(whole, "jax.lax.psum") and whole.state == "holds"
        return is_whole and _is_quotient(step) and self._is_of_part(other)

    def _is_of_part(self, step: Step) -> bool:
        """Whether a value is a partial sum or mean, or computed from one alone."""
        if step.kind == "part":
            return True
        begun = self.first(step, lambda one: one.state == "lost")
        made = Culprit(begun, self.before(begun))
        return step.state == "lost" and made.has_partial_sum

    def _is_own(self, step: Step) -> bool:
        """Whether devices differ in a value that is not sharded over them."""
        return step.kind != "split" and _varies_along(step.value.array, self.axis)

    def has_one_each(self, sources: Iterable[int]) -> bool:
        """Whether a value comes from the only entry that each device has of a sharded array, as where each has one
        expert, ``w[0]``: on fewer devices the other entries are never read."""
        lost = (one for one in self._lost(sources) if one.state == "lost")
        return any(
            Culprit(step, self.before(step)).selects_the_only_one for step in lost
        )

    def selects(self, sources: Iterable[int]) -> bool:
        """Whether a value comes from one entry along the sharded dimension of an array, as a program takes it where
        each device has one: its layer, or its own key."""
        values = self.many.values
        for number in self.ancestors(sources):
            one = values[number]
            if len(one.sources) != 1:
                continue
            (source,) = one.sources
            if self._is_entry(one.array, values[source].array):
                return True
        return False

    def _is_entry(self, made: Array, given: Array) -> bool:
        dimension = given.sharded_dimension(self.axis)
        if dimension is None:
            return False
        others = (*given.dims[:dimension], *given.dims[dimension + 1 :])
        return made.dims == others and _has_only_entries_of(given, made)

    def are_sent(self, number: int) -> bool:
        """Whether entries of a value are sent to other devices along the axis, as rows are to the experts' devices."""
        after = {number}
        for one in self._computed_from(after):
            after.add(one.number)
            is_sending = one.name in _SENDING
            if is_sending and self.axis in one.given.names:
                return True
        return False

    def is_undone(self, sources: Iterable[int]) -> bool:
        """Whether the program takes a factor out again that a value is off by: divides it by a number."""
        off = set(sources)
        for one in self._computed_from(off):
            step = self.step(one.number)
            if step.state == "off":
                off.add(one.number)
            elif (
                step.state == "holds"
                and step.value.what in ("*", "/")
                and len(one.sources) == 1
            ):
                return True
        return False

    def mixes(self, number: int) -> bool:
        """Whether a value that is off by a factor is put together with others that are right, so that no later factor
        makes up for it."""
        off = {number}
        for one in self._computed_from(off):
            step = self.step(one.number)
            if step.state == "off":
                off.add(one.number)
            if step.state != "lost":
                continue
            operands = self.before(step)
            others = [each for each in operands if each.value.number not in off]
            if others and all(each.state == "holds" for each in others):
                return True
        return False

    def contracts_alike(self, number: int) -> bool:
        """Whether a value that all devices have alike, or what was computed from it alone, is contracted with an array
        along the dimension that is sharded: as if it were that device's part of a value that goes with the array."""
        alike = {number}
        for one in self._computed_from(alike):
            if not _varies_along(one.array, self.axis):
                alike.add(one.number)
                continue
            others = [self.step(source) for source in one.sources - alike]
            is_of_shards = any(_is_split(each) for each in others)
            if is_of_shards and self._keeps_its_shape(one):
                return True
        return False

    def _keeps_its_shape(self, one: Recorded) -> bool:
        """Whether a value has no dimension that depends on the number of devices."""
        twin = self.twin(one)
        return twin is not None and one.array.shape == twin.array.shape

    def _is_first(self, step: Step, operands: tuple[Step, ...]) -> bool:
        """Whether all that a value was computed from is the same in both runs, but for indices and masks."""
        telling = [one for one in operands if not self._only_chooses(one.value.number)]
        return all(_may_hold(one) for one in telling) and (
            bool(telling) or step.state == "off"
        )

    def _is_choice(self, step: Step, operands: tuple[Step, ...]) -> bool:
        """Whether a step only computes where to look. What is chosen by values that hold (``argmax``) is no such."""
        chosen = any(_is_number(one) and one.state == "holds" for one in operands)
        return self._only_chooses(step.value.number) and not chosen

    def _only_chooses(self, number: int) -> bool:
        """Whether a value is an index or a mask, or was computed from such alone: it may be of each device's own."""
        known = self._choosing.get(number)
        if known is None:
            value = self.many.values[number]
            whole = not _is_number(self.step(number))
            known = whole or all(self._only_chooses(source) for source in value.sources)
            known = self._choosing[number] = (
                known and self.step(number).state != "holds"
            )
        return known


def _as_long_as_alike(many: Recorder, few: Recorder) -> dict[Key, Recorded]:
    """What both runs computed until one of them goes another way, as with another number of rounds of a loop."""
    found: dict[Key, Recorded] = {}
    for one, other in zip(many.values, few.values, strict=False):
        if one.key != other.key:
            break
        found[other.key] = other
    return found


def _entries(value: Simulated) -> Any:
    """All that devices have, in order of size."""
    return np.sort(np.asarray(value.parts), axis=None)


def _gives_sum(step: Step) -> bool:
    """Whether it is a sum over devices, or something divided, that all of them have and that is off by their number."""
    is_sum = _is_call(step, "jax.lax.psum") or _is_quotient(step)
    return is_sum and step.kind == "same" and step.state == "off"


def _is_quotient(step: Step) -> bool:
    return step.value.what in ("/", "/=")


def _is_call(step: Step, qualname: str) -> bool:
    return step.value.name == qualname


def _is_reordered(given: Array, made: Array) -> bool:
    """Whether an array has the entries of another."""
    if given.value is None or made.value is None:
        return False
    pairs = zip(given.value.parts, made.value.parts, strict=False)
    return all(
        np.array_equal(np.sort(one, axis=None), np.sort(other, axis=None))
        for one, other in pairs
    )


def _has_only_entries_of(given: Array, made: Array) -> bool:
    """Whether each entry of an array is one of another's."""
    if given.value is None or made.value is None:
        return False
    pairs = zip(given.value.parts, made.value.parts, strict=False)
    return all(np.isin(other, one).all() for one, other in pairs)


def _is_alike(one: Step, other: Step) -> bool:
    """Whether both are parts; or, of one that is none, both off by a factor or both lost."""
    if other.kind == "part":
        return one.kind == "part"
    return one.state == other.state


def _is_split(step: Step) -> bool:
    return step.state == "holds" and step.kind == "split"


def _is_key(step: Step) -> bool:
    return step.value.array.dtype in KEYS


def _are_numbers(step: Step) -> bool:
    """Whether a value has different entries, of floating point: a mask or ones may be right by chance."""
    array = step.value.array
    if array.value is None or not dtypes.is_kind(array.dtype, "floating", "complex"):
        return False
    return any(np.ptp(np.abs(part)) > 0 for part in array.value.parts if np.size(part))


def _is_divided(step: Step) -> bool:
    """Whether a step divides by a number of devices."""
    return step.value.what == "/" and step.value.given.counted


def _varies_along(array: Array, axis: str) -> bool:
    return array.value is not None and array.value.varies_along(axis)


def _may_hold(step: Step) -> bool:
    """Whether a value may be right as it is: also as the mean of each device's own examples, which is a part of their
    mean times the number of devices; the cotangents of these examples are its shards, times that number."""
    if step.state == "holds":
        return True
    return step.kind == "part" or (step.kind == "split" and step.value.is_backward)


def _is_number(step: Step) -> bool:
    """Whether a value is no integer and no boolean."""
    return (step.value.array.dtype or "").startswith(("float", "bfloat", "complex"))
