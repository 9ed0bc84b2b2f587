"""Values that depend on the mesh by construction: what each device draws, counts, picks or flattens for itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import jax.numpy as jnp
import numpy as np

from shardtypes.proving.numbers import in_another_order, reordered
from shardtypes.proving.places import Place
from shardtypes.proving.program import Constant, Name, Operand, Program, Step
from shardtypes.proving.relation import REPLICATED, Axes
from shardtypes.proving.walk import Walk, reduced_axes

_RANDOM = frozenset(
    "random_bits random_fold_in random_split random_seed rng_bit_generator random_gamma threefry2x32".split()
)
_COUNTS = frozenset({"cumsum"})
_PICKS = frozenset({"dynamic_slice", "gather"})
_PARTS = _PICKS | {"slice"}
_ROUNDS = frozenset({"round", "convert_element_type"})
_RETYPED = frozenset({"convert_element_type", "reshape", "pvary"})
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

    kind: Literal[
        "draws", "given", "entries", "indices", "order", "picks", "counts", "rounded"
    ]
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
    "rounded": "each device rounds a part of its own ({place}), as a reduction of small integers does",
}
_KINDS = tuple(_PURPOSES)
MEANT_BY_REFERENCE = ("entries", "indices", "picks")
"""Kinds that are no excuse beside a reference, which has what devices should take."""


class Purposes:
    """Why values of a program depend on the mesh by construction. ``given``: arguments that differ by device."""

    def __init__(self, walk: Walk, given: Collection[Name] = ()) -> None:
        self.walk = walk
        self.many = walk.many
        self.others = walk.others
        self.standing = walk.standing
        self.held = walk.held
        self.given = given
        #: arguments that have the entries of what each device flattens for itself
        self.flattened: set[Name] = set()

    @cached_property
    def found(self) -> dict[Name, Purpose]:
        """Values that depend on the mesh by construction, with why: of several reasons the first kind."""
        found: dict[Name, Purpose] = {}
        for _ in range(2):  # what a loop carries comes back in
            self._mark(self.many, found)
        return found

    def _mark(self, program: Program, found: dict[Name, Purpose]) -> None:
        is_given = Purpose("given")
        found.update(dict.fromkeys(self.given, is_given))
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
            why = self._why(self.walk.sources[name], found)
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
        if step.primitive in _PARTS and self._takes_as_many_draws(step):
            return Purpose("draws", step.place)
        if step.primitive in _COUNTS and self._counts(step):
            return Purpose("counts", step.place)
        if step.primitive in _ENTRY_BY_ENTRY and self._meets_flattened(step):
            return Purpose("order", step.place)
        if step.primitive == "squeeze" and self._takes_its_entry(step):
            return Purpose("entries", step.place)
        if step.primitive in _INDEXED and self._draws_rows(step):
            return Purpose("draws", step.place)
        if step.primitive in _INDEXED and self._indexes_its_shard(step):
            return Purpose("indices", step.place)
        if step.primitive in _ROUNDS and self._rounds_a_part(step):
            return Purpose("rounded", step.place)
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
        whole = self.walk.whole(step.results[0])
        if held is not None and whole is not None and reordered(held, whole):
            return False
        return not self.draws_the_same(step)

    def _takes_as_many_draws(self, step: Step) -> bool:
        """Whether each device takes as many of its random numbers, or of rows in an order that it draws, as one."""
        other = self.others.get(step)
        operand = step.operands[0]
        if other is None or not isinstance(operand, int):
            return False
        taken = self.many.types[step.results[0]].shape
        if taken != self.walk.shape_of_one(other.results[0]):
            return False
        partner = other.operands[0]
        if isinstance(partner, Constant):
            return False
        drawn = self.many.types[operand].shape
        if drawn == self.walk.shape_of_one(partner):
            return False
        return self._is_drawn(operand) or self._is_shuffled(operand)

    def _is_shuffled(self, name: Name) -> bool:
        """Whether a value is rows in an order that is drawn."""
        step = self.walk.producers.get(name)
        if step is None:
            return False
        if step.primitive == "gather":
            order = step.operands[1]
        else:
            order = step.operands[0]
        if step.primitive not in ("gather", "sort") or isinstance(order, Constant):
            return False
        return self._is_drawn(order)

    def _is_drawn(self, name: Name) -> bool:
        """Whether a value is computed of random numbers, and of nothing else."""
        seen: set[Name] = set()
        left: list[Operand] = [name]
        found = False
        while left:
            one = left.pop()
            if isinstance(one, Constant) or one in seen:
                continue
            seen.add(one)
            step = self.walk.producers.get(one)
            if step is not None and step.primitive in _RANDOM:
                found = True
                continue
            if one not in self.walk.sources:
                return False
            left += self.walk.sources[one]
        return found

    def draws_the_same(self, step: Step) -> bool:
        """Whether all devices draw the very same, with one key, where one device draws more."""
        name = step.results[0]
        key = step.operands[0]
        if (
            step.primitive != "random_bits"
            or name not in self.walk.on_many.inside
            or name not in self.walk.names
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
        return not self.walk.varying(name)

    def _counts(self, step: Step) -> bool:
        (operand,) = step.operands
        held = self.held(operand)
        _, relation = self.standing(operand)
        # Choices of several kinds one after another are no shard of anything.
        axis = step.params["axis"]
        if relation is not None and not relation.sharding(axis):
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
        whole = self.walk.whole(name)
        if held is None or whole is None:
            return False
        standing, _ = self.standing(name)
        return standing == "none" and in_another_order(held, whole)

    def _flat_argument(self, name: Name) -> Name | None:
        """The argument of which a value is a shard, scaled or shifted perhaps."""
        standing, relation = self.standing(name)
        if standing != "right" or relation is None:
            return None
        if not relation.sharding(0):
            return None
        while name in self.walk.producers:
            step = self.walk.producers[name]
            if step.primitive not in _KEEPS_ENTRIES:
                return None
            named = [one for one in step.operands if isinstance(one, int)]
            types = self.many.types
            long = [one for one in named if types[one].shape]
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
        dropped = step.params["dimensions"]
        return any(relation.sharding(dim) for dim in dropped)

    def _indexes_its_shard(self, step: Step) -> bool:
        """Whether indices that are sharded lead into a dimension that is shorter than on one device, all of them to
        entries that the device has: those of a graph whose parts were numbered each by itself."""
        indices = step.operands[1]
        standing, relation = self.standing(indices)
        if standing != "right" or relation is None:
            return False
        held = self.held(indices)
        if held is None or not relation.split:
            return False
        lengths = self._lengths_of_shard(step)
        if not lengths:
            return False
        is_within = held.array < np.array(lengths)
        return bool(np.all(is_within))

    def _draws_rows(self, step: Step) -> bool:
        """Whether indices that are drawn lead into a dimension that is shorter than on one device."""
        indices = step.operands[1]
        if isinstance(indices, Constant) or not self._is_drawn(indices):
            return False
        return bool(self._lengths_of_shard(step))

    def _lengths_of_shard(self, step: Step) -> list[int]:
        """The lengths of the dimensions that indices lead into, if they are others than on one device."""
        array = step.operands[0]
        other = self.others.get(step)
        if other is None or not isinstance(array, int):
            return []
        partner = other.operands[0]
        if isinstance(partner, Constant):
            return []
        mine = self.many.types[array].shape
        his = self.walk.shape_of_one(partner)
        if len(his) != len(mine):
            return []
        numbers = step.params["dimension_numbers"]
        into = getattr(numbers, _INDEXED[step.primitive])
        lengths = [mine[dim] for dim in into]
        lengths_of_one = [his[dim] for dim in into]
        if lengths == lengths_of_one:
            return []
        return lengths

    def _rounds_a_part(self, step: Step) -> bool:
        """Whether it rounds what is no whole value yet, as a reduction of small integers does."""
        (operand,) = step.operands
        (name,) = step.results
        to = self.many.types[name].dtype
        is_cast = step.primitive == "convert_element_type"
        if is_cast and not np.issubdtype(to, np.integer):
            return False
        if isinstance(operand, Constant):
            return False
        of = self.many.types[operand].dtype
        if not jnp.issubdtype(of, jnp.floating):
            return False
        standing, _ = self.standing(operand)
        if standing == "right":
            return False
        return self._is_summed(name)

    def _is_summed(self, name: Name) -> bool:
        """Whether a value is added up over devices as it is, but for its type."""
        left = [name]
        while left:
            for made, step in self.walk.users(left.pop()):
                if step is None:
                    continue
                if reduced_axes(step):
                    return True
                if step.primitive in _RETYPED:
                    left.append(made)
        return False

    def _picks(self, step: Step) -> Axes:
        """Of a replicated array, indices that depend on the device alone, and a piece as large as on one device: the
        axes along which devices are numbered. Empty for anything else."""
        array, *indices = step.operands
        other = self.others.get(step)
        if other is None:
            return ()
        if self.standing(array) != ("right", REPLICATED):
            return ()
        pairs = zip(step.results, other.results, strict=True)
        for mine, his in pairs:
            if self.many.types[mine].shape != self.walk.shape_of_one(his):
                return ()
        axes = [axis for index in indices for axis in self.walk.axes_of_place(index)]
        return tuple(dict.fromkeys(axes))
