"""``jnp.linalg`` and ``jax.scipy.linalg``: matrices are the last two dimensions, whatever stands before is a batch.

Dtypes are given for float32, float64 and their complex twins; for the rest they depend on the release.
"""

from __future__ import annotations

from shardlint.ops.arrays import (
    ONE,
    UNKNOWN_ARRAY,
    Dims,
    array,
    as_array,
    broadcast_dimension,
    broadcast_dims,
    common_float,
    different,
    result_dtype,
    same,
    seen_size,
    shown,
    with_dims,
    with_dtype,
)
from shardlint.ops.contraction import check_contracted, matmul, outer, tensordot, vecdot
from shardlint.ops.elementwise import cleared, names
from shardlint.ops.joining import joined_operands
from shardlint.ops.permuting import matrix_transpose
from shardlint.ops.reductions import reduced_dims
from shardlint.ops.registry import (
    Call,
    OpError,
    UnknownArgument,
    is_none,
    model,
    static_bool,
    static_int,
    static_str,
)
from shardlint.values import ArrayValue, Dimension, SequenceValue, Unknown, Value
from shardtypes.lang import Size, dtypes

NP, SP = "jax.numpy.linalg", "jax.scipy.linalg"
_REAL = {
    "complex64": "float32",
    "complex128": "float64",
    "float32": "float32",
    "float64": "float64",
}


def factor_dtype(call: Call, *operands: ArrayValue) -> str | None:
    """The dtype that a factorization computes in; None where it is not certain."""
    if any(operand.dtype is None for operand in operands):
        return None
    name, _ = result_dtype(call.name, operands, call.ctx)
    if dtypes.is_kind(name, "bool", "signed", "unsigned"):
        name = "float64" if call.ctx.x64 else "float32"
    return (
        name
        if name in _REAL and not any(operand.weak for operand in operands)
        else None
    )


def matrix(call: Call, name: str, square: bool = False) -> tuple[ArrayValue, Dims]:
    """The argument, and its dimensions, at least two; UnknownArgument where the rank is not known."""
    value = array(call, name)
    if value.dims is None:
        raise UnknownArgument
    if len(value.dims) < 2:
        raise OpError(
            "ST208", f"{call.name}: needs at least 2 dimensions, got {shown(value)}"
        )
    if square:
        check_square(call, value)
    return value, value.dims


def check_square(call: Call, value: ArrayValue) -> None:
    assert value.dims is not None
    rows, columns = seen_size(value, -2), seen_size(value, -1)
    witness = different(call.ctx, rows, columns)
    if call.last in _SYMMETRIZED:  # a + a.T stretches a single column
        merged = broadcast_dimension(call.ctx, value.dims[-2], value.dims[-1])
        witness = None if isinstance(merged, Dimension) else merged
        if witness is None and not same(call.ctx, rows, columns):
            raise UnknownArgument
    if witness is not None:
        raise OpError(
            "ST204", f"{call.name}: needs square matrices, got {shown(value)}", witness
        )


_SYMMETRIZED = frozenset({"cholesky", "eigh", "eigvalsh"})


def _made(value: ArrayValue, dims: Dims | None, dtype: str | None) -> ArrayValue:
    return with_dtype(with_dims(cleared(value), dims), dtype)


def _smaller(value: ArrayValue) -> Dimension:
    """``min(rows, columns)``."""
    rows, columns = seen_size(value, -2), seen_size(value, -1)
    return Dimension(
        None if rows is None or columns is None else Size.minimum(rows, columns), ()
    )


