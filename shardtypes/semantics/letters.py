"""Which dimension of which operand becomes which of a result, in letters as einsum has them.

A dimension is a tuple of *factors*, major to minor: a plain dimension has one, a dimension of size 1 none, and a
reshape that merges ``h`` and ``d`` gives a dimension ``('h', 'd')``. A letter that stands in an operand and in no
result
is reduced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from shardtypes.lang.frozen import frozen

Factors: TypeAlias = tuple[str, ...]
"""The letters of one dimension, major to minor."""


@frozen
class Letters:
    """The letters of the dimensions of each operand and of each result.

    ``whole`` are those that the operation needs whole: a sort, a cumulative sum, the rows of a factorisation. What
    devices compute from a part of such a dimension is no part of what one device computes. ``window`` are those that
    are read through a window or in another order (a slice, a convolution, a gather of other positions): what they
    become depends on the positions that are read. ``along`` are those needed whole, each with the letter of what a
    result has in their place: what devices make of their parts looks like parts of the result, and is not.
    """

    operands: tuple[tuple[Factors, ...], ...]
    results: tuple[tuple[Factors, ...], ...]
    whole: frozenset[str] = frozenset()
    window: frozenset[str] = frozenset()
    along: tuple[tuple[str, str], ...] = ()

    @property
    def reduced(self) -> frozenset[str]:
        """The letters that no result has."""
        return letters_in(self.operands) - letters_in(self.results)

    def where(self, letter: str, dims: Sequence[Factors]) -> tuple[int, int] | None:
        """The dimension that a letter is in, and its place among that dimension's factors."""
        for k, factors in enumerate(dims):
            if letter in factors:
                return k, factors.index(letter)
        return None


def in_place(letters: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """For ``along``: results have the same dimensions again."""
    return tuple((letter, letter) for letter in sorted(letters))


def letters_in(parts: Sequence[Sequence[Factors]]) -> frozenset[str]:
    """Every letter of some operands or results."""
    return frozenset(letter for dims in parts for factors in dims for letter in factors)


def fresh(prefix: str, rank: int) -> tuple[Factors, ...]:
    """``prefix0 prefix1 …``: a letter for each of ``rank`` dimensions."""
    return tuple((f"{prefix}{k}",) for k in range(rank))


def names() -> Iterator[str]:
    """Letters without end."""
    count = 0
    while True:
        yield f"l{count}"
        count += 1
