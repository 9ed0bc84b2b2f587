"""From a wrong result back to where it begins: the operation whose operands still mean something and whose result does
not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from shardtypes.proving.alignment import Pairs
from shardtypes.proving.evaluation import UNCHANGED
from shardtypes.proving.numbers import (
    Numbers,
    Values,
    in_another_order,
    reordered,
    varying_axes,
    without_axes,
)
from shardtypes.proving.observed import Host, observed
from shardtypes.proving.places import Place
from shardtypes.proving.program import Constant, Name, Operand, Program, Step
from shardtypes.proving.relation import REPLICATED, Axes, Related, Sizes

Standing = Literal["right", "awaiting", "scaled", "none", "unpaired"]
"""``awaiting``: a part, which a collective completes. ``scaled``: complete, but off by a factor."""
_Found: TypeAlias = tuple[Standing, Related | None]

_RANDOM = frozenset(
    "random_bits random_fold_in random_split random_seed rng_bit_generator random_gamma threefry2x32".split()
)
_OF_PLACES = frozenset(
    "add sub mul div rem neg sign max min clamp lt le gt ge eq ne and or not select_n convert_element_type"
    " broadcast_in_dim reshape squeeze expand_dims concatenate iota axis_index pvary stop_gradient floor".split()
)
_WHOLE = ("int", "uint", "bool")
_COUNTS = frozenset({"cumsum"})
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
_PICKS = frozenset({"dynamic_slice", "gather"})
_ENTRY_BY_ENTRY = frozenset({"add", "sub", "mul", "div", "max", "min", "select_n"})
_KEEPS_ENTRIES = _ENTRY_BY_ENTRY | {"shard", "pvary", "convert_element_type", "copy"}
_INDEXED = {
    "gather": "start_index_map",
    "scatter": "scatter_dims_to_operand_dims",
    "scatter-add": "scatter_dims_to_operand_dims",
    "scatter-max": "scatter_dims_to_operand_dims",
    "scatter-min": "scatter_dims_to_operand_dims",
    "scatter-mul": "scatter_dims_to_operand_dims",
}
"""Operations with indices as their second operand, and which parameter names the dimensions that these are into."""


@dataclass(frozen=True)
class Purpose:
    """Why a value depends on the mesh by construction, and where that begins; ``axes`` are those along which devices
    pick."""

    kind: Literal["draws", "given", "entries", "indices", "order", "picks", "counts"]
    place: Place | None = None
    axes: Axes = ()

    def __str__(self) -> str:
        return _PURPOSES[self.kind].format(place=self.place)


_PURPOSES = {
    "draws": "each device draws random numbers of its own ({place})",
    "given": "an argument is a number or a key of each device's own",
    "entries": "each device takes the one entry that it has of a sharded array ({place}), and one device would take the"
    " first of them all; a reference= says what it means there",
    "indices": "each device has indices into what it holds itself ({place}), and one device would count from the start"
    " of the whole; a reference= says what is meant there",
    "order": "an argument has the entries of what each device flattens for itself ({place}), which on one device are in"
    " another order",
    "picks": "each device picks a piece of its own of a replicated array ({place})",
    "counts": "each device counts its own rows ({place}), as for a capacity per device",
}
_KINDS = tuple(_PURPOSES)
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
        self._producers: dict[Name, Step] = {}
        self._sources: dict[Name, list[Operand]] = {}
        self._rounds: dict[Name, tuple[int, ...]] = {}
        self._first_rounds = False
        self._order: dict[Name, int] = {}
        self._benign: dict[Name, bool] = {}
        self._users: dict[Name, list[Name]] = {}
        self._counted: set[Operand] = set()
        #: arguments that have the entries of what each device flattens for itself
        self.flattened: set[Name] = set()
        for name in many.inputs:
            self._found[name] = "right", REPLICATED
        self._index(many, ())

    def _index(self, program: Program, rounds: tuple[int, ...]) -> None:
        for step in program.steps:
            for name in step.results:
                self._producers[name] = step
                self._rounds[name] = rounds
                self._sources[name] = list(step.operands)
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
            self._sources[name] = [operand]
            if fixed <= number < fixed + carried:
                self._sources[name].append(body.outputs[number - fixed])
            self._order[name] = len(self._order)
        last = -1 if step.params["reverse"] else 0
        self._index(body, (*rounds, last))
        for name, output in zip(step.results, body.outputs, strict=True):
            self._sources[name] = [output]

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
        if self._axes_of_place(operand):
            return relation.by_number()
        if relation.monoid not in ("min", "max"):
            return relation
        for step in self.makers([operand], math.inf):
            if step.primitive in _EXTREMES:
                return relation
        return relation.by_number()

    def _look(self, name: Name) -> _Found:
        # an argument of a loop's body: what comes in first
        if name not in self._producers:
            standing, relation = self.standing(self._sources[name][0])
            if standing in ("none", "unpaired"):
                return standing, None
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
        step = self._producers[name]
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

    # --- on purpose -------------------------------------------------------------------------------------------------

    @cached_property
    def on_purpose(self) -> dict[Name, Purpose]:
        """Values that depend on the mesh by construction, with why: of several reasons the first kind."""
        found: dict[Name, Purpose] = {}
        for _ in range(2):  # what a loop carries comes back in
            self._mark(self.many, found)
        return found

    def mark(self, name: Name) -> None:
        """An argument that differs by device on purpose."""
        self._given_purpose[name] = Purpose("given")

    @cached_property
    def _given_purpose(self) -> dict[Name, Purpose]:
        return {}

    def _mark(self, program: Program, found: dict[Name, Purpose]) -> None:
        found.update(self._given_purpose)
        for step in program.steps:
            if step.primitive == "scan":
                (body,) = step.inside
                self._inherit(body.inputs, found)
                self._mark(body, found)
                self._inherit(step.results, found)
                continue
            why = self._why(step.operands, found) or self._own(step)
            if why is None:
                continue
            # What leaves the devices is that of the first, which may happen to be right.
            leaves = step.primitive == "unshard"
            wrong = [
                name
                for name in step.results
                if leaves or self.standing(name)[0] != "right"
            ]
            found.update(dict.fromkeys(wrong, why))

    def _inherit(self, names: Iterable[Name], found: dict[Name, Purpose]) -> None:
        """Mark what is handed into a loop, or out of it."""
        for name in names:
            why = self._why(self._sources[name], found)
            if why is not None:
                found[name] = why

    def _why(
        self, operands: Iterable[Operand], found: Mapping[Name, Purpose]
    ) -> Purpose | None:
        named = [one for one in operands if isinstance(one, int)]
        reasons = [found[one] for one in named if one in found]
        return min(reasons, key=lambda one: _KINDS.index(one.kind), default=None)

    def _own(self, step: Step) -> Purpose | None:
        """Why the step itself makes something that is each device's own."""
        if not step.manual or all(
            self.standing(name)[0] == "right" for name in step.results
        ):
            return None
        if step.primitive in _RANDOM and self._draws_its_own(step):
            return Purpose("draws", step.place)
        if step.primitive in _COUNTS and self._counts(step):
            return Purpose("counts", step.place)
        if step.primitive in _ENTRY_BY_ENTRY and self._meets_flattened(step):
            return Purpose("order", step.place)
        if step.primitive == "squeeze" and self._takes_its_entry(step):
            return Purpose("entries", step.place)
        if step.primitive in _INDEXED and self._indexes_its_shard(step):
            return Purpose("indices", step.place)
        if step.primitive in _PICKS:
            axes = self._picks(step)
        else:
            axes = ()
        if axes:
            return Purpose("picks", step.place, axes)
        return None

    def _draws_its_own(self, step: Step) -> bool:
        """Whether devices draw other numbers than one device does."""
        held = self.held(step.results[0])
        whole = self.whole(step.results[0])
        if held is not None and whole is not None and reordered(held, whole):
            return False
        return not self.draws_the_same(step)

    def draws_the_same(self, step: Step) -> bool:
        """Whether all devices draw the very same, with one key, where one device draws more."""
        name = step.results[0]
        key = step.operands[0]
        if (
            step.primitive != "random_bits"
            or name not in self.on_many.inside
            or name not in self.names
        ):
            return False
        standing, relation = self.standing(key)
        if (
            self.standing(name)[0] != "none"
            or standing != "right"
            or relation is None
            or relation.over
        ):
            return False
        return not self.varying(name)

    def _counts(self, step: Step) -> bool:
        (operand,) = step.operands
        held = self.held(operand)
        _, relation = self.standing(operand)
        # Choices of several kinds one after another are no shard of anything.
        if relation is not None and not relation.sharding(step.params["axis"]):
            return False
        if held is None:
            return False
        is_choice = np.isin(held.array, (0, 1))
        return bool(is_choice.all())

    def _meets_flattened(self, step: Step) -> bool:
        """Whether a flat argument meets what each device has flattened: moments of an optimizer, say, of which each
        device has those of its own shard, one shard after another."""
        flat = [
            one
            for one in step.operands
            if isinstance(one, int) and len(self.many.types[one].shape) == 1
        ]
        arguments = [self._flat_argument(one) for one in flat]
        found = {one for one in arguments if one is not None}
        if not found:
            return False
        orders = {self._order_of_shards(one) for one in flat} - {()}
        reordered_ones = [one for one in flat if self._is_in_another_order(one)]
        if len(orders) > 1 or reordered_ones:
            self.flattened |= found
            return True
        return False

    def _order_of_shards(self, name: Name) -> Axes:
        """The axes whose shards follow each other in a flat array, major to minor; empty if it is none of shards."""
        standing, relation = self.standing(name)
        if standing != "right" or relation is None:
            return ()
        return relation.sharding(0)

    def _is_in_another_order(self, name: Name) -> bool:
        """Whether the devices hold what one device holds, shard after shard, in another order than there."""
        held = self.held(name)
        whole = self.whole(name)
        if held is None or whole is None:
            return False
        standing, _ = self.standing(name)
        return standing == "none" and in_another_order(held, whole)

    def _flat_argument(self, name: Name) -> Name | None:
        """The argument of which a value is a shard, scaled or shifted perhaps."""
        standing, relation = self.standing(name)
        if standing != "right" or relation is None or not relation.sharding(0):
            return None
        while name in self._producers:
            step = self._producers[name]
            if step.primitive not in _KEEPS_ENTRIES:
                return None
            named = [one for one in step.operands if isinstance(one, int)]
            long = [one for one in named if self.many.types[one].shape]
            if len(long) != 1:
                return None
            (name,) = long
        return name if name in self.many.inputs else None

    def _takes_its_entry(self, step: Step) -> bool:
        """Whether it drops a dimension of which each device has one entry, the shard of an array: ``w[0]``."""
        (operand,) = step.operands
        standing, relation = self.standing(operand)
        if standing != "right" or relation is None:
            return False
        return any(relation.sharding(dim) for dim in step.params["dimensions"])

    def _indexes_its_shard(self, step: Step) -> bool:
        """Whether indices that are sharded lead into a dimension that is shorter than on one device, all of them to
        entries that the device has: those of a graph whose parts were numbered each by itself."""
        array, indices = step.operands[:2]
        other = self.others.get(step)
        standing, relation = self.standing(indices)
        if other is None or standing != "right" or relation is None:
            return False
        held = self.held(indices)
        if held is None or not relation.split or not isinstance(array, int):
            return False
        if isinstance(other.operands[0], Constant):
            return False
        mine = self.many.types[array].shape
        his = self._one_shape(other.operands[0])
        numbers = step.params["dimension_numbers"]
        into = getattr(numbers, _INDEXED[step.primitive])
        if len(his) != len(mine):
            return False
        lengths = [mine[dim] for dim in into]
        lengths_of_one = [his[dim] for dim in into]
        if lengths == lengths_of_one:
            return False
        return bool(np.all(held.array < np.array(lengths)))

    def _picks(self, step: Step) -> Axes:
        """Of a replicated array, indices that depend on the device alone, and a piece as large as on one device: the
        axes along which devices are numbered. Empty for anything else."""
        array, *indices = step.operands
        other = self.others.get(step)
        if other is None or self.standing(array) != ("right", REPLICATED):
            return ()
        pairs = zip(step.results, other.results, strict=True)
        for mine, his in pairs:
            if self.many.types[mine].shape != self._one_shape(his):
                return ()
        axes = [axis for index in indices for axis in self._axes_of_place(index)]
        return tuple(dict.fromkeys(axes))

    def _one_shape(self, name: Name) -> tuple[int, ...]:
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

    def _axes_of_place(self, operand: Operand) -> set[str]:
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
            step = self._producers.get(one)
            if step is None:
                return set()
            if step.primitive == "axis_index":
                axes.update(step.over)
            left += self._sources[one]
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
                step = self._producers[first]
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
                and name not in self._producers
                and name not in self._sources
            ):
                continue
            seen.add(name)
            sources = [
                one for one in self._sources.get(name, ()) if isinstance(one, int)
            ]
            bad = [one for one in sources if self._is_bad(one, spare_places)]
            left += bad
            step = self._producers.get(name)
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
        if name not in self._producers:
            return True  # an argument of a loop's body
        return not (spare_places and self._is_benign(name))

    def _is_benign(self, name: Name) -> bool:
        """Whether a value is a place, or a mask of places: these are a device's own while values are not."""
        if name not in self._benign:
            self._benign[name] = False  # what comes back to itself is not
            step = self._producers.get(name)
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
        step = self._producers.get(operand)
        if relation is not None and relation.factor != 1:
            standing = "scaled"
        for _ in range(10_000):
            sources = [
                one for one in self._sources.get(name, ()) if isinstance(one, int)
            ]
            before = next(
                (one for one in sources if self._like(one, standing, relation)), None
            )
            if before is None:
                return step
            name = before
            step = self._producers.get(before) or step
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
            if one in self._producers:
                yield self._producers[one]
            left += self._sources.get(one, [])

    def varying(self, name: Name) -> set[str]:
        """The axes along which devices do not all hold the same."""
        held = self.held(name)
        return set() if held is None else varying_axes(held)

    def users(self, name: Name) -> list[tuple[Name, Step | None]]:
        """What is made of a value, with the operations; those that hand it into a loop are None."""
        if not self._users:
            for made, sources in self._sources.items():
                for source in sources:
                    if isinstance(source, int):
                        self._users.setdefault(source, []).append(made)
        users = self._users.get(name, ())
        return [(made, self._producers.get(made)) for made in users]

    def collective_before(self, operand: Operand) -> Step | None:
        """The last collective on the way of a value."""
        left = [operand]
        seen = set()
        while left:
            one = left.pop(0)
            if isinstance(one, Constant) or one in seen:
                continue
            seen.add(one)
            step = self._producers.get(one)
            if step is not None and step.primitive in COLLECTIVES:
                return step
            if len(seen) > 50:
                return None
            left += self._sources.get(one, [])
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
