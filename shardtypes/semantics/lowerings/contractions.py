"""Products of arrays: einsum, matmul and their relatives."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.lang.frozen import frozen
from shardtypes.semantics.array import Array, Dim, Varying
from shardtypes.semantics.comparison import (
    are_names_known,
    common_shape,
    either,
    numpy_refuses,
    of_rank,
    require_equal,
)
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
from shardtypes.semantics.lowerings.operators import conjugate, multiply
from shardtypes.semantics.lowerings.reductions import accumulated
from shardtypes.semantics.lowerings.shapes import moveaxis, ravel
from shardtypes.semantics.mismatches import Contraction, Equation
from shardtypes.semantics.primitive import evaluating
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives.collectives import pvary
from shardtypes.semantics.primitives.contractions import dot_general
from shardtypes.semantics.primitives.reductions import reduce_or, reduce_sum
from shardtypes.semantics.primitives.structure import squeeze, transpose
from shardtypes.semantics.registry import Refused, Unsupported, lowering
from shardtypes.semantics.sizes import greatest, is_number, least

_JNP, _LAX = "jax.numpy", "jax.lax"


@frozen
class Parsed:
    """An equation and its operands: the letters of each and of the result, and those that stand for an ellipsis."""

    arrays: Sequence[Array]
    inputs: Sequence[str]
    output: str
    dots: str


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


def _holds_more(wide: str | None, dtype: str | None) -> bool:
    if wide is None or dtype is None:
        return False
    found = dtypes.promote(wide, False, dtype, False)
    return found is not None and found[0] == wide


# --- einsum -------------------------------------------------------------------------------------------------------


def parsed(subscripts: str, arrays: Sequence[Array]) -> Parsed:
    """The letters of each operand and of the result; an ellipsis becomes letters of its own."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    inputs = left.split(",")
    terms = [one.replace("...", ".") for one in inputs]
    if arrow:
        check_letters(subscripts, [*terms, right.replace("...", "")])
        check_equation(subscripts, inputs, right.replace("...", ""))
    else:
        check_letters(subscripts, terms)
    arrays = of_terms(subscripts, terms, arrays)
    ranks = [array.rank for array in arrays]
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
        return Parsed(arrays, written, dots + "".join(once), dots)
    if right.count("...") > 1:
        why = Refused(f"two ellipses in one term of '{subscripts}'", "equations")
        if dots:
            raise why
        numpy_refuses(why)
    return Parsed(arrays, written, right.replace("...", dots), dots)


def check_letters(text: str, terms: Sequence[str]) -> None:
    """Raises Refused for terms of anything but letters; an ellipsis is a point in them."""
    for term in terms:
        if term.count(".") > 1 and ".." not in term:
            raise Refused(f"two ellipses in one term of '{text}'", "equations")
        for letter in term.replace(".", "", 1):
            if not letter.isalnum():  # JAX takes digits for letters
                raise Refused(f"'{letter}' in '{text}' is not a letter", "equations")


def check_equation(
    text: str, inputs: Sequence[str | list[str]], output: str | list[str]
) -> None:
    """Raises Refused for names of the output that are in no input, or twice in it."""
    for name in output:
        if not any(name in term for term in inputs):
            why = f"'{name}' of the output is in no input of '{text}'"
            raise Refused(why, "equations")
        if output.count(name) > 1:
            why = f"'{name}' is twice in the output of '{text}'"
            raise Refused(why, "equations")


def of_terms(
    text: str, inputs: Sequence[str | list[str]], arrays: Sequence[Array]
) -> list[Array]:
    """The operands of the ranks of their terms, where these are not known. Raises Refused where they are of others; an
    ellipsis is a point in a term."""
    if len(inputs) != len(arrays):
        count = f"{len(inputs)} operands, but {len(arrays)} are given"
        raise Refused(f"'{text}' has {count}", "equations")
    found = []
    for i, (term, array) in enumerate(zip(inputs, arrays, strict=True)):
        is_open = "." in term
        if not is_open:
            array = of_rank(array, len(term))
        extra = array.rank - len(term) + is_open
        if extra < 0 or (extra and not is_open):
            written = _shown_term(term)
            why = f"'{written}' of '{text}' does not fit operand {i}"
            raise Refused(why, "equations", i)
        found.append(array)
    return found


