"""Exact arithmetic on dimension sizes.

A ``Size`` is an integer polynomial over *atoms*: symbols, and the floor divisions, minima and maxima that do not
simplify. It is kept in a normal form, so that two sizes written differently but equal by the laws below are one value:
ring laws; ``x % d == x - d*(x//d)``; ``(q*d + r)//d == q + r//d``; ``(g*a)//(g*b) == a//b``;
``(x//a)//b == x//(a*b)``. Symbols stand for integers of at least 1; a symbol whose name starts with ``?`` is opaque:
it may be any integer and may coincide with any other size. What is made of more than ``MAX_WEIGHT`` names and
operations is given up as such a symbol: forty sums multiplied are more terms than a computer holds.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias

from shardtypes.lang import size_text

Operation: TypeAlias = Literal["//", "min", "max", "part"]
Monomial: TypeAlias = "tuple[Atom, ...]"  # sorted, an atom repeated for each power
Sizes: TypeAlias = Mapping[str, int]
MAX_WEIGHT = 2000


@dataclass(frozen=True)
class Atom:
    """A factor that does not simplify: a symbol (``op`` is ''), or an operation on sizes."""

    name: str
    op: Operation | Literal[""] = ""
    args: tuple[Size, ...] = ()

    @cached_property
    def key(self) -> str:
        """What atoms are ordered by; distinct atoms have distinct keys."""
        if not self.op:
            return self.name
        return f"~{self.op}({','.join(map(repr, self.args))})"

    @cached_property
    def weight(self) -> int:
        """How many names and operations it is made of, twice as many for each operation around them: that is what it
        takes to look for bounds in them."""
        return 1 + 2 * sum(arg.weight for arg in self.args)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.key == other.key

    def __lt__(self, other: Atom) -> bool:
        return self.key < other.key


class Size:
    """The size of a dimension, or any integer computed from sizes. Immutable; ``==`` is equality for all sizes.

    Build one with ``Size.of('B')``, ``Size.of(3)`` and the operators ``+ - * // %``.
    """

    __slots__ = ("_hash", "_repr", "_symbols", "_weight", "terms")
    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        found = [(m, c) for m, c in terms.items() if c]
        if len(found) > 1:
            found.sort(key=_order)
        self.terms = tuple(found)
        self._hash = hash(self.terms)
        self._repr: str | None = None
        self._symbols: frozenset[str] | None = None
        self._weight: int | None = None

    # --- making -------------------------------------------------------------------------------------------------

    @staticmethod
    def of(value: int | str | Size) -> Size:
        """A constant for an int, a symbol for a name."""
        if isinstance(value, Size):
            return value
        if isinstance(value, str):
            return Size.symbol(value)
        return Size.const(value)

    @staticmethod
    @lru_cache(maxsize=4096)
    def const(value: int) -> Size:
        """The integer ``value``."""
        return Size({(): int(value)})

    @staticmethod
    @lru_cache(maxsize=4096)
    def symbol(name: str) -> Size:
        """The symbol ``name``."""
        return Size({(Atom(name),): 1})

    @staticmethod
    def minimum(*sizes: int | Size) -> Size:
        """The least of the given sizes."""
        return _bounded(_extremum("min", [Size.of(s) for s in sizes]))

    @staticmethod
    def maximum(*sizes: int | Size) -> Size:
        """The greatest of the given sizes."""
        return _bounded(_extremum("max", [Size.of(s) for s in sizes]))

    @staticmethod
    def part(wanted: int | Size, whole: int | Size) -> Size:
        """How much of ``whole`` a slice of ``wanted`` entries holds: the lesser of both, and meant to be ``wanted``."""
        return _bounded(_part(Size.of(wanted), Size.of(whole)))

    # --- reading ------------------------------------------------------------------------------------------------

    @property
    def constant(self) -> int | None:
        """The value, if this is a constant."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    @property
    def symbol_name(self) -> str | None:
        """The name, if this is one bare symbol."""
        if len(self.terms) != 1:
            return None
        monomial, coefficient = self.terms[0]
        bare = coefficient == 1 and len(monomial) == 1 and not monomial[0].op
        if bare:
            return monomial[0].name
        return None

    @property
    def atoms(self) -> frozenset[Atom]:
        """The atoms of this polynomial, without those inside operations."""
        return frozenset(a for m, _ in self.terms for a in m)

    @property
    def symbols(self) -> frozenset[str]:
        """The names of all symbols, also those inside operations."""
        if self._symbols is None:
            found: set[str] = set()
            for monomial, _ in self.terms:
                for atom in monomial:
                    found |= (
                        set().union(*(a.symbols for a in atom.args))
                        if atom.op
                        else {atom.name}
                    )
            self._symbols = frozenset(found)
        return self._symbols

    @property
    def is_opaque(self) -> bool:
        """Whether an opaque symbol is in it."""
        return any(name.startswith("?") for name in self.symbols)

    @property
    def weight(self) -> int:
        """How much it takes to compute with this size: its terms, names and operations."""
        if self._weight is None:
            self._weight = sum(
                1 + sum(atom.weight for atom in monomial) for monomial, _ in self.terms
            )
        return self._weight

    def operations(self) -> Iterable[Atom]:
        """All operation atoms, outermost first."""
        for atom in sorted(self.atoms):
            if atom.op:
                yield atom
                for arg in atom.args:
                    yield from arg.operations()

    def evaluate(self, sizes: Sizes) -> int:
        """The value for the given sizes. Raises KeyError for a missing one, ZeroDivisionError as Python does."""
        total = 0
        for monomial, coefficient in self.terms:
            value = coefficient
            for atom in monomial:
                value *= _evaluate_atom(atom, sizes)
            total += value
        return total

    def substitute(self, sizes: Mapping[str, Size]) -> Size:
        """This size with all given symbols replaced at once."""
        if not sizes or self.symbols.isdisjoint(sizes):
            return self
        name = self.symbol_name
        if name is not None:
            return sizes[name]
        return self._with(lambda atom: _substitute_atom(atom, sizes))

    def with_whole_slices(self) -> Size:
        """This size if every slice in it has as many entries as it asks for."""
        if all(operation.op != "part" for operation in self.operations()):
            return self
        return self._with(_as_asked)

    def _with(self, replacement: Callable[[Atom], Size]) -> Size:
        total = Size.const(0)
        for monomial, coefficient in self.terms:
            product = Size.const(coefficient)
            for atom in monomial:
                product = product * replacement(atom)
            total = total + product
        return total

    # --- arithmetic ---------------------------------------------------------------------------------------------

    def __add__(self, other: int | Size) -> Size:
        terms = dict(self.terms)
        for monomial, coefficient in Size.of(other).terms:
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return _bounded(Size(terms))

    def __neg__(self) -> Size:
        return Size({m: -c for m, c in self.terms})

    def __sub__(self, other: int | Size) -> Size:
        return self + -Size.of(other)

    def __mul__(self, other: int | Size) -> Size:
        terms: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in Size.of(other).terms:
                if m1 and m2:
                    product = tuple(sorted(m1 + m2))
                else:
                    product = m1 or m2
                terms[product] = terms.get(product, 0) + c1 * c2
        return _bounded(Size(terms))

    def __floordiv__(self, other: int | Size) -> Size:
        return _bounded(_floordiv(self, Size.of(other)))

    def __mod__(self, other: int | Size) -> Size:
        divisor = Size.of(other)
        return self - divisor * (self // divisor)

    def __radd__(self, other: int) -> Size:
        return self + other

    def __rsub__(self, other: int) -> Size:
        return Size.of(other) - self

    def __rmul__(self, other: int) -> Size:
        return self * other

    def __rfloordiv__(self, other: int) -> Size:
        return Size.of(other) // self

    def __rmod__(self, other: int) -> Size:
        return Size.of(other) % self

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return self.constant == other
        return isinstance(other, Size) and self.terms == other.terms

    def __hash__(self) -> int:
        constant = self.constant
        if constant is None:
            return self._hash
        return hash(constant)

    def __reduce__(
        self,
    ) -> tuple[Callable[[dict[Monomial, int]], Size], tuple[dict[Monomial, int]]]:
        return Size, (dict(self.terms),)

    def __str__(self) -> str:
        return size_text.shown(self)

    def __repr__(self) -> str:
        if self._repr is None:
            self._repr = size_text.shown_terms(self)
        return self._repr

    def divides_exactly(self, divisor: Size) -> Size | None:
        """The quotient, if ``divisor`` divides this polynomial without remainder for all sizes."""
        quotient, rest = _divide(self, divisor)
        if not rest.terms:
            return quotient
        return None

    @property
    def is_nonnegative(self) -> bool:
        """Whether this is certainly at least 0 (symbols are at least 1). False says nothing."""
        low = _lower(self)
        return low is not None and low >= 0


def _bounded(size: Size) -> Size:
    """The size itself; one too large to compute with as an opaque symbol, the same one whenever it is met again."""
    if size.weight <= MAX_WEIGHT:
        return size
    return Size.symbol(
        f"?{hashlib.blake2b(repr(size).encode(), digest_size=8).hexdigest()}"
    )


def _order(term: tuple[Monomial, int]) -> tuple[int, tuple[str, ...]]:
    """Graded lexicographic order, leading term first: compatible with multiplication, as division needs."""
    monomial, _ = term
    return -len(monomial), tuple(a.key for a in monomial)


def _evaluate_atom(atom: Atom, sizes: Sizes) -> int:
    if not atom.op:
        return sizes[atom.name]
    values = [a.evaluate(sizes) for a in atom.args]
    if atom.op == "//":
        return values[0] // values[1]
    if atom.op == "max":
        return max(values)
    return min(values)


def _substitute_atom(atom: Atom, sizes: Mapping[str, Size]) -> Size:
    if not atom.op:
        if atom.name in sizes:
            return sizes[atom.name]
        return Size({(atom,): 1})
    return _applied(atom.op, [a.substitute(sizes) for a in atom.args])


def _as_asked(atom: Atom) -> Size:
    if not atom.op:
        return Size({(atom,): 1})
    args = [a.with_whole_slices() for a in atom.args]
    if atom.op == "part":
        return args[0]
    return _applied(atom.op, args)


def _applied(op: Operation, args: list[Size]) -> Size:
    if op == "//":
        return args[0] // args[1]
    if op == "part":
        return _part(*args)
    return _extremum(op, args)


def _divide(numerator: Size, divisor: Size) -> tuple[Size, Size]:
    """Quotient and remainder of polynomial division; coefficients of the remainder are reduced, not negative."""
    if not divisor.terms:
        raise ZeroDivisionError("a dimension size is divided by zero")
    lead, lead_coefficient = divisor.terms[0]
    if lead_coefficient < 0:
        numerator = -numerator
        divisor = -divisor
        lead_coefficient = -lead_coefficient
    quotient = Size.const(0)
    rest = Size.const(0)
    left = numerator
    while left.terms:
        monomial, coefficient = left.terms[0]
        term = Size({monomial: coefficient})
        factor = _cancel(monomial, lead)
        if factor is not None and coefficient // lead_coefficient:
            part = Size({factor: coefficient // lead_coefficient})
            quotient = quotient + part
            left = left - part * divisor
        else:
            rest = rest + term
            left = left - term
    return quotient, rest


def _cancel(monomial: Monomial, factor: Monomial) -> Monomial | None:
    """``monomial / factor``, or None where it does not divide."""
    left = list(monomial)
    for atom in factor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


@lru_cache(maxsize=4096)
def _floordiv(numerator: Size, divisor: Size) -> Size:
    quotient, rest = _divide(numerator, divisor)
    if not rest.terms:
        return quotient
    # a partial quotient would be correct too, but unreadable: L//(L+1) = 1 + -1//(L+1)
    if len(divisor.terms) > 1:
        quotient = Size.const(0)
        rest = numerator
    if divisor.terms[0][1] < 0:
        if len(divisor.terms) > 1:
            rest = -rest
        divisor = -divisor
    rest, divisor = _reduce_fraction(rest, divisor)
    if divisor.constant == 1:
        return quotient + rest
    if rest.constant is not None and divisor.constant is not None:
        return quotient + rest.constant // divisor.constant
    inner = _lone_atom(rest)
    if (
        inner is not None
        and inner.op == "//"
        and rest.terms[0][1] == 1
        and (divisor - 1).is_nonnegative
    ):
        return quotient + inner.args[0] // (inner.args[1] * divisor)
    return quotient + Size({(Atom("", "//", (rest, divisor)),): 1})


def _lone_atom(size: Size) -> Atom | None:
    """The atom of which a size is a multiple, if it is one of a single atom."""
    if len(size.terms) != 1:
        return None
    monomial, _ = size.terms[0]
    return monomial[0] if len(monomial) == 1 else None


def _reduce_fraction(numerator: Size, divisor: Size) -> tuple[Size, Size]:
    """Cancel what all terms of both share."""
    terms = numerator.terms + divisor.terms
    common = math.gcd(*(c for _, c in terms))
    shared = terms[0][0]
    for monomial, _ in terms[1:]:
        kept: list[Atom] = []
        pool = list(monomial)
        for atom in shared:
            if atom in pool:
                pool.remove(atom)
                kept.append(atom)
        shared = tuple(kept)
    if common == 1 and not shared:
        return numerator, divisor

    def cancelled(size: Size) -> Size:
        return Size({_cancel(m, shared) or (): c // common for m, c in size.terms})

    return cancelled(numerator), cancelled(divisor)


def _extremum(op: Literal["min", "max"], sizes: list[Size]) -> Size:
    flat: list[Size] = []
    for size in sizes:
        atom = _lone_atom(size)
        if atom is not None and atom.op == op and size.terms[0][1] == 1:
            flat.extend(atom.args)
        else:
            flat.append(size)
    kept: list[Size] = []
    for size in flat:
        if any(_dominates(op, other, size) for other in kept):
            continue
        kept = [other for other in kept if not _dominates(op, size, other)]
        kept.append(size)
    if len(kept) == 1:
        return kept[0]
    return Size({(Atom("", op, tuple(sorted(kept, key=repr))),): 1})


def _lesser_of(size: Size) -> tuple[Size, ...]:
    """The sizes of which this one is the least, as it says itself."""
    for atom in size.atoms:
        if atom.op in ("min", "part") and size == Size({(atom,): 1}):
            return atom.args
    return ()


def _part(wanted: Size, whole: Size) -> Size:
    if wanted in _lesser_of(whole):
        return whole
    if whole in _lesser_of(wanted):
        return wanted
    if (whole - wanted).is_nonnegative:
        return wanted
    if (wanted - whole).is_nonnegative:
        return whole
    return Size({(Atom("", "part", (wanted, whole)),): 1})


def _lower(size: Size) -> int | None:
    """A value that ``size`` is never below, or None where none is found."""
    low = 0
    for monomial, coefficient in _without_negative_floors(size).terms:
        product = coefficient
        for atom in monomial:
            least = _lower_atom(atom)
            if coefficient < 0 or least is None or least < 0:
                return None
            product *= least
        low += product
    return low


def _without_negative_floors(size: Size) -> Size:
    """A size that is at most this one: ``-(n//d)`` is at least ``-n/d`` for a constant ``d`` and ``n`` from 0 up."""
    terms = Size({})
    for monomial, coefficient in size.terms:
        term = Size({monomial: coefficient})
        if len(monomial) == 1:
            atom = monomial[0]
        else:
            atom = None
        if coefficient < 0 and atom is not None and atom.op == "//":
            numerator = atom.args[0]
            divisor = atom.args[1].constant
            if divisor is not None and divisor > 0 and numerator.is_nonnegative:
                if coefficient % divisor == 0:
                    factor = coefficient // divisor
                else:
                    factor = coefficient
                term = numerator * factor
        terms = terms + term
    return terms


def _lower_atom(atom: Atom) -> int | None:
    if not atom.op:
        if atom.name.startswith("?"):
            return None
        return 1
    lows = [_lower(argument) for argument in atom.args]
    known = [low for low in lows if low is not None]
    if atom.op == "max":
        return max(known, default=None)
    if len(known) < len(lows):
        return None
    if atom.op in ("min", "part"):
        return min(known)
    divisor = atom.args[1].constant
    if known[0] < 0 or known[1] < 1:
        return None
    if divisor is not None:
        return known[0] // divisor
    return 0


def _dominates(op: str, winner: Size, loser: Size) -> bool:
    if op == "min":
        difference = loser - winner
    else:
        difference = winner - loser
    return difference.is_nonnegative
