"""From a wrong result back to where it begins: the operation whose operands still mean something and whose result does
not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from shardtypes.proving.alignment import Pairs
from shardtypes.proving.evaluation import UNCHANGED
from shardtypes.proving.numbers import (
    Numbers,
    Values,
    varying_axes,
    without_axes,
)
from shardtypes.proving.observed import Host, observed
from shardtypes.proving.program import Constant, Name, Operand, Program, Step
from shardtypes.proving.relation import REPLICATED, Axes, Related, Sizes

Standing = Literal["right", "awaiting", "scaled", "none", "unpaired"]
"""``awaiting``: a part, which a collective completes. ``scaled``: complete, but off by a factor."""
_Found: TypeAlias = tuple[Standing, Related | None]

_OF_PLACES = frozenset(
    "add sub mul div rem neg sign max min clamp lt le gt ge eq ne and or not select_n convert_element_type"
    " broadcast_in_dim reshape squeeze expand_dims concatenate iota axis_index pvary stop_gradient floor".split()
)
_WHOLE = ("int", "uint", "bool")
_EXTREMES = frozenset(
    {
        "max",
        "min",
        "reduce_max",
        "reduce_min",
        "reduce_and",
        "reduce_or",
        "and",
        "or",
        "argmax",
        "argmin",
        "cummax",
        "cummin",
        "pmax",
        "pmin",
        "sort",
        "top_k",
        "clamp",
        "scatter_max",
        "scatter_min",
        "reduce",
        "reduce_window",
        "reduce_window_max",
        "reduce_window_min",
        "while",
        "cond",
    }
)
"""Operations that take the largest or the least of something, or may do."""
_TRIALS = (
    (True, True, False),
    (True, False, False),
    (False, True, False),
    (False, False, False),
    (False, False, True),
)
"""How wrong values are followed back, the surest first: in the first round of each loop alone or in all rounds, past
places and masks or not, and to loops as a whole."""


@dataclass(frozen=True)
class Culprit:
    """``step`` made ``result`` of ``operands``, each with what was known of it. ``other`` is the step on one device,
    ``before`` the one that made an operand."""

    step: Step
    result: Name
    relation: Related | None
    operands: tuple[Related | None, ...]
    other: Step | None
    before: Step | None = None


class Walk:
    """The values of a program on many devices beside those on one, with the operations that made them."""

    def __init__(
        self,
        many: Program,
        names: Pairs,
        steps: Iterable[tuple[Step, Step]],
        on_many: Numbers,
        on_one: Numbers,
        sizes: Sizes,
    ) -> None:
        self.many = many
        self.names = names
        self.sizes = sizes
        self.on_many = on_many
        self.on_one = on_one
        self.others = dict(steps)
        self._found: dict[Name, _Found] = {}
        self.producers: dict[Name, Step] = {}
        self.sources: dict[Name, list[Operand]] = {}
        self._rounds: dict[Name, tuple[int, ...]] = {}
        self._first_rounds = False
        self._order: dict[Name, int] = {}
        self._benign: dict[Name, bool] = {}
        self._users: dict[Name, list[Name]] = {}
        self._counted: set[Operand] = set()
        self._scanned: set[Name] = set()
        for name in many.inputs:
            self._found[name] = "right", REPLICATED
        self._index(many, ())

    def _index(self, program: Program, rounds: tuple[int, ...]) -> None:
        for step in program.steps:
            for name in step.results:
                self.producers[name] = step
                self._rounds[name] = rounds
                self.sources[name] = list(step.operands)
            if step.primitive == "scan":
                self._index_scan(step, rounds)
            for name in step.results:
                self._order[name] = len(self._order)

    def _index_scan(self, step: Step, rounds: tuple[int, ...]) -> None:
        (body,) = step.inside
        fixed = step.params["num_consts"]
        carried = step.params["num_carry"]
        if rounds_apart(step, self.others.get(step)):
            self._counted.update(step.operands[fixed + carried :])
        for number, (name, operand) in enumerate(
            zip(body.inputs, step.operands, strict=True)
        ):
            self.sources[name] = [operand]
            if number >= fixed + carried:
                self._scanned.add(name)
            if fixed <= number < fixed + carried:
                self.sources[name].append(body.outputs[number - fixed])
            self._order[name] = len(self._order)
        last = -1 if step.params["reverse"] else 0
        self._index(body, (*rounds, last))
        for name, output in zip(step.results, body.outputs, strict=True):
            self.sources[name] = [output]

    def standing(self, operand: Operand) -> _Found:
        """How a value stands to the one of one device."""
        if isinstance(operand, Constant):
            return "right", REPLICATED
        if operand not in self._found:
            self._found[operand] = self._look(operand)
        return self._found[operand]

    def told(self, operand: Operand) -> Related | None:
        """How a value is related to the one of one device, for people. That the devices' numbers have
        one device's as their least, or add up to it as a mask does, means nothing: nothing took a least, or a part."""
        _, relation = self.standing(operand)
        if relation is None or relation.monoid is None:
            return relation
        if self.axes_of_place(operand):
            return relation.by_number()
        if relation.monoid not in ("min", "max"):
            return relation
        for step in self.makers([operand], math.inf):
            if step.primitive in _EXTREMES:
                return relation
        return relation.by_number()

    def _look(self, name: Name) -> _Found:
        # an argument of a loop's body: what comes in first
        if name not in self.producers:
            standing, relation = self.standing(self.sources[name][0])
            if standing in ("none", "unpaired"):
                return standing, None
            if name in self._scanned and relation is not None:
                relation = relation.of_one_round()
                if relation is None:
                    return "unpaired", None
            return "right", relation
        found = self.held(name)
        whole = self.whole(name)
        if found is None or whole is None:
            return "unpaired", None
        rounds = self._rounds[name]
        before = 1 + len(rounds)
        array = found.array
        if array.shape[len(found.axes) :][:before] != whole.shape[:before]:
            return "unpaired", None  # in a loop that does not go as many rounds
        if self._first_rounds and array.size:
            for number in rounds:
                array = np.take(array, number, axis=len(found.axes) + 1)
                whole = np.take(whole, number, axis=1)
            before = 1
        relation = observed(array, found.axes, whole, self.sizes, before)
        step = self.producers[name]
        if (
            relation is None
            and step.primitive == "unshard"
            and name not in self.many.outputs
        ):
            # what devices keep for a gradient, which they take back as it is
            return self.standing(step.operands[0])
        if relation is None:
            return "none", None
        if relation.right:
            return "right", relation
        return ("scaled" if relation.complete else "awaiting"), relation

    def held(self, operand: Operand) -> Values | None:
        """What the devices hold; None of a constant, and where that is not known."""
        if isinstance(operand, Constant):
            return None
        return self.on_many.inside.get(operand)

    def whole(self, name: Name) -> Host | None:
        """What one device computes of a value; None where that is not known."""
        other = self.names.get(name, -1)
        found = self.on_one.inside.get(other)
        if found is None:
            return None
        return without_axes(found)

    def shape_of_one(self, name: Name) -> tuple[int, ...]:
        found = self.on_one.inside.get(name)
        if found is None:
            return ()
        shape: tuple[int, ...] = without_axes(found).shape
        return shape[1 + self._depth_of_one(name) :]

    def _depth_of_one(self, name: Name) -> int:
        for many, one in self.names.items():
            if one == name:
                return len(self._rounds.get(many, ()))
        return 0

    def axes_of_place(self, operand: Operand) -> set[str]:
        """Of a value that comes of the device's number and of constants alone, the axes along which it is numbered;
        empty for anything else."""
        seen: set[Name] = set()
        left = [operand]
        axes = set[str]()
        while left:
            one = left.pop()
            if isinstance(one, Constant) or one in seen:
                continue
            seen.add(one)
            step = self.producers.get(one)
            if step is None:
                return set()
            if step.primitive == "axis_index":
                axes.update(step.over)
            left += self.sources[one]
        return axes

    # --- where it begins ----------------------------------------------------------------------------------------------

    def culprit(self, wrong: Iterable[Name]) -> Culprit | None:
        """Where the wrong values begin; None where that is not known."""
        wrong = list(wrong)
        every_round = dict(self._found)
        # What goes wrong in a loop is told from what follows of it by looking at the first round alone.
        self._look_at_first_rounds()
        for first_rounds, spare_places, loops in _TRIALS:
            if not first_rounds and self._first_rounds:
                self._look_at_all_rounds(every_round)
            ends = self._ends(wrong, spare_places, loops)
            if ends:
                first = min(ends, key=lambda name: self._order[name])
                step = self.producers[first]
                relations = tuple(map(self.told, step.operands))
                before = next(
                    (
                        one
                        for one in self.makers(step.operands)
                        if one.primitive not in UNCHANGED
                    ),
                    None,
                )
                return Culprit(
                    step,
                    first,
                    self.standing(first)[1],
                    relations,
                    self.others.get(step),
                    before,
                )
        return None

    def _look_at_first_rounds(self) -> None:
        self._first_rounds = True
        self._found = {name: self._found[name] for name in self.many.inputs}
        self._benign.clear()

    def _look_at_all_rounds(self, found: Mapping[Name, _Found]) -> None:
        self._first_rounds = False
        self._found = dict(found)
        self._benign.clear()

    def _ends(
        self, wrong: Iterable[Name], spare_places: bool, loops: bool
    ) -> list[Name]:
        seen: set[Name] = set()
        left = list(wrong)
        ends = []
        while left:
            name = left.pop()
            if name in seen or (
                name in self._found
                and name not in self.producers
                and name not in self.sources
            ):
                continue
            seen.add(name)
            sources = [
                one for one in self.sources.get(name, ()) if isinstance(one, int)
            ]
            bad = [one for one in sources if self._is_bad(one, spare_places)]
            left += bad
            step = self.producers.get(name)
            if step is None or self.standing(name)[0] == "unpaired":
                continue
            if (loops and step.primitive == "scan") or (
                not bad and step.primitive != "scan"
            ):
                ends.append(name)
        return ends

    def _is_bad(self, name: Name, spare_places: bool) -> bool:
        standing, _ = self.standing(name)
        if standing in ("right", "awaiting"):
            return False
        if name in self._counted:
            # as many entries as a loop has rounds, which are not as many on one device
            return False
        if name not in self.producers:
            return True  # an argument of a loop's body
        return not (spare_places and self._is_benign(name))

    def _is_benign(self, name: Name) -> bool:
        """Whether a value is a place, or a mask of places: these are a device's own while values are not."""
        if name not in self._benign:
            self._benign[name] = False  # what comes back to itself is not
            step = self.producers.get(name)
            self._benign[name] = (
                step is not None
                and step.primitive in _OF_PLACES
                and _is_whole(self.many.types[name])
                and all(self._is_fine(operand) for operand in step.operands)
            )
        return self._benign[name]

    def _is_fine(self, operand: Operand) -> bool:
        return self.standing(operand)[0] in ("right", "awaiting") or (
            not isinstance(operand, Constant) and self._is_benign(operand)
        )

    def origin(self, operand: Operand) -> Step | None:
        """Where the relation of a value that awaits a collective, or is off by a factor, arose."""
        if isinstance(operand, Constant):
            return None
        standing, relation = self.standing(operand)
        name = operand
        step = self.producers.get(operand)
        if relation is not None and relation.factor != 1:
            standing = "scaled"
        for _ in range(10_000):
            sources = [
                one for one in self.sources.get(name, ()) if isinstance(one, int)
            ]
            before = next(
                (one for one in sources if self._like(one, standing, relation)), None
            )
            if before is None:
                return step
            name = before
            step = self.producers.get(before) or step
        return step

    def _like(self, name: Name, standing: Standing, relation: Related | None) -> bool:
        found, other = self.standing(name)
        if relation is None or other is None:
            return False
        if standing == "scaled":
            return math.isclose(float(other.factor), float(relation.factor))
        if found != standing:
            return False
        return set(other.parts) >= set(relation.parts) and math.isclose(
            float(other.factor), float(relation.factor)
        )

    def makers(self, operands: Iterable[Operand], most: float = 50) -> Iterator[Step]:
        """The operations that made the operands, and theirs, nearest first: those of so many values at most."""
        left = list(operands)
        seen = set[Operand]()
        while left and len(seen) < most:
            one = left.pop(0)
            if isinstance(one, Constant) or one in seen:
                continue
            seen.add(one)
            if one in self.producers:
                yield self.producers[one]
            left += self.sources.get(one, [])

    def varying(self, name: Name) -> set[str]:
        """The axes along which devices do not all hold the same."""
        held = self.held(name)
        return set() if held is None else varying_axes(held)

    def users(self, name: Name) -> list[tuple[Name, Step | None]]:
        """What is made of a value, with the operations; those that hand it into a loop are None."""
        if not self._users:
            for made, sources in self.sources.items():
                for source in sources:
                    if isinstance(source, int):
                        self._users.setdefault(source, []).append(made)
        users = self._users.get(name, ())
        return [(made, self.producers.get(made)) for made in users]

    def collective_before(self, operand: Operand) -> Step | None:
        """The last collective on the way of a value."""
        left = [operand]
        seen = set()
        while left:
            one = left.pop(0)
            if isinstance(one, Constant) or one in seen:
                continue
            seen.add(one)
            step = self.producers.get(one)
            if step is not None and step.primitive in COLLECTIVES:
                return step
            if len(seen) > 50:
                return None
            left += self.sources.get(one, [])
        return None


def _is_whole(aval: Any) -> bool:
    return str(getattr(aval, "dtype", "")).startswith(_WHOLE)


def rounds_apart(step: Step, other: Step | None) -> bool:
    """Whether a loop goes another number of rounds on one device, as that of a pipeline does."""
    if other is None:
        return False
    rounds = step.params.get("length")
    rounds_of_one = other.params.get("length")
    return rounds != rounds_of_one


def reduced_axes(step: Step) -> Axes:
    """The mesh axes over which a collective adds up; empty for anything else."""
    if step.primitive not in ("psum", "psum_invariant", "reduce_scatter"):
        return ()
    return step.over


COLLECTIVES = frozenset(
    "psum psum_invariant pmax pmin all_gather all_gather_invariant reduce_scatter all_to_all ppermute".split()
)
