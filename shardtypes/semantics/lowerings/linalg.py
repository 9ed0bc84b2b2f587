"""``jax.numpy.linalg`` and ``jax.scipy.linalg``."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.comparison import common_shape, require_equal
from shardtypes.semantics.lazy import np
from shardtypes.semantics.lowerings.contractions import matmul
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    DType,
    asarray,
    axes_of,
    axis_of,
    cast,
    inexact,
    int_of,
    like,
    not_read,
    of_shape,
    promoted,
    real,
    sizes_of,
    strong,
    weak_as,
)
from shardtypes.semantics.lowerings.creation import (
    eye,
    ones,
    tril,
    triu,
    zeros,
)
from shardtypes.semantics.lowerings.elementwise import truth, where
from shardtypes.semantics.lowerings.indexing import indexed, take
from shardtypes.semantics.lowerings.joining import concatenate
from shardtypes.semantics.lowerings.operators import conjugate, divide
from shardtypes.semantics.lowerings.reductions import any_, max_, min_, sum_
from shardtypes.semantics.lowerings.shapes import (
    broadcast_to,
    expand_dims,
    moveaxis,
    ravel,
    reshape,
    squeeze,
    swapaxes,
)
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives import linalg as p
from shardtypes.semantics.registry import Refused, Unsupported, lowering
from shardtypes.semantics.sizes import greatest, is_number, known

_LINALG, _SCIPY = "jax.numpy.linalg", "jax.scipy.linalg"


def _matrix(a: ArrayLike) -> Array:
    (array,) = inexact(asarray(a))
    if array.rank < 2:
        raise Refused("needs at least 2 dimensions", "ranks")
    return array


def _square(a: ArrayLike) -> Array:
    array = _matrix(a)
    rows, columns = array.dims[-2:]
    require_equal(rows, columns, "needs square matrices")
    return array


def _of_matrix(found: Array, a: ArrayLike) -> Array:
    """A determinant. Whether that of a weak matrix is depends on its size, so that its dtype is left open."""
    if asarray(a).weak:
        return replace(found, dtype=None)
    return found


def _symmetric(a: ArrayLike) -> Array:
    """What is made symmetric first: a single row or column is repeated for that."""
    array = _matrix(a)
    rows, columns = array.dims[-2:]
    if (rows == 1) != (columns == 1):
        raise Unsupported("a single row or column made symmetric")
    return _square(array)


def _adjoint(array: Array) -> Array:
    return conjugate(swapaxes(array, -1, -2))


# --- norms ----------------------------------------------------------------------------------------------------------


def _entries_norm(
    array: Array, ord: Any, axes: tuple[int, ...], keepdims: bool
) -> Array:
    size = e.abs_(array)
    if ord in (None, 2):
        return e.sqrt(sum_(e.square(size), axes, keepdims=keepdims))
    if ord == math.inf:
        return max_(size, axes, keepdims=keepdims)
    if ord == -math.inf:
        return min_(size, axes, keepdims=keepdims)
    if ord == 0:
        return sum_(cast(truth(size), size.dtype), axes, keepdims=keepdims)
    if ord == 1:
        return sum_(size, axes, keepdims=keepdims)
    total = sum_(e.pow_(size, like(float(ord), size)), axes, keepdims=keepdims)
    return e.pow_(total, like(1.0 / float(ord), total))


def _matrix_norm(
    array: Array, ord: Any, axes: tuple[int, ...], keepdims: bool
) -> Array:
    if ord in (None, "fro"):
        return _entries_norm(array, None, axes, keepdims)
    found = _of_matrices(moveaxis(array, axes, (-2, -1)), ord)
    if keepdims:
        return expand_dims(found, axes)
    return found


def _of_matrices(matrices: Array, ord: Any) -> Array:
    if ord in ("nuc", 2, -2):
        values = strong(svdvals(matrices))
        if ord == "nuc":
            return sum_(values, axis=-1)
        return values[..., 0 if ord == 2 else -1]
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueError(f"Invalid order '{ord}' for matrix norm.")
    sums = sum_(e.abs_(matrices), axis=-2 if abs(ord) == 1 else -1)
    if ord > 0:
        return max_(sums, axis=-1)
    return min_(sums, axis=-1)


@lowering(f"{_LINALG}.norm")
def norm(
    x: ArrayLike, ord: Any = None, axis: Any = None, keepdims: bool = False
) -> Array:
    (array,) = inexact(asarray(x))
    if axis is None and ord is None:
        return _entries_norm(array, None, axes_of(None, array.rank), keepdims)
    if axis is None:
        given = tuple(range(array.rank))
    else:
        given = axis
    axes = tuple(
        axis_of(one, array.rank)
        for one in (given if isinstance(given, (tuple, list)) else (given,))
    )
    if len(axes) == 1:
        return _entries_norm(array, ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(array, ord, axes, keepdims)
    raise ValueError("a norm is of one dimension or of two")


@lowering(f"{_LINALG}.vector_norm")
def vector_norm(
    x: ArrayLike, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2
) -> Array:
    (array,) = inexact(asarray(x))
    return _entries_norm(array, ord, axes_of(axis, array.rank), keepdims)


@lowering(f"{_LINALG}.matrix_norm")
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    return norm(x, ord, (-2, -1), keepdims)


@lowering(f"{_LINALG}.cond")
def cond(x: ArrayLike, p: Any = None) -> Array:
    array = _matrix(x)
    if p in (None, 2, -2):
        values = svdvals(array)
        ratio = divide(values[..., 0], values[..., -1])
        if p == -2:
            return divide(1.0, ratio)
        return ratio
    matrices = (-2, -1)
    size = norm(array, p, matrices)
    return size * norm(inv(array), p, matrices)


# --- products -------------------------------------------------------------------------------------------------------


@lowering(f"{_LINALG}.multi_dot")
def multi_dot(arrays: Any, *, precision: Any = None) -> Array:
    found, *rest = promoted(*[asarray(one) for one in arrays])
    for one in rest:
        require_equal(found.dims[-1], one.dims[0], "neighbours do not fit")
        found = matmul(found, one)
    return found


@lowering(f"{_LINALG}.matrix_power")
def matrix_power(a: ArrayLike, n: int) -> Array:
    array = asarray(a)
    _square(array)
    if n < 0:
        base = inv(array)
    else:
        base = array
    if n == 0:
        return broadcast_to(
            eye(sizes_of(array)[-1], dtype=DType(array.dtype)), array.dims
        )
    found: Array | None = None
    for bit in bin(abs(int(n)))[2:]:
        if found is None:
            found = base
        else:
            found = matmul(found, found)
        if bit == "1" and found is not base:
            found = matmul(found, base)
    assert found is not None
    return found


@lowering(f"{_LINALG}.matrix_transpose")
def matrix_transpose(x: ArrayLike, /) -> Array:
    return swapaxes(x, -1, -2)


def _require_ranks(*operands: tuple[ArrayLike, int]) -> None:
    for given, least in operands:
        array = asarray(given)
        if array.shape is None:
            continue
        if array.rank < least:
            raise Refused("needs a matrix and a vector at least")


@lowering("jax.numpy.matvec")
def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    _require_ranks((x1, 2), (x2, 1))
    return squeeze(matmul(x1, expand_dims(x2, -1)), -1)


@lowering("jax.numpy.vecmat")
def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    _require_ranks((x1, 1), (x2, 2))
    return squeeze(matmul(expand_dims(conjugate(asarray(x1)), -2), x2), -2)


# --- inverses and solutions -----------------------------------------------------------------------------------------


@lowering(f"{_LINALG}.inv", f"{_SCIPY}.inv")
def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    return p.inverse(strong(_square(a)))


@lowering(f"{_LINALG}.solve")
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    matrix, right = inexact(_square(a), asarray(b))
    if not right.rank:
        raise Refused("the right side is a scalar")
    if matrix.rank > 2 and right.rank != matrix.rank:
        raise Unsupported("a batch that depends on the release of JAX")
    vector = right.rank == 1
    if vector:
        right = expand_dims(right, -1)
    batch = common_shape([matrix.dims[:-2], right.dims[:-2]])
    matrix = broadcast_to(matrix, (*batch, *matrix.dims[-2:]))
    found = p.solve(matrix, broadcast_to(right, (*batch, *right.dims[-2:])))
    if vector:
        return squeeze(found, -1)
    return found


@lowering(f"{_SCIPY}.solve")
def scipy_solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    if assume_a == "pos":
        return cho_solve((scipy_cholesky(a, lower), lower), b)
    if assume_a not in ("gen", "sym", "her"):
        raise Unsupported(f"a solution that assumes {assume_a}")
    return solve(a, b)


@lowering(f"{_SCIPY}.solve_triangular", unread="overwrite_b debug check_finite")
def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    matrix = _matrix(a)
    if lower:
        kept = tril(matrix)
    else:
        kept = triu(matrix)
    if unit_diagonal:
        one = eye(sizes_of(matrix)[-1], dtype=bool)
        kept = weak_as(where(one, like(1, matrix), kept), matrix)
    if trans in (1, "T", 2, "C"):
        kept = swapaxes(kept, -1, -2)
    found = solve(conjugate(kept) if trans in (2, "C") else kept, b)
    return weak_as(found, *inexact(matrix, asarray(b)))


@lowering(f"{_SCIPY}.cho_factor")
def cho_factor(
    a: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> tuple[Array, bool]:
    return scipy_cholesky(a, lower), lower


@lowering(f"{_SCIPY}.cho_solve")
def cho_solve(
    c_and_lower: Any, b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True
) -> Array:
    factor, lower = c_and_lower
    if lower:
        first = 0
        second = 2
    else:
        first = 2
        second = 0
    inner = solve_triangular(factor, b, first, lower)
    return solve_triangular(factor, inner, second, lower)


@lowering(f"{_LINALG}.tensorsolve")
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Any = None) -> Array:
    matrix = asarray(a)
    right = asarray(b)
    if axes is not None:
        raise Unsupported("tensorsolve with axes")
    rest = sizes_of(matrix)[right.rank :]
    size = math.prod(rest)
    require_equal(
        math.prod(sizes_of(matrix)[: right.rank]), size, "not as many rows as columns"
    )
    return reshape(solve(reshape(matrix, (-1, size)), ravel(right)), rest)


@lowering(f"{_LINALG}.tensorinv")
def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    array = asarray(a)
    first = sizes_of(array)[:ind]
    second = sizes_of(array)[ind:]
    require_equal(math.prod(first), math.prod(second), "not as many rows as columns")
    matrix = reshape(array, (math.prod(first), -1))
    return reshape(inv(matrix), (*second, *first))


@lowering(f"{_LINALG}.pinv")
def pinv(
    a: ArrayLike, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None
) -> Array:
    array = _matrix(a)
    left, values, right = p.svd(array, full_matrices=False)
    largest = real(greatest(*sizes_of(array)[-2:]))
    given = rcond if rtol is None else rtol
    if given is None:
        bound = 10.0 * largest * float(np.finfo(np.float32).eps)
    else:
        bound = given
    small = e.le(values, values[..., :1] * bound)
    inverse = where(small, 0.0, divide(1.0, where(small, 1.0, values)))
    return matmul(
        _adjoint(right) * expand_dims(cast(asarray(inverse), array.dtype), -2),
        _adjoint(left),
    )


@lowering(f"{_LINALG}.lstsq")
def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: Any = None, *, numpy_resid: bool = False
) -> tuple[Array, ...]:
    matrix, right = inexact(asarray(a), asarray(b))
    if numpy_resid or rcond is not None:
        raise Unsupported("lstsq with rcond or NumPy's residuals")
    if matrix.rank != 2 or right.rank not in (1, 2):
        raise Refused("needs a matrix and a vector or matrix")
    if right.rank == 2:
        columns = right
    else:
        columns = expand_dims(right, -1)
    values = svdvals(matrix)
    found = matmul(pinv(matrix), columns)
    missing = matmul(matrix, found) - columns
    residuals = sum_(e.square(e.abs_(missing)), axis=0)
    return (
        found if right.rank == 2 else squeeze(found, -1),
        residuals,
        matrix_rank(matrix),
        values,
    )


@lowering(f"{_LINALG}.matrix_rank")
def matrix_rank(
    M: ArrayLike, rtol: Any = None, *, hermitian: bool = False, tol: Any = None
) -> Array:
    if asarray(M).rank < 2:
        return cast(any_(truth(M)), "int32")
    array = _matrix(M)
    values = svdvals(array)
    given = tol if rtol is None else rtol
    if given is None:
        largest = greatest(*sizes_of(array)[-2:])
        bound = real(largest) * float(np.finfo(np.float32).eps)
    else:
        bound = given
    return sum_(e.gt(values, values[..., :1] * bound), axis=-1)


@lowering("jax.numpy.polyfit")
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: Any = None,
    full: bool = False,
    w: Any = None,
    cov: Any = False,
) -> Array:
    from shardtypes.semantics.lowerings.calculus import vander

    if full or cov or rcond is not None:
        raise Unsupported("polyfit with its residuals or covariance")
    given = asarray(x)
    if given.rank != 1:
        raise Refused("x is no vector", "ranks")
    if dtypes.is_kind(given.dtype, "floating", "complex") is False:
        raise Refused(f"x is in floats, got {given.dtype}", "dtypes")
    places, heights = inexact(strong(given), asarray(y))
    if heights.rank not in (1, 2):
        raise Refused("y is no vector or matrix", "ranks")
    require_equal(places.dims[0], heights.dims[0], "lengths of x and y differ")
    if places.dims[0] == 0:
        raise Refused("no points to fit", "sizes")
    if int(deg) < 0:
        raise Refused(f"the degree is {deg}", "sizes")
    powers = vander(places, int(deg) + 1)
    if w is not None:
        weights = asarray(w)
        if weights.rank != 1:
            raise Refused("weights are no vector", "ranks")
        require_equal(weights.dims[0], places.dims[0], "lengths of x and w differ")
        powers = powers * expand_dims(weights, -1)
        heights = heights * (weights if heights.rank == 1 else expand_dims(weights, -1))
    scale = e.sqrt(sum_(powers * powers, axis=0))
    if heights.rank == 2:
        columns = heights
    else:
        columns = expand_dims(heights, -1)
    found = matmul(
        pinv(powers / scale, float(np.finfo(np.float32).eps)), columns
    ) / expand_dims(scale, -1)
    if heights.rank == 2:
        return found
    return squeeze(found, -1)


@lowering("jax.numpy.roots")
def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    (array,) = inexact(asarray(p))
    if strip_zeros:
        raise Unsupported("roots whose number depends on zeros")
    return eigvals(companion(array))


@lowering("jax.numpy.poly")
def poly(seq_of_zeros: ArrayLike) -> Array:
    (array,) = inexact(asarray(seq_of_zeros))
    if array.rank != 1:
        raise Unsupported("the characteristic polynomial of a matrix")
    found = ones((1,), DType(array.dtype))
    zero = zeros((1,), DType(array.dtype))
    for k in range(known(sizes_of(array)[0])):
        found = concatenate([found, zero]) - array[k] * concatenate([zero, found])
    return found


# --- determinants and factorisations --------------------------------------------------------------------------------


@lowering(f"{_LINALG}.det", f"{_SCIPY}.det")
def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    return _of_matrix(p.determinant(_square(a)), a)


@lowering(f"{_LINALG}.slogdet")
def slogdet(a: ArrayLike, *, method: Any = None) -> tuple[Array, ...]:
    return tuple(_of_matrix(found, a) for found in p.slogdet(_square(a)))


@lowering(f"{_LINALG}.cholesky")
def cholesky(
    a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True
) -> Array:
    array = _symmetric(a)
    factor = p.cholesky(
        _adjoint(array) if upper else array, symmetrize=bool(symmetrize_input)
    )
    if upper:
        return _adjoint(factor)
    return factor


@lowering(f"{_SCIPY}.cholesky")
def scipy_cholesky(
    a: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> Array:
    return cholesky(a, upper=not lower, symmetrize_input=False)


@lowering(f"{_LINALG}.qr")
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    if mode not in ("reduced", "complete", "r", "full"):
        raise Unsupported(f"qr in mode {mode}")
    found = p.qr(
        _matrix(a), mode="reduced" if mode == "r" else mode.replace("full", "complete")
    )
    if mode == "r":
        return found[1]
    return found


@lowering(f"{_SCIPY}.qr", unread="check_finite")
def scipy_qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
) -> Any:
    if pivoting:
        raise Unsupported("qr with pivoting")
    found = qr(
        a, {"economic": "reduced", "full": "complete", "r": "complete"}.get(mode, mode)
    )
    if mode == "r":
        return (found[1],)
    return found


@lowering(f"{_LINALG}.svd")
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: Any = None,
) -> Any:
    not_read(subset_by_index=subset_by_index)
    found = p.svd(_matrix(a), full_matrices=bool(full_matrices and compute_uv))
    if compute_uv:
        return found
    return found[1]


@lowering(f"{_SCIPY}.svd", unread="overwrite_a check_finite lapack_driver")
def scipy_svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    return svd(a, full_matrices, compute_uv)


@lowering(f"{_LINALG}.svdvals")
def svdvals(x: ArrayLike, /) -> Array:
    return p.svd(_matrix(x), full_matrices=False)[1]


@lowering(f"{_LINALG}.eigh")
def eigh(
    a: ArrayLike, UPLO: Any = None, symmetrize_input: bool = True
) -> tuple[Array, ...]:
    if not symmetrize_input:
        raise Unsupported("eigh that reads one half")
    return p.eigh(_symmetric(a))


@lowering(f"{_LINALG}.eigvalsh")
def eigvalsh(a: ArrayLike, UPLO: Any = "L", *, symmetrize_input: bool = True) -> Array:
    return eigh(a, UPLO, symmetrize_input)[0]


@lowering(f"{_SCIPY}.eigh")
def scipy_eigh(
    a: ArrayLike,
    b: Any = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: Any = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    not_read(b=b, eigvals=eigvals)
    found = p.eigh(_symmetric(a))
    if eigvals_only:
        return found[0]
    return found


@lowering(f"{_LINALG}.eig")
def eig(a: ArrayLike) -> tuple[Array, ...]:
    return p.eig(_square(a))


@lowering(f"{_LINALG}.eigvals")
def eigvals(a: ArrayLike) -> Array:
    return p.eig(_square(a))[0]


@lowering(f"{_SCIPY}.lu_factor")
def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, ...]:
    return p.lu(_matrix(a))


@lowering(f"{_SCIPY}.lu_solve")
def lu_solve(
    lu_and_piv: Any,
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    factors, pivots = lu_and_piv
    if trans != 0 or factors.rank != 2 or pivots.rank != 1:
        raise Unsupported("lu_solve of a transpose or of several matrices")
    if asarray(b).rank > 2:
        raise Unsupported("lu_solve of several right sides")
    right = take(asarray(b), _order(pivots), 0)
    return solve_triangular(factors, solve_triangular(factors, right, 0, True, True))


def _order(pivots: Array) -> Array:
    """The rows in the order that exchanges one after the other lead to."""
    rows = [asarray(k) for k in range(known(sizes_of(pivots)[0]))]
    order = concatenate([expand_dims(row, 0) for row in rows])
    for k in range(len(rows)):
        pivot = pivots[k]
        mine = order[k]
        other = indexed(order, (expand_dims(pivot, 0),))[0]
        places = np.arange(len(rows))
        order = where(e.eq(asarray(places), pivot), mine, order)
        order = where(places == k, other, order)
    return order


@lowering(f"{_SCIPY}.polar", unread="method eps max_iterations")
def polar(a: ArrayLike, side: str = "right") -> tuple[Array, Array]:
    left, values, right = p.svd(strong(_matrix(a)), full_matrices=False)
    unitary = matmul(left, right)
    if side == "right":
        return unitary, matmul(_adjoint(right) * expand_dims(values, -2), right)
    return unitary, matmul(left * expand_dims(values, -2), _adjoint(left))


@lowering(f"{_SCIPY}.expm")
def expm(
    A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16
) -> Array:
    """The series of a small fraction of the matrix, squared again and again."""
    array = _square(A)
    squarings = 10
    terms = 12
    small = array * 2.0**-squarings
    unit = broadcast_to(eye(sizes_of(array)[-1], dtype=DType(array.dtype)), array.dims)
    found = unit
    for k in range(terms, 0, -1):
        found = unit + matmul(small, found) / float(k)
    for _ in range(squarings):
        found = matmul(found, found)
    return found


# --- matrices of a form ---------------------------------------------------------------------------------------------


@lowering(f"{_SCIPY}.block_diag")
def block_diag(*arrs: ArrayLike) -> Array:
    from shardtypes.semantics.lowerings.padding import pad
    from shardtypes.semantics.lowerings.shapes import atleast_2d

    arrays = [strong(one) for one in promoted(*map(atleast_2d, arrs))]
    width = sum(sizes_of(array)[1] for array in arrays)
    rows = []
    start = 0
    for array in arrays:
        columns = sizes_of(array)[1]
        rows.append(pad(array, ((0, 0), (start, width - start - columns))))
        start += columns
    return concatenate(rows, 0)


@lowering(f"{_SCIPY}.toeplitz")
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    column = asarray(c)
    if r is None:
        row = conjugate(column)
    else:
        row = asarray(r)
    if column.rank != 1 or row.rank != 1:
        raise Unsupported("several Toeplitz matrices")
    column, row = promoted(column, row)
    height = sizes_of(column)[0]
    width = sizes_of(row)[0]
    if not (is_number(height) and is_number(width)):
        return of_shape(column, (height, width))
    entries = strong(concatenate([row[1:][::-1], column]))
    places = np.arange(height)[:, None] - np.arange(width)[None, :]
    return take(entries, places + width - 1)


@lowering(f"{_SCIPY}.hankel")
def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    column = asarray(c)
    if r is None:
        row = zeros(column.dims, DType(column.dtype))
    else:
        row = asarray(r)
    if column.rank != 1 or row.rank != 1:
        raise Unsupported("several Hankel matrices")
    column, row = promoted(column, row)
    height = sizes_of(column)[0]
    width = sizes_of(row)[0]
    if not (is_number(height) and is_number(width)):
        return of_shape(column, (height, width))
    entries = strong(concatenate([column, row[1:]]))
    places = np.arange(height)[:, None] + np.arange(width)[None, :]
    return take(entries, places)


@lowering(f"{_SCIPY}.circulant")
def circulant(c: ArrayLike) -> Array:
    column = asarray(c)
    size = sizes_of(column)[-1]
    if not is_number(size):
        return of_shape(column, (*column.dims, size))
    return take(
        column, (np.arange(size)[:, None] - np.arange(size)[None, :]) % size, -1
    )


@lowering(f"{_SCIPY}.companion")
def companion(a: ArrayLike) -> Array:
    (array,) = inexact(asarray(a))
    size = sizes_of(array)[-1] - 1
    row = -array[..., 1:] / array[..., :1]
    below = broadcast_to(
        eye(size - 1, size, dtype=DType(array.dtype)),
        (*array.dims[:-1], size - 1, size),
    )
    return concatenate([expand_dims(row, -2), below], -2)


@lowering(f"{_SCIPY}.hilbert")
def hilbert(n: int) -> Array:
    places = np.arange(1, int_of(n) + 1)
    return asarray(1.0 / (places[:, None] + places[None, :] - 1))


@lowering(f"{_SCIPY}.dft")
def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Array:
    not_read(dtype=dtype)
    size = int_of(n)
    places = np.arange(size)
    factor = {None: 1.0, "sqrtn": size**-0.5, "n": 1.0 / size}[scale]
    products = places[:, None] * places[None, :]
    angles = 2 * math.pi * products / size
    return asarray(np.exp(-1j * angles) * factor)
