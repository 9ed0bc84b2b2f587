"""Diagonals and triangles of matrices."""

from __future__ import annotations

from shardlint.ops.arrays import (
    ONE,
    array,
    dims_of,
    dtype_argument,
    elementwise,
    one_axis,
    seen_size,
    shown,
    size_of,
    with_dims,
    with_dtype,
)
from shardlint.ops.elementwise import cleared, names
from shardlint.ops.reductions import accumulator, flattened, index_dtype
from shardlint.ops.registry import (
    Call,
    OpError,
    UnknownArgument,
    is_none,
    is_number,
    model,
    static_bool,
    static_int,
)
from shardlint.values import ArrayValue, Dimension, IntValue, SequenceValue, Value
from shardtypes.lang import Size


@model("m, k=0", *names("jax.numpy", "tril triu"))
def triangle(call: Call) -> Value:
    value = array(call, "m")
    if value.dims is not None and len(value.dims) < 2:
        raise OpError(
            "ST208", f"{call.name}: needs at least 2 dimensions, got {shown(value)}"
        )
    return value


@model("v, k=0", "jax.numpy.diag")
def diag(call: Call) -> Value:
    value, k = array(call, "v"), static_int(call["k"])
    if value.dims is None or k is None:
        raise UnknownArgument
    if len(value.dims) == 1:
        size = value.dims[0].size
        total = None if size is None else size + abs(k)
        return ArrayValue(dims_of(total, total), value.dtype, value.weak, value.pending)
    if len(value.dims) != 2:
        raise OpError(
            "ST208", f"{call.name}: needs 1 or 2 dimensions, got {shown(value)}"
        )
    rows, columns = (dim.size for dim in value.dims)
    same = rows is not None and rows == columns and k == 0
    dtype = None if value.weak else value.dtype
    return ArrayValue((Dimension(rows if same else None),), dtype, False, value.pending)


def _length(rows: Size | None, columns: Size | None, offset: int) -> Size | None:
    """How long the diagonal ``offset`` places right of the main one is."""
    if rows is None or columns is None:
        return None
    down, across = rows + min(offset, 0), columns - max(offset, 0)
    length = Size.minimum(down, across)
    return length if length.is_nonnegative else Size.maximum(length, Size.const(0))


def _two_axes(call: Call, value: ArrayValue) -> tuple[int, int]:
    assert value.dims is not None
    if len(value.dims) < 2:
        raise OpError(
            "ST208", f"{call.name}: needs at least 2 dimensions, got {shown(value)}"
        )
    first = call["axis1"] if "axis1" in call.args else IntValue(Size.const(-2))
    second = call["axis2"] if "axis2" in call.args else IntValue(Size.const(-1))
    a = one_axis(call, first, len(value.dims), value)
    b = one_axis(call, second, len(value.dims), value)
    if a == b:
        raise OpError(
            "ST208", f"{call.name}: axis {a} is given twice for shape {shown(value)}"
        )
    return a, b


@model("a, offset=0, axis1=0, axis2=1", "jax.numpy.diagonal")
@model("x, *, offset=0", "jax.numpy.linalg.diagonal")
@model("a, offset=0, axis1=0, axis2=1, dtype=None, out=None", "jax.numpy.trace")
@model("x, *, offset=0, dtype=None", "jax.numpy.linalg.trace")
def diagonal(call: Call) -> Value:
    """The diagonal comes last; ``trace`` sums over it."""
    value = array(call, "a" if "a" in call.args else "x")
    if value.dims is None:
        return with_dtype(value, None if call.last == "trace" else value.dtype)
    a, b = _two_axes(call, value)
    rest = tuple(dim for i, dim in enumerate(value.dims) if i not in (a, b))
    if call.last == "trace":
        name, given = dtype_argument(call, call["dtype"])
        return with_dtype(
            with_dims(value, rest),
            name if given else accumulator(value.dtype, call.ctx.x64),
        )
    offset = static_int(call["offset"])
    size = (
        None
        if offset is None
        else _length(seen_size(value, a), seen_size(value, b), offset)
    )
    # the diagonal of a square matrix is not weak
    out = with_dtype(value, None) if value.weak else value
    return with_dims(out, (*rest, Dimension(size, ())))


