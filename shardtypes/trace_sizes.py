"""The sizes with which ``trace`` calls a function: each name's size, made of free symbols.

A program may need sizes that are multiples of others, or no smaller than others. What it needs is built into the sizes
(``H`` becomes ``K*H_``, ``S`` becomes ``T + S_ - 1``), so that whatever stands for the free symbols, symbols of JAX or
primes, satisfies it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from shardtypes.lang import Size
from shardtypes.trace_series import PRIMES, numbers_for

_A_LITTLE = 9


class Inexpressible(Exception):
    """Sizes in an order that cannot be built in."""


@dataclass(frozen=True)
class Sizes:
    """What each name's size is made of. ``needs`` says in words what was built in, ``open`` that it is built in for
    one size out of several, ``few`` that only a few sizes of some name satisfy it, ``partial`` that others have no
    meaning. ``looped`` are the names that the program was seen to use as numbers, as loops do.
    """

    named: Mapping[str, Size]
    needs: tuple[str, ...] = ()
    open: bool = False
    few: bool = False
    partial: bool = False
    looped: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The free symbols, in the order of the names."""
        found = dict.fromkeys(
            s for size in self.named.values() for s in sorted(size.symbols)
        )
        return tuple(found)

    def factor(self, name: str) -> int:
        """What every size of a name is a multiple of."""
        return math.gcd(*(count for _, count in self.named[name].terms))

    def numbers(self, series: Sequence[int], backwards: bool = False) -> dict[str, int]:
        """A size for each name, from numbers for the free symbols."""
        looped = self._symbols_of(self.looped)
        return self.valued(numbers_for(series, self.symbols, looped, backwards))

    def _symbols_of(self, names: Iterable[str]) -> list[str]:
        found = set().union(*(self.named[name].symbols for name in names))
        return [symbol for symbol in self.symbols if symbol in found]

    def counting(self, symbols: Iterable[str]) -> Sizes:
        """The same, with the names in whose sizes these symbols are among those that are looped over."""
        found = {name for name, size in self.named.items() if size.symbols & {*symbols}}
        return replace(self, looped=self.looped | found)

    def steps(self, series: Sequence[int], backwards: bool) -> dict[str, int]:
        """The sizes of a trial, of the names that are looped over."""
        numbers = self.numbers(series, backwards)
        return {name: numbers[name] for name in numbers if name in self.looped}

    def stepped(self, steps: Mapping[str, int]) -> Sizes | None:
        """The same with these sizes; None where they are made of others, or where nothing is left open."""
        sizes: Sizes | None = self
        for name, number in steps.items():
            sizes = None if sizes is None else sizes.pinned(sizes.named[name], number)
        return None if sizes is None or not sizes.symbols else sizes

    def trials(self) -> list[dict[str, int]]:
        """The sizes to try where this is what a program needs."""
        return [self.numbers(PRIMES[0]), self.numbers(PRIMES[1])]

    def valued(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """A size for each name, from values for the free symbols."""
        return {name: size.evaluate(values) for name, size in self.named.items()}

    def divided(self, what: Size, by: Size) -> Sizes | None:
        """The same with ``what`` a multiple of ``by``; None where that is so already, or cannot be built in."""
        by = -by if all(count < 0 for _, count in by.terms) else by
        whole, divisor = what, by
        what, by = _cancelled(what, by)
        if by.constant in (1, 0) or what.divides_exactly(by) is not None:
            return None
        if whole not in self.named.values():
            whole, divisor = what, by
        for symbol in sorted(what.symbols - by.symbols):
            made = _multiple(what, by, symbol, rounded=whole not in self.named.values())
            if made is not None:
                changed = self._with(symbol, made)
                words = f"{self._words(divisor)} divides {self._words(whole)}"
                return replace(changed, needs=(*self.needs, words))
        return None

    def ordered(self, large: Size, small: Size) -> Sizes | None:
        """The same with ``large >= small``; None where that is never so. Raises ``Inexpressible``."""
        rest = _undivided(large - small)
        if rest.constant is not None:
            return None
        words = (*self.needs, f"{self._words(large)} >= {self._words(small)}")
        for symbol in sorted(rest.symbols):
            coefficient, others = _linear(rest, symbol)
            if coefficient == 1:
                least, exact = _at_least_one(-others)
                if least is not None:
                    made = replace(
                        self._with(symbol, least + Size.symbol(_fresh(symbol)) - 1),
                        needs=words,
                    )
                    return replace(made, open=self.open or not exact)
            elif coefficient == -1 and others.constant is not None:
                if others.constant < 1:
                    return None
                only = replace(self._with(symbol, others), needs=words)
                return replace(only, open=self.open or others.constant > 1, few=True)
        raise Inexpressible(words[-1])

    def positive(self, size: Size) -> Sizes | None:
        """The same with a size that is at least 1; None where that cannot be built in."""
        rest = _undivided(size - 1)
        large = Size({monomial: count for monomial, count in rest.terms if count > 0})
        try:
            made = self.ordered(large, large - rest)
        except Inexpressible:
            return None
        return None if made is None else replace(made, partial=True)

    def pinned(self, what: Size, value: int) -> Sizes | None:
        """The same with one name's size fixed; None for what is no size of its own."""
        symbol = what.symbol_name
        if symbol is None or value < 1:
            return None
        words = f"{self._words(what)} = {value}"
        return replace(
            self._with(symbol, Size.const(value)), needs=(*self.needs, words), few=True
        )

    def _with(self, symbol: str, made: Size) -> Sizes:
        return replace(
            self,
            named={
                name: size.substitute({symbol: made})
                for name, size in self.named.items()
            },
        )

    def _words(self, size: Size) -> str:
        """A size as the user's names say it, as far as they do."""
        named = {made: Size.symbol(name) for name, made in self.named.items()}
        if size in named:
            return str(named[size])
        own = {
            made.symbol_name: Size.symbol(name)
            for name, made in self.named.items()
            if made.symbol_name
        }
        for name, made in self.named.items():
            for symbol in sorted(made.symbols - {*own}):
                coefficient, others = _linear(made, symbol)
                if coefficient == 1:
                    own[symbol] = Size.symbol(name) - others.substitute(own)
        return str(size.substitute(own))


def sizes_of(
    names: Iterable[str], factors: Mapping[str, int], fixed: Mapping[str, int]
) -> Sizes:
    """Names whose sizes are multiples of their factors, and those that are fixed."""
    free = {name: Size.symbol(name) * factors.get(name, 1) for name in names}
    return Sizes({**{name: Size.const(size) for name, size in fixed.items()}, **free})


def _fresh(symbol: str) -> str:
    return f"{symbol}_"


def _multiple(what: Size, by: Size, symbol: str, rounded: bool) -> Size | None:
    """What the symbol must be made of for ``what`` to be a multiple of ``by``; where it is ``rounded`` up to one, as
    in ``(n + d - 1) // d``, for ``n`` to be that."""
    new = Size.symbol(_fresh(symbol))
    if len(what.terms) == 1:
        content = what.terms[0][1]
        constant = by.constant
        return (
            by * new
            if constant is None
            else abs(constant) // math.gcd(constant, content) * new
        )
    coefficient, others = _linear(what, symbol)
    if coefficient == 1 and others.constant is not None and by.constant is not None:
        divisor, rest = abs(by.constant), others.constant % abs(by.constant)
        return (
            divisor * new if rounded and rest == divisor - 1 else divisor * new - rest
        )
    return None


def _undivided(rest: Size) -> Size:
    """What is not negative just where ``rest`` is not, without a floor division that is a term of it:
    ``a//b >= m`` where ``a >= m*b``."""
    for monomial, count in rest.terms:
        if len(monomial) == 1 and monomial[0].op == "//" and abs(count) == 1:
            others = rest - Size({monomial: count})
            what, by = monomial[0].args
            if monomial[0] not in others.atoms:
                return _undivided(
                    what + others * by if count > 0 else (others + 1) * by - 1 - what
                )
    return rest


def _linear(size: Size, symbol: str) -> tuple[int, Size]:
    """The coefficient of a symbol that occurs in one term, alone, and the other terms; 0 for any other."""
    coefficient, rest = 0, Size.const(0)
    for monomial, count in size.terms:
        term = reduce(
            lambda a, b: a * b,
            (Size({(atom,): 1}) for atom in monomial),
            Size.const(count),
        )
        if len(monomial) == 1 and monomial[0].name == symbol and not monomial[0].op:
            coefficient += count
        elif symbol in term.symbols:
            return 0, size
        else:
            rest = rest + term
    return coefficient, rest


def _at_least_one(size: Size) -> tuple[Size | None, bool]:
    """The size, or one a little larger that is never smaller than 1, with whether it is the size; None if none is."""
    if size.constant is not None:
        return Size.const(max(size.constant, 1)), True
    for more in range(_A_LITTLE):
        if (size + more - 1).is_nonnegative:
            return size + more, not more
    return None, False


def _cancelled(what: Size, by: Size) -> tuple[Size, Size]:
    """Both without the factors that they share, and with a positive divisor."""
    if len(by.terms) != 1:
        return what, by
    ((divisor, count),) = by.terms
    shared = Counter(divisor)
    for monomial, _ in what.terms:
        shared &= Counter(monomial)
    common = math.gcd(abs(count), *(c for _, c in what.terms))

    def without(size: Size) -> Size:
        return Size(
            {
                tuple(sorted((Counter(m) - shared).elements())): c // common
                for m, c in size.terms
            }
        )

    smaller = without(by)
    return without(what), smaller if count > 0 else -smaller
