"""Functions of ``jnp.linalg`` and ``jax.scipy.linalg`` that have their twins in ``jax.numpy``, and ``lu``."""

from __future__ import annotations

from shardlint.ops.arrays import array, cleared, seen_size, with_dims, with_dtype
from shardlint.ops.contraction import matmul, tensordot, vecdot
from shardlint.ops.registry import Call, UnknownArgument, model, static_bool
from shardlint.values import Dimension, SequenceValue, Value
from shardtypes.lang import Size

NP = "jax.numpy.linalg"


@model("x1, x2, *, precision=None, preferred_element_type=None", f"{NP}.matmul")
@model(
    "x1, x2, *, axes=2, precision=None, preferred_element_type=None, out_sharding=None",
    f"{NP}.tensordot",
)
def product(call: Call) -> Value:
    """As in ``jax.numpy``."""
    inner = {"matmul": matmul, "tensordot": tensordot}[call.last]
    args = {**call.args, "a": call["x1"], "b": call["x2"]}
    return inner(Call(call.qualname, args, call.ctx))


@model(
    "x1, x2, *, axis=-1, precision=None, preferred_element_type=None", f"{NP}.vecdot"
)
def linalg_vecdot(call: Call) -> Value:
    return vecdot(call)


@model(
    "a, permute_l=False, overwrite_a=False, check_finite=True", "jax.scipy.linalg.lu"
)
def lu(call: Call) -> Value:
    """P, L and U, or PL and U."""
    value = array(call, "a")
    joined = static_bool(call["permute_l"])
    if joined is None or value.dims is None or len(value.dims) < 2:
        raise UnknownArgument
    made = with_dtype(cleared(value), None)
    batch = value.dims[:-2]
    rows = Dimension(seen_size(value, -2), ())
    columns = Dimension(seen_size(value, -1), ())
    inner = _smaller(rows, columns)
    lower = with_dims(made, (*batch, rows, inner))
    upper = with_dims(made, (*batch, inner, columns))
    if joined:
        return SequenceValue((lower, upper))
    order = with_dims(made, (*batch, rows, rows))
    return SequenceValue((order, lower, upper))


def _smaller(rows: Dimension, columns: Dimension) -> Dimension:
    if rows.size is None or columns.size is None:
        return Dimension(None, ())
    return Dimension(Size.minimum(rows.size, columns.size), ())
