"""Numbers that are written in a program and may be the number of its devices: ``lax.psum(mean, "d") / 8``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from shardtypes.proving.evaluation import Held
from shardtypes.proving.places import Place
from shardtypes.proving.program import Constant, Name, Operand, Program, Step
from shardtypes.proving.relation import Sizes

_LEAST = 3
"""Two and one half are written for all kinds of reasons."""
_MOST = 4
"""Numbers that are tried one by one."""


@dataclass(frozen=True)
class Written:
    """A factor of what has this name: ``number`` is written, and one device would have one in its place."""

    name: Name
    number: float
    divides: bool
    place: Place

    def __str__(self) -> str:
        return f"{self.number:g} ({self.place})"

    def without(self, held: Held) -> Held:
        """What would be computed without that factor."""
        if self.divides:
            return Held(held.array * self.number, held.axes)
        return Held(held.array / self.number, held.axes)


def written(program: Program, sizes: Sizes) -> list[list[Written]]:
    """What may be tried: all such numbers at once, then those of each line; ``sizes`` are those of the mesh."""
    counts = _counts(sizes)
    found: dict[Place, list[Written]] = {}
    for step, _ in program.steps_in_rounds():
        for one in _factors(step, counts):
            found.setdefault(step.place, []).append(one)
    lines = list(found.values())
    if len(lines) < 2:
        return lines
    together = list(itertools.chain.from_iterable(lines))
    return [together, *lines[:_MOST]]


def _counts(sizes: Sizes) -> set[float]:
    """The numbers of devices along axes, alone and together."""
    counts = [size for size in sizes.values() if size > 1]
    found = set[float]()
    for several in range(1, len(counts) + 1):
        for chosen in itertools.combinations(counts, several):
            count = math.prod(chosen)
            if count >= _LEAST:
                found.add(float(count))
    return found


def _factors(step: Step, counts: set[float]) -> Iterator[Written]:
    if step.primitive not in ("mul", "div"):
        return
    divides = step.primitive == "div"
    operands = step.operands
    if divides:
        operands = operands[1:]
    (name,) = step.results
    for operand in operands:
        number = _number(operand)
        if not number:
            continue
        if any(_is_made_of(number, count) for count in counts):
            yield Written(name, number, divides, step.place)


def _is_made_of(number: float, count: float) -> bool:
    """Whether it is the count or one by it, as far as single precision goes."""
    near = partial(math.isclose, rel_tol=1e-6)
    return near(number, count) or near(number * count, 1.0)


def _number(operand: Operand) -> float:
    """The number that is written; zero for anything else."""
    if not isinstance(operand, Constant):
        return 0.0
    value = np.asarray(operand.value)
    if value.size != 1:
        return 0.0
    if value.dtype.kind not in "iuf":
        return 0.0
    return float(value.item())
