"""Which sizes that differ for some call are meant to agree in the calls that a program makes.

A name stands for one size in a call. Code that meets it with a number of its own, as the 784 pixels of an image or a
constant of the module, is right for the arrays that the program works on; and a name that no other shape has may be
the product of others, or a part of one (``half`` for ``D//2``). What no call makes right is wrong: names that must be
equal though the annotations tell them apart, and numbers that the annotations write themselves.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection
from functools import reduce

from shardtypes.lang.size import Atom, Monomial, Size

_ONE = Size.const(1)
_MOST_NAMES = 3
_SMALL = {1: 4096, 2: 64, 3: 16}  # sizes that are tried, by how many names there are


def are_meant_equal(
    a: Size, b: Size, numbers: Collection[int], once: Collection[str]
) -> bool:
    """Whether names of ``a`` and ``b`` can stand for sizes above one that make them equal, and nothing says that they
    do not. ``numbers`` are those that annotations write, ``once`` the names that they write in a single shape."""
    if _is_part(a, b, once) or _is_part(b, a, once):
        return True
    a, b = _without_common_factors(*_multiplied_out(a, b))
    if not a.symbols | b.symbols:
        return False
    return _may_be(a, b, numbers, once) or _may_be(b, a, numbers, once)


def _may_be(
    size: Size, other: Size, numbers: Collection[int], once: Collection[str]
) -> bool:
    """Whether a size may be what another one is: a number of the program, or the product that a name is for."""
    name = size.symbol_name
    number = other.constant
    if number is not None:
        is_written = name is not None and number in numbers
        return not is_written and _reaches(size, number)
    if name is None or name.rpartition(".")[2] not in once:
        return False
    return (
        _is_product(other) and other.symbol_name is None and name not in other.symbols
    )


def _is_part(size: Size, other: Size, once: Collection[str]) -> bool:
    """Whether a size is a name that may stand for a part of another one, by a number that divides it."""
    name = size.symbol_name
    if (
        name is None
        or name.rpartition(".")[2] not in once
        or name in other.symbols
        or not _divisors(other)
    ):
        return False
    return _is_product(_divided_evenly(other))


def _divisors(size: Size) -> dict[str, int]:
    """By name, the number by which floor divisions of nothing but that name, or of a product with it, divide."""
    found: dict[str, int] = {}
    for atom in size.operations():
        divisor = atom.args[1].constant if atom.op == "//" else None
        if divisor is None:
            return {}
        divided = _without_rounding_up(atom.args[0], divisor)
        if not _is_product(divided):
            return {}
        name = min(divided.symbols, default="")
        found[name] = math.lcm(found.get(name, 1), divisor)
    return found


def _without_rounding_up(numerator: Size, divisor: int) -> Size:
    """``D+1`` over 2 as ``D``: the size of ``x[::2]`` where ``D`` need not be even."""
    added = dict(numerator.terms).get((), 0)
    return numerator - added if 0 < added < divisor else numerator


def _divided_evenly(size: Size) -> Size:
    """``D-D//2`` as ``D``, where ``2*D`` stands for ``D``: what is divided is meant to come out even."""
    return size.substitute(
        {
            name: Size.symbol(name) * _divisors(size).get(name, 1)
            for name in size.symbols
        }
    )


def _multiplied_out(a: Size, b: Size) -> tuple[Size, Size]:
    """``(B*L)//4`` and ``M`` as ``B*L`` and ``4*M``: what is divided is meant to come out even."""
    numerator, divisor = _quotient(a)
    other_numerator, other_divisor = _quotient(b)
    return numerator * other_divisor, other_numerator * divisor


def _quotient(size: Size) -> tuple[Size, Size]:
    """Numerator and divisor of a size that is nothing but a floor division, or a multiple of one."""
    if len(size.terms) != 1:
        return size, _ONE
    monomial, coefficient = size.terms[0]
    if len(monomial) != 1 or monomial[0].op != "//":
        return size, _ONE
    numerator, divisor = monomial[0].args
    return numerator * coefficient, divisor


def _without_common_factors(a: Size, b: Size) -> tuple[Size, Size]:
    """``2*B*L`` and ``4*B`` as ``L`` and ``2``."""
    terms = [*a.terms, *b.terms]
    common = reduce(lambda x, y: x & y, (Counter(monomial) for monomial, _ in terms))
    divisor = math.gcd(*(coefficient for _, coefficient in terms))

    def without(size: Size) -> Size:
        return Size(
            {
                _less(monomial, common): coefficient // divisor
                for monomial, coefficient in size.terms
            }
        )

    return without(a), without(b)


def _less(monomial: Monomial, factors: Counter[Atom]) -> Monomial:
    return tuple(sorted((Counter(monomial) - factors).elements()))


def _is_product(size: Size) -> bool:
    return len(size.terms) == 1 and not any(atom.op for atom in size.terms[0][0])


def _reaches(size: Size, number: int) -> bool:
    """Whether a size is a number for some sizes above one of its names."""
    if _is_product(size):
        monomial, coefficient = size.terms[0]
        powers = Counter(monomial).values()
        if all(power == 1 for power in powers):
            # as many divisors above one as there are names
            return (
                number > 0
                and number % coefficient == 0
                and _prime_factors(number // coefficient) >= len(powers)
            )
    names = sorted(size.symbols)
    if len(names) > _MOST_NAMES:
        return True
    values = [
        *range(2, _SMALL[len(names)]),
        *(multiple * abs(number) for multiple in (1, 2) if abs(number) > 1),
    ]
    assignments = itertools.product(values, repeat=len(names))
    return any(
        _value(size, dict(zip(names, choice, strict=True))) == number
        for choice in assignments
    )


def _value(size: Size, sizes: dict[str, int]) -> int | None:
    try:
        return size.evaluate(sizes)
    except ZeroDivisionError:
        return None


def _prime_factors(number: int) -> int:
    """How many prime factors a number has, those that occur twice twice."""
    count, divisor = 0, 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            number //= divisor
            count += 1
        divisor += 1
    return count + (number > 1)
