"""Functions that add, drop or stretch dimensions of size 1."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from shardlint.ops.arrays import (
    ONE,
    array,
    axes_argument,
    broadcast_dims,
    dims_of,
    only_array,
    same,
    shown,
    shown_size,
    shown_sizes,
    sizes_argument,
    with_dims,
)
from shardlint.ops.registry import (
    Call,
    OpError,
    UnknownArgument,
    model,
    names,
    static_int,
)
from shardlint.values import (
    ArrayValue,
    Dimension,
    IntValue,
    SequenceValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size, find_witness


@model("a, axis=None", "jax.numpy.squeeze")
def squeeze(call: Call) -> Value:
    value = array(call, "a")
    if value.dims is None:
        return value
    axes = axes_argument(call, call["axis"], value)
    if axes is None:
        if any(
            dim.size is None or not (dim.size.constant is not None)
            for dim in value.dims
        ):
            # a symbol may be 1: the rank is not known, unless every dimension is a plain size
            return with_dims(value, None)
        return with_dims(value, tuple(dim for dim in value.dims if dim.size != 1))
    for axis in axes:
        refuse_squeeze(call, value, axis)
    return with_dims(
        value, tuple(dim for i, dim in enumerate(value.dims) if i not in axes)
    )


def refuse_squeeze(call: Call, value: ArrayValue, axis: int) -> None:
    assert value.dims is not None
    size = value.dims[axis].size
    if size is None or size == 1:
        return
    witness = find_witness(
        lambda sizes: size.evaluate(sizes) != 1, [size], call.ctx.facts
    )
    if size.constant is not None or witness is not None:
        message = f"{call.name}: dimension {axis} of {shown(value)} is {shown_size(size)}, not 1"
        raise OpError("ST208", message, witness or {})


@model("a, axis", "jax.numpy.expand_dims")
@model("array, dimensions", "jax.lax.expand_dims")
def expand_dims(call: Call) -> Value:
    value = array(call, "a" if "a" in call.args else "array")
    axis = call["axis"] if "axis" in call.args else call["dimensions"]
    if value.dims is None:
        return value
    count = len(axis.items) if isinstance(axis, SequenceValue) else 1
    rank = len(value.dims) + count
    placeholder = with_dims(value, tuple(Dimension(ONE, ()) for _ in range(rank)))
    try:
        where = axes_argument(call, axis, placeholder)
    except OpError as error:
        if error.code != "ST208":
            raise
        shape = shown(value)
        message = f"{call.name}: axis out of range or repeated for shape {shape} and {count} new"
        raise OpError("ST208", message) from None
    if where is None:
        raise UnknownArgument
    rest = iter(value.dims)
    return with_dims(
        value,
        tuple(Dimension(ONE, ()) if i in where else next(rest) for i in range(rank)),
    )


@model("array, shape, *, out_sharding=None", "jax.numpy.broadcast_to")
def broadcast_to(call: Call) -> Value:
    value = array(call, "array")
    target = sizes_argument(call["shape"])
    if target is None:
        return with_dims(value, None)
    if value.dims is None:
        return with_dims(value, dims_of(*target))
    return with_dims(value, broadcast_onto(call, value, target))


def broadcast_onto(
    call: Call, value: ArrayValue, target: list[Size | None]
) -> tuple[Dimension, ...]:
    """The target's dimensions; every dimension of ``value`` must be equal to its own or 1."""
    assert value.dims is not None
    extra = len(target) - len(value.dims)
    if extra < 0:
        message = f"{call.name}: {shown(value)} has more dimensions than {shown_sizes(target)}"
        raise OpError("ST204", message)
    dims = [Dimension(size, ()) for size in target[:extra]]
    for dim, size in zip(value.dims, target[extra:], strict=True):
        if dim.size is None or size is None or same(call.ctx, dim.size, size):
            dims.append(Dimension(size, dim.axes))
            continue
        have, want = dim.size, size
        witness = find_witness(
            partial(_does_not_stretch, have, want), [have, want], call.ctx.facts
        )
        if have != 1 and (
            witness is not None
            or (have.constant is not None and want.constant is not None)
        ):
            message = f"{call.name}: {shown(value)} does not broadcast to {shown_sizes(target)}"
            raise OpError("ST204", message, witness or {})
        dims.append(Dimension(size))
    return tuple(dims)


def _does_not_stretch(have: Size, want: Size, sizes: Mapping[str, int]) -> bool:
    return have.evaluate(sizes) not in (1, want.evaluate(sizes))


@model("*args", "jax.numpy.broadcast_arrays")
def broadcast_arrays(call: Call) -> Value:
    args = call["args"]
    if not isinstance(args, SequenceValue):
        raise UnknownArgument
    operands = [only_array(call, item, i) for i, item in enumerate(args.items)]
    dims = broadcast_dims(call.name, operands, call.ctx)
    return SequenceValue(
        tuple(with_dims(operand, dims) for operand in operands), "list"
    )


