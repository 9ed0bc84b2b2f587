"""One question: a program on devices beside what it means on one, proved where that is possible, and in numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.tree_util import KeyPath

from shardtypes.lang.messages import axes_text
from shardtypes.proving.alignment import aligned
from shardtypes.proving.arguments import (
    Draws,
    Layout,
    carried,
    draws,
    rows_of,
    states,
)
from shardtypes.proving.blame import blamed
from shardtypes.proving.calls import Call
from shardtypes.proving.difference import difference
from shardtypes.proving.elsewhere import Shapes
from shardtypes.proving.evaluation import Unevaluated
from shardtypes.proving.fewer_devices import fewer, in_groups
from shardtypes.proving.intermediates import Intermediates, intermediates
from shardtypes.proving.numbers import (
    MOST_BYTES,
    Numbers,
    Values,
    bytes_of,
    run,
    varying_axes,
    without_axes,
)
from shardtypes.proving.observed import Host
from shardtypes.proving.on_purpose import certainly_wrong
from shardtypes.proving.own_orders import (
    MEMBERS,
    QUEUES,
    ROUNDS,
    of_members,
    of_queues,
    of_rounds,
)
from shardtypes.proving.program import Constant, Name, Program
from shardtypes.proving.propagation import Proved, propagated
from shardtypes.proving.purposes import MEANT_BY_REFERENCE, Purpose, Purposes
from shardtypes.proving.random_draws import drawn_in, related_draws
from shardtypes.proving.readings import Reading, Readings
from shardtypes.proving.relation import Sizes
from shardtypes.proving.results import Results
from shardtypes.proving.retracing import laid_out, traced_again
from shardtypes.proving.signs import free_signs
from shardtypes.proving.state import State, same
from shardtypes.proving.tracing import Traced, traced
from shardtypes.proving.verdict import Proof, Where
from shardtypes.proving.walk import COLLECTIVES, Walk
from shardtypes.proving.words import mesh_text, operation, wrong_as_well

_DRAWS = 3
_ASSUMED = (
    "sums are not rounded and may be taken in any order",
    "all numbers are finite",
)
DRAWN_AS_ON_ONE = (
    "what devices draw at random for their shards is as good as what one device draws"
)
_IDENTITIES = "identities that hold at three random points of a field of 2^31 numbers hold everywhere"


@dataclass(frozen=True)
class Ran:
    """What was handed to the devices and to one device, and what the devices made of it."""

    many: Draws
    ones: Draws
    found: Numbers


class Question:
    """One question, and what has been found out so far."""

    def __init__(
        self,
        call: Call,
        many: Traced,
        one: Traced | None,
        places: Sequence[Layout],
        sizes: Sizes,
        reference: Callable[..., Any] | None,
        context: Any,
    ) -> None:
        self.call = call
        self.many = many
        self.one = one
        self.places = places
        self.sizes = sizes
        self.reference = reference
        self.context = context
        #: what the devices compute, once that is known
        self.ran: Ran | None = None
        self.failed: Exception | None = None
        #: arguments that are not drawn
        self.as_given: frozenset[int] = frozenset()
        #: whether flat results may be in the order of the devices' shards
        self.in_any_order = False
        #: what has to be taken for granted so that the numbers agree
        self.agreed_if = ""
        #: how many groups of devices along each axis are compared with one device each
        self.groups: dict[str, int] = {}
        self.whom = "those of one device" if reference is None else "the reference"

    def beside_program(self, one: Traced | None) -> Question:
        """The same question beside another program."""
        return Question(
            self.call, self.many, one, self.places, self.sizes, None, self.context
        )

    def on_mesh(self, mesh: Sizes, call: Call, one: Traced | None) -> Question | None:
        """The question on another mesh; None where the program is not for it."""
        try:
            many = traced_again(call, call.arrays, mesh, self.context)
        except Exception:  # noqa: BLE001 - the user's program, on a mesh that it may not be for
            return None
        if many.sizes != mesh:
            return None
        return Question(
            call, many, one, self.places, mesh, self.reference, self.context
        )

    @property
    def is_large(self) -> bool:
        """Whether the program is too large to be run in numbers."""
        return bytes_of(self.many.program, self.sizes) > MOST_BYTES

    def answer(self, mesh_dependent: str | None) -> Proof:
        """What the proof says, or the numbers where it ends; nothing else is tried that would excuse a difference."""
        on = mesh_text(self.sizes)
        if mesh_dependent:
            return Proof(
                None, f"depends on the mesh on purpose: {mesh_dependent}", self.sizes
            )
        if self.failed is not None:
            error = self.failed
            return Proof(
                None,
                f"on one device the program does not run: {type(error).__name__}: {error}",
                self.sizes,
            )
        proved = self._proved()
        if proved is not None and self.reference is None:
            found = self._told(proved)
            if found.ok or self.is_large:
                return found
        apart = self.many.mapped - _crossed(self.many.program)
        if apart and self.reference is None:
            axes = axes_text(sorted(apart))
            return Proof(
                None,
                f"nothing crosses devices along {axes}: each computes on its own rows",
                self.sizes,
            )
        if self.is_large:
            return Proof(
                None,
                f"too large to be run in numbers on {on}: give smaller examples",
                self.sizes,
            )
        try:
            run_on = self.on_devices()
            other = self._state_as_shards(run_on.found)
            if other is not None:
                of_shards = other.answer(None)
                # weights that came apart by a mistake are no shards
                if of_shards.ok is not False:
                    return of_shards
            numbers = self.compared(run_on)
        except Unevaluated as error:
            numbers = Proof(
                None, f"cannot be run on simulated devices: {error}", self.sizes
            )
        if numbers.ok is False or proved is None:
            return numbers
        reason = numbers.reason
        if numbers.agrees:
            count = sum(map(_is_right, proved.outputs))
            total = len(proved.outputs)
            whom = self.with_whom()
            reason = f"on {on} {count} of {total} results are proved; in numbers all agree {whom}"
            for path, state in zip(_paths(self.many.tree), proved.outputs, strict=True):
                if state is not None and state.parts:
                    words = state.related().words(self.sizes)
                    reason = f"{reason}; {path} is {words}"
        return replace(
            numbers,
            reason=reason,
            proved=proved.share,
            culprit=numbers.culprit or _end(proved),
        )

    def intermediates(self, with_numbers: bool = True) -> Intermediates:
        """What is proved of the values on the way, and what the numbers tell of the others."""
        proved = self._proved()
        claims = {} if proved is None else proved.claims
        walk = None
        if with_numbers and self.one is not None and not self.is_large:
            try:
                given = self.on_devices()
                walk = self._walk(given.many, given.ones, self.readings.in_order)
            except Unevaluated:
                walk = None
        return intermediates(self.many.program, claims, walk, self.sizes)

    def _proved(self) -> Proved | None:
        if self.one is None:
            return None
        ones = [
            place.one(array)
            for place, array in zip(self.places, self.call.arrays, strict=True)
        ]
        names = self.one.program.inputs
        given = [
            same(self.one.program.types[name].shape) if place.how == "same" else None
            for name, place in zip(names, self.places, strict=True)
        ]
        mapped = states(self.many.program, self.places, ones)
        drawn = related_draws(
            self.many.program,
            self.one.program,
            self.call.arrays,
            self.places,
            self.sizes,
        )
        return propagated(
            self.many.program,
            self.one.program,
            given,
            self.sizes,
            mapped,
            self.many.mapped,
            drawn,
        )

    def _told(self, proved: Proved) -> Proof:
        """What the proof alone says."""
        on = mesh_text(self.sizes)
        if all(map(_is_right, proved.outputs)):
            reason = f"on {on} every result is what one device computes, for all arguments of these shapes"
            assumed = list(_ASSUMED)
            assumed += [_IDENTITIES] * proved.identities + [
                DRAWN_AS_ON_ONE
            ] * proved.draws
            assumed += self._read_again()
            return Proof(True, reason, self.sizes, tuple(assumed), 1.0)
        reason = f"on {on} not every result is proved, and the program is too large to be run in numbers"
        return Proof(
            None, reason, self.sizes, proved=proved.share, culprit=_end(proved)
        )

    def _read_again(self) -> list[str]:
        """What is taken for granted of numbers that the program has read from the mesh."""
        one = dict.fromkeys(self.sizes, 1)
        changes = self.call.kept.read(self.call.own, one)
        names = sorted({kept.name for kept, _ in changes})
        if not names:
            return []
        shown = ", ".join(f"`{name}`" for name in names)
        return [f"on one device {shown} is what would be read from a mesh of one"]

    def _draws(self) -> tuple[Draws, Draws]:
        ones = [
            place.one(array)
            for place, array in zip(self.places, self.call.arrays, strict=True)
        ]
        drawn = draws(ones, _DRAWS)
        for draw in drawn:
            for number in self.as_given:
                draw[number] = ones[number]
        many = [
            [
                array if place.how == "own" else place.many(value)
                for place, value, array in zip(
                    self.places, draw, self.call.arrays, strict=True
                )
            ]
            for draw in drawn
        ]
        return many, drawn

    def in_numbers(self) -> Proof | None:
        """What the numbers alone say; None where they say nothing, or cannot be had."""
        try:
            found = self.compared(self.on_devices())
        except Unevaluated:
            return None
        if found.ok is None and not found.agrees:
            return None
        return found

    def on_devices(self) -> Ran:
        """What the devices compute of arguments that are drawn."""
        if self.ran is not None:
            return self.ran
        many, ones = self._draws()
        keep = _copied(self.many.program) | drawn_in(self.many.program)
        found = run(self.many.program, many, keep)
        self.ran = Ran(many, ones, found)
        return self.ran

    def with_state_as_shards(self) -> Question | None:
        """The same, if it can be run on simulated devices."""
        if self.is_large:
            return None
        try:
            return self._state_as_shards(self.on_devices().found)
        except Unevaluated:
            return None

    def _state_as_shards(self, found: Numbers) -> Question | None:
        """The question with state that starts alike on all devices as shards, where it does not stay alike; None where
        there is none, or one device cannot have it so.

        Weights whose gradients are not averaged do not stay alike either: so each length of shards is tried alone, too.
        """
        rows: dict[int, int] = {}
        paths = [path for path, _ in _leaves(self.many.tree)]
        for argument, result in carried(self.call.paths, paths).items():
            array = self.call.arrays[argument]
            place = self.places[argument]
            length = rows_of(array, place)
            if place.how != "copies" or length is None:
                continue
            if self._differs_by_device(result, found):
                rows[argument] = length
        lengths = sorted(set(rows.values()))
        apart = [[length] for length in lengths]
        for chosen in [lengths, *apart] if len(lengths) > 1 else apart:
            judged = self._rows_as_shards(rows, chosen)
            if judged is not None:
                return judged
        return None

    def _rows_as_shards(
        self, rows: Mapping[int, int], lengths: Sequence[int]
    ) -> Question | None:
        """The question with those of the arguments as shards that have so many rows."""
        places = list(self.places)
        for number, length in rows.items():
            if length in lengths:
                places[number] = replace(places[number], how="shards")
        one, places = laid_out(self.call, places, self.sizes, self.context)
        if isinstance(one, Exception):
            return None
        return Question(
            self.call,
            self.many,
            one,
            places,
            self.sizes,
            self.reference,
            self.context,
        )

    def _differs_by_device(self, result: int, found: Numbers) -> bool:
        """Whether devices return other numbers than each other."""
        output = self.many.program.outputs[result]
        for step in self.many.program.steps:
            if step.primitive != "unshard" or step.results[0] != output:
                continue
            operand = step.operands[0]
            if isinstance(operand, Constant) or operand not in found.inside:
                return False
            axes = varying_axes(found.inside[operand])
            return not axes.isdisjoint(self.many.mapped)
        return False

    def compared(self, given: Ran) -> Proof:
        ones = given.ones
        found = given.found
        if self.reference is not None:
            wanted = self._of_reference(ones)
        else:
            wanted = self._of_one(ones, self.readings.first)
        paths = _paths(self.many.tree)
        if len(wanted) != len(found.results):
            raise ValueError(
                f"reference returns {len(wanted)} arrays, the function {len(found.results)}"
            )
        wrong = self._wrong(found.results, wanted, found.inside)
        if not wrong:
            return self.agreeing()
        if self.reference is None:
            if self._agrees_otherwise(given):
                return self.agreeing()
            queues = of_queues(paths, found.results, wanted)
            members = of_members(paths, found.results, wanted)
            wrong = self._without_own_orders(wrong, queues, members)
            if not wrong:
                return self.agreeing()
            as_given = self._with_queues_as_given() if queues else None
            if as_given is not None:
                return as_given
        return self._refuted(wrong, paths, found.results, wanted, given.many, ones)

    def _with_queues_as_given(self) -> Proof | None:
        """What is said where arguments with equal entries are as they are given, if the numbers agree then: which rows
        of a queue are replaced first does not matter. None where they do not."""
        arrays = enumerate(self.call.arrays)
        alike = frozenset(number for number, array in arrays if _is_alike(array))
        if not alike or self.as_given:
            return None
        judged = self.beside_program(self.one)
        judged.as_given = alike
        found = judged.in_numbers()
        if found is None or not found.agrees:
            return None
        self.agreed_if = judged.agreed_if
        return found

    def _without_own_orders(
        self, wrong: list[int], queues: set[int], members: set[int]
    ) -> list[int]:
        """Those of the wrong results that have no order or number of rounds of their own."""
        rounds = of_rounds(self.many.program)
        excused = {QUEUES: queues, MEMBERS: members, ROUNDS: rounds}
        left = [
            number
            for number in wrong
            if not any(number in numbers for numbers in excused.values())
        ]
        if not left:
            names = [what for what, numbers in excused.items() if numbers & set(wrong)]
            self.agreed_if = f", but for {' and '.join(names)}"
        return left

    @cached_property
    def readings(self) -> Readings:
        """What one device may compute just as well."""
        assert self.one is not None
        counts = None
        if self._are_whole_groups():
            counts = self.devices_of_one()
        given = self.on_devices()
        return Readings(
            self.many.program, self.one.program, given.found, given.ones, counts
        )

    def _agrees_otherwise(self, given: Ran) -> bool:
        """Whether the numbers agree if more is excused."""
        for reading in self.readings.others():
            if self.agrees_if(given, reading):
                return True
        free = free_signs(self.many.program)
        if free is None or not self._agrees_in_absolute_values(given):
            return False
        self.agreed_if = f", but for signs, which {free} leaves open"
        return True

    def agreeing(self) -> Proof:
        on = mesh_text(self.sizes)
        reason = f"on {on} the numbers agree {self.with_whom()}"
        if not self.agreed_if:
            reason = f"{reason}, which proves nothing for others"
        return Proof(None, reason, self.sizes, agrees=True)

    def _of_one(self, ones: Draws, reading: Reading) -> list[Host]:
        """What one device computes."""
        assert self.one is not None
        alone = run(self.one.program, ones, (), reading.one)
        return [without_axes(value) for value in alone.results]

    def agrees_if(self, given: Ran, reading: Reading) -> bool:
        """Whether the numbers agree if the program is read like this."""
        found = given.found
        try:
            if reading.many is not None:
                program = self.many.program
                found = run(program, given.many, _copied(program), reading.many)
            wanted = self._of_one(given.ones, reading)
        except Unevaluated:
            return False
        if self._wrong(found.results, wanted, found.inside):
            return False
        self.agreed_if = reading.condition
        return True

    def _agrees_in_absolute_values(self, given: Ran) -> bool:
        """Whether the numbers agree but for signs, for arguments that are drawn: examples may be of no full rank."""
        wanted = self._of_one(given.ones, self.readings.in_order)
        absolute = [abs(one) for one in wanted]
        found = []
        for values, of_one in zip(given.found.results, absolute, strict=True):
            array = abs(values.array)
            if array.shape == of_one.shape:
                array[:1] = of_one[:1]
            found.append(Values(array, values.axes))
        return not self._wrong(found, absolute, given.found.inside)

    def with_whom(self) -> str:
        """With what the numbers agree, and for which."""
        return f"with {self.whom} for {_DRAWS} draws{self.agreed_if}"

    def _are_whole_groups(self) -> bool:
        """Whether along each axis there is one device beside all of them, or as many."""
        whole = [self.sizes[axis] for axis in self.groups]
        counts = list(self.groups.values())
        return counts == whole

    def devices_of_one(self) -> dict[str, int]:
        """How many devices along each axis are compared with one device."""
        counts = dict(self.sizes)
        for axis, count in self.groups.items():
            counts[axis] //= count
        return counts

    def _of_reference(self, ones: Draws) -> list[Host]:
        assert self.reference is not None
        examples, named = self.call.rebuilt(self.call.arrays)
        call = Call.of(self.reference, examples, named, False)
        arrays = self.call.arrays
        program = traced(call.flat, (arrays,), {}, {}, self.context).program
        results = run(program, ones, ()).results
        return [without_axes(value) for value in results]

    def _wrong(
        self, found: list[Values], wanted: list[Host], copies: Mapping[Name, Values]
    ) -> list[int]:
        """The results that are not what they should be."""
        results = Results(
            self.many.program,
            self.sizes,
            mapped=self.many.mapped,
            grouped=self.groups,
            in_any_order=self.in_any_order,
        )
        return results.wrong(found, wanted, copies)

    def _refuted(
        self,
        wrong: list[int],
        paths: Sequence[str],
        found: list[Values],
        wanted: list[Host],
        many: Draws,
        ones: Draws,
    ) -> Proof:
        numbers = difference(wrong[0], paths, found, wanted, many, self.where())
        on = mesh_text(self.sizes)
        also = wrong_as_well([paths[number] for number in wrong[1:]])
        reason = f"on {on} {numbers.path} is {numbers.words}{also}"
        if self.one is None:
            return Proof(False, reason, self.sizes, numbers=numbers, agrees=False)
        walk = self._walk(many, ones, self.readings.in_order)
        outputs = [self.many.program.outputs[number] for number in wrong]
        names = [output for output in outputs if isinstance(output, int)]
        purposes = self._purposes(walk)
        reasons = [purposes.found[name] for name in names if name in purposes.found]
        if self.reference is not None:
            reasons = [one for one in reasons if one.kind not in MEANT_BY_REFERENCE]
        why = next(iter(reasons), None)
        if why is None:
            return Proof(
                False,
                reason,
                self.sizes,
                culprit=blamed(walk, names),
                numbers=numbers,
                agrees=False,
            )
        beside = self._beside_fewer(why)
        if beside is None:
            beside = self._with_alike_state(purposes)
        if beside is not None:
            return beside
        culprit = certainly_wrong(purposes, self.readings.drawn, self.many.mapped)
        if culprit is None:
            return Proof(
                None,
                f"the numbers depend on the mesh by construction: {why}",
                self.sizes,
                agrees=False,
            )
        return Proof(
            False, reason, self.sizes, culprit=culprit, numbers=numbers, agrees=False
        )

    def _purposes(self, walk: Walk) -> Purposes:
        """What depends on the mesh on purpose."""
        given = []
        for name, place in zip(self.many.program.inputs, self.places, strict=True):
            if place.how == "own":
                given.append(name)
        return Purposes(walk, given)

    def _with_alike_state(self, purposes: Purposes) -> Proof | None:
        """What is said where flat arguments are as they are given, if their entries are all the same: then their order
        does not matter. None where it does, or where nothing is found so."""
        inputs = list(self.many.program.inputs)
        numbers = {inputs.index(name) for name in purposes.flattened}
        alike = all(_is_alike(self.call.arrays[number]) for number in numbers)
        if self.as_given or not numbers or not alike:
            return None
        judged = self.beside_program(self.one)
        judged.as_given = frozenset(numbers)
        judged.in_any_order = True
        return judged.in_numbers()

    def where(self) -> str:
        """Of what the devices are compared with: where it was computed."""
        if not self.groups:
            return "one"
        return mesh_text(self._fewer(self.groups))

    def _fewer(self, counts: Mapping[str, int]) -> dict[str, int]:
        """A mesh with more than one device along some axes alone."""
        return {**dict.fromkeys(self.sizes, 1), **counts}

    def _beside_fewer(self, why: Purpose) -> Proof | None:
        """What is said beside fewer devices, where one has but the first of the pieces that devices pick; None where
        the pieces of fewer are others, too."""
        if self.groups or self.readings.drawn:
            return None
        if self.many.mapped or len(why.axes) != 1:
            return None
        (axis,) = why.axes
        count = fewer(self.sizes[axis])
        if count == 1:
            return None
        judged = self.beside({axis: count})
        if judged is None:
            return None
        found = judged.in_numbers()
        if found is not None:
            self.whom = judged.whom
        return found

    def beside(self, counts: dict[str, int]) -> Question | None:
        """The question beside the program on so many devices along some axes, and one along the others; None where it
        is not for them."""
        mesh = self._fewer(counts)
        try:
            few = traced_again(self.call, self.call.arrays, mesh, self.context)
        except Exception:  # noqa: BLE001 - the user's program, on a mesh that it may not be for
            return None
        judged = self.beside_program(few)
        judged.ran = self.ran
        judged.groups = counts
        judged.whom = f"those of {mesh_text(few.sizes)}"
        return judged

    def _walk(self, many: Draws, ones: Draws, reading: Reading) -> Walk:
        assert self.one is not None
        few = slice(-2, None)
        names, steps = aligned(self.many.program, self.one.program)
        mine = None if reading.many is None else reading.many[few]
        on_many = run(self.many.program, many[few], None, mine)
        his = None if reading.one is None else reading.one[few]
        on_one = run(self.one.program, ones[few], None, his)
        sizes = self.devices_of_one()
        for axis, count in self.groups.items():
            on_many = in_groups(on_many, axis, count)
            on_one = in_groups(on_one, axis, count)
        return Walk(self.many.program, names, steps, on_many, on_one, sizes)


def _is_alike(array: Any) -> bool:
    """Whether an argument is given, and all its entries are the same."""
    if isinstance(array, jax.ShapeDtypeStruct):
        return False
    entries = np.asarray(array)
    return bool(np.all(entries == entries.flat[:1]))


def _crossed(program: Program) -> set[str]:
    """The axes over which devices exchange anything, or ask for their number."""
    found: set[str] = set()
    for step in program.all_steps():
        if step.primitive in COLLECTIVES or step.primitive == "axis_index":
            found.update(step.over)
    return found


def shapes_of(arrays: Sequence[Any]) -> Shapes:
    return tuple(tuple(array.shape) for array in arrays)


def _is_right(state: State | None) -> bool:
    """Whether a result is what one device computes."""
    return state is not None and (state.zero or state.exact)


def _end(proved: Proved) -> Where | None:
    """Where knowledge ends first."""
    if not proved.ends:
        return None
    step, why = proved.ends[0]
    return Where(
        step.place, operation(step), f"knowledge ends at {operation(step)}: {why}"
    )


def _copied(program: Program) -> set[Name]:
    """What each device returns."""
    steps = [step for step in program.steps if step.primitive == "unshard"]
    returned = [step.operands[0] for step in steps]
    return {operand for operand in returned if isinstance(operand, int)}


def _paths(tree: Any) -> list[str]:
    leaves = [jax.tree_util.keystr(path) for path, _ in _leaves(tree)]
    return [f"result{path}" for path in leaves]


def _leaves(tree: Any) -> list[tuple[KeyPath[Any], int]]:
    """Where each leaf of a tree is, and its number."""
    leaves = jax.tree_util.tree_unflatten(tree, range(tree.num_leaves))
    return jax.tree_util.tree_leaves_with_path(leaves)
