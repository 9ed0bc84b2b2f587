"""The collectives of a program, each with the line that it is on, how often it runs and what a device sends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import jax
from jax.extend import core as jex

from shardtypes.costing import explicit
from shardtypes.costing.report import Moved
from shardtypes.costing.resharding import Move, Placed, resharding
from shardtypes.meshes import entries_of, parts_of
from shardtypes.proving.places import Place
from shardtypes.proving.program import Constant, Name, Operand, Program, Step, dims_of
from shardtypes.proving.relation import Axes, Sizes
from shardtypes.semantics.cost import COLLECTIVES, sent

_COMPILER = "partitioned by the compiler"
_NOT_BY_TYPES = "what it sends on explicit axes does not follow from its types"
_HIDDEN = "collectives in a program that is not read"
_RAGGED = "how much it sends is in its operands"
_RAGGED_NAMES = frozenset({"ragged_all_to_all", "psend", "precv"})


@dataclass(frozen=True)
class Sent:
    """The collectives of one step, all ``count`` of them in ``bytes``."""

    collective: str
    axes: Axes
    bytes: Fraction
    count: int
    place: Place
    by: str
    at_least: bool = False


@dataclass
class Counting:
    """``sizes`` are those of the axes along which devices are; ``where`` tells how values are sharded that compilers
    partition. ``uncounted`` is filled with the operations that could not be counted."""

    sizes: Sizes
    where: dict[Name, Placed]
    uncounted: dict[tuple[Place, str], None] = field(default_factory=dict)

    def moved(self, program: Program) -> tuple[Moved, ...]:
        """The collectives of a program, those of one line and kind together, in its order."""
        rows: dict[tuple[Any, ...], list[Sent]] = {}
        for one in self._all(program):
            key = (one.place, one.collective, one.axes, one.by, one.at_least)
            rows.setdefault(key, []).append(one)
        return tuple(_together(row) for row in rows.values())

    def _all(self, program: Program) -> Iterator[Sent]:
        for step in program.steps:
            yield from self._step(program, step)

    def _step(self, program: Program, step: Step) -> Iterator[Sent]:
        if step.primitive == "scan":
            rounds = int(step.params["length"])
            for one in self._all(step.inside[0]):
                yield replace(
                    one,
                    bytes=one.bytes * rounds,
                    count=one.count * rounds,
                )
        elif step.primitive == "while":
            for inside in step.inside:
                for one in self._all(inside):
                    yield replace(one, at_least=True)
        elif step.primitive == "cond":
            branches = [list(self._all(inside)) for inside in step.inside]
            yield from max(branches, key=_bytes_of)
        elif step.primitive in COLLECTIVES:
            yield from self._by_hand(program, step)
        else:
            for move in self._implied(program, step):
                yield self._sent(step, move, step.primitive)

    def _by_hand(self, program: Program, step: Step) -> Iterator[Sent]:
        axes = tuple(axis for axis in step.over if axis in self.sizes)
        groups = step.params.get("axis_index_groups")
        devices = parts_of(axes, self.sizes)
        if groups is not None:
            devices = len(groups[0])
        if devices == 1:
            return
        for operand in step.operands:
            if isinstance(operand, int):
                held = self._held(program.types[operand])
                move = Move(
                    collective=COLLECTIVES[step.primitive],
                    axes=axes,
                    held=held,
                    devices=devices,
                )
                yield self._sent(step, move, move.collective)

    def _held(self, aval: Any) -> Fraction:
        """The bytes that a device has of what is a value in manual code; of axes that are not manual, types tell."""
        parts = 1
        if explicit.explicit_axes(aval):
            parts = explicit.typed(aval).over(self.sizes).parts(self.sizes)
        return Fraction(explicit.size_of(aval), parts)

    def _sent(self, step: Step, move: Move, by: str) -> Sent:
        total = sent(move.collective, move.held, move.devices)
        return Sent(
            collective=move.collective,
            axes=move.axes,
            bytes=total,
            count=1,
            place=step.place,
            by=by,
        )

    def _implied(self, program: Program, step: Step) -> list[Move]:
        """What a step makes the compiler send."""
        types = program.types
        operands = [_type_of(program, one) for one in step.operands]
        results = [types[name] for name in step.results]
        if step.primitive == "shard":
            return self._taken_apart(program, step, results[0])
        if step.primitive == "unshard":
            if not explicit.explicit_axes(results[0]):
                self.where[step.results[0]] = _by_spec(step)
            return []
        if step.primitive in _RAGGED_NAMES:
            self._leave(step, _RAGGED)
            return []
        if _has_hidden(step):
            self._leave(step, _HIDDEN)
        by_type = frozenset().union(*map(explicit.explicit_axes, results))
        if by_type & self.sizes.keys():
            return self._by_types(step, operands, results)
        if not self.sizes.keys() - step.axes.keys():
            return []
        return self._by_compiler(program, step)

    def _taken_apart(self, program: Program, step: Step, local: Any) -> list[Move]:
        """What ``shard_map`` sends to have an argument as its specs ask for."""
        (operand,) = step.operands
        if not isinstance(operand, int):
            return []
        before = self._placed(program, operand)
        if before is None:
            return []
        mapped = {
            axis: size
            for axis, size in self.sizes.items()
            if axis in step.params["sizes"]
        }
        after = _by_spec(step)
        parts = after.over(mapped).parts(mapped)
        size = int(self._held(local) * parts)
        return resharding(size, before, after, mapped)

    def _by_types(
        self, step: Step, operands: Sequence[Any], results: Sequence[Any]
    ) -> list[Move]:
        try:
            return explicit.moves(step, operands, results, self.sizes)
        except explicit.Uncounted:
            self._leave(step, _NOT_BY_TYPES)
            return []

    def _by_compiler(self, program: Program, step: Step) -> list[Move]:
        """Of what the compiler partitions, constraints tell the layout, and operations an entry at a time keep it."""
        types = program.types
        if step.primitive == "sharding_constraint":
            return self._constrained(program, step)
        arrays = [
            one for one in step.operands if isinstance(one, int) and types[one].shape
        ]
        known = [self._placed(program, one) for one in arrays]
        if arrays and self._is_kept(program, step, arrays, known):
            for name in step.results:
                self.where[name] = known[0]  # type: ignore[assignment]  # all are known and equal
        elif arrays and not all(_is_whole(one, self.sizes) for one in known):
            self._leave(step, _COMPILER)
        elif arrays:
            for name in step.results:
                self.where[name] = Placed(((),) * len(types[name].shape))
        return []

    def _constrained(self, program: Program, step: Step) -> list[Move]:
        """What it takes to have a value as a constraint asks for."""
        (operand,) = step.operands
        (result,) = step.results
        aval = program.types[result]
        after = placed_by(step.params["sharding"], aval)
        if after is None:
            return []
        self.where[result] = after
        if not isinstance(operand, int):
            return []
        before = self._placed(program, operand)
        if before is None:
            return []
        return resharding(explicit.size_of(aval), before, after, self.sizes)

    def _is_kept(
        self,
        program: Program,
        step: Step,
        arrays: Sequence[Name],
        known: Sequence[Placed | None],
    ) -> bool:
        """Whether an operation takes and gives arrays of one shape and layout, entry by entry."""
        if step.primitive in explicit.ALONG_LINES or None in known:
            return False
        values = (*arrays, *step.results)
        shapes = {program.types[one].shape for one in values}
        return len(set(known)) == len(shapes) == 1

    def _placed(self, program: Program, name: Name) -> Placed | None:
        aval = program.types[name]
        if explicit.explicit_axes(aval):
            return explicit.typed(aval)
        return self.where.get(name)

    def _leave(self, step: Step, why: str) -> None:
        self.uncounted[step.place, f"{step.primitive}: {why}"] = None


def _type_of(program: Program, operand: Operand) -> Any:
    if isinstance(operand, Constant):
        return jax.typeof(operand.value)
    return program.types[operand]


def _by_spec(step: Step) -> Placed:
    pending = tuple(step.params["unreduced"])
    return Placed(tuple(step.params["dims"]), (pending,) if pending else ())


def placed_by(sharding: Any, aval: Any) -> Placed | None:
    """The layout that a sharding gives an array; None where it names no axes or leaves a dimension to the compiler."""
    spec = getattr(sharding, "spec", None)
    if spec is None:
        return None
    for entry in entries_of(spec):
        if entry is not None and not isinstance(entry, (str, tuple)):
            return None
    return Placed(dims_of(spec, aval))


def _is_whole(placed: Placed | None, sizes: Sizes) -> bool:
    return placed is not None and placed.over(sizes).parts(sizes) == 1


def _bytes_of(rows: Sequence[Sent]) -> Fraction:
    return sum((one.bytes for one in rows), Fraction(0))


def _together(rows: Sequence[Sent]) -> Moved:
    first = rows[0]
    return Moved(
        collective=first.collective,
        axes=first.axes,
        bytes=math.ceil(_bytes_of(rows)),
        count=sum(one.count for one in rows),
        place=first.place,
        by=first.by,
        at_least=first.at_least,
    )


def _has_hidden(step: Step) -> bool:
    """Whether a step has a program in its parameters that has collectives and was not taken apart."""
    inside = _programs(step.params.values())
    return any(map(_has_collectives, inside))


def _programs(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, jex.ClosedJaxpr):
            yield value.jaxpr
        elif isinstance(value, jex.Jaxpr):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _programs(value)


def _has_collectives(jaxpr: Any) -> bool:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in COLLECTIVES:
            return True
        inside = _programs(eqn.params.values())
        if any(map(_has_collectives, inside)):
            return True
    return False
