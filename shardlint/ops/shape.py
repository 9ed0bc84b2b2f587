"""Functions that rearrange, add, drop or repeat dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from shardlint.ops.arrays import (
    ONE,
    UNKNOWN_ARRAY,
    array,
    as_array,
    axes_argument,
    broadcast_dims,
    dims_of,
    one_axis,
    same,
    shown,
    shown_size,
    shown_sizes,
    size_of,
    sizes_argument,
    with_dims,
)
from shardlint.ops.elementwise import names
from shardlint.ops.reductions import flattened
from shardlint.ops.registry import Call, OpError, UnknownArgument, is_none, model, static_int
from shardlint.values import ArrayValue, Dimension, IntValue, Literal, SequenceValue, Value
from shardtypes.lang import Size, find_witness


def permuted(call: Call, value: ArrayValue, axes: Value) -> ArrayValue:
    """``transpose`` with an argument: None reverses."""
    if value.dims is None:
        count = len(axes.items) if isinstance(axes, SequenceValue) else None
        return with_dims(value, None if count is None else tuple(Dimension(None) for _ in range(count)))
    if is_none(axes):
        return with_dims(value, value.dims[::-1])
    if not isinstance(axes, SequenceValue):
        raise UnknownArgument
    rank = len(value.dims)
    if len(axes.items) != rank:
        given = len(axes.items)
        raise OpError("ST208", f"{call.name}: {given} axes for shape {shown(value)}, which has {rank}")
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
    return permuted(call, array(call, first), call["axes"] if first == "a" else call["permutation"])


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
        raise OpError("ST208", f"{call.name}: needs at least 2 dimensions, got {shown(value)}")
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
    destination = axes_argument(call, call["destination"], value)
    if source is None or destination is None:
        raise UnknownArgument
    if len(source) != len(destination):
        raise OpError("ST208", f"{call.name}: {len(source)} source axes, {len(destination)} destinations")
    order = [i for i in range(len(value.dims)) if i not in source]
    for target, origin in sorted(zip(destination, source, strict=True)):
        order.insert(target, origin)
    return with_dims(value, tuple(value.dims[i] for i in order))


@model("a, axis=None", "jax.numpy.squeeze")
def squeeze(call: Call) -> Value:
    value = array(call, "a")
    if value.dims is None:
        return value
    axes = axes_argument(call, call["axis"], value)
    if axes is None:
        if any(dim.size is None or not (dim.size.constant is not None) for dim in value.dims):
            # a symbol may be 1: the rank is not known, unless every dimension is a plain size
            return with_dims(value, None)
        return with_dims(value, tuple(dim for dim in value.dims if dim.size != 1))
    for axis in axes:
        refuse_squeeze(call, value, axis)
    return with_dims(value, tuple(dim for i, dim in enumerate(value.dims) if i not in axes))


def refuse_squeeze(call: Call, value: ArrayValue, axis: int) -> None:
    assert value.dims is not None
    size = value.dims[axis].size
    if size is None or size == 1 or (value.manual and value.dims[axis].axes != ()):
        return
    witness = find_witness(lambda sizes: size.evaluate(sizes) != 1, [size], call.ctx.facts)
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
    return with_dims(value, tuple(Dimension(ONE, ()) if i in where else next(rest) for i in range(rank)))


@model("array, shape, *, out_sharding=None", "jax.numpy.broadcast_to")
def broadcast_to(call: Call) -> Value:
    value = array(call, "array")
    target = sizes_argument(call["shape"])
    if target is None:
        return with_dims(value, None)
    if value.dims is None:
        return with_dims(value, dims_of(*target))
    return with_dims(value, broadcast_onto(call, value, target))


def broadcast_onto(call: Call, value: ArrayValue, target: list[Size | None]) -> tuple[Dimension, ...]:
    """The target's dimensions; every dimension of ``value`` must be equal to its own or 1."""
    assert value.dims is not None
    extra = len(target) - len(value.dims)
    if extra < 0:
        message = f"{call.name}: {shown(value)} has more dimensions than {shown_sizes(target)}"
        raise OpError("ST204", message)
    dims = [Dimension(size, ()) for size in target[:extra]]
    for dim, size in zip(value.dims, target[extra:], strict=True):
        hidden = value.manual and dim.axes != ()
        if dim.size is None or size is None or hidden or same(call.ctx, dim.size, size):
            dims.append(Dimension(size if size is not None or hidden else None, dim.axes))
            continue
        have, want = dim.size, size
        witness = find_witness(partial(_does_not_stretch, have, want), [have, want], call.ctx.facts)
        if have != 1 and (witness is not None or (have.constant is not None and want.constant is not None)):
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
    operands = [as_array(item, call.ctx.x64) or UNKNOWN_ARRAY for item in args.items]
    dims = broadcast_dims(call.name, operands, call.ctx)
    return SequenceValue(tuple(with_dims(operand, dims) for operand in operands), "list")


