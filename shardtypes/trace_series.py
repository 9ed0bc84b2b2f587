"""The numbers with which ``trace`` tries a function: large and unlike each other, small where the program counts to
them, for each step of a Python loop is traced."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

PRIMES = (
    (11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53),
    (59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107),
)
_FACTORS = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)
# With many divisors, for needs that were not seen.
COMPOSITES = tuple(48 * n for n in _FACTORS)
# The same, each many times the one before: for programs that need one size to be far above another.
FAR_APART = tuple(number * 16**n for n, number in enumerate(COMPOSITES))
# Each divides all that follow. Two of them, for sizes that are powers of one number are equal to many products.
CHAINS = tuple(8 * 2**n for n in range(12)), tuple(24 * 3**n for n in range(12))

# Unlike those of the second primes, and fewer than the first.
_FEW_STEPS = (7, 5, 3, *PRIMES[0])
# Loops may stand inside of each other: how many times a factor one is, that is shorter and that is longer than others.
_TIMES_SHORT = {1: 48, 2: 12}
_TIMES_LONG = {1: 12, 2: 2}
_MOST_STEPS = 5_000


def numbers_for(
    series: Sequence[int],
    symbols: Sequence[str],
    looped: Sequence[str],
    backwards: bool = False,
) -> dict[str, int]:
    """A number of a series for each symbol; fewer for those over which the program loops."""
    others = [symbol for symbol in symbols if symbol not in looped]
    if not looped or series == PRIMES[0]:
        return _assigned(symbols, series, backwards)
    if series == PRIMES[1]:
        return _assigned(others, series, backwards) | _assigned(looped, _FEW_STEPS)
    short = _times(_FACTORS, _TIMES_SHORT.get(len(looped), 4))
    if series == FAR_APART and backwards:
        first = _assigned(others, _FACTORS[: len(others)], backwards)
        last = _times(_FACTORS[len(others) :], _TIMES_LONG.get(len(looped), 1))
        return first | _assigned(looped, last)
    if series in (COMPOSITES, FAR_APART):
        rest = _assigned(others, series[len(looped) :], backwards)
        return rest | _assigned(looped, short)
    last_first = [*reversed(others), *looped] if backwards else [*looped, *others]
    found = _assigned(last_first, series)
    if math.prod(found[symbol] for symbol in looped) <= _MOST_STEPS:
        return found
    return _assigned([*looped, *reversed(others)], series)


def _times(numbers: Sequence[int], times: int) -> tuple[int, ...]:
    return tuple(times * number for number in numbers)


def _assigned(
    symbols: Sequence[str], series: Sequence[int], backwards: bool = False
) -> dict[str, int]:
    endless = itertools.chain(series, itertools.count(series[-1] + 2, 2))
    values = list(itertools.islice(endless, len(symbols)))
    if backwards:
        values.reverse()
    return dict(zip(symbols, values, strict=True))
