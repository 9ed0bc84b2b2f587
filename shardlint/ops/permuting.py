"""Functions that reorder dimensions, or the elements along them."""

from __future__ import annotations

from shardlint.ops.arrays import (
    array,
    axes_argument,
    checked_axis,
    one_axis,
    shown,
    with_dims,
)
from shardlint.ops.elementwise import names
from shardlint.ops.registry import (
    Call,
    OpError,
    UnknownArgument,
    is_none,
    model,
    static_int,
)
from shardlint.values import (
    ArrayValue,
    Dimension,
    IntValue,
    Literal,
    SequenceValue,
    Value,
)


def permuted(call: Call, value: ArrayValue, axes: Value) -> ArrayValue:
    """``transpose`` with an argument: None reverses."""
    if value.dims is None:
        if not isinstance(axes, SequenceValue):
            return with_dims(value, None)
        # only an array of as many dimensions as there are axes can be transposed like this
        value = with_dims(value, tuple(Dimension(None) for _ in axes.items))
        if call.ctx.numpy:
            return value  # of something that may have a method of its own for it
    assert value.dims is not None
    if is_none(axes):
        return with_dims(value, value.dims[::-1])
    if not isinstance(axes, SequenceValue):
        raise UnknownArgument
    rank = len(value.dims)
    if len(axes.items) != rank:
        given = len(axes.items)
        raise OpError(
            "ST208",
            f"{call.name}: {given} axes for shape {shown(value)}, which has {rank}",
        )
    try:
        order = axes_argument(call, axes, value)
    except UnknownArgument:
        return with_dims(value, tuple(Dimension(None) for _ in value.dims))
    assert order is not None
    return with_dims(value, tuple(value.dims[i] for i in order))


@model("a, axes=None", "jax.numpy.transpose", "jax.numpy.permute_dims")
@model("operand, permutation", "jax.lax.transpose")
def transpose(call: Call) -> Value:
    first = "a" if "a" in call.args else "operand"
    return permuted(
        call, array(call, first), call["axes"] if first == "a" else call["permutation"]
    )


@model("self, *args", "jax.Array.transpose")
def transpose_method(call: Call) -> Value:
    args = call["args"]
    if not isinstance(args, SequenceValue):
        raise UnknownArgument
    if not args.items:
        return permuted(call, array(call, "self"), Literal(None))
    if len(args.items) == 1 and not isinstance(args.items[0], IntValue):
        return permuted(call, array(call, "self"), args.items[0])
    return permuted(call, array(call, "self"), args)


@model("x, /", "jax.numpy.matrix_transpose")
def matrix_transpose(call: Call) -> Value:
    value = array(call, "x")
    if value.dims is None:
        return value
    if len(value.dims) < 2:
        raise OpError(
            "ST208", f"{call.name}: needs at least 2 dimensions, got {shown(value)}"
        )
    return with_dims(value, (*value.dims[:-2], value.dims[-1], value.dims[-2]))


@model("a, axis1, axis2", "jax.numpy.swapaxes")
def swapaxes(call: Call) -> Value:
    value = array(call, "a")
    if value.dims is None:
        return value
    dims = list(value.dims)
    i = one_axis(call, call["axis1"], len(dims), value)
    k = one_axis(call, call["axis2"], len(dims), value)
    dims[i], dims[k] = dims[k], dims[i]
    return with_dims(value, tuple(dims))


@model("a, source, destination", "jax.numpy.moveaxis")
def moveaxis(call: Call) -> Value:
    value = array(call, "a")
    if value.dims is None:
        return value
    source = axes_argument(call, call["source"], value)
    given = call["destination"]
    if source is None or is_none(given):
        raise UnknownArgument
    rank, targets = (
        len(value.dims),
        given.items if isinstance(given, SequenceValue) else (given,),
    )
    # JAX takes one twice
    destination = [one_axis(call, target, rank, value) for target in targets]
    if len(source) != len(destination):
        raise OpError(
            "ST208",
            f"{call.name}: {len(source)} source axes, {len(destination)} destinations",
        )
    order = [i for i in range(len(value.dims)) if i not in source]
    for target, origin in sorted(zip(destination, source, strict=True)):
        order.insert(target, origin)
    return with_dims(value, tuple(value.dims[i] for i in order))


@model("m, axis=None", "jax.numpy.flip")
@model("m", *names("jax.numpy", "flipud fliplr"))
def flip(call: Call) -> Value:
    value = array(call, "m")
    if value.dims is not None:
        if call.last == "flip":
            axes_argument(call, call["axis"], value)
        elif len(value.dims) < (1 if call.last == "flipud" else 2):
            raise OpError(
                "ST208", f"{call.name}: {shown(value)} has too few dimensions"
            )
    return value


@model("a, shift, axis=None", "jax.numpy.roll")
def roll(call: Call) -> Value:
    value = array(call, "a")
    axis = call["axis"]
    if not is_none(axis):
        for item in axis.items if isinstance(axis, SequenceValue) else (axis,):
            checked_axis(call, value, item)
    return value


@model("a, axis, start=0", "jax.numpy.rollaxis")
def rollaxis(call: Call) -> Value:
    """The axis moves in front of the one that is at ``start``."""
    value, start = array(call, "a"), static_int(call["start"])
    if value.dims is None:
        return value
    rank = len(value.dims)
    axis = one_axis(call, call["axis"], rank, value)
    if start is None:
        raise UnknownArgument
    if not -rank <= start <= rank:
        raise OpError(
            "ST208",
            f"{call.name}: start {start} is out of range for shape {shown(value)}",
        )
    start = start + rank if start < 0 else start
    dims = list(value.dims)
    moved = dims.pop(axis)
    dims.insert(start - (axis < start), moved)
    return with_dims(value, tuple(dims))


@model("m, k=1, axes=(0, 1)", "jax.numpy.rot90")
def rot90(call: Call) -> Value:
    """An odd number of quarter turns swaps the two axes."""
    value, turns = array(call, "m"), static_int(call["k"])
    if value.dims is None:
        return value
    axes = axes_argument(call, call["axes"], value)
    if axes is None or len(axes) != 2 or turns is None:
        raise UnknownArgument
    dims = list(value.dims)
    if turns % 2:
        dims[axes[0]], dims[axes[1]] = dims[axes[1]], dims[axes[0]]
    return with_dims(value, tuple(dims))


@model("operand, dimensions", "jax.lax.rev")
def rev(call: Call) -> Value:
    value = array(call, "operand")
    if value.dims is not None and isinstance(call["dimensions"], SequenceValue):
        negative = next(
            (
                n
                for n in map(static_int, call["dimensions"].items)
                if n is not None and n < 0
            ),
            None,
        )
        if negative is not None:
            raise OpError(
                "ST208",
                f"{call.name} takes no negative axis, got {negative} for {shown(value)}",
            )
        axes_argument(call, call["dimensions"], value)
    return value