@model("m, axis=None", "jax.numpy.flip")
@model("m", *names("jax.numpy", "flipud fliplr"))
def flip(call: Call) -> Value:
    value = array(call, "m")
    if value.dims is not None:
        if call.last == "flip":
            axes_argument(call, call["axis"], value)
        elif len(value.dims) < (1 if call.last == "flipud" else 2):
            raise OpError("ST208", f"{call.name}: {shown(value)} has too few dimensions")
    return value


@model("a, shift, axis=None", "jax.numpy.roll")
def roll(call: Call) -> Value:
    value = array(call, "a")
    if value.dims is not None and not is_none(call["axis"]):
        axis = call["axis"]
        for item in axis.items if isinstance(axis, SequenceValue) else (axis,):
            try:
                one_axis(call, item, len(value.dims), value)
            except UnknownArgument:
                pass
    return value


@model("A, reps", "jax.numpy.tile")
def tile(call: Call) -> Value:
    value = array(call, "A")
    reps = sizes_argument(call["reps"])
    if reps is None or value.dims is None or (value.manual and any(dim.axes != () for dim in value.dims)):
        return with_dims(value, None)
    rank = max(len(reps), len(value.dims))
    dims = tuple(Dimension(ONE, ()) for _ in range(rank - len(value.dims))) + value.dims
    times = [ONE] * (rank - len(reps)) + reps
    return with_dims(value, tuple(_times(dim, count) for dim, count in zip(dims, times, strict=True)))


def _times(dim: Dimension, count: Size | None) -> Dimension:
    if count == 1:
        return dim
    return Dimension(None if dim.size is None or count is None else dim.size * count)


@model("a, repeats, axis=None, *, total_repeat_length=None, out_sharding=None", "jax.numpy.repeat")
def repeat(call: Call) -> Value:
    value = array(call, "a")
    if value.dims is None:
        return value if not is_none(call["axis"]) else with_dims(value, (Dimension(None),))
    if is_none(call["axis"]):
        dims, axis = list(flattened(value) or ()), 0
    else:
        if not value.dims:
            raise UnknownArgument
        dims, axis = list(value.dims), one_axis(call, call["axis"], len(value.dims), value)
    total = call["total_repeat_length"]
    if not is_none(total):
        dims[axis] = Dimension(size_of(total))
    elif isinstance(call["repeats"], IntValue):
        hidden = value.manual and dims[axis].axes != ()
        dims[axis] = Dimension(None) if hidden else _times(dims[axis], call["repeats"].size)
    else:
        dims[axis] = Dimension(None)
    return with_dims(value, tuple(dims))


@model("ary, indices_or_sections, axis=0", "jax.numpy.split", "jax.numpy.array_split")
@model("ary, indices_or_sections", *names("jax.numpy", "hsplit vsplit dsplit"))
def split(call: Call) -> Value:
    value = array(call, "ary")
    if value.dims is None:
        count = static_int(call["indices_or_sections"])
        return SequenceValue((value,) * count, "list") if count and 0 < count <= 64 else UNKNOWN_ARRAY
    axis_value = call["axis"] if "axis" in call.args else IntValue(Size.const(_split_axis(call, value)))
    axis = one_axis(call, axis_value, len(value.dims), value)
    size = value.dims[axis].size
    if value.manual and value.dims[axis].axes != ():
        size = None
    parts = _parts(call, value, axis, size)
    dims = value.dims
    return SequenceValue(
        tuple(with_dims(value, (*dims[:axis], Dimension(part, ()), *dims[axis + 1 :])) for part in parts), "list"
    )


