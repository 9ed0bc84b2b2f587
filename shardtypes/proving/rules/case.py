"""One operation on devices beside the same on one, with what is known of the operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from shardtypes.proving.state import Shape, State, adopted, refuse


@dataclass(frozen=True)
class Case:
    """``params`` and ``shapes`` are those on devices, ``one`` and ``wholes`` those on one device."""

    primitive: str
    params: Mapping[str, Any]
    one: Mapping[str, Any]
    states: Sequence[State]
    shapes: Sequence[Shape]
    results: Sequence[Shape]
    wholes: Sequence[Shape]
    sizes: Mapping[str, int]
    floats: bool = True

    @property
    def shape(self) -> Shape:
        """That of the first operand, on each device."""
        return self.shapes[0]

    @property
    def result(self) -> Shape:
        """The shape of the first result, on each device."""
        return self.results[0]

    @property
    def whole(self) -> Shape:
        """The shape of the first result on one device."""
        return self.wholes[0]

    def agree(self, *names: str) -> None:
        """Parameters that have to be the same on one device. Raises ``Unknown``."""
        for name in names:
            here = str(self.params.get(name))
            there = str(self.one.get(name))
            refuse(here != there, f"{name} is another on one device")


Rule: TypeAlias = Callable[[Case], list[State]]


def unified(
    case: Case, numbers: Sequence[int] | None = None
) -> tuple[list[State], tuple[tuple[str, ...], ...], frozenset[int]]:
    """Operands of one shape (or scalars) with their dimensions sharded alike; the axes of each dimension, and which are
    uniform in all. Raises ``Unknown``."""
    states = list(case.states)
    chosen = range(len(states)) if numbers is None else numbers
    rank = max(states[i].rank for i in chosen)
    dims: list[tuple[str, ...]] = []
    uniform = []
    full = [i for i in chosen if states[i].rank == rank]
    refuse(
        any(states[i].rank not in (0, rank) for i in chosen),
        "operands of different rank",
    )
    for dim in range(rank):
        long = [i for i in full if not _is_stretched(case, i, dim)]
        wanted = {
            states[i].dims[dim]
            for i in long
            if states[i].dims[dim] or dim not in states[i].uniform
        }
        refuse(len(wanted) > 1, "operands are sharded differently")
        axes = next(iter(wanted), ())
        for i in long:
            if axes:
                states[i] = adopted(states[i], dim, axes, case.shapes[i], case.sizes)
        dims.append(axes)
        if all(dim in states[i].uniform for i in long):
            uniform.append(dim)
    sharded = {axis for axes in dims for axis in axes}
    refuse(
        any(states[i].over & sharded for i in chosen),
        "a partial result beside a sharded operand",
    )
    return [states[i] for i in chosen], tuple(dims), frozenset(uniform)


def _is_stretched(case: Case, operand: int, dim: int) -> bool:
    """Whether an operand has one entry along a dimension, on devices and on one, beside operands that have more."""
    state = case.states[operand]
    local, whole = case.shapes[operand], state.whole
    is_one = local[dim] == 1 and whole[dim] == 1
    if not is_one or state.dims[dim]:
        return False
    result, whole_result = case.result, case.whole
    return result[dim] != 1 or whole_result[dim] != 1


def no_parts(states: Sequence[State]) -> None:
    """Raises ``Unknown`` where an operand is a part."""
    refuse(
        any(state.parts and not state.zero for state in states),
        "a partial result is used as if it were complete",
    )


def exact(states: Sequence[State]) -> None:
    """Raises ``Unknown`` where an operand is a part, or off by a factor."""
    no_parts(states)
    refuse(
        any(state.factor != 1 and not state.zero for state in states),
        "an operand is off by a factor",
    )
