"""Joining arrays: concatenate, stack and their relatives, select."""

from __future__ import annotations

from shardlint.ops import advice
from shardlint.ops.arrays import (
    ONE,
    UNKNOWN_ARRAY,
    array,
    as_array,
    axis_error,
    broadcast_dims,
    different,
    dtype_argument,
    flattened,
    merge_dims,
    merge_pending,
    one_axis,
    result_dtype,
    shown,
    sizes_of,
    with_dims,
    with_dtype,
)
from shardlint.ops.registry import Call, OpError, UnknownArgument, is_none, model, names
from shardlint.values import ArrayValue, Dimension, IntValue, SequenceValue, Value
from shardtypes.lang import Size


def joined_operands(call: Call, value: Value) -> list[ArrayValue]:
    """The arrays of a sequence; an array stands for the sequence of its rows."""
    # a list may have grown unseen
    if isinstance(value, SequenceValue) and (value.items or value.kind == "tuple"):
        return [as_array(item, call.ctx.x64) or UNKNOWN_ARRAY for item in value.items]
    if isinstance(value, ArrayValue) and value.dims:
        count = value.dims[0].size
        known = count.constant if count is not None else None
        if known is not None and 0 < known <= 64:
            return [with_dims(value, value.dims[1:])] * known
    raise UnknownArgument


def agree(
    call: Call, operands: list[ArrayValue], skip: int | None
) -> list[Dimension] | None:
    """The dimensions common to all operands, all but ``skip`` equal; None where no rank is known."""
    common: list[Dimension] | None = None
    first = operands[0]
    for i, operand in enumerate(operands):
        if operand.dims is None:
            continue
        if common is None:
            common, first = list(operand.dims), operand
            continue
        if len(operand.dims) != len(common):
            message = f"{call.name}: ranks differ: {shown(first)} and {shown(operand)}"
            raise OpError("ST209", message, operand=i)
        for k, dim in enumerate(operand.dims):
            if k == skip:
                continue
            witness = different(call.ctx, common[k].size, dim.size)
            if witness is not None:
                what = f"dimension {k} of {shown(first)} and {shown(operand)} differs"
                if skip is not None:
                    what += advice.joining(
                        [sizes_of(o) for o in operands if o.dims is not None], skip
                    )
                raise OpError("ST209", f"{call.name}: {what}", witness, i)
            common[k] = merge_dims(call.ctx, common[k], dim)
    return common


def chosen_dims(
    call: Call, which: ArrayValue, cases: list[ArrayValue]
) -> list[Dimension] | None:
    """The dimensions of what ``lax.select`` chooses: all cases have them, and what chooses, unless it is a scalar."""
    dims = agree(call, cases, None)
    if not which.dims:
        return dims
    if dims == []:
        # JAX refuses it, but not where what chooses is mapped by vmap
        raise UnknownArgument
    return agree(
        call, [with_dims(cases[0], None if dims is None else tuple(dims)), which], None
    )


def _finish(
    call: Call, operands: list[ArrayValue], dims: list[Dimension] | None
) -> ArrayValue:
    name, given = dtype_argument(call, call.get("dtype"))
    dtype, weak = (
        (name, False) if given else result_dtype(call.name, operands, call.ctx)
    )
    out = ArrayValue(
        None if dims is None else tuple(dims),
        pending=merge_pending(operands, "add"),
    )
    return with_dtype(out, dtype, weak)


@model("arrays, axis=0, dtype=None", "jax.numpy.concatenate")
@model("arrays, /, *, axis=0", "jax.numpy.concat")
@model("operands, dimension", "jax.lax.concatenate", alike="operands")
def concatenate(call: Call) -> Value:
    operands = joined_operands(
        call, call["arrays"] if "arrays" in call.args else call["operands"]
    )
    axis = call["axis"] if "axis" in call.args else call["dimension"]
    if "dimension" not in call.args:
        return _concatenate(call, operands, axis)
    if len(operands) == 1:
        return operands[0]  # handed back unseen
    out = _concatenate(call, operands, axis)
    alike = len({(operand.dtype, operand.weak) for operand in operands}) == 1
    return out if alike else with_dtype(out, None)