def _shown_term(term: str | list[str]) -> str:
    between = "" if isinstance(term, str) else " "
    return between.join("..." if name == "." else name for name in term)


def _letter_sizes(
    text: str, equation: Parsed, terms: Sequence[Sequence[str]]
) -> dict[str, Dim]:
    """The size of each letter: one of 1 is stretched. Raises where one has several sizes. ``terms`` are the operands'
    as they are written."""
    shapes = tuple(array.dims for array in equation.arrays)
    sizes: dict[str, Dim] = {}
    seen: dict[str, int] = {}
    ellipses = []
    for i, (letters, shape) in enumerate(zip(equation.inputs, shapes, strict=True)):
        pairs = list(zip(letters, shape, strict=True))
        ellipses.append(tuple(size for one, size in pairs if one in equation.dots))
        for letter, size in pairs:
            if letter in equation.dots:
                continue
            before = sizes.get(letter)
            is_stretched = 1 in (before, size) and before != size
            if seen.get(letter) == i and is_stretched:
                raise Unsupported("a diagonal of a row: releases of JAX differ")
            if letter not in seen or before == 1:
                sizes[letter] = size
                seen[letter] = i
            elif size != 1:
                name = _as_written(letter, i, equation, terms)
                why = Equation(text, name, tuple(terms), shapes, seen[letter], i)
                require_equal(before, size, why)
                sizes[letter] = either(before, size)
    batch = common_shape(
        ellipses, Refused("dimensions of '...' do not broadcast", "equations")
    )
    first = len(equation.dots) - len(batch)
    sizes.update(zip(equation.dots[first:], batch, strict=True))
    return sizes


def _as_written(
    letter: str, i: int, equation: Parsed, terms: Sequence[Sequence[str]]
) -> str:
    """How the equation calls a letter that operand ``i`` has."""
    letters = equation.inputs[i]
    term = list(terms[i])
    place = letters.index(letter)
    if "..." not in term or term.index("...") > place:
        return term[place]
    after = len(letters) - place
    return term[-after]


@lowering(f"{_JNP}.einsum", unread="out_sharding")
def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    if not isinstance(subscripts, str):
        raise Unsupported("an einsum in the form of lists")
    given = [asarray(x) for x in operands]
    arrays = added_up_in(preferred_element_type, _of_one_dtype(*given))
    equation = parsed(subscripts, arrays)
    terms = subscripts.replace(" ", "").partition("->")[0].split(",")
    product = summed(subscripts, equation, list(map(in_letters, terms)))
    found = asarray(product, preferred_element_type)
    kinds = {dtypes.KIND_OF.get(one.dtype or "") for one in given}
    if len(given) > 2 and len(kinds) > 1 and not evaluating():
        # in which dtype JAX adds up two of them depends on its order, and it may refuse that one
        return replace(found, dtype=None)
    return found


def in_letters(term: str) -> list[str]:
    """The letters of a term, an ellipsis among them."""
    letters = list(term.replace("...", "."))
    return ["..." if letter == "." else letter for letter in letters]


def summed(text: str, equation: Parsed, terms: Sequence[Sequence[str]]) -> Array:
    """What an equation gives of its operands. ``terms`` are theirs as they are written."""
    if not are_names_known():
        return contracted(equation.arrays, equation.inputs, equation.output)
    sizes = _letter_sizes(text, equation, terms)
    found = contracted(equation.arrays, equation.inputs, equation.output)
    return replace(found, shape=tuple(sizes[letter] for letter in equation.output))


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
    array = _added(array, gone) if gone else array
    letters = "".join(letter for letter in letters if letter in output)
    order = tuple(letters.index(letter) for letter in output)
    if order == tuple(range(len(order))):
        return array
    return transpose(array, permutation=order)