@model("a", *names(NP, "inv eigvals"))
@model("a, *, upper=False, symmetrize_input=True", f"{NP}.cholesky")
@model("a, UPLO='L', *, symmetrize_input=True", f"{NP}.eigvalsh")
@model("a, overwrite_a=False, check_finite=True", *names(SP, "inv det"))
@model("a, lower=False, overwrite_a=False, check_finite=True", f"{SP}.cholesky")
@model("a", f"{NP}.det")
@model("A, *, upper_triangular=False, max_squarings=16", f"{SP}.expm")
@model("A, blocksize=1", f"{SP}.sqrtm")
def of_square(call: Call) -> Value:
    """One result for each square matrix: a matrix, its eigenvalues, or a number."""
    name = "A" if "A" in call.args else "a"
    if call.last == "sqrtm":
        raise UnknownArgument
    value, dims = matrix(call, name, square=True)
    dtype = factor_dtype(call, value)
    if call.last in ("eigvals", "eigvalsh"):
        dtype = _REAL.get(dtype or "") if call.last == "eigvalsh" else None
        return _made(value, dims[:-1], dtype)
    if call.last == "expm":
        dtype = None
    return _made(value, dims[:-2] if call.last == "det" else dims, dtype)


@model("a, *, method=None", f"{NP}.slogdet")
def slogdet(call: Call) -> Value:
    value, dims = matrix(call, "a", square=True)
    dtype = factor_dtype(call, value)
    parts = (
        _made(value, dims[:-2], dtype),
        _made(value, dims[:-2], _REAL.get(dtype or "")),
    )
    return SequenceValue(parts, names=("sign", "logabsdet"))


@model("a, UPLO=None, symmetrize_input=True", f"{NP}.eigh")
@model("a", f"{NP}.eig")
def eigen(call: Call) -> Value:
    """Eigenvalues and eigenvectors, these as columns."""
    value, dims = matrix(call, "a", square=True)
    dtype = factor_dtype(call, value) if call.last == "eigh" else None
    parts = (_made(value, dims[:-1], _REAL.get(dtype or "")), _made(value, dims, dtype))
    return SequenceValue(parts, names=("eigenvalues", "eigenvectors"))


@model(
    "a, b=None, lower=True, eigvals_only=False, overwrite_a=False, overwrite_b=False, turbo=True, eigvals=None, "
    "type=1, check_finite=True",
    f"{SP}.eigh",
)
def scipy_eigh(call: Call) -> Value:
    only = static_bool(call["eigvals_only"])
    if not is_none(call["b"]) or not is_none(call["eigvals"]) or only is None:
        raise UnknownArgument
    value, dims = matrix(call, "a", square=True)
    values, vectors = _made(value, dims[:-1], None), _made(value, dims, None)
    return values if only else SequenceValue((values, vectors))


@model("a, mode='reduced'", f"{NP}.qr")
def qr(call: Call) -> Value:
    value, dims = matrix(call, "a")
    mode, dtype, k = (
        static_str(call["mode"]),
        factor_dtype(call, value),
        _smaller(value),
    )
    rows, columns = (
        Dimension(seen_size(value, -2), ()),
        Dimension(seen_size(value, -1), ()),
    )
    if mode == "r":
        return _made(value, (*dims[:-2], k, columns), dtype)
    if mode not in ("reduced", "complete"):
        raise UnknownArgument
    k = k if mode == "reduced" else rows
    parts = (
        _made(value, (*dims[:-2], rows, k), dtype),
        _made(value, (*dims[:-2], k, columns), dtype),
    )
    return SequenceValue(parts, names=("Q", "R"))


@model(
    "a, full_matrices=True, compute_uv=True, hermitian=False, subset_by_index=None",
    f"{NP}.svd",
)
@model(
    "a, full_matrices=True, compute_uv=True, overwrite_a=False, check_finite=True, lapack_driver='gesdd'",
    f"{SP}.svd",
)
def svd(call: Call) -> Value:
    """U, the singular values, and V transposed."""
    value, dims = matrix(call, "a")
    full, vectors = static_bool(call["full_matrices"]), static_bool(call["compute_uv"])
    plain = not static_bool(call.get("hermitian")) and is_none(
        call.get("subset_by_index")
    )
    if full is None or vectors is None or not plain:
        raise UnknownArgument
    k, dtype = _smaller(value), factor_dtype(call, value)
    values = _made(value, (*dims[:-2], k), _REAL.get(dtype or ""))
    if not vectors:
        return values
    rows, columns = (
        Dimension(seen_size(value, -2), ()),
        Dimension(seen_size(value, -1), ()),
    )
    left = _made(value, (*dims[:-2], rows, rows if full else k), dtype)
    right = _made(value, (*dims[:-2], columns if full else k, columns), dtype)
    return SequenceValue(
        (left, values, right),
        names=("U", "S", "Vh") if call.qualname.startswith(NP) else None,
    )