def _concatenate(call: Call, operands: list[ArrayValue], axis: Value) -> ArrayValue:
    if not operands:
        raise OpError("ST209", f"{call.name}: needs at least one array")
    if is_none(axis):
        operands = [with_dims(operand, flattened(operand)) for operand in operands]
        axis = IntValue(Size.const(0))
    known = next((operand for operand in operands if operand.dims is not None), None)
    if known is None or known.dims is None:
        return _finish(call, operands, None)
    if not known.dims:
        raise OpError(
            "ST209", f"{call.name}: a scalar cannot be concatenated; use jnp.stack"
        )
    at = one_axis(call, axis, len(known.dims), known)
    dims = agree(call, operands, at)
    assert dims is not None
    parts = [None if operand.dims is None else operand.dims[at] for operand in operands]
    total: Size | None = Size.const(0)
    for part in parts:
        total = (
            None
            if total is None or part is None or part.size is None
            else total + part.size
        )
    axes = {part.axes if part is not None else None for part in parts}
    dims[at] = Dimension(total, () if axes == {()} else None)
    return _finish(call, operands, dims)


@model("arrays, axis=0, out=None, dtype=None", "jax.numpy.stack")
def stack(call: Call) -> Value:
    operands = joined_operands(call, call["arrays"])
    if not operands:
        raise OpError("ST209", f"{call.name}: needs at least one array")
    dims = agree(call, operands, None)
    if dims is None:
        return _finish(call, operands, None)
    known = next(operand for operand in operands if operand.dims is not None)
    widened = with_dims(known, (*dims, Dimension(ONE, ())))
    try:
        at = one_axis(call, call["axis"], len(dims) + 1, widened)
    except OpError as error:
        if error.code == "ST208":
            axis = int(str(getattr(call["axis"], "size", 0)))
            raise axis_error(call, axis, known, len(dims) + 1) from None
        raise
    dims.insert(at, Dimension(Size.const(len(operands)), ()))
    return _finish(call, operands, dims)


@model("tup, dtype=None", *names("jax.numpy", "vstack hstack dstack"))
@model("tup", "jax.numpy.column_stack")
def stack_by_rank(call: Call) -> Value:
    """Concatenate after widening to the rank that the name wants."""
    operands = joined_operands(call, call["tup"])
    if not operands or any(operand.dims is None for operand in operands):
        return UNKNOWN_ARRAY
    widened = [_widen(call.last, operand) for operand in operands]
    axis = {"vstack": 0, "dstack": 2, "column_stack": 1}.get(call.last)
    if axis is None:
        axis = 0 if len(widened[0].dims or ()) == 1 else 1
    return _concatenate(call, widened, IntValue(Size.const(axis)))


def _widen(name: str, value: ArrayValue) -> ArrayValue:
    assert value.dims is not None
    one, rank = Dimension(ONE, ()), len(value.dims)
    if name == "hstack" or rank >= {"vstack": 2, "column_stack": 2, "dstack": 3}[name]:
        return value if rank else with_dims(value, (one,))
    if name == "vstack":
        return with_dims(value, (one,) * (2 - rank) + value.dims)
    if name == "column_stack":
        return with_dims(value, (*value.dims, one) if rank else (one, one))
    if rank == 2:
        return with_dims(value, (*value.dims, one))
    return with_dims(value, (one, *value.dims, one) if rank else (one, one, one))


@model("arr, values, axis=None", "jax.numpy.append")
def append(call: Call) -> Value:
    return _concatenate(call, [array(call, "arr"), array(call, "values")], call["axis"])


@model("pred, on_true, on_false", "jax.lax.select", alike="on_true on_false")
def lax_select(call: Call) -> Value:
    """No broadcasting: both choices have one shape, the predicate has it too or is a scalar."""
    pred, x, y = (array(call, name) for name in ("pred", "on_true", "on_false"))
    out = _finish(call, [x, y], chosen_dims(call, pred, [x, y]))
    return out if x.dtype == y.dtype else with_dtype(out, None)


@model("condlist, choicelist, default=0", "jax.numpy.select")
def select(call: Call) -> Value:
    conditions = joined_operands(call, call["condlist"])
    choices = joined_operands(call, call["choicelist"])
    if len(conditions) != len(choices):
        raise OpError(
            "ST209",
            f"{call.name}: {len(conditions)} conditions for {len(choices)} choices",
        )
    operands = [*choices, array(call, "default")]
    dims = broadcast_dims(call.name, [*conditions, *operands], call.ctx, "ST209")
    return _finish(call, operands, None if dims is None else list(dims))