@model("v, k=0", "jax.numpy.diagflat")
def diagflat(call: Call) -> Value:
    value, k = array(call, "v"), static_int(call["k"])
    flat = flattened(value)
    size = None if flat is None or k is None else flat[0].size
    total = None if size is None or k is None else size + abs(k)
    return with_dims(
        with_dtype(value, None if value.weak else value.dtype), dims_of(total, total)
    )


@model("a, b", "jax.numpy.kron")
def kron(call: Call) -> Value:
    """Sizes multiply; the shorter shape is filled up with 1 in front."""
    a, b = array(call, "a"), array(call, "b")
    out = elementwise(
        call.name, [with_dims(a, ()), with_dims(b, ())], call.ctx, kind="multiply"
    )
    if a.dims is None or b.dims is None:
        return with_dims(out, None)
    rank = max(len(a.dims), len(b.dims))
    sizes: list[Size | None] = []
    for i in range(-rank, 0):
        one = seen_size(a, i) if -i <= len(a.dims) else ONE
        other = seen_size(b, i) if -i <= len(b.dims) else ONE
        sizes.append(None if one is None or other is None else one * other)
    out = with_dims(out, tuple(Dimension(size, ()) for size in sizes))
    return with_dtype(out, None) if a.weak or b.weak or out.dtype == "bool" else out


@model("n, k=0, m=None", *names("jax.numpy", "tril_indices triu_indices"))
@model("arr, k=0", *names("jax.numpy", "tril_indices_from triu_indices_from"))
def triangle_indices(call: Call) -> Value:
    """Two vectors of one length."""
    if "arr" in call.args:
        value = array(call, "arr")
        if value.dims is not None and len(value.dims) != 2:
            raise OpError(
                "ST208", f"{call.name}: needs 2 dimensions, got {shown(value)}"
            )
        n, m = (
            (None, None)
            if value.dims is None
            else (seen_size(value, 0), seen_size(value, 1))
        )
    else:
        n = size_of(call["n"])
        m = n if is_none(call["m"]) else size_of(call["m"])
    k = static_int(call["k"])
    rows, columns = (None if size is None else size.constant for size in (n, m))
    length: int | None = None
    if rows is not None and columns is not None and k is not None and 0 <= rows <= 4096:
        lower = call.last.startswith("tril")
        kept = [
            min(max(row + k + 1, 0), columns)
            if lower
            else columns - min(max(row + k, 0), columns)
            for row in range(rows)
        ]
        length = sum(kept)
    vector = ArrayValue(dims_of(length), index_dtype(call), False, frozenset())
    return SequenceValue((vector, vector))


@model("n, ndim=2", "jax.numpy.diag_indices")
def diag_indices(call: Call) -> Value:
    count = static_int(call["ndim"])
    if count is None or not 0 < count < 8:
        raise UnknownArgument
    return SequenceValue(
        (ArrayValue(dims_of(size_of(call["n"])), None, False, frozenset()),) * count
    )


@model("a, val, wrap=False, *, inplace=True", "jax.numpy.fill_diagonal")
def fill_diagonal(call: Call) -> Value:
    """A new array: ``inplace=False`` has to be said."""
    value = array(call, "a")
    if static_bool(call["inplace"]) is not False:
        raise UnknownArgument
    if value.dims is not None and len(value.dims) < 2:
        raise OpError(
            "ST208", f"{call.name}: needs at least 2 dimensions, got {shown(value)}"
        )
    alike = value.dims is not None and len(value.dims) == 2 and is_number(call["val"])
    return value if alike else with_dims(with_dtype(value, None), None)


@model("x, N=None, increasing=False", "jax.numpy.vander")
def vander(call: Call) -> Value:
    value = array(call, "x")
    if value.dims is None or len(value.dims) != 1:
        raise UnknownArgument
    columns = value.dims[0].size if is_none(call["N"]) else size_of(call["N"])
    if columns is not None and (columns.constant or 0) < 0:
        raise UnknownArgument
    return with_dtype(
        with_dims(cleared(value), (value.dims[0], Dimension(columns, ()))), None
    )
