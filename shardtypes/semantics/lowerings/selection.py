"""Choosing entries by conditions and positions, sets, and orders besides ``sort``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.comparison import common_shape, require_equal
from shardtypes.semantics.lazy import np
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    axis_of,
    cast,
    counting,
    default,
    in_dtype_of,
    int_of,
    like,
    not_read,
    number_of,
    of_shape,
    promoted,
    shape_of,
    sizes_of,
    strong,
    weak_as,
)
from shardtypes.semantics.lowerings.elementwise import clip, truth, where
from shardtypes.semantics.lowerings.indexing import At, indexed, take
from shardtypes.semantics.lowerings.joining import concatenate, stack
from shardtypes.semantics.lowerings.operators import floor_divide, remainder
from shardtypes.semantics.lowerings.reductions import argsort, cumsum, sort, sum_
from shardtypes.semantics.lowerings.shapes import (
    broadcast_to,
    moveaxis,
    ravel,
    require_broadcast,
    reshape,
    size_of,
)
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives import reductions as r
from shardtypes.semantics.registry import Refused, Unsupported, lowering
from shardtypes.semantics.sizes import greatest, is_number, is_surely_less, least

_JNP = "jax.numpy"


# --- by conditions --------------------------------------------------------------------------------------------------


@lowering(f"{_JNP}.select")
def select(condlist: Any, choicelist: Any, default: ArrayLike = 0) -> Array:
    """The choice of the first condition that holds."""
    conditions = [asarray(one) for one in condlist]
    if len(conditions) != len(choicelist):
        count = f"{len(conditions)} conditions for {len(choicelist)} choices"
        raise Refused(count, "joins")
    *choices, found = promoted(*[asarray(one) for one in choicelist], asarray(default))
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        found = where(condition, choice, found)
    return found


@lowering(f"{_JNP}.piecewise")
def piecewise(
    x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any
) -> Array:
    """The function of the last condition that holds, of each entry; one function more is for where none does."""
    array = asarray(x)
    given = condlist
    if not isinstance(condlist, (list, tuple)):
        given = asarray(condlist)
    conditions = [truth(one) for one in given]
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ValueError(
            "piecewise needs a function for each condition, and at most one more"
        )
    found = like(0, array)
    if len(functions) > len(conditions):
        found = _piece(functions.pop(), array, args, kw)
    for condition, function in zip(conditions, functions, strict=True):
        found = where(condition, _piece(function, array, args, kw), found)
    shapes = [array.dims]
    for condition in conditions:
        shapes.append(condition.dims)
    return broadcast_to(found, common_shape(shapes))


def _piece(
    function: Any, array: Array, args: Sequence[Any], kw: dict[str, Any]
) -> Array:
    if not callable(function):
        return cast(asarray(function), array.dtype)
    made = asarray(function(array, *args, **kw))
    if made.dims not in ((), array.dims):
        raise Unsupported("a piece that is no function of each entry")
    return cast(made, array.dtype)


@lowering(f"{_JNP}.choose")
def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    options = promoted(*[asarray(choices[k]) for k in range(len(choices))])
    index = asarray(a)
    if dtypes.is_kind(index.dtype, "signed", "unsigned") is False:
        raise Refused(f"choices are numbered by integers, got {index.dtype}", "dtypes")
    if mode == "raise":
        raise Unsupported("choose in mode raise")
    last = len(options) - 1
    if mode == "clip":
        index = clip(index, 0, last)
    else:
        index = remainder(index, last + 1)
    shape = common_shape([index.dims, *(option.dims for option in options)])
    for array in (index, *options):
        require_broadcast(array.dims, shape)
    found = broadcast_to(options[0], shape)
    for k in range(1, len(options)):
        found = where(e.eq(index, like(k, index)), options[k], found)
    return strong(found)


@lowering(f"{_JNP}.place")
def place(
    arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True
) -> Array:
    array = asarray(arr)
    chosen = ravel(truth(mask))
    new = in_dtype_of(ravel(vals), array)
    why = "array and mask have as many entries"
    require_equal(size_of(array), size_of(chosen), why)
    if size_of(new) == 0:
        raise Refused("needs values to place", "sizes")
    order = remainder(cumsum(chosen) - 1, size_of(new))
    return where(
        reshape(chosen, array.dims), reshape(take(new, order), array.dims), array
    )


@lowering(f"{_JNP}.put")
def put(
    a: ArrayLike,
    ind: ArrayLike,
    v: ArrayLike,
    mode: str | None = None,
    *,
    inplace: bool = True,
) -> Array:
    array = asarray(a)
    index = ravel(ind)
    values = ravel(v)
    if dtypes.is_kind(index.dtype, "floating", "complex") is True:
        raise Refused(f"positions are integers, got {index.dtype}", "dtypes")
    if 0 in (size_of(index), size_of(values)):
        return array
    if array.rank == 0:
        raise Refused("needs a dimension to put values along", "ranks")
    if mode not in (None, "clip", "wrap"):
        raise Unsupported(f"put in mode {mode}")
    places = remainder(counting(size_of(index)), greatest(size_of(values), 1))
    values = take(values, places)
    if mode == "wrap":
        index = remainder(index, size_of(array))
    return reshape(At(ravel(array), index).set(values), array.dims)


# --- positions where something holds: of a given number, as JAX needs one under jit ---------------------------------


def _true_positions(mask: Array, size: int | None, what: str) -> tuple[Array, Array]:
    """The flat positions where a mask holds, and which of them are there; ``size`` of them."""
    if size is None:
        size = _count_of(mask, what)
    _require_count(size)
    flat = ravel(mask)
    count = size_of(flat)
    order = argsort(e.not_(flat))
    order = _of_length(order, count, number_of(size))
    return order, e.lt(counting(number_of(size)), sum_(flat))


def _require_count(size: Any) -> None:
    """Raises Refused for a number of entries below 0."""
    if is_number(size) and int_of(size) < 0:
        raise Refused(f"the size asked for is {size}", "sizes")


def _count_of(mask: Array, what: str) -> int:
    """Where a mask holds, if that is the same on all devices: JAX counts as well where nothing is traced."""
    if mask.value is None or mask.value.axes:
        raise Unsupported(f"{what} without a size")
    return int(np.sum(mask.numbers()))


def _of_length(positions: Array, count: int, size: int) -> Array:
    """So many positions: cut, or zeros behind the ``count`` that there are."""
    missing = greatest(size - count, 0)
    zeros = broadcast_to(like(0, positions), (missing,))
    if not is_number(missing):
        return of_shape(positions, (size,))
    return concatenate([positions, zeros])[:size]


@lowering(f"{_JNP}.nonzero")
def nonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: Any = None
) -> tuple[Array, ...]:
    array = asarray(a)
    if array.rank == 0:
        raise Refused("needs a dimension at least", "ranks")
    flat, there = _true_positions(truth(array), size, "nonzero")
    if isinstance(fill_value, tuple):
        fills = fill_value
    else:
        fills = (fill_value or 0,) * array.rank
    found = unravel_index(flat, sizes_of(array))
    return tuple(
        where(there, one, fill) for one, fill in zip(found, fills, strict=True)
    )


@lowering(f"{_JNP}.flatnonzero")
def flatnonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: Any = None
) -> Array:
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


@lowering(f"{_JNP}.where")
def where_or_nonzero(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """A choice of two values; of a condition alone the places where it holds."""
    if x is None or y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    return where(condition, x, y)


@lowering(f"{_JNP}.argwhere")
def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    array = asarray(a)
    if array.rank == 0:
        (found,) = nonzero(ravel(array), size=size, fill_value=fill_value)
        return broadcast_to(like(0, found), (*found.dims, 0))
    return stack(nonzero(array, size=size, fill_value=fill_value), -1)


@lowering(f"{_JNP}.compress")
def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    if axis is None:
        array = ravel(a)
    else:
        array = moveaxis(a, axis, 0)
    chosen = truth(condition)
    if size is None and chosen.value is not None and not chosen.value.axes:
        size = int(np.sum(chosen.numbers()))
    if chosen.rank != 1:
        raise Refused("the condition is no vector", "ranks")
    (length,) = chosen.dims
    along = array.dims[0]
    if is_number(length) and is_number(along):
        chosen, array = chosen[:along], array[:length]
        length = least(length, along)
    if size is not None and is_surely_less(length, size):
        raise Refused(f"size is {size}, of {length} entries", "sizes")
    flat, there = _true_positions(chosen, size, "compress")
    rows = reshape(there, (*there.dims, *(1,) * (array.rank - 1)))
    found = where(
        rows,
        indexed(array, (flat,)),
        cast(asarray(fill_value), array.dtype),
    )
    if axis is None:
        return found
    return moveaxis(found, 0, axis)


@lowering(f"{_JNP}.extract")
def extract(
    condition: ArrayLike,
    arr: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
) -> Array:
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


@lowering(f"{_JNP}.unravel_index")
def unravel_index(indices: ArrayLike, shape: Any) -> tuple[Array, ...]:
    rest = asarray(indices)
    found: list[Array] = []
    for size in reversed(shape_of(shape)):
        found.append(remainder(rest, size))
        rest = floor_divide(rest, size)
    return tuple(reversed(found))


@lowering(f"{_JNP}.ravel_multi_index")
def ravel_multi_index(
    multi_index: Any,
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: Any = None,
) -> Array:
    not_read(dtype=dtype)
    if mode == "raise" or order != "C":
        raise Unsupported(f"ravel_multi_index in mode {mode}, order {order}")
    found = asarray(0)
    for index, size in zip(multi_index, dims, strict=True):
        if mode == "clip":
            inside = clip(index, 0, size - 1)
        else:
            inside = remainder(index, size)
        found = found * size + inside
    return strong(found)


# --- sets -----------------------------------------------------------------------------------------------------------


class _Unique:
    """The different entries of an array, in order, ``size`` of them."""

    def __init__(self, ar: ArrayLike, size: int | None, fill_value: Any) -> None:
        flat = ravel(ar)
        if size is None and dtypes.is_kind(flat.dtype, "floating", "complex"):
            raise Unsupported("unique without a size: how many differ, rounding tells")
        self.total = size_of(flat)
        if size is not None:
            _require_count(size)
        if self.total == 0 and fill_value is None and size not in (None, 0):
            raise Refused("an empty array needs a fill_value", "sizes")
        self.is_empty = self.total == 0
        if self.is_empty:
            # of one entry, which is not there
            flat = broadcast_to(like(0, flat), (1,))
        self.order = argsort(flat)
        self.ordered = take(flat, self.order)
        first_is_new = np.full(1, not self.is_empty)
        new = concatenate([first_is_new, self.ordered[1:] != self.ordered[:-1]])
        self.group = cumsum(new) - 1
        self.size = _count_of(new, "unique") if size is None else number_of(size)
        first = argsort(e.not_(new))
        first = _of_length(first, size_of(flat), self.size)
        there = e.lt(counting(self.size), sum_(new))
        self.first = where(there, first, 0)
        if fill_value is None:
            fill = self.ordered[0]
        else:
            fill = cast(asarray(fill_value), flat.dtype)
        self.values = where(there, take(self.ordered, self.first), fill)
        if self.is_empty:
            self.values = weak_as(self.values, asarray(ar))
        self.there = there

    @property
    def index(self) -> Array:
        """Where each was found first."""
        return take(self.order, self.first)

    @property
    def inverse(self) -> Array:
        """The place of each entry among the different ones."""
        found = take(self.group, argsort(self.order))
        return found[:0] if self.is_empty else found

    @property
    def counts(self) -> Array:
        same = e.eq(_column(self.size), self.group)
        return sum_(same, axis=1)


def _column(size: int) -> Array:
    """0, 1, 2 … as a column."""
    return reshape(counting(size), (size, 1))


@lowering(f"{_JNP}.unique", unread="equal_nan sorted")
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    array = asarray(ar)
    if axis is not None and array.rank != 1:
        raise Unsupported("different rows")
    if return_inverse and array.rank != 1:
        raise Unsupported("the inverse of several dimensions")
    made = _Unique(array, size, fill_value)
    found = [made.values]
    found += [made.index] if return_index else []
    found += [made.inverse] if return_inverse else []
    found += [made.counts] if return_counts else []
    if len(found) == 1:
        return found[0]
    return tuple(found)


@lowering(f"{_JNP}.unique_values")
def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None
) -> Array:
    return _Unique(x, size, fill_value).values


@lowering(f"{_JNP}.unique_counts")
def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None
) -> tuple[Array, Array]:
    made = _Unique(x, size, fill_value)
    return made.values, made.counts


@lowering(f"{_JNP}.union1d")
def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: Any = None
) -> Array:
    return _Unique(concatenate([ravel(ar1), ravel(ar2)]), size, fill_value).values


# --- orders ---------------------------------------------------------------------------------------------------------


@lowering(f"{_JNP}.partition")
def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Sorted up to the place, in falling order behind it, as JAX leaves them."""
    array = asarray(a)
    at = axis_of(axis, array.rank)
    ordered = moveaxis(sort(array, at), at, -1)
    size = sizes_of(ordered)[-1]
    if not is_number(size):
        return of_shape(array, array.dims)
    if not -size <= kth < size:
        raise Refused(f"there is no place {kth} among {size} entries", "indices")
    cut = kth % size + 1
    least = ordered[..., :cut]
    rest = ordered[..., cut:]
    found = concatenate([least, rest[..., ::-1]], -1)
    return moveaxis(found, -1, at)


