"""Elementwise functions: which axes the result has, and which of them keep a pending sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from shardlint.ops.arrays import ONE, same
from shardlint.ops.registry import OpError
from shardlint.ops.sharding import masks
from shardlint.ops.sharding.base import (
    Op,
    Rule,
    ShardingError,
    rule,
    with_numbers,
)
from shardlint.ops.sharding.combining import combined
from shardlint.ops.sharding.kinds import Kind
from shardlint.ops.sharding.origins import Origins
from shardlint.ops.sharding.state import UNIFORM, WHOLE, Arrays, Axes, DimAxes
from shardlint.ops.sharding.view import View
from shardlint.values import ArrayValue, Dimension
from shardtypes.lang import dtypes, format_shape
from shardtypes.lang.messages import axes_text, sharded_differently


@cache
def elementwise(kind: Kind) -> Rule:
    """The sharding model of a function that treats its operands like that."""

    def found(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
        operands = with_numbers(op)
        result = combined(op, out, aligned(op, out, operands), kind, operands)
        if all(o.constant and (UNIFORM in o.marks or not o.dims) for o in operands):
            result = replace(result, marks=result.marks | {UNIFORM})
        return masks.followed(op, result, operands)

    return found


def aligned(op: Op, out: ArrayValue, operands: Arrays) -> DimAxes | None:
    """The axes of each dimension of a broadcast result.

    Raises ShardingError where two operands split one dimension over different axes.
    """
    if out.dims is None or any(operand.dims is None for operand in operands):
        return None
    rank = len(out.dims)
    result: DimAxes = []
    for k in range(rank):
        met: list[tuple[int, Dimension]] = []
        for i, operand in enumerate(operands):
            at = k - rank + len(operand.dims or ())
            if at >= 0 and operand.dims is not None:
                met.append((i, operand.dims[at]))
        larger = [one for one in met if one[1].size != ONE]
        result.append(_agreed(op, operands, larger or met))
    return result


def _agreed(op: Op, operands: Arrays, met: Sequence[tuple[int, Dimension]]) -> Axes:
    chosen: tuple[int, Axes] = (-1, ())
    for i, dim in met:
        if dim.axes is None:
            return None
        if dim.axes and chosen[1] and dim.axes != chosen[1]:
            raise clash(op, operands[chosen[0]], operands[i])
        if dim.axes:
            chosen = (i, dim.axes)
    return chosen[1]


def clash(op: Op, a: ArrayValue, b: ArrayValue, code: str = "ST309") -> ShardingError:
    texts = [shown(op, value) for value in (a, b)]
    return ShardingError(code, f"{op.name}: {sharded_differently(texts)}")


def shown(op: Op, value: ArrayValue) -> str:
    return shape_text(op.view, value)


def shape_text(view: View, value: ArrayValue) -> str:
    """An array's global shape with its axes, quoted, as annotations write it."""
    return repr(global_shape(view, value))


def global_shape(view: View, value: ArrayValue) -> str:
    """An array's global shape with its axes, as annotations write it."""
    if value.dims is None:
        return "..."
    sizes = [view.global_size(dim.size, dim.axes or ()) for dim in value.dims]
    return format_shape(sizes, [dim.axes for dim in value.dims])


def explain(op: Op, error: OpError) -> OpError | None:
    """What is behind local sizes that do not broadcast: different axes, or an operand that is not split."""
    operands = [o for o in op.operands if o.dims is not None]
    for i, a in enumerate(operands):
        for b in operands[i + 1 :]:
            for x, y in zip(
                reversed(a.dims or ()), reversed(b.dims or ()), strict=False
            ):
                found = explained(op, a, x, b, y, "ST309")
                if found is not None:
                    found.witness = error.witness
                    return found
    return None


def explained(
    op: Op, a: ArrayValue, x: Dimension, b: ArrayValue, y: Dimension, code: str
) -> ShardingError | None:
    """Two dimensions whose local sizes clash though their global sizes are equal."""
    if x.axes is None or y.axes is None or x.axes == y.axes or ONE in (x.size, y.size):
        return None
    sizes = [op.global_size(dim) for dim in (x, y)]
    if not same(op.call.ctx, *sizes):
        return None
    if x.axes and y.axes:
        return clash(op, a, b, code)
    if x.axes:
        split = a
        whole = b
    else:
        split = b
        whole = a
    over = axes_text(x.axes or y.axes)
    message = (
        f"{op.name}: {shown(op, whole)} is replicated where {shown(op, split)} is sharded over {over}:"
        " shard it too"
    )
    return ShardingError("ST311", message)


def cast(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``astype``: linear, but for casts to integers, which cut off: then a pending sum may be one no more."""
    operands = with_numbers(op)[:1]
    result = combined(op, out, aligned(op, out, operands), "linear", operands)
    if operands and operands[0].dtype == "bool":
        result = replace(result, marks=result.marks | {WHOLE})  # a mask is no factor
    if dtypes.is_kind(out.dtype, "floating", "complex") or (
        operands and operands[0].dtype == out.dtype
    ):
        return result
    pending = frozenset(
        axis for axis in result.pending or () if (axis, "rounded") not in result.marks
    )
    rounded = (result.pending or frozenset()) - pending
    return replace(result, pending=rounded, unclear=result.unclear.plus(pending))


rule(["jax.numpy.astype", "jax.lax.convert_element_type"], cast)
rule(["jax.lax.reduce_precision"], elementwise("linear"))
