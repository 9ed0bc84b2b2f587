"""What functions do on explicit axes that take parts of an array, put parts in it, or reshape it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from shardlint.ops.arrays import ONE
from shardlint.ops.registry import is_none, static_int, static_str
from shardlint.ops.sharding.base import names as qualified
from shardlint.ops.sharding.explicit import GlobalOp, Split, rule
from shardlint.ops.sharding.origins import Origin
from shardlint.ops.sharding.reductions import along
from shardlint.ops.sharding.state import Axes
from shardlint.values import (
    ArrayValue,
    Dimension,
    IntValue,
    Literal,
    SequenceValue,
    SliceValue,
    Value,
)
from shardtypes.lang import Size
from shardtypes.lang.messages import axes_text, sharded_differently, sharded_over

#: Sizes that stand for unknown ones: far apart, and divisible by whatever a mesh has.
_LARGE = 2**10 * 3**4 * 5**2 * 7
_PRIMES = ((11, 13, 17, 19, 23, 29, 31, 37), (41, 43, 47, 53, 59, 61, 67, 71))


def reshaped(op: GlobalOp, out: ArrayValue, origins: list[Origin]) -> Split:
    """``reshape``: JAX follows one dimension that is split up, or several that become one."""
    source = op.operands[0] if op.operands else None
    if (
        source is None
        or source.dims is None
        or out.dims is None
        or len(op.operands) > 1
    ):
        return None
    if "order" in op.call.args and static_str(op.call.get("order")) != "C":
        return None
    if not is_none(op.call.get("dimensions")):
        return None
    axes = [dim.axes for dim in source.dims]
    if None in axes:
        return None
    if not any(axes):
        return [() for _ in out.dims]
    found: list[Split | str] = []
    for primes in _PRIMES:
        sizes = _numbers([*source.dims, *out.dims], primes)
        if sizes is None or any(op.shards(one) is None for one in axes):
            return None
        rank = len(source.dims)
        found.append(
            _regrouped(op, sizes[:rank], [one or () for one in axes], sizes[rank:])
        )
    if found[0] != found[1]:
        return None
    if isinstance(found[0], str):
        sizes_text = op.text(
            ArrayValue(tuple(Dimension(dim.size, ()) for dim in out.dims))
        )
        raise op.refused(
            f"{op.text(source)} to {sizes_text} {found[0]}: pass out_sharding=", 0
        )
    return found[0]


def _numbers(dims: Sequence[Dimension], primes: Sequence[int]) -> list[int] | None:
    """Sizes as numbers, each name another one; None where some size is not known."""
    sizes = [
        dim.size for dim in dims if dim.size is not None and not dim.size.is_opaque
    ]
    names = sorted({name for size in sizes for name in size.symbols})
    if len(sizes) < len(dims) or len(names) > len(primes):
        return None
    values = {name: prime * _LARGE for name, prime in zip(names, primes, strict=False)}
    return [size.evaluate(values) for size in sizes]


def _regrouped(
    op: GlobalOp, old: list[int], axes: list[tuple[str, ...]], new: list[int]
) -> Split | str:
    """The axes of the new dimensions, or why JAX refuses; None where its ways with dimensions of 1 decide."""
    if [n for n in old if n != 1] == [n for n in new if n != 1]:
        left = iter(one for n, one in zip(old, axes, strict=True) if n != 1)
        return [() if n == 1 else next(left) for n in new]
    if 1 in old or 1 in new:
        return None
    groups = list(_groups(old, new) if len(new) > len(old) else _groups(new, old))
    if (
        len(new) == len(old)
        or not groups
        or sum(len(group) > 1 for group in groups) > 1
    ):
        return "has no sharding that JAX can infer on Explicit axes"
    result: list[Axes] = []
    if len(new) > len(old):
        for group, one in zip(groups, axes, strict=True):
            parts = _dealt(op, one, group)
            if parts is None:
                return f"splits a dimension {sharded_over(one)} unevenly"
            result.extend(parts)
        return result
    rest = iter(axes)
    for group in groups:
        joined = [next(rest) for _ in group]
        while joined and not joined[-1]:
            joined.pop()
        if not all(joined):
            minor = next(one for one in reversed(joined) if one)
            return f"merges a dimension {sharded_over(minor)} into a major one that is not sharded"
        result.append(tuple(axis for one in joined for axis in one))
    return result


def _groups(few: Sequence[int], many: Sequence[int]) -> Iterator[list[int]]:
    """Runs of ``many`` whose products are ``few``; nothing where there are none."""
    found: list[list[int]] = []
    place = 0
    for size in few:
        group: list[int] = []
        while prod(group) != size or not group:
            if place >= len(many) or prod(group) > size:
                return
            group.append(many[place])
            place += 1
        found.append(group)
    if place == len(many):
        yield from found


def _dealt(
    op: GlobalOp, axes: tuple[str, ...], sizes: Sequence[int]
) -> list[Axes] | None:
    """Axes dealt to the parts of their dimension, major to minor; None where a part does not divide."""
    rest = list(axes)
    result: list[Axes] = []
    for size in sizes:
        mine: list[str] = []
        while size > 1 and rest:
            size, remainder = divmod(size, op.sizes[rest[0]] or 1)
            if remainder:
                return None
            mine.append(rest.pop(0))
        result.append(tuple(mine))
    return None if rest else result


def resized(op: GlobalOp, out: ArrayValue, origins: list[Origin]) -> Split:
    """``pad``, ``split``, ``dynamic_slice``: a split dimension whose size changes must still divide evenly."""
    source = op.operands[0] if op.operands else None
    if (
        source is None
        or source.dims is None
        or out.dims is None
        or len(source.dims) != len(out.dims)
    ):
        return None
    if all(dim.size == ONE for dim in out.dims):
        return None  # a single element: newer releases of JAX take it from anywhere
    result: list[Axes] = []
    for k, (dim, new, origin) in enumerate(
        zip(source.dims, out.dims, origins, strict=True)
    ):
        same = origin == (0, k) or (new.size is not None and new.size == dim.size)
        result.append(
            dim.axes if same or not dim.axes else _divided(op, source, k, new.size)
        )
    return result


def picked(op: GlobalOp, out: ArrayValue, origins: list[Origin]) -> Split:
    """``dynamic_index_in_dim``: a slice of one, whose dimension may be dropped afterwards."""
    source, axis = (
        op.operands[0] if op.operands else None,
        static_int(op.call.get("axis")),
    )
    if source is None or not source.dims or out.dims is None or axis is None:
        return None
    if all(dim.size == ONE for dim in out.dims) or any(
        operand.dims for operand in op.operands[1:]
    ):
        return None
    k = axis % len(source.dims)
    one = (
        source.dims[k].axes
        if source.dims[k].size == ONE or not source.dims[k].axes
        else _divided(op, source, k, ONE)
    )
    rest = [dim.axes for dim in source.dims]
    return (
        [*rest[:k], one, *rest[k + 1 :]]
        if len(out.dims) == len(source.dims)
        else [*rest[:k], *rest[k + 1 :]]
    )


def differences(op: GlobalOp, out: ArrayValue, origins: list[Origin]) -> Split:
    """``diff`` takes slices that lack one element."""
    source, axis = (
        op.operands[0] if op.operands else None,
        static_int(op.call.get("axis")),
    )
    if (
        source is None
        or not source.dims
        or out.dims is None
        or axis is None
        or len(op.operands) > 1
    ):
        return None
    k = axis % len(source.dims)
    size = source.dims[k].size
    axes = source.dims[k].axes
    if axes and (size is None or static_int(op.call.get("n")) != 1):
        return None
    one = axes if not axes or size is None else _divided(op, source, k, size - 1)
    return [one if i == k else dim.axes for i, dim in enumerate(source.dims)]


def _divided(op: GlobalOp, source: ArrayValue, k: int, size: Size | None) -> Axes:
    """The axes of a dimension that is now ``size`` long; None where that is open."""
    axes, old = (source.dims or ())[k].axes, (source.dims or ())[k].size
    count = op.shards(axes)
    if not axes or count is None or size is None or size.is_opaque:
        return None
    number, witness = size.constant, dict[str, int]()
    name = min(size.symbols, default="")
    if (
        number is None
        and old is not None
        and not old.is_opaque
        and old.symbols == size.symbols == {name}
    ):
        several = ({name: n} for n in range(100 * count, 164 * count))
        # the dimension itself is even
        tried = [values for values in several if old.evaluate(values) % count == 0]
        if len({bool(size.evaluate(values) % count) for values in tried}) == 1:
            number, witness = size.evaluate(tried[0]), tried[0]
    if number is None:
        return None
    if number % count:
        why = f"{size} of dimension {k} of {op.text(source)} cannot be sharded evenly over {axes_text(axes)}"
        error = op.refused(why, 0)
        error.witness = witness
        raise error
    return axes


def indexed(op: GlobalOp, out: ArrayValue, origins: list[Origin]) -> Split:
    """``x[…]`` with integers, slices, None and arrays of integers; where these are several, only what is refused."""
    source = op.operands[0] if op.operands else None
    index = op.call.get("index")
    items = (
        index.items
        if isinstance(index, SequenceValue) and index.kind == "tuple"
        else (index,)
    )
    if source is None or source.dims is None or out.dims is None:
        return None
    arrays = [operand for operand in op.operands[1:] if operand.dims != ()]
    if len(arrays) > 1:
        return _several(op, source, items, arrays)
    if any(not _plain(item) for item in items):
        return None
    if arrays and (
        arrays[0].dims is None
        or arrays[0].dtype in (None, "bool")
        or not _only_one(items)
    ):
        return None
    places = _places(items, len(source.dims))
    if places is None:
        return None
    if all(dim.size == ONE for dim in out.dims) and not arrays:
        return None  # a single element: newer releases of JAX take it from anywhere
    result: list[Axes] = []
    position = 0
    for item, k in places:
        if k is None:
            result.append(())
        elif isinstance(item, SliceValue):
            dim = source.dims[k]
            same = position < len(origins) and origins[position] == (0, k)
            size = out.dims[position].size if position < len(out.dims) else None
            result.append(
                dim.axes if same or not dim.axes else _divided(op, source, k, size)
            )
        elif isinstance(item, ArrayValue) and item.dims != ():
            result.extend(_looked_up(op, source, k, op.operands[1]))
        else:
            _check_picked(op, source, k)
            if source.dims[k].axes is None:
                return None
            continue
        position = len(result)
    return result if len(result) == len(out.dims) else None


def _several(
    op: GlobalOp,
    source: ArrayValue,
    items: Sequence[Value],
    arrays: Sequence[ArrayValue],
) -> Split:
    """``x[rows, columns]``: no dimension that is picked from may be split, and the indices are split alike."""
    whole = all(
        isinstance(item, (ArrayValue, SliceValue)) or item == Literal(...)
        for item in items
    )
    if not whole or any(a.dims is None or a.dtype in (None, "bool") for a in arrays):
        return None
    for item, k in _places(items, len(source.dims or ())) or ():
        if isinstance(item, ArrayValue) and k is not None:
            _check_picked(op, source, k)
    one, other = arrays[0].dims or (), arrays[1].dims or ()
    if len(one) == len(other) == 1:
        a, b = one[0].axes, other[0].axes
        if (
            a is not None
            and b is not None
            and a != b
            and ONE not in (one[0].size, other[0].size)
        ):
            texts = [op.text(array) for array in arrays[:2]]
            raise op.refused(sharded_differently(texts, "the indices"), code="ST309")
    return None


def along_axis(op: GlobalOp, out: ArrayValue, origins: list[Origin]) -> Split:
    """``take_along_axis``: along the axis neither is split, elsewhere both alike."""
    if len(op.operands) != 2 or is_none(op.call.get("axis")):
        return None
    source, index = op.operands
    found = along(op.call, len(source.dims or ()))
    if (
        not source.dims
        or not index.dims
        or len(source.dims) != len(index.dims)
        or found is None
        or len(found) != 1
    ):
        return None
    k = found[0]
    _check_picked(op, source, k)
    if split := index.dims[k].axes:
        why = f"the indices {op.text(index)} are {sharded_over(split)}: reshard them first"
        raise op.refused(why, 1)
    result: list[Axes] = []
    for i, (a, b) in enumerate(zip(source.dims, index.dims, strict=True)):
        if ONE in (a.size, b.size) and a.size != b.size and i != k:
            return None  # broadcast first
        if i != k and a.axes and b.axes and a.axes != b.axes:
            raise op.refused(
                sharded_differently([op.text(source), op.text(index)]), code="ST309"
            )
        result.append(
            () if i == k else None if None in (a.axes, b.axes) else a.axes or b.axes
        )
    return result


def _plain(item: Value) -> bool:
    if isinstance(item, SliceValue):
        return all(
            is_none(part) or isinstance(part, IntValue)
            for part in (item.lower, item.upper)
        ) and is_none(item.step)
    return isinstance(item, (IntValue, ArrayValue)) or item in (
        Literal(None),
        Literal(...),
    )


def _only_one(items: Sequence[Value]) -> bool:
    """Whether everything but the one array is a full slice."""
    return all(
        isinstance(item, ArrayValue) or item == Literal(...) or _full(item)
        for item in items
    )


def _dims(operand: ArrayValue) -> tuple[Dimension, ...]:
    """The dimensions of an operand; one of which nothing is known where their number is not."""
    return (Dimension(None),) if operand.dims is None else operand.dims


def _full(item: Value) -> bool:
    return (
        isinstance(item, SliceValue)
        and is_none(item.lower)
        and is_none(item.upper)
        and is_none(item.step)
    )


def _places(items: Sequence[Value], rank: int) -> list[tuple[Value, int | None]] | None:
    """Every item of an index with the dimension that it selects from, missing slices written out."""
    full = SliceValue(Literal(None), Literal(None), Literal(None))
    used = sum(item not in (Literal(None), Literal(...)) for item in items)
    rest = rank - used
    if rest < 0:
        return None
    written: list[Value] = []
    for item in items:
        written.extend([full] * rest if item == Literal(...) else [item])
    if Literal(...) not in items:
        written.extend([full] * rest)
    result: list[tuple[Value, int | None]] = []
    k = 0
    for item in written:
        result.append((item, None if item == Literal(None) else k))
        k += item != Literal(None)
    return result


def _check_picked(op: GlobalOp, source: ArrayValue, k: int) -> None:
    dim = (source.dims or ())[k]
    if dim.axes and dim.size != ONE and op.shards(dim.axes) != 1:
        why = (
            f"dimension {k} of {op.text(source)} is {sharded_over(dim.axes)}: reshard it first, or use "
            ".at[…].get(out_sharding=…)"
        )
        raise op.refused(why, 0)


def _looked_up(
    op: GlobalOp, source: ArrayValue, k: int, index: ArrayValue
) -> list[Axes]:
    """The dimensions of an array of indices into dimension ``k``: neither may be split."""
    _check_picked(op, source, k)
    split = next((dim.axes for dim in index.dims or () if dim.axes), None)
    if split:
        why = f"the indices {op.text(index)} are {sharded_over(split)}: use .at[…].get(out_sharding=…)"
        raise op.refused(why, 1)
    open_ = (source.dims or ())[k].axes is None
    return [None if open_ else dim.axes for dim in index.dims or ()]


def taken(op: GlobalOp, out: ArrayValue, origins: list[Origin]) -> Split:
    """``take`` along one dimension."""
    if (
        len(op.operands) != 2
        or is_none(op.call.get("axis"))
        or op.operands[1].dims == ()
    ):
        return None
    source, index = op.operands
    found = along(op.call, len(source.dims or ()))
    if source.dims is None or index.dims is None or found is None or len(found) != 1:
        return None
    k = found[0]
    axes = [dim.axes for dim in source.dims]
    return [*axes[:k], *_looked_up(op, source, k, index), *axes[k + 1 :]]


def rolled(op: GlobalOp, out: ArrayValue, origins: list[Origin]) -> Split:
    """``roll``: by some releases of JAX not along a split dimension, by others not by part of a shard."""
    source = op.operands[0] if op.operands else None
    shift = static_int(op.call.get("shift"))
    if (
        source is None
        or source.dims is None
        or len(op.operands) > 1
        or is_none(op.call.get("axis"))
    ):
        return None
    axis = along(op.call, len(source.dims))
    if axis is None or len(axis) != 1:
        return None
    dim = source.dims[axis[0]]
    size = None if dim.size is None else dim.size.constant
    if dim.axes and shift is not None and size:
        _divided(op, source, axis[0], Size.const(shift % size))
    return [
        one.axes if k != axis[0] or one.axes == () else None
        for k, one in enumerate(source.dims)
    ]


def updated(op: GlobalOp, out: ArrayValue, origins: list[Origin]) -> Split:
    """``x.at[…].set(y)``: the array stays as it is; not at places picked from a split dimension."""
    source = op.operands[0] if op.operands else None
    index = op.call.get("index")
    items = (
        index.items
        if isinstance(index, SequenceValue) and index.kind == "tuple"
        else (index,)
    )
    if source is None or source.dims is None or any(not _plain(item) for item in items):
        return None
    places = [
        (item, k) for item, k in _places(items, len(source.dims)) or () if k is not None
    ]
    for item, k in places:
        dim = source.dims[k]
        if (
            isinstance(item, IntValue)
            and dim.axes
            and dim.size != ONE
            and op.shards(dim.axes) != 1
        ):
            why = f"dimension {k} of {op.text(source)} is {sharded_over(dim.axes)}: pass out_sharding="
            raise op.refused(why, 0)
    partly = [source.dims[k] for item, k in places if not _full(item)]
    others = [dim for operand in op.operands[1:] for dim in _dims(operand)]
    if places and all(dim.axes == () for dim in (*partly, *others)):
        return [dim.axes for dim in source.dims]
    return None


_JNP, _LAX, _AT = "jax.numpy", "jax.lax", "jax.Array.at"
rule(
    [
        *qualified(_JNP, "reshape ravel"),
        f"{_LAX}.reshape",
        *qualified("jax.Array", "reshape ravel flatten"),
    ],
    reshaped,
)
rule(
    [
        *qualified(_JNP, "pad split array_split"),
        *qualified(_LAX, "dynamic_slice dynamic_slice_in_dim slice_in_dim"),
    ],
    resized,
)
rule(qualified(_LAX, "dynamic_index_in_dim index_in_dim"), picked)
rule([f"{_JNP}.diff"], differences)
rule(["index", f"{_AT}.get"], indexed)
rule([f"{_JNP}.take"], taken)
rule([f"{_JNP}.take_along_axis"], along_axis, "ST309")
rule([f"{_JNP}.roll"], rolled)
rule(qualified(_AT, "set add multiply divide min max"), updated)