@lowering(f"{_JNP}.lexsort", unread="batch_size")
def lexsort(keys: Any, axis: int = -1) -> Array:
    arrays = [asarray(keys[k]) for k in reversed(range(len(keys)))]
    if not arrays:
        raise Refused("needs a key at least", "operands")
    if any(array.rank != arrays[0].rank for array in arrays):
        raise Refused("keys have one shape", "operands")
    if arrays[0].rank == 0:
        return strong(asarray(0))
    at = axis_of(axis, arrays[0].rank)
    operands = [*arrays, r.positions(arrays[0].dims, at)]
    ordered = r.sort(
        *operands,
        dimension=at,
        num_keys=len(arrays),
        is_stable=True,
        count=len(operands),
    )
    return cast(ordered[-1], default(int))


@lowering("jax.lax.sort_key_val")
def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, ...]:
    arrays = asarray(keys), asarray(values)
    at = axis_of(dimension, arrays[0].rank)
    return r.sort(*arrays, dimension=at, num_keys=1, is_stable=True, count=2)


# --- along dimensions -----------------------------------------------------------------------------------------------


@lowering(f"{_JNP}.apply_over_axes")
def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: Any) -> Array:
    array = asarray(a)
    for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
        made = asarray(func(array, axis))
        if made.rank == array.rank:
            array = made
        else:
            array = _widened(made, axis_of(axis, array.rank))
    return array


def _widened(array: Array, axis: int) -> Array:
    """With a dimension of size 1 where one was reduced."""
    from shardtypes.semantics.lowerings.shapes import expand_dims

    return expand_dims(array, axis)