@model("x", f"{NP}.svdvals")
def svdvals(call: Call) -> Value:
    value, dims = matrix(call, "x")
    return _made(
        value, (*dims[:-2], _smaller(value)), _REAL.get(factor_dtype(call, value) or "")
    )


@model("a, b", f"{NP}.solve")
@model(
    "a, b, lower=False, overwrite_a=False, overwrite_b=False, debug=False, check_finite=True, assume_a='gen'",
    f"{SP}.solve",
)
@model(
    "a, b, trans=0, lower=False, unit_diagonal=False, overwrite_b=False, debug=None, check_finite=True",
    f"{SP}.solve_triangular",
)
def solve(call: Call) -> Value:
    """``b`` is a vector or a matrix with as many rows as ``a``; the result has its shape."""
    a, dims = matrix(call, "a", square=True)
    b = array(call, "b")
    dtype = factor_dtype(call, a, b)
    if b.dims is None:
        return with_dtype(UNKNOWN_ARRAY, dtype)
    if not b.dims:
        raise OpError("ST204", f"{call.name}: the right side is a scalar")
    vector = len(b.dims) == 1
    if not vector and len(b.dims) == len(dims) - 1:
        # one vector for each matrix, if the sizes allow it
        return with_dtype(UNKNOWN_ARRAY, dtype)
    check_contracted(call, a, len(dims) - 1, b, 0 if vector else len(b.dims) - 2)
    if vector and len(dims) == 2:
        return _made(b, b.dims, dtype)
    if vector or len(b.dims) != len(dims):
        if len(dims) > 2 or not vector:
            # which dimensions are a batch depends on the release
            return with_dtype(UNKNOWN_ARRAY, dtype)
    batch = broadcast_dims(
        call.name, [with_dims(a, dims[:-2]), with_dims(b, b.dims[:-2])], call.ctx
    )
    return _made(b, None if batch is None else (*batch, *b.dims[-2:]), dtype)


@model("a, b, rcond=None, *, numpy_resid=False", f"{NP}.lstsq")
def lstsq(call: Call) -> Value:
    """The solution, the residuals, the rank and the singular values."""
    a, b = array(call, "a"), array(call, "b")
    if a.dims is None or b.dims is None:
        raise UnknownArgument
    if len(a.dims) != 2 or len(b.dims) not in (1, 2):
        raise OpError(
            "ST204",
            f"{call.name}: needs a matrix and a vector or matrix, got {shown(a)} and {shown(b)}",
        )
    witness = different(call.ctx, a.dims[0].size, b.dims[0].size)
    if witness is not None:
        raise OpError(
            "ST204", f"{call.name}: rows of {shown(a)} and {shown(b)} differ", witness
        )
    solution = _made(b, (Dimension(seen_size(a, 1), ()), *b.dims[1:]), None)
    return SequenceValue((solution, UNKNOWN_ARRAY, ArrayValue((), None), UNKNOWN_ARRAY))


@model("a, rtol=None, hermitian=False, *, rcond=None", f"{NP}.pinv")
def pinv(call: Call) -> Value:
    value, dims = matrix(call, "a")
    return _made(value, (*dims[:-2], dims[-1], dims[-2]), factor_dtype(call, value))


@model("M, rtol=None, *, hermitian=False, tol=None", f"{NP}.matrix_rank")
def matrix_rank(call: Call) -> Value:
    value = array(call, "M")
    if value.dims is None or len(value.dims) < 2:
        raise UnknownArgument
    return _made(value, value.dims[:-2], None)


@model("a, n", f"{NP}.matrix_power")
def matrix_power(call: Call) -> Value:
    value, dims = matrix(call, "a", square=True)
    if static_int(call["n"]) is None:
        raise UnknownArgument
    return _made(value, dims, None)


@model("x, p=None", f"{NP}.cond")
def cond(call: Call) -> Value:
    value, dims = matrix(call, "x")
    order = call["p"]
    if not is_none(order) and static_int(order) not in (2, -2):
        check_square(call, value)
    return _made(value, dims[:-2], None)


