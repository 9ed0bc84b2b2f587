"""Which sizes that differ for some call are meant to agree in the calls that a program makes.

A name stands for one size in a call. Code that meets it with a number of its own, as the 784 pixels of an image or a
constant of the module, is right for the arrays that the program works on; and a name that no other shape has may be
what the program computes of others: their product, a part of one (``half`` for ``D//2``), one more than another
(``edges`` for ``bins+1``), the sum of two. What no call makes right is wrong: names that must be equal though the
annotations tell them apart, and numbers that the annotations write themselves.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from shardtypes.lang.size import Atom, Monomial, Size

_ONE = Size.const(1)
_MOST_NAMES = 3
_SMALL = {
    0: 2,
    1: 4096,
    2: 64,
    3: 16,
}  # sizes that are tried, by how many names there are
_WIDE = 256  # of the name that is looked for
_FEW = {1: 16, 2: 16, 3: 8}  # of the others then


def are_meant_equal(
    a: Size, b: Size, numbers: Collection[int], once: Collection[str]
) -> bool:
    """Whether names of ``a`` and ``b`` can stand for sizes above one that make them equal, and nothing says that they
    do not. ``numbers`` are those that annotations write, ``once`` the names that they write in a single shape."""
    if _is_named(a.with_whole_slices(), b.with_whole_slices(), once):
        return True
    a, b = _multiplied_out(a, b)
    a, b = _without_common_factors(a, b)
    return _is_numbered(a, b, numbers)


def _is_named(a: Size, b: Size, once: Collection[str]) -> bool:
    """Whether one of two sizes has a name that may stand for what makes them equal."""
    if a == b or not a.symbols or not b.symbols:
        return False
    a, b = _multiplied_out(a, b)
    a, b = _without_common_factors(a, b)
    names = _of(once, a.symbols ^ b.symbols)
    return any(_tells_more(name, a, b) and _can_be(name, a, b) for name in names)


def _of(once: Collection[str], names: Collection[str]) -> list[str]:
    """Those of the names that annotations write in a single shape; a field has its class before it."""
    return sorted(name for name in names if name.rpartition(".")[2] in once)


def _tells_more(name: str, a: Size, b: Size) -> bool:
    """Whether more than a name tells two sizes apart. Where another name in its place makes them equal, as ``L-1`` and
    ``M-1``, the program takes both for the same, and the annotations say that they are not."""
    here = a
    there = b
    if name in b.symbols:
        here = b
        there = a
    for other in there.symbols:
        renamed = here.substitute({name: Size.symbol(other)})
        if renamed == there:
            return False
    return True


def _can_be(name: str, a: Size, b: Size) -> bool:
    """Whether sizes above one make two sizes equal, of which one has the name."""
    difference = a - b
    if len(difference.symbols) > _MOST_NAMES:
        return True
    factor, rest = _collected(difference, name)
    if name in factor.symbols | rest.symbols:
        return [0] in _values([difference], name)
    for divisor, dividend in _values([factor, rest]):
        if divisor == 0 or dividend % divisor != 0:
            continue
        if -dividend // divisor > 1:
            return True
    return False


def _collected(size: Size, name: str) -> tuple[Size, Size]:
    """What a name is multiplied with in a size, and the other terms: ``B*L+L-M`` as ``B+1`` and ``-M`` for ``L``."""
    atom = Atom(name)
    factor: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in size.terms:
        if atom in monomial:
            factor[_less(monomial, Counter([atom]))] = coefficient
        else:
            rest[monomial] = coefficient
    return Size(factor), Size(rest)


def _is_numbered(a: Size, b: Size, numbers: Collection[int]) -> bool:
    """Whether one of two sizes is a number, and one that the other may be."""
    size = a
    number = b.constant
    if number is None:
        size = b
        number = a.constant
    if number is None or not size.symbols:
        return False
    if size.symbol_name is not None and number in numbers:
        return False
    return _reaches(size, number)


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
    common = Counter(terms[0][0])
    divisor = 0
    for monomial, coefficient in terms:
        common &= Counter(monomial)
        divisor = math.gcd(divisor, coefficient)
    return _divided(a, common, divisor), _divided(b, common, divisor)


def _divided(size: Size, factors: Counter[Atom], divisor: int) -> Size:
    terms = {}
    for monomial, coefficient in size.terms:
        remaining = _less(monomial, factors)
        terms[remaining] = coefficient // divisor
    return Size(terms)


def _less(monomial: Monomial, factors: Counter[Atom]) -> Monomial:
    return tuple(sorted((Counter(monomial) - factors).elements()))


def _is_product(size: Size) -> bool:
    if len(size.terms) != 1:
        return False
    monomial, _ = size.terms[0]
    return not any(atom.op for atom in monomial)


def _reaches(size: Size, number: int) -> bool:
    """Whether a size is a number for some sizes above one of its names."""
    if _is_product(size):
        monomial, coefficient = size.terms[0]
        powers = Counter(monomial).values()
        if all(power == 1 for power in powers):
            if number <= 0 or number % coefficient:
                return False
            # as many divisors above one as there are names
            return _prime_factors(number // coefficient) >= len(powers)
    return len(size.symbols) > _MOST_NAMES or [0] in _values([size - number])


def _values(sizes: Sequence[Size], wide: str = "") -> Iterator[list[int]]:
    """What sizes are for values above one of their names: small ones, and some made of the numbers in them; many of one
    name that is given, and few of the others."""
    names = sorted(set().union(*(size.symbols for size in sizes)))
    made = _multiples_of_numbers(sizes)
    values = [*range(2, _SMALL[len(names)]), *made]
    choices = [values for _ in names]
    if wide:
        few = values[: _FEW[len(names)]]
        choices = [few for _ in names]
        choices[names.index(wide)] = [*range(2, _WIDE), *made]
    for choice in itertools.product(*choices):
        assignment = dict(zip(names, choice, strict=True))
        with contextlib.suppress(ZeroDivisionError):
            yield [size.evaluate(assignment) for size in sizes]


def _multiples_of_numbers(sizes: Sequence[Size]) -> list[int]:
    """Some multiples of the numbers in sizes."""
    numbers: set[int] = set()
    for size in sizes:
        numbers |= _numbers(size)
        for operation in size.operations():
            for part in operation.args:
                numbers |= _numbers(part)
    numbers.discard(1)
    made = []
    for number in sorted(numbers):
        made.append(number)
        made.append(2 * number)
    return made


def _numbers(size: Size) -> set[int]:
    return {abs(factor) for _, factor in size.terms}


def _prime_factors(number: int) -> int:
    """How many prime factors a number has, those that occur twice twice."""
    count = 0
    divisor = 2
    while divisor * divisor <= number:
        if number % divisor:
            divisor += 1
        else:
            number //= divisor
            count += 1
    if number > 1:
        count += 1
    return count
