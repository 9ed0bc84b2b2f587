"""What functions do on explicit axes that take parts of an array, put parts in it, or reshape it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from shardlint.ops.arrays import ONE
from shardlint.ops.registry import is_none, static_int, static_str
from shardlint.ops.sharding.base import names as qualified
from shardlint.ops.sharding.explicit import GlobalOp, Split, rule
from shardlint.ops.sharding.origins import Origins
from shardlint.ops.sharding.reductions import along
from shardlint.ops.sharding.state import Arrays, Axes, DimAxes
from shardlint.ops.slices import index_items
from shardlint.values import (
    ArrayValue,
    Dimension,
    IntValue,
    Literal,
    SliceValue,
    Value,
)
from shardtypes.lang import Size
from shardtypes.lang.messages import axes_text, sharded_differently, sharded_over

#: Sizes that stand for unknown ones: far apart, and divisible by whatever a mesh has.
_LARGE = 2**10 * 3**4 * 5**2 * 7
_PRIMES = ((11, 13, 17, 19, 23, 29, 31, 37), (41, 43, 47, 53, 59, 61, 67, 71))


def reshaped(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``reshape``: JAX follows one dimension that is split up, or several that become one."""
    dims = op.dims
    if dims is None or out.dims is None or len(op.operands) > 1:
        return None
    if "order" in op.call.args and static_str(op.call.get("order")) != "C":
        return None
    if not is_none(op.call.get("dimensions")):
        return None
    axes = [dim.axes for dim in dims]
    if None in axes:
        return None
    if not any(axes):
        return [() for _ in out.dims]
    found: list[Split | str] = []
    for primes in _PRIMES:
        sizes = _numbers([*dims, *out.dims], primes)
        if sizes is None or any(op.shards(one) is None for one in axes):
            return None
        rank = len(dims)
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
            f"{op.text(op.operands[0])} to {sizes_text} {found[0]}: pass out_sharding=",
            0,
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
    splits = len(new) > len(old)
    groups = list(_groups(old, new) if splits else _groups(new, old))
    changed = [group for group in groups if len(group) > 1]
    if len(new) == len(old) or not groups or len(changed) > 1:
        return "has no sharding that JAX can infer on Explicit axes"
    if splits:
        return _split_up(op, groups, axes)
    return _merged(groups, axes)


def _split_up(
    op: GlobalOp, groups: list[list[int]], axes: list[tuple[str, ...]]
) -> DimAxes | str:
    """The axes of the dimensions that each of the old ones is split into."""
    result: DimAxes = []
    for group, one in zip(groups, axes, strict=True):
        parts = _dealt(op, one, group)
        if parts is None:
            return f"splits a dimension {sharded_over(one)} unevenly"
        result.extend(parts)
    return result


def _merged(groups: list[list[int]], axes: list[tuple[str, ...]]) -> DimAxes | str:
    """The axes of the dimensions that each group of old ones is merged into."""
    result: DimAxes = []
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


def _dealt(op: GlobalOp, axes: tuple[str, ...], sizes: Sequence[int]) -> DimAxes | None:
    """Axes dealt to the parts of their dimension, major to minor; None where a part does not divide."""
    rest = list(axes)
    result: DimAxes = []
    for size in sizes:
        mine: list[str] = []
        while size > 1 and rest:
            size, remainder = divmod(size, op.sizes[rest[0]] or 1)
            if remainder:
                return None
            mine.append(rest.pop(0))
        result.append(tuple(mine))
    if rest:
        return None
    return result