@model("x, ord=None, axis=None, keepdims=False", f"{NP}.norm")
def norm(call: Call) -> Value:
    value = array(call, "x")
    dims = reduced_dims(call, value, call["axis"], call["keepdims"])
    if is_none(call["axis"]) and not is_none(call["ord"]):
        dims = None  # which ranks are fine depends on ord
    return _made(value, dims, common_float(value) if is_none(call["ord"]) else None)


@model("x, *, axis=None, keepdims=False, ord=2", f"{NP}.vector_norm")
def vector_norm(call: Call) -> Value:
    value = array(call, "x")
    return _made(
        value,
        reduced_dims(call, value, call["axis"], call["keepdims"]),
        common_float(value),
    )


@model("x, *, keepdims=False, ord='fro'", f"{NP}.matrix_norm")
def matrix_norm(call: Call) -> Value:
    value, dims = matrix(call, "x")
    keep = static_bool(call["keepdims"])
    if keep is None:
        raise UnknownArgument
    usual = common_float(value) == "float32"
    return _made(
        value,
        (*dims[:-2], *[Dimension(ONE, ())] * 2) if keep else dims[:-2],
        "float32" if usual else None,
    )


@model("arrays, *, precision=None", f"{NP}.multi_dot")
def multi_dot(call: Call) -> Value:
    """A chain of matrices; the ends may be vectors."""
    operands = joined_operands(call, call["arrays"])
    if len(operands) < 2 or any(operand.dims is None for operand in operands):
        raise UnknownArgument
    for i, operand in enumerate(operands):
        ends = (1, 2) if i in (0, len(operands) - 1) else (2,)
        if len(operand.dims or ()) not in ends:
            raise UnknownArgument
    for a, b in zip(operands, operands[1:], strict=False):
        check_contracted(call, a, len(a.dims or ()) - 1, b, 0)
    first, last = operands[0].dims or (), operands[-1].dims or ()
    return ArrayValue((*first[:-1], *last[1:]), None)


@model("a, ind=2", f"{NP}.tensorinv")
@model("a, b, axes=None", f"{NP}.tensorsolve")
def tensors(call: Call) -> Value:
    return UNKNOWN_ARRAY


@model("x1, x2, *, precision=None, preferred_element_type=None", f"{NP}.matmul")
@model("x1, x2", f"{NP}.outer")
@model(
    "x1, x2, *, axes=2, precision=None, preferred_element_type=None, out_sharding=None",
    f"{NP}.tensordot",
)
def product(call: Call) -> Value:
    """As in ``jax.numpy``; ``outer`` takes vectors only."""
    inner = {"matmul": matmul, "outer": outer, "tensordot": tensordot}[call.last]
    if call.last == "outer":
        for name in ("x1", "x2"):
            value = array(call, name)
            if value.dims is not None and len(value.dims) != 1:
                raise OpError("ST208", f"{call.name}: {shown(value)} is not a vector")
    return inner(
        Call(call.qualname, {**call.args, "a": call["x1"], "b": call["x2"]}, call.ctx)
    )


@model(
    "x1, x2, *, axis=-1, precision=None, preferred_element_type=None", f"{NP}.vecdot"
)
def linalg_vecdot(call: Call) -> Value:
    return vecdot(call)


@model("x", f"{NP}.matrix_transpose")
def linalg_transpose(call: Call) -> Value:
    return matrix_transpose(call)


@model("a, lower=False, overwrite_a=False, check_finite=True", f"{SP}.cho_factor")
def cho_factor(call: Call) -> Value:
    value, dims = matrix(call, "a", square=True)
    return SequenceValue(
        (_made(value, dims, factor_dtype(call, value)), Unknown("which triangle"))
    )