def _split_axis(call: Call, value: ArrayValue) -> int:
    rank = len(value.dims or ())
    axis = {"vsplit": 0, "dsplit": 2}.get(call.last, 0 if rank == 1 else 1)
    if axis >= rank:
        raise OpError("ST208", f"{call.name}: {shown(value)} has too few dimensions")
    return axis


def _parts(call: Call, value: ArrayValue, axis: int, size: Size | None) -> list[Size | None]:
    where = call["indices_or_sections"]
    count = static_int(where)
    if count is not None:
        if not 0 < count <= 256:
            raise UnknownArgument
        if size is None:
            return [None] * count
        if call.last == "array_split":
            return [(size - i + count - 1) // count for i in range(count)]
        exact = size.divides_exactly(Size.const(count))
        if exact is not None:
            return [exact] * count
        if size.constant is not None:
            message = f"{call.name}: dimension {axis} of {shown(value)} is {size.constant}, not divisible by {count}"
            raise OpError("ST206", message)
        call.ctx.facts = call.ctx.facts.divides(count, size)
        return [size // count] * count
    bounds = sizes_argument(where) if isinstance(where, SequenceValue) else None
    if bounds is None:
        raise UnknownArgument
    known = [edge.constant for edge in bounds if edge is not None and edge.constant is not None]
    end = None if size is None else size.constant
    ordered = [0, *known, *([] if end is None else [end])]
    if len(known) < len(bounds) or ordered != sorted(ordered):
        return [None] * (len(bounds) + 1)
    parts: list[Size | None] = [Size.const(high - low) for low, high in zip([0, *known], known, strict=False)]
    return [*parts, None if size is None else size - ([0, *known][-1])]


@model("*arys", *names("jax.numpy", "atleast_1d atleast_2d atleast_3d"))
def at_least(call: Call) -> Value:
    arys = call["arys"]
    if not isinstance(arys, SequenceValue):
        raise UnknownArgument
    out: list[Value] = []
    wanted = int(call.last[8])
    for item in arys.items:
        value = as_array(item, call.ctx.x64) or UNKNOWN_ARRAY
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
            out.append(with_dims(value, (one,) * (wanted - len(value.dims)) + value.dims))
    return out[0] if len(out) == 1 else SequenceValue(tuple(out), "list")


@model("m, k=0", *names("jax.numpy", "tril triu"))
def triangle(call: Call) -> Value:
    value = array(call, "m")
    if value.dims is not None and len(value.dims) < 2:
        raise OpError("ST208", f"{call.name}: needs at least 2 dimensions, got {shown(value)}")
    return value


@model("array, pad_width, mode='constant', **kwargs", "jax.numpy.pad")
def pad(call: Call) -> Value:
    value = array(call, "array")
    if value.dims is None:
        return value
    if not value.dims:
        raise UnknownArgument
    widths = _pad_widths(call["pad_width"], len(value.dims))
    if widths is None:
        return with_dims(value, tuple(Dimension(None) for _ in value.dims))
    if len(widths) != len(value.dims):
        raise OpError("ST208", f"{call.name}: {len(widths)} pairs of widths for shape {shown(value)}")
    dims = []
    for dim, (low, high) in zip(value.dims, widths, strict=True):
        if low == 0 and high == 0:
            dims.append(dim)
        elif low is None or high is None or dim.size is None or (value.manual and dim.axes != ()):
            dims.append(Dimension(None))
        else:
            dims.append(Dimension(low + dim.size + high))
    return with_dims(value, tuple(dims))


def _pad_widths(value: Value, rank: int) -> list[tuple[Size | None, Size | None]] | None:
    if isinstance(value, IntValue):
        return [(value.size, value.size)] * rank
    if not isinstance(value, SequenceValue):
        return None
    rows = [sizes_argument(item) if isinstance(item, SequenceValue) else None for item in value.items]
    if all(isinstance(item, IntValue) for item in value.items):
        flat = [size_of(item) for item in value.items]
        if len(flat) == 2:
            return [(flat[0], flat[1])] * rank
        return [(flat[0], flat[0])] * rank if len(flat) == 1 else None
    out: list[tuple[Size | None, Size | None]] = []
    for row in rows:
        if row is None or len(row) not in (1, 2):
            return None
        out.append((row[0], row[-1]))
    return out * rank if len(out) == 1 else out