@model("*arys", *names("jax.numpy", "atleast_1d atleast_2d atleast_3d"))
def at_least(call: Call) -> Value:
    arys = call["arys"]
    if not isinstance(arys, SequenceValue):
        raise UnknownArgument
    out: list[Value] = []
    wanted = int(call.last[8])
    for item in arys.items:
        value = only_array(call, item)
        one = Dimension(ONE, ())
        if value.dims is None:
            out.append(value)
        elif len(value.dims) >= wanted:
            out.append(value)
        elif wanted == 3 and len(value.dims) == 2:
            out.append(with_dims(value, (*value.dims, one)))
        elif wanted == 3 and len(value.dims) == 1:
            out.append(with_dims(value, (one, *value.dims, one)))
        else:
            out.append(
                with_dims(value, (one,) * (wanted - len(value.dims)) + value.dims)
            )
    return out[0] if len(out) == 1 else SequenceValue(tuple(out), "list")


@model("array, dimensions", "jax.lax.squeeze")
def lax_squeeze(call: Call) -> Value:
    value = array(call, "array")
    if value.dims is None:
        return value
    axes = axes_argument(call, call["dimensions"], value)
    if axes is None:
        raise UnknownArgument
    for axis in axes:
        refuse_squeeze(call, value, axis)
    return with_dims(
        value, tuple(dim for i, dim in enumerate(value.dims) if i not in axes)
    )


@model("operand, sizes, *, out_sharding=None", "jax.lax.broadcast")
def lax_broadcast(call: Call) -> Value:
    """New dimensions in front."""
    value, sizes = array(call, "operand"), sizes_argument(call["sizes"])
    if (
        value.dims is None
        or sizes is None
        or not isinstance(call["sizes"], SequenceValue)
    ):
        return with_dims(value, None)
    if any((size.constant or 0) < 0 for size in sizes if size is not None):
        raise OpError("ST206", f"{call.name}: a negative size in {shown_sizes(sizes)}")
    return with_dims(value, tuple(Dimension(size, ()) for size in sizes) + value.dims)


@model(
    "operand, shape, broadcast_dimensions, *, out_sharding=None",
    "jax.lax.broadcast_in_dim",
)
def broadcast_in_dim(call: Call) -> Value:
    """Dimension ``i`` of the operand becomes dimension ``broadcast_dimensions[i]`` of the shape."""
    value, target = array(call, "operand"), sizes_argument(call["shape"])
    where = sizes_argument(call["broadcast_dimensions"])
    sequences = isinstance(call["shape"], SequenceValue) and isinstance(
        call["broadcast_dimensions"], SequenceValue
    )
    if target is None or where is None or not sequences:
        return with_dims(value, None)
    dims = [Dimension(size, ()) for size in target]
    if value.dims is None:
        return with_dims(value, tuple(Dimension(size) for size in target))
    if not where and len(target) == len(value.dims):
        raise UnknownArgument  # passed through as it is
    if len(where) != len(value.dims):
        message = (
            f"{call.name}: {len(where)} broadcast_dimensions for shape {shown(value)}"
        )
        raise OpError("ST208", message, operand=2)
    positions = [None if size is None else size.constant for size in where]
    if any(position is None for position in positions):
        return with_dims(value, tuple(Dimension(size) for size in target))
    known = [position for position in positions if position is not None]
    if any(not 0 <= position < len(target) for position in known) or known != sorted(
        set(known)
    ):
        what = f"broadcast_dimensions {tuple(known)} are not increasing positions in {shown_sizes(target)}"
        raise OpError("ST208", f"{call.name}: {what}", operand=2)
    placed = [target[position] for position in known]
    for position, dim in zip(known, broadcast_onto(call, value, placed), strict=True):
        dims[position] = dim
    return with_dims(value, tuple(dims))


@model("x, rank", "jax.lax.broadcast_to_rank")
def broadcast_to_rank(call: Call) -> Value:
    """Dimensions of 1 in front, until there are as many as wanted."""
    value, rank = array(call, "x"), static_int(call["rank"])
    if value.dims is None or rank is None or rank < len(value.dims):
        return with_dims(value, None)
    return with_dims(
        value, (Dimension(ONE, ()),) * (rank - len(value.dims)) + value.dims
    )


@model(
    "*shapes",
    "jax.numpy.broadcast_shapes",
    "jax.lax.broadcast_shapes",
    "numpy.broadcast_shapes",
)
def broadcast_shapes(call: Call) -> Value:
    """The shape that arrays of these shapes broadcast to, a tuple."""
    shapes = call["shapes"]
    if not isinstance(shapes, SequenceValue):
        raise UnknownArgument
    known = [
        sizes_argument(item) for item in shapes.items if isinstance(item, SequenceValue)
    ]
    if len(known) < len(shapes.items) or any(shape is None for shape in known):
        return Unknown("shapes that are not known")
    operands = [
        ArrayValue(tuple(Dimension(size, ()) for size in shape))
        for shape in known
        if shape is not None
    ]
    dims = broadcast_dims(call.name, operands, call.ctx)
    return (
        Unknown("shapes")
        if dims is None
        else SequenceValue(tuple(IntValue(dim.size) for dim in dims))
    )
