"""``reshape``: element counts as products of symbols, ``-1``, and what a reshape says about divisibility."""

from __future__ import annotations

from shardlint.ops.arrays import (
    array,
    flattened,
    product,
    same,
    shown,
    shown_size,
    shown_sizes,
    sizes_argument,
    with_dims,
)
from shardlint.ops.registry import (
    Call,
    OpContext,
    OpError,
    UnknownArgument,
    is_none,
    model,
    static_int,
)
from shardlint.values import ArrayValue, Dimension, SequenceValue, Value
from shardtypes.lang import Different, Facts, Size, compare


def reshaped(call: Call, value: ArrayValue, target: list[Size | None]) -> ArrayValue:
    """The array in another shape. Adds the divisibility that the program relies on to the facts."""
    if not _is_taken(call, target):
        return with_dims(value, None)
    wild = [i for i, size in enumerate(target) if size == -1]
    if value.dims is None:
        return with_dims(
            value,
            tuple(Dimension(None if i in wild else s) for i, s in enumerate(target)),
        )
    sizes = [dim.size for dim in value.dims]
    # a dimension of unknown size that is passed on as it is takes no part in the count
    known = [size for size in sizes if size is not None]
    given = [
        size for i, size in enumerate(target) if size is not None and i not in wild
    ]
    complete = len(known) == len(sizes)
    unknown = [i for i, size in enumerate(target) if size is None]
    if not complete or len(unknown) + len(wild) > 1:
        return with_dims(
            value,
            tuple(Dimension(None if i in wild else s) for i, s in enumerate(target)),
        )
    total, wanted = product(known), product(given)
    if unknown and wanted.constant == 0:
        return with_dims(value, tuple(map(Dimension, target)))  # any size will do
    wild += unknown  # else one that is not known is what the others leave
    if wild:
        inferred = _inferred(call, value, total, wanted, target)
        target = [inferred if i in wild else size for i, size in enumerate(target)]
    else:
        _check_count(call, value, total, wanted, target)
    dims = [Dimension(size) for size in target]
    return with_dims(value, tuple(_keep_axes(call.ctx, value.dims, dims)))


def _is_taken(call: Call, target: list[Size | None]) -> bool:
    """Whether the sizes are what ``reshape`` takes, with -1 once at most; False where NumPy takes another for -1."""
    inferred = sum(size == -1 for size in target)
    if inferred > 1:
        raise OpError("ST206", f"{call.name}: -1 is given {inferred} times")
    negative = next(
        (s for s in target if s is not None and (s.constant or 0) < -1), None
    )
    if negative is not None and not call.ctx.numpy:
        raise OpError("ST206", f"{call.name}: {shown_size(negative)} is not a size")
    return negative is None


def _check_count(
    call: Call, value: ArrayValue, total: Size, wanted: Size, target: list[Size | None]
) -> None:
    verdict = compare(total, wanted, call.ctx.facts)
    if isinstance(verdict, Different):
        message = (
            f"{call.name}: {shown(value)} has {shown_size(total)} elements, "
            f"but {shown_sizes(target)} has {shown_size(wanted)}"
        )
        raise OpError("ST206", message, verdict.witness)
    call.ctx.facts = even_divisions(call.ctx.facts, wanted)


def even_divisions(facts: Facts, size: Size) -> Facts:
    """The facts that every ``a//b`` in ``size`` comes out even: what ``reshape(a//b, b)`` relies on."""
    for operation in size.operations():
        if operation.op == "//":
            facts = facts.divides(operation.args[1], operation.args[0])
    return facts


def _inferred(
    call: Call, value: ArrayValue, total: Size, wanted: Size, target: list[Size | None]
) -> Size | None:
    """The size that -1 stands for."""
    if wanted == 0 or wanted.constant == 0:
        if total.constant == 0 or not total.symbols:
            raise OpError(
                "ST206", f"{call.name}: -1 cannot be inferred beside a size of 0"
            )
        return None
    call.ctx.facts = even_divisions(call.ctx.facts, wanted)
    exact = total.divides_exactly(wanted)
    if exact is not None:
        return exact
    a, b = total.constant, wanted.constant
    if a is not None and b is not None:
        message = f"{call.name}: {shown(value)} has {a} elements, not divisible by {b} of {shown_sizes(target)}"
        raise OpError("ST206", message)
    try:
        quotient = total // wanted
    except ZeroDivisionError:
        return None
    call.ctx.facts = even_divisions(call.ctx.facts, quotient)
    return quotient


def _keep_axes(
    ctx: OpContext, old: tuple[Dimension, ...], new: list[Dimension]
) -> list[Dimension]:
    """Leading and trailing dimensions that stay keep their sharding; what is split or joined does not say."""
    out = list(new)
    low = 0
    while low < min(len(old), len(new)) and same(ctx, old[low].size, new[low].size):
        out[low] = old[low]
        low += 1
    high = 1
    while high <= min(len(old), len(new)) - low and same(
        ctx, old[-high].size, new[-high].size
    ):
        out[-high] = old[-high]
        high += 1
    if all(dim.axes == () for dim in old):
        out = [Dimension(dim.size, ()) for dim in out]
    return out


@model("a, shape, order='C', *, copy=None, out_sharding=None", "jax.numpy.reshape")
@model("operand, new_sizes, dimensions=None, *, out_sharding=None", "jax.lax.reshape")
def reshape(call: Call) -> Value:
    value = array(call, "a" if "a" in call.args else "operand")
    target = sizes_argument(
        call["shape"] if "shape" in call.args else call["new_sizes"]
    )
    if target is None:
        return with_dims(value, None)
    if "operand" in call.args and any(size == -1 for size in target):
        raise OpError("ST206", f"{call.name} takes no -1; jnp.reshape does")
    return reshaped(call, value, target)


@model("self, *shape, order='C', copy=None, out_sharding=None", "jax.Array.reshape")
def reshape_method(call: Call) -> Value:
    """``x.reshape(a, b)`` and ``x.reshape((a, b))``."""
    value, sequence = array(call, "self"), call["shape"]
    if not isinstance(sequence, SequenceValue):
        raise UnknownArgument
    if len(sequence.items) == 1 and not isinstance(sequence.items[0], SequenceValue):
        target = sizes_argument(sequence.items[0])
    else:
        inner = sequence.items[0] if len(sequence.items) == 1 else sequence
        target = sizes_argument(inner)
    return with_dims(value, None) if target is None else reshaped(call, value, target)


@model("a, order='C', *, out_sharding=None", "jax.numpy.ravel")
@model("self, order='C', *, out_sharding=None", "jax.Array.flatten", "jax.Array.ravel")
def ravel(call: Call) -> Value:
    value = array(call, "a" if "a" in call.args else "self")
    return with_dims(value, flattened(value))


@model("operand, start_dimension=0, stop_dimension=None", "jax.lax.collapse")
def collapse(call: Call) -> Value:
    value = array(call, "operand")
    start, stop = (
        static_int(call["start_dimension"]),
        static_int(call["stop_dimension"]),
    )
    if (
        value.dims is None
        or start is None
        or (stop is None and not is_none(call["stop_dimension"]))
    ):
        raise UnknownArgument
    rank = len(value.dims)
    low, high, _ = slice(start, stop).indices(rank)
    if low > high:
        raise OpError(
            "ST208",
            f"{call.name}: no dimensions from {low} to {high} in {shown(value)}",
        )
    middle = flattened(with_dims(value, value.dims[low:high]))
    return with_dims(value, value.dims[:low] + (middle or ()) + value.dims[high:])
