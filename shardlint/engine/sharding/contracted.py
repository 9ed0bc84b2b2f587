"""Which dimensions of its operands a contraction sums over, by the arguments of each function that is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from shardlint.engine.sharding.site import Site
from shardlint.ops.registry import static_int
from shardlint.values import ArrayValue, IntValue, Literal, SequenceValue, Value
from shardtypes.lang import Size
from shardtypes.lang.frozen import frozen

Pair = tuple[int, int]


@frozen
class Operand:
    """One operand, and its rank as far as the equation tells it."""

    value: Value
    rank: int | None = None


Summed = tuple[Operand, int, Operand, int]
"""A dimension of one operand that is summed over together with one of another. It may be counted from the end."""


def contracted(site: Site) -> Iterator[Summed]:
    """The pairs of dimensions that a call sums over together; none of any other function."""
    if site.qualname == "jax.numpy.einsum":
        yield from _einsum(
            site.args[1:], site.args[0] if site.args else None, words=False
        )
    elif site.qualname == "einops.einsum":
        yield from _einsum(
            site.args[:-1], site.args[-1] if site.args else None, words=True
        )
    elif site.qualname in _PRODUCTS:
        names, pairs_of = _PRODUCTS[site.qualname]
        given = site.given(*names)
        a, b = given.get(names[0]), given.get(names[1])
        if (
            isinstance(a, ArrayValue)
            and isinstance(b, ArrayValue)
            and a.dims
            and b.dims
        ):
            for i, k in pairs_of(given, len(a.dims), len(b.dims)):
                if i in range(len(a.dims)) and k in range(len(b.dims)):
                    yield Operand(a), i, Operand(b), k


def _einsum(
    operands: Sequence[Value], equation: Value | None, words: bool
) -> Iterator[Summed]:
    """Names that several operands have, and the result has not. ``words``: einops' names, with spaces between them."""
    text = equation.value if isinstance(equation, Literal) else None
    if not isinstance(text, str):
        return
    inputs, arrow, output = text.partition("->")
    terms = [_names(term, words) for term in inputs.split(",")]
    if len(terms) != len(operands) or any(
        not name.isidentifier() for term in terms for name in term
    ):
        return
    every = [name for term in terms for name in term]
    kept = (
        _names(output, words)
        if arrow
        else [name for name in every if every.count(name) == 1]
    )
    named = [
        (Operand(value, len(term)), term)
        for value, term in zip(operands, terms, strict=True)
    ]
    for (a, mine), (b, its) in combinations(named, 2):
        for i, name in enumerate(mine):
            if name in its and name not in kept:
                yield a, i, b, its.index(name)


def _names(term: str, words: bool) -> list[str]:
    return term.split() if words else list(term.replace(" ", ""))


def _matmul(given: dict[str, Value], first: int, second: int) -> list[Pair]:
    return [(first - 1, max(second - 2, 0))]


def _last(given: dict[str, Value], first: int, second: int) -> list[Pair]:
    return [(first - 1, second - 1)]


def _ragged(given: dict[str, Value], first: int, second: int) -> list[Pair]:
    return [(1, 1)]


def _tensordot(given: dict[str, Value], first: int, second: int) -> list[Pair]:
    axes = given.get("axes", IntValue(Size.const(2)))
    count = static_int(axes)
    if count is not None:
        return [(first - count + n, n) for n in range(count)]
    if not isinstance(axes, SequenceValue) or len(axes.items) != 2:
        return []
    left, right = (_ints(side) for side in axes.items)
    return (
        [(i % first, k % second) for i, k in zip(left, right, strict=False)]
        if len(left) == len(right)
        else []
    )


def _by_numbers(given: dict[str, Value], first: int, second: int) -> list[Pair]:
    """``dimension_numbers``: ((contracted of the one, of the other), (batch of the one, of the other))."""
    numbers = given.get("dimension_numbers")
    if not isinstance(numbers, SequenceValue) or not numbers.items:
        return []
    summed = numbers.items[0]
    if not isinstance(summed, SequenceValue) or len(summed.items) != 2:
        return []
    left, right = (_ints(side) for side in summed.items)
    return list(zip(left, right, strict=True)) if len(left) == len(right) else []


def _dot(given: dict[str, Value], first: int, second: int) -> list[Pair]:
    return (
        _by_numbers(given, first, second)
        if "dimension_numbers" in given
        else _matmul(given, first, second)
    )


def _ints(value: Value) -> list[int]:
    """The numbers of a sequence, or one; empty where some are not known."""
    items = value.items if isinstance(value, SequenceValue) else (value,)
    known = [static_int(item) for item in items]
    return (
        [number for number in known if number is not None] if None not in known else []
    )


_Reading = Callable[[dict[str, Value], int, int], list[Pair]]
_PRODUCTS: dict[str, tuple[tuple[str, ...], _Reading]] = {
    "@": (("a", "b"), _matmul),
    "jax.numpy.matmul": (("a", "b"), _matmul),
    "jax.numpy.linalg.matmul": (("x1", "x2"), _matmul),
    "jax.numpy.dot": (("a", "b"), _matmul),
    "jax.numpy.vecmat": (("x1", "x2"), _matmul),
    "jax.numpy.matvec": (("x1", "x2"), _last),
    "jax.numpy.inner": (("a", "b"), _last),
    "jax.numpy.tensordot": (("a", "b", "axes"), _tensordot),
    "jax.numpy.linalg.tensordot": (("x1", "x2", "axes"), _tensordot),
    "jax.lax.dot": (("lhs", "rhs", "dimension_numbers"), _dot),
    "jax.lax.dot_general": (("lhs", "rhs", "dimension_numbers"), _by_numbers),
    "jax.lax.batch_matmul": (("lhs", "rhs"), _matmul),
    "jax.lax.ragged_dot": (("lhs", "rhs", "group_sizes"), _ragged),
}
#: The functions that may sum over dimensions of two operands together.
CONTRACTING = frozenset({"jax.numpy.einsum", "einops.einsum", *_PRODUCTS})
