"""Functions of whole matrices or of whole dimensions: every device may work on its own where those are not split."""

from __future__ import annotations

from collections.abc import Sequence

from shardlint.ops.registry import is_none, static_bool
from shardlint.ops.sharding.base import Op, Rule, computed, names, rule
from shardlint.ops.sharding.combining import combined
from shardlint.ops.sharding.kinds import Kind
from shardlint.ops.sharding.origins import Origins
from shardlint.ops.sharding.reductions import along
from shardlint.ops.sharding.state import Axes, DimAxes
from shardlint.values import ArrayValue


def last(count: int) -> Rule:
    """The sharding model of a function of the last ``count`` dimensions of its operands; those before are a batch."""

    def found(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
        batches = [_batch(operand, count) for operand in op.operands]
        lead = batches[0] if batches else None
        if (
            lead is None
            or out.dims is None
            or any(one != lead for one in batches)
            or len(out.dims) < len(lead)
        ):
            return computed(op, out, origins)
        return combined(
            op,
            out,
            [*lead, *[()] * (len(out.dims) - len(lead))],
            "nonlinear",
            op.operands,
        )

    return found


def _batch(value: ArrayValue, count: int) -> DimAxes | None:
    """The axes of the leading dimensions; None where they, or where the others lie, are not known."""
    if (
        value.dims is None
        or len(value.dims) < count
        or any(dim.axes is None for dim in value.dims)
    ):
        return None
    cut = len(value.dims) - count
    if any(dim.axes for dim in value.dims[cut:]):
        return None
    return [dim.axes for dim in value.dims[:cut]]


def within(kind: Kind) -> Rule:
    """The sharding model of a function along the dimensions that ``axis`` names, which keeps the rank."""

    def found(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
        source = op.single
        if (
            source is None
            or source.dims is None
            or out.dims is None
            or len(out.dims) != len(source.dims)
        ):
            return computed(op, out, origins)
        touched = along(op.call, len(source.dims))
        if touched is None or any(source.dims[k].axes != () for k in touched):
            return computed(op, out, origins)
        return combined(op, out, [dim.axes for dim in source.dims], kind, [source])

    return found


def solved(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``solve(a, b)``: linear in b, of which other columns may be split; every device needs the whole of a matrix a."""
    if len(op.operands) > 1:
        a, b = op.operands[:2]
    else:
        a = None
        b = None
    if (
        a is None
        or b is None
        or a.dims is None
        or b.dims is None
        or out.dims is None
        or len(out.dims) != len(b.dims)
    ):
        return computed(op, out, origins)
    if (
        len(a.dims) != 2
        or len(b.dims) > 2
        or any(dim.axes != () for dim in (*a.dims, *b.dims[:1]))
    ):
        return computed(op, out, origins)
    return combined(op, out, [dim.axes for dim in b.dims], "divide", [b, a])


def diagonal(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``diagonal`` and ``trace``: of two dimensions that are not split; else every device takes one of its own part."""
    source = op.single
    if (
        source is None
        or source.dims is None
        or out.dims is None
        or any(dim.axes is None for dim in source.dims)
    ):
        return computed(op, out, origins)
    axes = [
        source.dims[origin[1]].axes if origin is not None else () for origin in origins
    ]
    return combined(op, out, axes, "linear", [source])


def on_diagonal(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``diag``: the diagonal of a matrix, or a matrix with this diagonal."""
    source = op.single
    matrix = source is not None and len(source.dims or ()) == 2
    whole = (
        source is not None
        and source.dims is not None
        and all(dim.axes == () for dim in source.dims)
    )
    if matrix or whole:
        return diagonal(op, out, [None] * len(out.dims or ()))
    return computed(op, out, origins)


def attention(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``dot_product_attention`` of B T N H: split over the batch, the heads, and the queries."""
    extras = [
        op.call.get(name)
        for name in ("bias", "mask", "query_seq_lengths", "key_value_seq_lengths")
    ]
    plain = (
        all(map(is_none, extras))
        and static_bool(op.call.get("return_residual")) is not True
    )
    if (
        not plain
        or len(op.operands) != 3
        or out.dims is None
        or any(o.pending for o in op.operands)
    ):
        return computed(op, out, origins)
    query, key, value = (_axes(operand) for operand in op.operands)
    causal = static_bool(op.call.get("is_causal")) is not False or not is_none(
        op.call.get("local_window_size")
    )
    if (
        None in query
        or key != value
        or query[:-3] != key[:-3]
        or query[-2] != key[-2]
        or len(query) != len(out.dims)
    ):
        return computed(op, out, origins)
    if key[-3] or key[-1] or query[-1] or (causal and query[-3]):
        return computed(op, out, origins)
    return combined(op, out, query, "nonlinear", op.operands)


def _axes(value: ArrayValue) -> Sequence[Axes]:
    if value.dims is not None and len(value.dims) > 2:
        return [dim.axes for dim in value.dims]
    return [None] * 3


_LINALG, _SCIPY, _FFT = "jax.numpy.linalg", "jax.scipy.linalg", "jax.numpy.fft"

rule(
    [
        *names(
            _LINALG,
            "det eigvalsh cholesky inv eigvals slogdet eig eigh qr svd svdvals pinv matrix_rank matrix_power "
            "cond",
        ),
        *names(
            _SCIPY, "sqrtm expm cholesky inv det eigh svd lu_factor lu qr cho_factor"
        ),
    ],
    last(2),
)
rule(
    [*names(_FFT, "fft ifft rfft irfft hfft ihfft"), "jax.numpy.diff"], within("linear")
)
rule(
    ["jax.nn.glu", *names("jax.numpy", "partition argpartition unwrap")],
    within("nonlinear"),
)
rule(names("jax.numpy", "diagonal trace linalg.diagonal linalg.trace"), diagonal)
rule([f"{_LINALG}.solve", f"{_SCIPY}.solve", f"{_SCIPY}.solve_triangular"], solved)
rule(["jax.numpy.diag"], on_diagonal)
rule(["jax.nn.dot_product_attention"], attention)
