"""Products that sum over shared dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array, Params
from shardtypes.semantics.comparison import require_equal
from shardtypes.semantics.lazy import np
from shardtypes.semantics.letters import Factors, Letters
from shardtypes.semantics.primitive import Primitive, declare
from shardtypes.semantics.primitives.structure import transpose
from shardtypes.semantics.values import Values

Numbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]
"""``((contracted of the left, of the right), (batch of the left, of the right))``."""


def _letters(operands: Sequence[Array], params: Params) -> Letters:
    (left_contracted, right_contracted), (left_batch, right_batch) = params[
        "dimension_numbers"
    ]
    left, right = operands
    a: list[Factors] = [
        () if size == 1 else (f"a{k}",) for k, size in enumerate(left.dims)
    ]
    b: list[Factors] = [
        () if size == 1 else (f"b{k}",) for k, size in enumerate(right.dims)
    ]
    for i, j in (
        *zip(left_contracted, right_contracted, strict=True),
        *zip(left_batch, right_batch, strict=True),
    ):
        if () in (a[i], b[j]):
            require_equal(left.dims[i], right.dims[j])
        b[j] = a[i]
    result = [a[i] for i in left_batch]
    result += [
        a[i] for i in range(left.rank) if i not in (*left_contracted, *left_batch)
    ]
    result += [
        b[j] for j in range(right.rank) if j not in (*right_contracted, *right_batch)
    ]
    return Letters((tuple(a), tuple(b)), (tuple(result),))


def _evaluate(x: Any, y: Any, *, dimension_numbers: Numbers) -> Any:
    """A product of matrices, which NumPy computes many times faster than an einsum."""
    (left_contracted, right_contracted), (left_batch, right_batch) = dimension_numbers
    left, right = np.asarray(x), np.asarray(y)
    left_free = _others(left.ndim, left_contracted, left_batch)
    right_free = _others(right.ndim, right_contracted, right_batch)
    batch = [left.shape[i] for i in left_batch]
    rows = [left.shape[i] for i in left_free]
    columns = [right.shape[j] for j in right_free]
    shared = math.prod(left.shape[i] for i in left_contracted)
    left = left.transpose([*left_batch, *left_free, *left_contracted])
    right = right.transpose([*right_batch, *right_contracted, *right_free])
    product = np.matmul(
        left.reshape([*batch, math.prod(rows), shared]),
        right.reshape([*batch, shared, math.prod(columns)]),
    )
    return product.reshape([*batch, *rows, *columns])


def _others(rank: int, *taken: Sequence[int]) -> list[int]:
    """The dimensions that are not among those."""
    every = {i for some in taken for i in some}
    return [i for i in range(rank) if i not in every]


def _stacked(x: Any, y: Any, *, dimension_numbers: Numbers) -> Any:
    contracted, batch = dimension_numbers
    shifted = (
        tuple([i + 1 for i in some] for some in contracted),
        tuple([0, *(i + 1 for i in some)] for some in batch),
    )
    return _evaluate(x, y, dimension_numbers=shifted)  # type: ignore[arg-type]  # of two each, as they were


def _pull(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    left, right = operands
    (left_contracted, right_contracted), (left_batch, right_batch) = params[
        "dimension_numbers"
    ]
    batch = len(left_batch)
    left_free = _others(left.rank, left_contracted, left_batch)
    right_free = _others(right.rank, right_contracted, right_batch)
    of_left = tuple(range(batch, batch + len(left_free)))
    of_right = tuple(range(batch + len(left_free), cotangent.rank))
    common = tuple(range(batch))
    to_left = dot_general(
        cotangent,
        right,
        dimension_numbers=((of_right, tuple(right_free)), (common, right_batch)),
    )
    to_right = dot_general(
        cotangent,
        left,
        dimension_numbers=((of_left, tuple(left_free)), (common, left_batch)),
    )
    # what the other operand has left over are its contracted dimensions, in its own order
    left_order = [
        left_contracted[right_contracted.index(j)] for j in sorted(right_contracted)
    ]
    right_order = [
        right_contracted[left_contracted.index(i)] for i in sorted(left_contracted)
    ]
    return [
        _placed(to_left, [*left_batch, *left_free, *left_order]),
        _placed(to_right, [*right_batch, *right_free, *right_order]),
    ]


def _placed(array: Array, dims: Sequence[int]) -> Array:
    """An array whose dimension ``k`` belongs at ``dims[k]``."""
    if list(dims) == list(range(len(dims))):
        return array
    order = tuple(sorted(range(len(dims)), key=lambda k: dims[k]))
    return transpose(array, permutation=order)


_LARGEST = {
    "float16": (16, 10),
    "bfloat16": (128, 7),
    "float32": (128, 23),
    "float64": (1024, 52),
    "complex64": (128, 23),
    "complex128": (1024, 52),
}
"""Exponents and digits of floats."""


def _width(name: str) -> tuple[Any, ...]:
    """What dtypes are ordered by: complex after real, then by the range of floats, by bits and by sign."""
    is_complex = name in dtypes.COMPLEX
    largest = _LARGEST.get(name, (-1, -1))
    bits = max(dtypes.bits(name), 1)
    is_signed = dtypes.KIND_OF[name] != "unsigned"
    return is_complex, *largest, bits, is_signed


def wider(operands: Sequence[Array], params: Params) -> Sequence[str | None]:
    """The dtype of a product is the wider one of the operands'."""
    first, second = (operand.dtype for operand in operands)
    if first == second:
        return [first]
    known = [name for name in (first, second) if name in dtypes.CONCRETE]
    if len(known) < 2 or any(name in dtypes.SMALL_FLOATS for name in known):
        return [None]
    return [max(known, key=_width)]


dot_general: Primitive = declare(
    "dot_general",
    letters=_letters,
    dtype=wider,
    values=Values(each=frozenset({0, 1}), monoid="sum"),
    evaluate=_evaluate,
    stacked=_stacked,
    pull=_pull,
)