@model("c_and_lower, b, overwrite_b=False, check_finite=True", f"{SP}.cho_solve")
@model("lu_and_piv, b, trans=0, overwrite_b=False, check_finite=True", f"{SP}.lu_solve")
def factored_solve(call: Call) -> Value:
    """The factorization comes first, then the right side, whose shape stays where it is a matrix or a vector."""
    pair = call["c_and_lower" if "c_and_lower" in call.args else "lu_and_piv"]
    b = array(call, "b")
    a = (
        as_array(pair.items[0])
        if isinstance(pair, SequenceValue) and pair.items
        else None
    )
    if (
        a is None
        or a.dims is None
        or len(a.dims) != 2
        or b.dims is None
        or len(b.dims) not in (1, 2)
    ):
        return UNKNOWN_ARRAY
    check_contracted(call, a, 1, b, 0)
    return _made(b, b.dims, None)


@model("a, overwrite_a=False, check_finite=True", f"{SP}.lu_factor")
def lu_factor(call: Call) -> Value:
    value, dims = matrix(call, "a")
    pivots = _made(value, (*dims[:-2], _smaller(value)), None)
    return SequenceValue((_made(value, dims, factor_dtype(call, value)), pivots))


@model("a, permute_l=False, overwrite_a=False, check_finite=True", f"{SP}.lu")
def lu(call: Call) -> Value:
    """P, L and U, or PL and U."""
    value, dims = matrix(call, "a")
    joined = static_bool(call["permute_l"])
    if joined is None:
        raise UnknownArgument
    k, batch = _smaller(value), dims[:-2]
    rows, columns = (
        Dimension(seen_size(value, -2), ()),
        Dimension(seen_size(value, -1), ()),
    )
    lower, upper = (
        _made(value, (*batch, rows, k), None),
        _made(value, (*batch, k, columns), None),
    )
    return SequenceValue(
        (lower, upper)
        if joined
        else (_made(value, (*batch, rows, rows), None), lower, upper)
    )


@model("*arrs", f"{SP}.block_diag")
def block_diag(call: Call) -> Value:
    """Sizes add up; a scalar or vector is one row."""
    arrs = call["arrs"]
    if not isinstance(arrs, SequenceValue) or not arrs.items:
        raise UnknownArgument
    operands = [as_array(item, call.ctx.x64) or UNKNOWN_ARRAY for item in arrs.items]
    total: list[Size | None] = [Size.const(0), Size.const(0)]
    for operand in operands:
        if operand.dims is None:
            return ArrayValue((Dimension(None), Dimension(None)), None)
        if len(operand.dims) > 2:
            raise OpError(
                "ST208", f"{call.name}: {shown(operand)} has more than 2 dimensions"
            )
        sizes = [ONE] * (2 - len(operand.dims)) + [
            seen_size(operand, i) for i in range(len(operand.dims))
        ]
        total = [
            None if a is None or b is None else a + b
            for a, b in zip(total, sizes, strict=True)
        ]
    return ArrayValue(tuple(Dimension(size, ()) for size in total), None)


@model("c, r=None", f"{SP}.toeplitz")
def toeplitz(call: Call) -> Value:
    """A matrix of constant diagonals from its first column and row."""
    c, r = array(call, "c"), array(call, "c" if is_none(call["r"]) else "r")
    if c.dims is None or r.dims is None or len(c.dims) != 1 or len(r.dims) != 1:
        return UNKNOWN_ARRAY
    return ArrayValue(
        (Dimension(seen_size(c, 0), ()), Dimension(seen_size(r, 0), ())), None
    )


@model(
    "a, overwrite_a=False, lwork=None, mode='full', pivoting=False, check_finite=True",
    f"{SP}.qr",
)
def scipy_qr(call: Call) -> Value:
    value, dims = matrix(call, "a")
    mode, k = static_str(call["mode"]), _smaller(value)
    if (
        mode not in ("full", "economic", "r")
        or static_bool(call["pivoting"]) is not False
    ):
        raise UnknownArgument
    rows, columns = (
        Dimension(seen_size(value, -2), ()),
        Dimension(seen_size(value, -1), ()),
    )
    inner = rows if mode != "economic" else k
    upper = _made(value, (*dims[:-2], inner, columns), None)
    return SequenceValue(
        (upper,)
        if mode == "r"
        else (_made(value, (*dims[:-2], rows, inner), None), upper)
    )
