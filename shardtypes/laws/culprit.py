"""The first operation of a program that brings a position into elements that must not depend on it.

The program is run twice side by side, with the arguments as they are and with one position changed. Wherever an
operation makes a change where the position is not at home, the change is undone and the run goes on: these are the
operations that mix. The culprit is the first of them without which the result is another: where a change cancels out,
as that of a maximum which is subtracted and added again, nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardtypes.laws.differences import differs, on_host, tolerance_of
from shardtypes.laws.homes import Homes
from shardtypes.laws.program import Program
from shardtypes.laws.source import Place, place_of
from shardtypes.laws.walk import (
    Change,
    Domain,
    Host,
    Join,
    Path,
    Walker,
    any_along,
    bind,
)
from shardtypes.prng_keys import is_key

_MOST_TRIED = 40


@dataclass(frozen=True)
class Lanes:
    """A value in both runs, and where the position is at home in it."""

    base: Any
    other: Any
    home: Host

    @property
    def is_changed(self) -> bool:
        """Whether the runs may differ in it."""
        return self.other is not self.base


@dataclass
class Mixed:
    """An operation that made a change where the position is not at home."""

    path: Path
    place: Place


@dataclass
class SideBySide(Domain[Lanes]):
    """Both runs. ``undone`` is the path of the one operation whose change is undone; None for every one."""

    homes: Homes
    undone: Path | None = None
    everything: bool = True
    mixed: list[Mixed] = field(default_factory=list)

    def constant(self, value: Any) -> Lanes:
        if is_key(value):
            array = value
        else:
            array = jnp.asarray(value)
        return Lanes(array, array, np.zeros(np.shape(value), bool))

    def each(self, cell: Lanes, change: Change) -> Lanes:
        lead = len(self.devices)
        base = change(cell.base, lead)
        if cell.is_changed:
            other = change(cell.other, lead)
        else:
            other = base
        return Lanes(base, other, change(cell.home, lead))

    def joined(self, cells: Sequence[Lanes], join: Join) -> Lanes:
        lead = len(self.devices)
        base = join([cell.base for cell in cells], lead)
        if any(cell.is_changed for cell in cells):
            other = join([cell.other for cell in cells], lead)
        else:
            other = base
        return Lanes(base, other, join([cell.home for cell in cells], lead))

    def carried(self, carry: list[Lanes], items: list[Lanes]) -> list[Lanes]:
        """What is carried from position to position is at home where the items are."""
        here = any(cell.home.all() for cell in items if cell.home.size)
        found = []
        for cell in carry:
            same = cell.home.all() or not cell.home.any()
            found.append(
                Lanes(cell.base, cell.other, np.full(cell.home.shape, here))
                if same
                else cell
            )
        return found

    def branch(self, index: Lanes) -> int | None:
        base = np.unique(np.asarray(index.base))
        other = np.unique(np.asarray(index.other))
        if base.size == 1 and np.array_equal(base, other):
            return int(base[0])
        return None

    def opaque(self, eqn: Any, path: Path, cells: list[Lanes]) -> list[Lanes]:
        return self.equation(eqn, path, cells)

    def equation(self, eqn: Any, path: Path, cells: list[Lanes]) -> list[Lanes]:
        base = bind(eqn, [cell.base for cell in cells], self.devices)
        homes = self.homes.of_results(
            eqn,
            [cell.home for cell in cells],
            [cell.base for cell in cells],
            self.devices,
        )
        if not any(cell.is_changed for cell in cells):
            return [
                Lanes(value, value, home)
                for value, home in zip(base, homes, strict=True)
            ]
        other = bind(eqn, [cell.other for cell in cells], self.devices)
        return [
            self._kept(eqn, path, Lanes(one, two, home))
            for one, two, home in zip(base, other, homes, strict=True)
        ]

    def _kept(self, eqn: Any, path: Path, cell: Lanes) -> Lanes:
        """The value with its change, or without it where the position is not at home."""
        one = on_host(cell.base)
        two = on_host(cell.other)
        changed = differs(one, two, tolerance_of(one.dtype) / 10)
        if is_key(cell.base):
            changed = any_along(changed, -1)
        if not changed.any():
            return Lanes(
                cell.base,
                cell.base if not (one != two).any() else cell.other,
                cell.home,
            )
        wrong = changed & ~cell.home
        if not wrong.any():
            return cell
        if self.everything:
            self.mixed.append(Mixed(path, place_of(eqn, self.calls)))
        elif path != self.undone:
            return cell
        return Lanes(cell.base, jnp.where(wrong, cell.base, cell.other), cell.home)


def culprit(
    program: Program,
    base: Sequence[Any],
    other: Sequence[Any],
    homes: Sequence[Host],
    canonical: Host,
    leaf: int,
    wrong: Host,
) -> Place | None:
    """The place of the first operation that matters for the elements of a leaf of the result that are ``wrong``.

    ``homes`` are those of the arguments. None where the program cannot be followed.
    """
    if program.jaxpr is None:
        return None
    for strict in (False, True):
        search = _Search(
            program, base, other, homes, Homes(canonical, strict), leaf, wrong
        )
        try:
            with program.surroundings(), jax.disable_jit(False):
                found = search.first()
        except Exception:  # noqa: BLE001 - it ran as a whole; what cannot be run in pieces has no line
            return None
        if found is not None:
            return found
    return None


@dataclass
class _Search:
    program: Program
    base: Sequence[Any]
    other: Sequence[Any]
    inputs: Sequence[Host]
    homes: Homes
    leaf: int
    wrong: Host

    def first(self) -> Place | None:
        """None where none matters."""
        everything = SideBySide(self.homes)
        self._run(everything)
        if not everything.mixed:
            return None
        expected = self.program.run(self.other)[self.leaf][self.wrong]
        tolerance = self.program.tolerances[self.leaf]
        for mixed in everything.mixed[:_MOST_TRIED]:
            without = self._run(SideBySide(self.homes, mixed.path, everything=False))
            found = on_host(without.other)[self.wrong]
            if differs(expected, found, tolerance).any():
                return mixed.place
        if len(everything.mixed) == 1:
            return everything.mixed[-1].place
        return None

    def _run(self, domain: SideBySide) -> Lanes:
        base = self.program.placed(self.base)
        other = self.program.placed(self.other)
        cells = [
            Lanes(a, a if _same(a, b) else b, home)
            for a, b, home in zip(base, other, self.inputs, strict=True)
        ]
        return Walker(domain).run(self.program.jaxpr, cells)[self.leaf]


def _same(one: Any, other: Any) -> bool:
    return np.array_equal(
        on_host(one),
        on_host(other),
        equal_nan=jnp.issubdtype(on_host(one).dtype, jnp.inexact),
    )