def _added(array: Array, axes: tuple[int, ...]) -> Array:
    """Sums along axes, in products of matrices: of booleans whether any is true."""
    if array.dtype == "bool":
        return reduce_or(array, axes=axes)
    return reduce_sum(array, axes=axes)


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
            array = _added(multiply(array, mask), (second,))
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
    contracting = _places(summed, first, second)
    batching = _places(batch, first, second)
    numbers = contracting, batching
    letters = [
        *batch,
        *(x for x in first if x not in shared),
        *(x for x in second if x not in shared),
    ]
    return dot_general(a, b, dimension_numbers=numbers), "".join(letters)


def _places(letters: Sequence[str], *terms: str) -> tuple[tuple[int, ...], ...]:
    """Where letters stand in each of the terms."""
    found = []
    for term in terms:
        places = [term.index(letter) for letter in letters]
        found.append(tuple(places))
    return tuple(found)


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


def _operands(a: ArrayLike, b: ArrayLike, dtype: Any) -> list[Array]:
    """Two operands in the dtype in which their products are added up."""
    arrays = _of_one_dtype(asarray(a), asarray(b))
    return added_up_in(dtype, arrays)


@lowering(f"{_JNP}.matmul", f"{_JNP}.linalg.matmul", unread="out_sharding")
def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    x, y = _operands(a, b, preferred_element_type)
    for i, operand in enumerate((x, y)):
        if operand.shape == ():
            text = f"operand {i} is a scalar; multiply with *"
            raise Refused(text, "operands", i)
    inner = max(y.rank - 2, 0)
    why = Contraction(x.dims, x.rank - 1, y.dims, inner)
    require_equal(x.dims[-1], y.dims[inner], why)
    sizes = common_shape(
        [x.dims[:-2], y.dims[:-2]], "batch dimensions do not broadcast"
    )
    batch = string.ascii_uppercase[: max(x.rank, y.rank, 2) - 2]
    rows = "i" if x.rank > 1 else ""
    columns = "j" if y.rank > 1 else ""
    of_left = _last(batch, x.rank - 2)
    of_right = _last(batch, y.rank - 2)
    left = of_left + rows + "k"
    right = of_right + "k" + columns
    product = contracted([x, y], [left, right], batch + rows + columns)
    if are_names_known():
        of_matrices = product.dims[len(sizes) :]
        product = replace(product, shape=(*sizes, *of_matrices))
    return asarray(product, preferred_element_type)


def _last(letters: str, count: int) -> str:
    """So many of the letters; none for a negative number."""
    if count < 1:
        return ""
    return letters[-count:]


@lowering(f"{_JNP}.dot", unread="out_sharding")
def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    x, y = _operands(a, b, preferred_element_type)
    if not x.rank or not y.rank:
        return asarray(multiply(x, y), preferred_element_type)
    if y.rank > 1:
        inner = y.rank - 2
    else:
        inner = 0
    found = _product(x, y, _one_pair(x.rank - 1, inner))
    return asarray(found, preferred_element_type)


def _one_pair(i: int, k: int) -> Any:
    """The numbers of a product that contracts one dimension of each operand."""
    contracted_ones = (i,), (k,)
    no_batch: tuple[tuple[int, ...], ...] = (), ()
    return contracted_ones, no_batch


def _product(x: Array, y: Array, numbers: Any) -> Array:
    """The product of two operands. Raises where dimensions that meet in it differ."""
    for left, right in numbers:
        for i, k in zip(left, right, strict=True):
            why = Contraction(x.dims, i, y.dims, k)
            require_equal(x.dims[i], y.dims[k], why)
    return dot_general(x, y, dimension_numbers=numbers)


@lowering(f"{_LAX}.dot", unread="out_sharding")
def lax_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    x = asarray(lhs)
    y = asarray(rhs)
    numbers = dimension_numbers
    if numbers is not None:
        return lax_dot_general(
            x, y, numbers, preferred_element_type=preferred_element_type
        )
    if x.rank not in (1, 2) or y.rank not in (1, 2):
        raise Refused("needs vectors or matrices", "ranks")
    numbers = _one_pair(x.rank - 1, 0)
    return lax_dot_general(x, y, numbers, preferred_element_type=preferred_element_type)


