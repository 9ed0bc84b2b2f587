"""Bytes as expressions: products of sizes and of numbers of devices, over others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from shardlint.ops.sharding.view import parted
from shardtypes.lang import Size
from shardtypes.lang.frozen import frozen
from shardtypes.lang.size import Atom
from shardtypes.semantics.cost import sends


@frozen
class Factor:
    """A size of the program; or the number of devices along mesh axes, less ``less``."""

    size: Size | None = None
    axes: tuple[str, ...] = ()
    less: int = 0

    def __str__(self) -> str:
        if self.size is not None:
            text = str(self.size)
            if text.isidentifier():
                return text
            return f"({text})"
        text = "*".join(self.axes)
        if self.less:
            return f"({text}-{self.less})"
        return text

    def value(self, sizes: Mapping[str, int], mesh: Mapping[str, int]) -> int | None:
        """The number; None where a size is not given."""
        if self.size is not None:
            if not self.size.symbols <= sizes.keys():
                return None
            return self.size.evaluate(sizes)
        total = 1
        for axis in self.axes:
            if axis not in mesh:
                return None
            total *= mesh[axis]
        return total - self.less


@frozen
class Formula:
    """``coefficient`` times the factors ``up`` over the factors ``down``."""

    coefficient: Fraction
    up: tuple[Factor, ...] = ()
    down: tuple[Factor, ...] = ()

    @classmethod
    def of(cls, number: int) -> Formula:
        """A number."""
        return cls(Fraction(number))

    @classmethod
    def devices(cls, axes: Iterable[str]) -> Formula:
        """The number of devices along these axes."""
        factors = [Factor(axes=(axis,)) for axis in axes]
        return cls(Fraction(1), tuple(factors))

    @classmethod
    def others(cls, axes: Iterable[str]) -> Formula:
        """The same less one."""
        factor = Factor(axes=tuple(axes), less=1)
        return cls(Fraction(1), (factor,))

    def __mul__(self, other: Formula | int) -> Formula:
        if isinstance(other, int):
            other = Formula.of(other)
        coefficient = self.coefficient * other.coefficient
        up = (*self.up, *other.up)
        down = (*self.down, *other.down)
        common = Counter(up) & Counter(down)
        return Formula(
            coefficient=coefficient,
            up=_without(up, common),
            down=_without(down, common),
        )

    def __truediv__(self, other: Formula) -> Formula:
        upside_down = Formula(
            coefficient=1 / other.coefficient,
            up=other.down,
            down=other.up,
        )
        return self * upside_down

    def value(
        self, sizes: Mapping[str, int], mesh: Mapping[str, int]
    ) -> Fraction | None:
        """The number for these sizes on this mesh; None where a size is not given."""
        total = self.coefficient
        for factor in self.up:
            number = factor.value(sizes, mesh)
            if number is None:
                return None
            total *= number
        for factor in self.down:
            number = factor.value(sizes, mesh)
            if number is None:
                return None
            total /= number
        return total

    @property
    def symbols(self) -> frozenset[str]:
        """The sizes that it names."""
        found: set[str] = set()
        for factor in (*self.up, *self.down):
            if factor.size is not None:
                found |= factor.size.symbols
        return frozenset(found)

    def __str__(self) -> str:
        number = str(self.coefficient.numerator)
        above = [str(factor) for factor in self.up]
        if number != "1" or not above:
            above.insert(0, number)
        below = [str(factor) for factor in self.down]
        if self.coefficient.denominator != 1:
            below.insert(0, str(self.coefficient.denominator))
        text = "*".join(above)
        if not below:
            return text
        under = "*".join(below)
        return f"{text}/({under})" if len(below) > 1 else f"{text}/{under}"


def _without(factors: Iterable[Factor], common: Counter[Factor]) -> tuple[Factor, ...]:
    left = Counter(common)
    kept = []
    for factor in factors:
        if left[factor]:
            left[factor] -= 1
        else:
            kept.append(factor)
    return tuple(kept)


def of_size(size: Size) -> Formula | None:
    """A size as a formula: a local one is a size over numbers of devices. None for one that has no name."""
    number = size.constant
    if number is not None:
        return Formula.of(number)
    if len(size.terms) != 1:
        named = all(name.isidentifier() for name in size.symbols)
        return Formula(Fraction(1), (Factor(size),)) if named else None
    ((monomial, coefficient),) = size.terms
    total = Formula.of(coefficient)
    for atom in monomial:
        made = _of_atom(atom)
        if made is None:
            return None
        total = total * made
    return total


def _of_atom(atom: Atom) -> Formula | None:
    part = atom.args if atom.op == "//" else parted(atom.name)
    if part:
        # a local size: the division is even
        whole = of_size(part[0])
        divisor = of_size(part[1])
        if whole is None or divisor is None:
            return None
        return whole / divisor
    if atom.op:
        return None
    if atom.name.startswith("|"):
        return Formula.devices((atom.name.strip("|"),))
    if not atom.name.isidentifier():
        return None
    return Formula(Fraction(1), (Factor(Size.symbol(atom.name)),))


def bytes_sent(collective: str, held: Formula, axes: Sequence[str]) -> Formula:
    """What a device sends that holds so much of the operand; ``axes`` are those along which there are several."""
    if not axes:
        return Formula.of(0)
    devices = Formula.devices(axes)
    others = Formula.others(axes)
    made: Formula = sends(collective)(held, devices, others)
    return made


def summed(formulas: Iterable[Formula]) -> str:
    """A sum, in which those that differ in their numbers alone are one."""
    totals: dict[tuple[object, object], Formula] = {}
    for one in formulas:
        above = tuple(sorted(map(str, one.up)))
        below = tuple(sorted(map(str, one.down)))
        before = totals.get((above, below))
        if before is not None:
            total = before.coefficient + one.coefficient
            one = replace(before, coefficient=total)
        totals[above, below] = one
    return " + ".join(map(str, totals.values())) or "0"