def resized(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``pad``, ``split``, ``dynamic_slice``: a split dimension whose size changes must still divide evenly."""
    dims = op.dims
    if dims is None or out.dims is None:
        return None
    if len(dims) != len(out.dims):
        return None
    if all(dim.size == ONE for dim in out.dims):
        return None  # a single element: newer releases of JAX take it from anywhere
    result: DimAxes = []
    pairs = zip(dims, out.dims, origins, strict=True)
    for k, (dim, new, origin) in enumerate(pairs):
        same = origin == (0, k) or (new.size is not None and new.size == dim.size)
        if dim.axes and not same:
            result.append(_divided(op, k, new.size))
        else:
            result.append(dim.axes)
    return result


def picked(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``dynamic_index_in_dim``: a slice of one, whose dimension may be dropped afterwards."""
    dims = op.dims
    axis = static_int(op.call.get("axis"))
    if not dims or out.dims is None or axis is None:
        return None
    if all(dim.size == ONE for dim in out.dims):
        return None
    if any(operand.dims for operand in op.operands[1:]):
        return None
    k = axis % len(dims)
    dim = dims[k]
    one = dim.axes
    if dim.axes and dim.size != ONE:
        one = _divided(op, k, ONE)
    axes = [dim.axes for dim in dims]
    before = axes[:k]
    after = axes[k + 1 :]
    if len(out.dims) == len(dims):
        return [*before, one, *after]
    return [*before, *after]


def differences(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``diff`` takes slices that lack one element."""
    dims = op.dims
    axis = static_int(op.call.get("axis"))
    if not dims or out.dims is None or axis is None:
        return None
    if len(op.operands) > 1:
        return None
    result = [dim.axes for dim in dims]
    k = axis % len(dims)
    if result[k]:
        size = dims[k].size
        if size is None or static_int(op.call.get("n")) != 1:
            return None
        result[k] = _divided(op, k, size - 1)
    return result


def _divided(op: GlobalOp, k: int, size: Size | None) -> Axes:
    """The axes of dimension ``k`` of the first operand, now ``size`` long; None where that is open."""
    dim = (op.dims or ())[k]
    count = op.shards(dim.axes)
    if not dim.axes or count is None:
        return None
    if size is None or size.is_opaque:
        return None
    number = size.constant
    witness = dict[str, int]()
    if number is None:
        found = _alike_for_all(dim.size, size, count)
        if found is None:
            return None
        number, witness = found
    if number % count:
        shape = op.text(op.operands[0])
        error = op.refused(
            f"{size} of dimension {k} of {shape} cannot be sharded evenly over {axes_text(dim.axes)}",
            0,
        )
        error.witness = witness
        raise error
    return dim.axes


def _alike_for_all(
    old: Size | None, size: Size, count: int
) -> tuple[int, dict[str, int]] | None:
    """The size of a part of an even dimension, with values for its one name, where it is divisible by ``count`` for all
    values or for none."""
    name = min(size.symbols, default="")
    if old is None or old.is_opaque or not old.symbols == size.symbols == {name}:
        return None
    several = ({name: n} for n in range(100 * count, 164 * count))
    # the dimension itself is even
    tried = [values for values in several if old.evaluate(values) % count == 0]
    verdicts = {size.evaluate(values) % count == 0 for values in tried}
    if len(verdicts) != 1:
        return None
    return size.evaluate(tried[0]), tried[0]


def indexed(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``x[…]`` with integers, slices, None and arrays of integers; where these are several, only what is refused."""
    items = index_items(op.call.get("index"))
    if op.dims is None or out.dims is None:
        return None
    arrays = [operand for operand in op.operands[1:] if operand.dims != ()]
    if len(arrays) > 1:
        return _several(op, items, arrays)
    if not all(map(_plain, items)):
        return None
    if arrays and not _only_one(items):
        return None
    if not all(map(_may_index, arrays)):
        return None
    places = _places(items, len(op.dims))
    if places is None:
        return None
    if all(dim.size == ONE for dim in out.dims) and not arrays:
        return None  # a single element: newer releases of JAX take it from anywhere
    result = _selected(op, out.dims, places, origins)
    if result is None or len(result) != len(out.dims):
        return None
    return result


def _may_index(index: ArrayValue) -> bool:
    """Whether an array of indices is known well enough: its rank, and that it is no mask."""
    return index.dims is not None and index.dtype not in (None, "bool")


def _selected(
    op: GlobalOp,
    dims: tuple[Dimension, ...],
    places: Sequence[tuple[Value, int | None]],
    origins: Origins,
) -> Split:
    """How the result's dimensions are split, by the items of an index and the dimensions that they select from."""
    source = op.dims or ()
    result: DimAxes = []
    for item, k in places:
        position = len(result)
        if k is None:
            result.append(())
        elif isinstance(item, SliceValue):
            axes = source[k].axes
            if axes and (0, k) not in origins[position : position + 1]:
                if position < len(dims):
                    size = dims[position].size
                else:
                    size = None
                axes = _divided(op, k, size)
            result.append(axes)
        elif isinstance(item, ArrayValue) and item.dims != ():
            result.extend(_looked_up(op, k, op.operands[1]))
        else:
            _check_picked(op, k)
            if source[k].axes is None:
                return None
    return result


def _several(op: GlobalOp, items: Sequence[Value], arrays: Arrays) -> Split:
    """``x[rows, columns]``: no dimension that is picked from may be split, and the indices are split alike."""
    for item in items:
        if not isinstance(item, (ArrayValue, SliceValue)) and item != Literal(...):
            return None
    if not all(map(_may_index, arrays)):
        return None
    for item, k in _places(items, len(op.dims or ())) or ():
        if isinstance(item, ArrayValue) and k is not None:
            _check_picked(op, k)
    both = arrays[:2]
    if any(len(index.dims or ()) != 1 for index in both):
        return None
    dims = [dim for index in both for dim in index.dims or ()]
    if any(dim.axes is None or dim.size == ONE for dim in dims):
        return None
    if dims[0].axes != dims[1].axes:
        texts = [op.text(index) for index in both]
        raise op.refused(sharded_differently(texts, "the indices"), code="ST309")
    return None


def along_axis(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``take_along_axis``: along the axis neither is split, elsewhere both alike."""
    if len(op.operands) != 2 or is_none(op.call.get("axis")):
        return None
    source, index = op.operands
    found = along(op.call, len(source.dims or ()))
    if not source.dims or not index.dims or len(source.dims) != len(index.dims):
        return None
    if found is None or len(found) != 1:
        return None
    k = found[0]
    _check_picked(op, k)
    split = index.dims[k].axes
    if split:
        why = f"the indices {op.text(index)} are {sharded_over(split)}: reshard them first"
        raise op.refused(why, 1)
    result: DimAxes = []
    for i, (a, b) in enumerate(zip(source.dims, index.dims, strict=True)):
        if i == k:
            result.append(())
            continue
        if ONE in (a.size, b.size) and a.size != b.size:
            return None  # broadcast first
        if a.axes and b.axes and a.axes != b.axes:
            texts = [op.text(source), op.text(index)]
            raise op.refused(sharded_differently(texts), code="ST309")
        known = a.axes is not None and b.axes is not None
        result.append(a.axes or b.axes if known else None)
    return result


def _plain(item: Value) -> bool:
    if isinstance(item, SliceValue):
        bounds = (item.lower, item.upper)
        known = all(is_none(one) or isinstance(one, IntValue) for one in bounds)
        return known and is_none(item.step)
    if item in (Literal(None), Literal(...)):
        return True
    return isinstance(item, (IntValue, ArrayValue))


def _only_one(items: Sequence[Value]) -> bool:
    """Whether everything but the one array is a full slice."""
    others = [item for item in items if not isinstance(item, ArrayValue)]
    return all(item == Literal(...) or _full(item) for item in others)


def _dims(operand: ArrayValue) -> tuple[Dimension, ...]:
    """The dimensions of an operand; one of which nothing is known where their number is not."""
    if operand.dims is None:
        return (Dimension(None),)
    return operand.dims


def _full(item: Value) -> bool:
    if not isinstance(item, SliceValue):
        return False
    return all(map(is_none, (item.lower, item.upper, item.step)))


def _places(items: Sequence[Value], rank: int) -> list[tuple[Value, int | None]] | None:
    """Every item of an index with the dimension that it selects from, missing slices written out."""
    new = Literal(None)
    rest = Literal(...)
    full = SliceValue(Literal(None), Literal(None), Literal(None))
    missing = rank - sum(item not in (new, rest) for item in items)
    if missing < 0:
        return None
    written: list[Value] = []
    for item in items if rest in items else (*items, rest):
        if item == rest:
            written.extend([full] * missing)
        else:
            written.append(item)
    result: list[tuple[Value, int | None]] = []
    k = 0
    for item in written:
        if item == new:
            result.append((item, None))
        else:
            result.append((item, k))
            k += 1
    return result


def _is_parted(op: GlobalOp, dim: Dimension) -> bool:
    """Whether no device has all of a dimension."""
    return bool(dim.axes) and dim.size != ONE and op.shards(dim.axes) != 1


def _check_picked(op: GlobalOp, k: int) -> None:
    """Raises OpError where single places are picked from dimension ``k`` of the first operand, and it is split."""
    dim = (op.dims or ())[k]
    if _is_parted(op, dim):
        why = (
            f"dimension {k} of {op.text(op.operands[0])} is {sharded_over(dim.axes or ())}: reshard it first, or use "
            ".at[…].get(out_sharding=…)"
        )
        raise op.refused(why, 0)


def _looked_up(op: GlobalOp, k: int, index: ArrayValue) -> DimAxes:
    """The dimensions of an array of indices into dimension ``k``: neither may be split."""
    _check_picked(op, k)
    dims = index.dims or ()
    split = next((dim.axes for dim in dims if dim.axes), None)
    if split:
        why = f"the indices {op.text(index)} are {sharded_over(split)}: use .at[…].get(out_sharding=…)"
        raise op.refused(why, 1)
    if (op.dims or ())[k].axes is None:
        return [None for _ in dims]
    return [dim.axes for dim in dims]


def taken(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
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
    return [*axes[:k], *_looked_up(op, k, index), *axes[k + 1 :]]


def rolled(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``roll``: by some releases of JAX not along a split dimension, by others not by part of a shard."""
    dims = op.dims
    shift = static_int(op.call.get("shift"))
    if dims is None or len(op.operands) > 1:
        return None
    if is_none(op.call.get("axis")):
        return None
    places = along(op.call, len(dims))
    if places is None or len(places) != 1:
        return None
    k = places[0]
    dim = dims[k]
    if dim.size is None:
        size = None
    else:
        size = dim.size.constant
    if dim.axes and shift is not None and size:
        _divided(op, k, Size.const(shift % size))
    result = [one.axes for one in dims]
    if dim.axes != ():
        result[k] = None
    return result


def updated(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """``x.at[…].set(y)``: the array stays as it is; not at places picked from a split dimension."""
    dims = op.dims
    items = index_items(op.call.get("index"))
    if dims is None:
        return None
    if any(not _plain(item) for item in items):
        return None
    written: list[Dimension] = []
    places = _places(items, len(dims)) or []
    for item, k in places:
        if k is None:
            continue
        dim = dims[k]
        if isinstance(item, IntValue) and _is_parted(op, dim):
            why = f"dimension {k} of {op.text(op.operands[0])} is {sharded_over(dim.axes or ())}: pass out_sharding="
            raise op.refused(why, 0)
        if not _full(item):
            written.append(dim)
    for operand in op.operands[1:]:
        written.extend(_dims(operand))
    if any(k is not None for _, k in places):
        if all(dim.axes == () for dim in written):
            return [dim.axes for dim in dims]
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