@lowering(f"{_LAX}.dot_general", unread="out_sharding")
def lax_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    numbers = tuple(
        tuple(tuple(int(k) for k in side) for side in pair)
        for pair in dimension_numbers
    )
    left = asarray(lhs)
    right = asarray(rhs)
    _check_numbers(numbers, left.rank, right.rank)
    x, y = added_up_in(preferred_element_type, [left, right])
    product = _product(x, y, numbers)
    found = asarray(product, preferred_element_type)
    if left.weak and right.weak:
        return weak_as(found, left)
    return found


def _check_numbers(numbers: Any, *ranks: int) -> None:
    """Raises for dimensions that the operands have not, or where those of one pair with nothing."""
    for pair in numbers:
        if len(pair[0]) != len(pair[1]):
            text = f"dimensions {pair[0]} and {pair[1]} are not of one number"
            raise Refused(text)
        for i, (axes, rank) in enumerate(zip(pair, ranks, strict=True)):
            for axis in axes:
                if not 0 <= axis < rank:
                    text = f"operand {i} has no dimension {axis}; none is counted from the end"
                    raise Refused(text, "ranks", i)


@lowering(f"{_LAX}.batch_matmul")
def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None) -> Array:
    x = asarray(lhs)
    y = asarray(rhs)
    if x.rank < 2 or x.rank != y.rank:
        raise Refused("needs ranks that are equal, and at least 2")
    batch = tuple(range(x.rank - 2))
    numbers = (((x.rank - 1,), (y.rank - 2,)), (batch, batch))
    return lax_dot_general(x, y, numbers)


@lowering(f"{_JNP}.inner", unread="precision")
def inner(a: ArrayLike, b: ArrayLike, *, preferred_element_type: Any = None) -> Array:
    x, y = _operands(a, b, preferred_element_type)
    if not x.rank or not y.rank:
        return asarray(multiply(x, y), preferred_element_type)
    numbers = _one_pair(x.rank - 1, y.rank - 1)
    product = _product(x, y, numbers)
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


@lowering(f"{_JNP}.vdot", unread="precision")
def vdot(a: ArrayLike, b: ArrayLike, *, preferred_element_type: Any = None) -> Array:
    x, y = _operands(ravel(a), ravel(b), preferred_element_type)
    product = _product(conjugate(x), y, _one_pair(0, 0))
    return asarray(product, preferred_element_type)


@lowering(f"{_JNP}.vecdot", f"{_JNP}.linalg.vecdot", unread="precision")
def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    preferred_element_type: Any = None,
) -> Array:
    left = moveaxis(x1, axis, -1)
    right = moveaxis(x2, axis, -1)
    arrays = _of_one_dtype(left, right)
    x, y = added_up_in(preferred_element_type, arrays)
    left_end = x.rank - 1
    right_end = y.rank - 1
    why = Contraction(x.dims, left_end, y.dims, right_end)
    require_equal(x.dims[-1], y.dims[-1], why)
    product = multiply(conjugate(x), y)
    found = _added(product, (product.rank - 1,))
    return asarray(found, preferred_element_type)


@lowering(
    f"{_JNP}.tensordot", f"{_JNP}.linalg.tensordot", unread="precision out_sharding"
)
def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: Any = 2,
    *,
    preferred_element_type: Any = None,
) -> Array:
    x, y = _operands(a, b, preferred_element_type)
    if isinstance(axes, int):
        if not 0 <= axes <= min(x.rank, y.rank):
            raise Refused(f"axes={axes} of fewer dimensions", "ranks")
        left = tuple(range(x.rank - axes, x.rank))
        right = tuple(range(axes))
    else:
        first, second = (
            one if isinstance(one, (tuple, list)) else (one,) for one in axes
        )
        left = tuple(axis_of(k, x.rank) for k in first)
        right = tuple(axis_of(k, y.rank) for k in second)
        if len(left) != len(right):
            raise Refused(f"{len(left)} axes against {len(right)}")
    product = _product(x, y, ((left, right), ((), ())))
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
    pairs = zip(sizes_of(x), sizes_of(y), strict=True)
    sizes = [m * n for m, n in pairs]
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
