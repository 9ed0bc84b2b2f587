"""Bytes as expressions: products of sizes and of numbers of devices, over others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction

from shardlint.ops.sharding.view import parted
from shardtypes.lang import Size
from shardtypes.lang.frozen import frozen
from shardtypes.lang.size import Atom


@frozen
class Factor:
    """A size of the program; or the number of devices along mesh axes, less ``less``."""

    size: Size | None = None
    axes: tuple[str, ...] = ()
    less: int = 0

    def __str__(self) -> str:
        if self.size is not None:
            text = str(self.size)
            return text if text.isidentifier() else f"({text})"
        text = "*".join(self.axes)
        return f"({text}-{self.less})" if self.less else text

    def value(self, sizes: Mapping[str, int], mesh: Mapping[str, int]) -> int | None:
        """The number; None where a size is not given."""
        if self.size is not None:
            known = self.size.symbols <= sizes.keys()
            return self.size.evaluate(dict(sizes)) if known else None
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
        return cls(Fraction(1), tuple(Factor(axes=(axis,)) for axis in axes))

    @classmethod
    def others(cls, axes: Iterable[str]) -> Formula:
        """The same less one."""
        return cls(Fraction(1), (Factor(axes=tuple(axes), less=1),))

    def __mul__(self, other: Formula | int) -> Formula:
        if isinstance(other, int):
            return Formula(self.coefficient * other, self.up, self.down)
        return _reduced(
            self.coefficient * other.coefficient,
            (*self.up, *other.up),
            (*self.down, *other.down),
        )

    def __truediv__(self, other: Formula) -> Formula:
        return self * Formula(1 / other.coefficient, other.down, other.up)

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
        found = [one.size.symbols for one in (*self.up, *self.down) if one.size]
        return frozenset[str]().union(*found)

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


def _reduced(
    coefficient: Fraction, up: tuple[Factor, ...], down: tuple[Factor, ...]
) -> Formula:
    common = Counter(up) & Counter(down)
    return Formula(coefficient, _without(up, common), _without(down, common))


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
    if atom.op == "//":
        # a local size: the division is even
        whole, divisor = (of_size(arg) for arg in atom.args)
        return None if whole is None or divisor is None else whole / divisor
    if atom.op:
        return None
    part = parted(atom.name)
    if part is not None:
        whole, divisor = (of_size(one) for one in part)
        return None if whole is None or divisor is None else whole / divisor
    if atom.name.startswith("|"):
        return Formula.devices((atom.name.strip("|"),))
    if not atom.name.isidentifier():
        return None
    return Formula(Fraction(1), (Factor(Size.symbol(atom.name)),))


def summed(formulas: Iterable[Formula]) -> str:
    """A sum, in which those that differ in their numbers alone are one."""
    totals: dict[tuple[object, object], Formula] = {}
    for one in formulas:
        key = (tuple(sorted(map(str, one.up))), tuple(sorted(map(str, one.down))))
        before = totals.get(key)
        if before is not None:
            one = Formula(before.coefficient + one.coefficient, before.up, before.down)
        totals[key] = one
    return " + ".join(map(str, totals.values())) or "0"
