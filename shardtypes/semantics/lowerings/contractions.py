"""Products of arrays: einsum, matmul and their relatives."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array, Varying
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    axis_of,
    cast,
    dtype_name,
    of_shape,
    promoted,
    sizes_of,
    strong,
    weak_as,
)
from shardtypes.semantics.lowerings.reductions import accumulated
from shardtypes.semantics.lowerings.shapes import moveaxis, ravel
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives.collectives import pvary
from shardtypes.semantics.primitives.contractions import dot_general
from shardtypes.semantics.primitives.reductions import reduce_sum
from shardtypes.semantics.primitives.structure import squeeze, transpose
from shardtypes.semantics.registry import Refused, Unsupported, lowering
from shardtypes.semantics.sizes import greatest, is_number, least

_JNP, _LAX = "jax.numpy", "jax.lax"


def _of_one_dtype(*arrays: Array) -> list[Array]:
    """Operands in the dtype that JAX promotes them to. If they are of several, they are cast to vary over the same mesh
    axes first, as in JAX: what gradients add up over the devices has the dtype that it had."""
    if len({array.dtype for array in arrays}) == 1:
        return promoted(*arrays)
    known = [array.varying for array in arrays if array.varying is not None]
    every = Varying().union(*known)
    cast = []
    for array in arrays:
        if array.varying is not None and array.varying != every:
            array = pvary(array, axes=tuple(sorted(every - array.varying)))
        cast.append(array)
    return promoted(*cast)


def added_up_in(dtype: Any, arrays: Sequence[Array]) -> list[Array]:
    """Operands in the dtype in which JAX adds up their products: the one that is asked for, where it holds more."""
    if dtype is None:
        return list(arrays)
    wide = dtype_name(dtype)
    return [cast(one, wide) if _holds_more(wide, one.dtype) else one for one in arrays]


def _holds_more(wide: str, dtype: str | None) -> bool:
    if dtype is None:
        return False
    found = dtypes.promote(wide, False, dtype, False)
    return found is not None and found[0] == wide


# --- einsum -------------------------------------------------------------------------------------------------------


def parsed(subscripts: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result; an ellipsis becomes letters of its own."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    inputs = left.split(",")
    spare = [letter for letter in string.ascii_letters if letter not in text]
    extra = [
        rank - len(one.replace("...", "")) if "..." in one else 0
        for one, rank in zip(inputs, ranks, strict=True)
    ]
    dots = "".join(spare[: max(extra, default=0)])
    written = [
        one.replace("...", dots[len(dots) - more :])
        for one, more in zip(inputs, extra, strict=True)
    ]
    if not arrow:
        letters = "".join(written)
        once = sorted(
            letter
            for letter in set(letters)
            if letters.count(letter) == 1 and letter not in dots
        )
        return written, dots + "".join(once)
    return written, right.replace("...", dots)


@lowering(f"{_JNP}.einsum")
def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
    **options: Any,
) -> Array:
    if not isinstance(subscripts, str):
        raise Unsupported("an einsum in the form of lists")
    arrays = _of_one_dtype(*[asarray(x) for x in operands])
    arrays = added_up_in(preferred_element_type, arrays)
    inputs, output = parsed(subscripts, [array.rank for array in arrays])
    return asarray(contracted(arrays, inputs, output), preferred_element_type)


def contracted(arrays: Sequence[Array], inputs: Sequence[str], output: str) -> Array:
    """An einsum, two operands at a time."""
    terms = [
        _diagonal(array, letters) for array, letters in zip(arrays, inputs, strict=True)
    ]
    while len(terms) > 1:
        (a, first), (b, second), *rest = terms
        kept = set(output).union(*(letters for _, letters in rest))
        terms = [_pair(a, first, b, second, kept), *rest]
    ((array, letters),) = terms
    gone = tuple(k for k, letter in enumerate(letters) if letter not in output)
    array = reduce_sum(array, axes=gone) if gone else array
    letters = "".join(letter for letter in letters if letter in output)
    order = tuple(letters.index(letter) for letter in output)
    if order == tuple(range(len(order))):
        return array
    return transpose(array, permutation=order)


def _diagonal(array: Array, letters: str) -> tuple[Array, str]:
    """The entries for which two dimensions of one letter are at the same place."""
    from shardtypes.semantics.primitives.structure import iota

    for letter in letters:
        if letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.rindex(letter)
            rows = iota(shape=array.dims, dimension=first, dtype="int32")
            columns = iota(shape=array.dims, dimension=second, dtype="int32")
            mask = e.convert_element_type(e.eq(rows, columns), new_dtype=array.dtype)
            array = reduce_sum(e.mul(array, mask), axes=(second,))
            return _diagonal(array, letters[:second] + letters[second + 1 :])
    return array, letters


def _pair(
    a: Array, first: str, b: Array, second: str, kept: set[str]
) -> tuple[Array, str]:
    a, first = _alone_summed(a, first, set(second) | kept)
    b, second = _alone_summed(b, second, set(first) | kept)
    a, first, b, second = _stretched(a, first, b, second)
    shared = [letter for letter in first if letter in second]
    batch = [letter for letter in shared if letter in kept]
    summed = [letter for letter in shared if letter not in kept]
    contracting = tuple(map(first.index, summed)), tuple(map(second.index, summed))
    batching = tuple(map(first.index, batch)), tuple(map(second.index, batch))
    numbers = contracting, batching
    letters = [
        *batch,
        *(x for x in first if x not in shared),
        *(x for x in second if x not in shared),
    ]
    return dot_general(a, b, dimension_numbers=numbers), "".join(letters)


def _alone_summed(array: Array, letters: str, others: set[str]) -> tuple[Array, str]:
    """Letters that nothing else has are summed first."""
    gone = tuple(k for k, letter in enumerate(letters) if letter not in others)
    if not gone:
        return array, letters
    return reduce_sum(array, axes=gone), "".join(
        letter for letter in letters if letter in others
    )


def _stretched(
    a: Array, first: str, b: Array, second: str
) -> tuple[Array, str, Array, str]:
    """A dimension of size 1 beside a larger one of the same letter is taken out: it broadcasts."""
    for letter in list(first):
        if letter not in second:
            continue
        i = first.index(letter)
        j = second.index(letter)
        if a.dims[i] == 1 and b.dims[j] != 1:
            a = squeeze(a, axes=(i,))
            first = first[:i] + first[i + 1 :]
        elif b.dims[j] == 1 and a.dims[i] != 1:
            b = squeeze(b, axes=(j,))
            second = second[:j] + second[j + 1 :]
    return a, first, b, second


# --- matmul and its relatives ---------------------------------------------------------------------------------------


@lowering(f"{_JNP}.matmul", f"{_JNP}.linalg.matmul")
def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    **options: Any,
) -> Array:
    x, y = added_up_in(preferred_element_type, _of_one_dtype(asarray(a), asarray(b)))
    batch = string.ascii_uppercase[: max(x.rank, y.rank, 2) - 2]
    rows = "i" if x.rank > 1 else ""
    columns = "j" if y.rank > 1 else ""
    left = batch[len(batch) - max(x.rank - 2, 0) :] + rows + "k"
    right = batch[len(batch) - max(y.rank - 2, 0) :] + "k" + columns
    product = contracted([x, y], [left, right], batch + rows + columns)
    return asarray(product, preferred_element_type)


@lowering(f"{_JNP}.dot")
def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    **options: Any,
) -> Array:
    x, y = added_up_in(preferred_element_type, _of_one_dtype(asarray(a), asarray(b)))
    if not x.rank or not y.rank:
        return asarray(e.mul(x, y), preferred_element_type)
    if y.rank > 1:
        summed = y.rank - 2
    else:
        summed = 0
    found = dot_general(x, y, dimension_numbers=(((x.rank - 1,), (summed,)), ((), ())))
    return asarray(found, preferred_element_type)


def _of_lax(lhs: ArrayLike, rhs: ArrayLike) -> tuple[Array, Array]:
    """The operands; of two dtypes, ``lax`` does not look which one gives way."""
    x, y = asarray(lhs), asarray(rhs)
    if x.dtype == y.dtype:
        return x, y
    return strong(x), strong(y)


@lowering(f"{_LAX}.dot")
def lax_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    precision: Any = None,
    preferred_element_type: Any = None,
    **options: Any,
) -> Array:
    x, y = _of_lax(lhs, rhs)
    product = dot(x, y, preferred_element_type=preferred_element_type)
    return weak_as(product, x) if x.weak and y.weak else product


@lowering(f"{_LAX}.dot_general")
def lax_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    **options: Any,
) -> Array:
    numbers = tuple(
        tuple(tuple(int(k) for k in side) for side in pair)
        for pair in dimension_numbers
    )
    arrays = _of_one_dtype(*_of_lax(lhs, rhs))
    x, y = added_up_in(preferred_element_type, arrays)
    product = dot_general(x, y, dimension_numbers=numbers)
    found = asarray(product, preferred_element_type)
    is_weak = all(one.weak for one in arrays)
    return weak_as(found, arrays[0]) if is_weak else found


@lowering(f"{_LAX}.batch_matmul")
def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None) -> Array:
    return matmul(*_of_lax(lhs, rhs))


@lowering(f"{_JNP}.inner")
def inner(
    a: ArrayLike, b: ArrayLike, *, preferred_element_type: Any = None, **options: Any
) -> Array:
    x, y = added_up_in(preferred_element_type, _of_one_dtype(asarray(a), asarray(b)))
    if not x.rank or not y.rank:
        return asarray(e.mul(x, y), preferred_element_type)
    numbers = (((x.rank - 1,), (y.rank - 1,)), ((), ()))
    product = dot_general(x, y, dimension_numbers=numbers)
    return asarray(product, preferred_element_type)


@lowering(f"{_JNP}.linalg.outer")
def linalg_outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    if asarray(x1).rank != 1 or asarray(x2).rank != 1:
        raise Refused("needs vectors", "ranks")
    return outer(x1, x2)


@lowering(f"{_JNP}.outer")
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    x, y = _of_one_dtype(ravel(a), ravel(b))
    return dot_general(x, y, dimension_numbers=(((), ()), ((), ())))


@lowering(f"{_JNP}.vdot")
def vdot(
    a: ArrayLike, b: ArrayLike, *, preferred_element_type: Any = None, **options: Any
) -> Array:
    x, y = added_up_in(preferred_element_type, _of_one_dtype(ravel(a), ravel(b)))
    product = dot_general(e.conj(x), y, dimension_numbers=(((0,), (0,)), ((), ())))
    return asarray(product, preferred_element_type)


@lowering(f"{_JNP}.vecdot", f"{_JNP}.linalg.vecdot")
def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    preferred_element_type: Any = None,
    **options: Any,
) -> Array:
    arrays = _of_one_dtype(moveaxis(x1, axis, -1), moveaxis(x2, axis, -1))
    x, y = added_up_in(preferred_element_type, arrays)
    product = e.mul(e.conj(x), y)
    found = reduce_sum(product, axes=(product.rank - 1,))
    return asarray(found, preferred_element_type)


@lowering(f"{_JNP}.tensordot", f"{_JNP}.linalg.tensordot")
def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: Any = 2,
    *,
    preferred_element_type: Any = None,
    **options: Any,
) -> Array:
    x, y = added_up_in(preferred_element_type, _of_one_dtype(asarray(a), asarray(b)))
    if isinstance(axes, int):
        left = tuple(range(x.rank - axes, x.rank))
        right = tuple(range(axes))
    else:
        first, second = (
            one if isinstance(one, (tuple, list)) else (one,) for one in axes
        )
        left = tuple(axis_of(k, x.rank) for k in first)
        right = tuple(axis_of(k, y.rank) for k in second)
    product = dot_general(x, y, dimension_numbers=((left, right), ((), ())))
    return asarray(product, preferred_element_type)


@lowering(f"{_JNP}.kron")
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    from shardtypes.semantics.primitives.structure import expand_dims, reshape

    x, y = _of_one_dtype(asarray(a), asarray(b))
    if x.dtype == "bool":
        raise Unsupported("a product of booleans, which depends on the release of JAX")
    rank = max(x.rank, y.rank)
    x = expand_dims(x, axes=tuple(range(rank - x.rank)))
    y = expand_dims(y, axes=tuple(range(rank - y.rank)))
    left = expand_dims(x, axes=tuple(range(1, 2 * rank, 2)))
    right = expand_dims(y, axes=tuple(range(0, 2 * rank, 2)))
    product = e.mul(left, right)
    sizes = [m * n for m, n in zip(sizes_of(x), sizes_of(y), strict=True)]
    return reshape(product, new_sizes=tuple(sizes))


@lowering(f"{_JNP}.linalg.trace")
def linalg_trace(x: ArrayLike, /, *, offset: int = 0, dtype: Any = None) -> Array:
    return trace(x, offset, -2, -1, dtype)


@lowering(f"{_JNP}.trace")
def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: Any = None,
    out: None = None,
) -> Array:
    found = asarray(diagonal(a, offset, axis1, axis2), dtype)
    if dtype is None:
        found = accumulated(found)
    return strong(reduce_sum(found, axes=(found.rank - 1,)))


@lowering(f"{_JNP}.linalg.diagonal")
def linalg_diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    return diagonal(x, offset, -2, -1)


@lowering(f"{_JNP}.diagonal")
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    from shardtypes.semantics.lazy import np
    from shardtypes.semantics.lowerings.indexing import indexed

    array = moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = sizes_of(array)[-2:]
    below = max(-offset, 0)
    right = max(offset, 0)
    length = greatest(0, least(rows - below, columns - right))
    if not is_number(length):
        return of_shape(array, (*array.dims[:-2], length))
    places = np.arange(length)
    return indexed(array, (..., places + below, places + right))
