"""Inverses, determinants and factorisations: of the last two dimensions, which are needed whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array, Dim, NoGradient, Params
from shardtypes.semantics.lazy import np
from shardtypes.semantics.letters import Factors, Letters, letters_in
from shardtypes.semantics.primitive import DtypeRule, declare, declare_several
from shardtypes.semantics.primitives.contractions import dot_general
from shardtypes.semantics.primitives.elementwise import (
    add,
    ge,
    mul,
    neg,
    number,
    select_n,
)
from shardtypes.semantics.primitives.structure import (
    broadcast_in_dim,
    expand_dims,
    iota,
    plain,
    transpose,
    zeros_like,
)
from shardtypes.semantics.sizes import least
from shardtypes.semantics.values import Values

Sizes = Callable[[Dim, Dim, Params], Sequence[tuple[Dim, ...]]]
"""The last dimensions of each result, from the rows and columns of the matrix and the parameters."""


def _matrix_letters(
    core: Sequence[int],
) -> Callable[[Sequence[Array], Params], Letters]:
    """The leading dimensions are kept; ``core`` tells how many more each result has."""

    def letters(operands: Sequence[Array], params: Params) -> Letters:
        own = plain("d", operands[0])
        batch, whole = own[:-2], own[-2:]
        results = [
            (*batch, *((f"r{k}{j}",) for j in range(count)))
            for k, count in enumerate(core)
        ]
        return Letters((own,), tuple(results), whole=letters_in([whole]))

    return letters


def _matrix_shape(sizes: Sizes) -> Callable[..., Sequence[tuple[Dim, ...]]]:
    def shape(
        operands: Sequence[Array], params: Params, letters: Letters | None
    ) -> Sequence[tuple[Dim, ...]]:
        *batch, rows, columns = operands[0].dims
        return [(*batch, *more) for more in sizes(rows, columns, params)]

    return shape


def _square(rows: Dim, columns: Dim, params: Params) -> Sequence[tuple[Dim, ...]]:
    return [(rows, columns)]


def _transposed(array: Array) -> Array:
    order = (*range(array.rank - 2), array.rank - 1, array.rank - 2)
    return transpose(array, permutation=order)


def _product(a: Array, b: Array) -> Array:
    """Of stacks of matrices, one beside the other."""
    batch = tuple(range(a.rank - 2))
    return dot_general(
        a, b, dimension_numbers=(((a.rank - 1,), (b.rank - 2,)), (batch, batch))
    )


def _no_complex(*arrays: Array) -> None:
    if any((array.dtype or "").startswith("complex") for array in arrays):
        raise NoGradient("a factorisation of complex matrices")


def _over_matrix(array: Array, like: Array) -> Array:
    """A number for each matrix, in the shape of the matrices."""
    return broadcast_in_dim(
        array, shape=like.dims, broadcast_dimensions=tuple(range(array.rank))
    )


def _or_nan(function: Callable[..., Any]) -> Callable[..., Any]:
    """NaN for matrices that NumPy refuses, where JAX gives NaN or infinities."""

    def evaluate(x: Any, *rest: Any, **params: Any) -> Any:
        try:
            return function(x, *rest, **params)
        except np.linalg.LinAlgError:
            regular = np.broadcast_to(np.eye(*x.shape[-2:]), x.shape).astype(x.dtype)
            made = function(regular, *rest, **params)
        if isinstance(made, tuple):
            return tuple(np.full_like(one, np.nan) for one in made)
        return np.full_like(made, np.nan)

    return evaluate


# --- inverse, solution, determinants ----------------------------------------------------------------------------------


def _pull_inverse(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    back = _transposed(results[0])
    return [neg(_product(_product(back, cotangent), back))]


inverse = declare(
    "inverse",
    letters=_matrix_letters([2]),
    shape=_matrix_shape(_square),
    values=Values(degrees=(-1,)),
    evaluate=_or_nan(lambda x: np.linalg.inv(x)),
    pull=_pull_inverse,
)


def _solve_letters(operands: Sequence[Array], params: Params) -> Letters:
    matrix, right = plain("d", operands[0]), list(plain("d", operands[1]))
    whole = letters_in([matrix[-2:], right[-2:-1]])
    column: Factors = right[-1] and ("c",)
    right[-1] = column
    return Letters(
        (matrix, tuple(right)), ((*right[:-2], ("r",), column),), whole=whole
    )


def _pull_solve(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    to_right = solve(_transposed(operands[0]), cotangent)
    return [neg(_product(to_right, _transposed(results[0]))), to_right]


solve = declare(
    "solve",
    letters=_solve_letters,
    shape=lambda operands, params, letters: [operands[1].dims],
    values=Values(each=frozenset({1}), degrees=(-1, 1)),
    evaluate=_or_nan(lambda a, b: np.linalg.solve(a, b)),
    pull=_pull_solve,
)


def _pull_determinant(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    back = _transposed(inverse(operands[0]))
    return [mul(_over_matrix(mul(cotangent, results[0]), back), back)]


determinant = declare(
    "determinant",
    letters=_matrix_letters([0]),
    shape=_matrix_shape(lambda rows, columns, params: [()]),
    values=Values(degrees=(None,)),
    evaluate=lambda x: np.linalg.det(x),
    pull=_pull_determinant,
)


def _pull_slogdet(
    cotangents: Sequence[Array | None],
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    _no_complex(*operands)
    if cotangents[1] is None:
        return [None]
    back = _transposed(inverse(operands[0]))
    return [mul(_over_matrix(cotangents[1], back), back)]


slogdet = declare_several(
    "slogdet",
    results=2,
    letters=_matrix_letters([0, 0]),
    shape=_matrix_shape(lambda rows, columns, params: [(), ()]),
    dtype=lambda operands, params: [operands[0].dtype, _real_of(operands[0])],
    values=Values(degrees=(None,)),
    evaluate=lambda x: tuple(np.linalg.slogdet(x)),
    pull=_pull_slogdet,
)


def _real_of(array: Array) -> str | None:
    return dtypes.each(array.dtype, dtypes.real)


def _complex_of(array: Array) -> str | None:
    return dtypes.each(array.dtype, dtypes.complex_)


# --- factorisations ---------------------------------------------------------------------------------------------------


def _lower_half(array: Array) -> Array:
    """The entries below the diagonal, and half of those on it."""
    rows, columns = (
        iota(shape=array.dims, dimension=array.rank - k, dtype="int32") for k in (2, 1)
    )
    below = select_n(ge(rows, columns), zeros_like(array), array, cases=2)
    strictly = select_n(ge(columns, rows), below, zeros_like(array), cases=2)
    return mul(add(below, strictly), number(0.5, array))


def _pull_cholesky(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    _no_complex(cotangent)
    (factor,) = results
    back = _transposed(inverse(factor))
    middle = _lower_half(_product(_transposed(factor), cotangent))
    found = _product(_product(back, middle), _transposed(back))
    return [
        mul(add(found, _transposed(found)), number(0.5, found))
        if params["symmetrize"]
        else found
    ]


def _cholesky(x: Any, *, symmetrize: bool) -> Any:
    """Of the symmetric part, or of the lower half."""
    return np.linalg.cholesky(_symmetric(x) if symmetrize else x)


cholesky = declare(
    "cholesky",
    letters=_matrix_letters([2]),
    shape=_matrix_shape(_square),
    values=Values(degrees=(None,)),
    evaluate=_or_nan(_cholesky),
    pull=_pull_cholesky,
)


def _smaller(rows: Dim, columns: Dim) -> Dim:
    if rows is None or columns is None:
        return None
    found: Dim = least(rows, columns)
    return found


def _same_dtype(count: int) -> DtypeRule:
    return lambda operands, params: [operands[0].dtype] * count


def _qr_sizes(rows: Dim, columns: Dim, params: Params) -> Sequence[tuple[Dim, ...]]:
    inner = rows if params["mode"] == "complete" else _smaller(rows, columns)
    return [(rows, inner), (inner, columns)]


qr = declare_several(
    "qr",
    results=2,
    letters=_matrix_letters([2, 2]),
    shape=_matrix_shape(_qr_sizes),
    dtype=_same_dtype(2),
    values=Values(degrees=(None,)),
    evaluate=lambda x, mode: tuple(np.linalg.qr(x, mode=mode)),
)


def _pull_eigh(
    cotangents: Sequence[Array | None],
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    """Of eigenvalues alone."""
    _no_complex(*operands)
    values, vectors = cotangents
    if vectors is not None or values is None:
        raise NoGradient("eigh's vectors")
    scaled = mul(results[1], expand_dims(values, axes=(values.rank - 1,)))
    return [_product(scaled, _transposed(results[1]))]


def _symmetric(x: Any) -> Any:
    return (x + np.conj(np.swapaxes(x, -1, -2))) / 2


eigh = declare_several(
    "eigh",
    results=2,
    letters=_matrix_letters([1, 2]),
    shape=_matrix_shape(lambda rows, columns, params: [(rows,), (rows, rows)]),
    dtype=lambda operands, params: [_real_of(operands[0]), operands[0].dtype],
    values=Values(degrees=(None,)),
    evaluate=_or_nan(lambda x: tuple(np.linalg.eigh(_symmetric(x)))),
    pull=_pull_eigh,
)
eig = declare_several(
    "eig",
    results=2,
    letters=_matrix_letters([1, 2]),
    shape=_matrix_shape(lambda rows, columns, params: [(rows,), (rows, rows)]),
    dtype=lambda operands, params: [_complex_of(operands[0])] * 2,
    values=Values(degrees=(None,)),
    evaluate=_or_nan(
        lambda x: tuple(one.astype(np.complex128) for one in np.linalg.eig(x))
    ),
)


def _svd_sizes(rows: Dim, columns: Dim, params: Params) -> Sequence[tuple[Dim, ...]]:
    smaller = _smaller(rows, columns)
    if params["full_matrices"]:
        return [(rows, rows), (smaller,), (columns, columns)]
    return [(rows, smaller), (smaller,), (smaller, columns)]


def _pull_svd(
    cotangents: Sequence[Array | None],
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    """Of singular values alone."""
    _no_complex(*operands)
    left, values, right = cotangents
    if (
        left is not None
        or right is not None
        or values is None
        or params["full_matrices"]
    ):
        raise NoGradient("svd's vectors")
    scaled = mul(results[0], expand_dims(values, axes=(values.rank - 1,)))
    return [_product(scaled, results[2])]


svd = declare_several(
    "svd",
    results=3,
    letters=_matrix_letters([2, 1, 2]),
    shape=_matrix_shape(_svd_sizes),
    dtype=lambda operands, params: [
        operands[0].dtype,
        _real_of(operands[0]),
        operands[0].dtype,
    ],
    values=Values(degrees=(None,)),
    evaluate=_or_nan(
        lambda x, full_matrices: tuple(np.linalg.svd(x, full_matrices=full_matrices))
    ),
    pull=_pull_svd,
)


def _lu(x: Any) -> tuple[Any, Any]:
    """With the largest entry of each column as the pivot; rows are exchanged one after the other."""
    flat = np.array(x).reshape(-1, *x.shape[-2:])
    count = min(x.shape[-2:])
    pivots = np.zeros((len(flat), count), np.int32)
    for matrix, order in zip(flat, pivots, strict=True):
        for k in range(count):
            order[k] = best = k + int(np.argmax(np.abs(matrix[k:, k])))
            matrix[[k, best]] = matrix[[best, k]]
            if matrix[k, k] != 0:
                matrix[k + 1 :, k] /= matrix[k, k]
                matrix[k + 1 :, k + 1 :] -= np.outer(
                    matrix[k + 1 :, k], matrix[k, k + 1 :]
                )
    return flat.reshape(x.shape), pivots.reshape(*x.shape[:-2], count)


lu = declare_several(
    "lu",
    results=2,
    letters=_matrix_letters([2, 1]),
    shape=_matrix_shape(
        lambda rows, columns, params: [(rows, columns), (_smaller(rows, columns),)]
    ),
    dtype=lambda operands, params: [operands[0].dtype, "int32"],
    values=Values(degrees=(None,)),
    evaluate=_lu,
)
