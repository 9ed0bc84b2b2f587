"""Reductions, norms, softmax, cumulative functions, sorts and statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics import kinds
from shardtypes.semantics.array import Array
from shardtypes.semantics.comparison import require_equal
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    axes_of,
    axis_of,
    cast,
    cast_each,
    default,
    dtype_name,
    inexact,
    lax_axes_of,
    lax_axis_of,
    like,
    shape_of,
    sizes_of,
    stored,
    strong,
    weak_as,
)
from shardtypes.semantics.lowerings.elementwise import isnan, truth, where
from shardtypes.semantics.lowerings.operators import divide, multiply, subtract
from shardtypes.semantics.primitive import Primitive
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives import reductions as r
from shardtypes.semantics.primitives.structure import expand_dims, reshape
from shardtypes.semantics.registry import Refused, Unsupported, lowering
from shardtypes.semantics.sizes import greatest, is_surely_less

_JNP, _LAX, _NN = "jax.numpy", "jax.lax", "jax.nn"


def widened(array: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """A reduced array, with dimensions of size 1 where it was reduced if they are kept."""
    if keepdims and axes:
        return expand_dims(array, axes=axes)
    return array


def accumulated(array: Array) -> Array:
    """The array in the dtype in which ``sum`` adds: small integers and booleans in 32 bits."""
    return cast_each(array, _accumulating)


def _accumulating(dtype: str) -> str:
    kind = dtypes.KIND_OF.get(dtype)
    if kind == "unsigned":
        return _larger(dtype, stored("uint64"))
    if kind in ("bool", "signed"):
        return _larger(dtype, default(int))
    return dtype


def _summing_up(dtype: str) -> str:
    if dtype == "bool":
        return default(int)
    return dtype


def _larger(a: str, b: str) -> str:
    return max(b, a, key=dtypes.bits)


def open_if_narrow(array: Array) -> Array:
    """The array, without a dtype if it has few bits: some releases refuse it."""
    if array.dtype in _NARROW:
        return replace(array, dtype=None)
    return array


_NARROW = ("int2", "int4", "uint2", "uint4")


def masked(array: Array, mask: ArrayLike | None, value: complex) -> Array:
    """The array, with a number where a mask is false."""
    if mask is None:
        return array
    return where(truths(mask), array, like(value, array))


def truths(mask: ArrayLike) -> Array:
    """A mask of a reduction. Raises Refused for one of numbers."""
    array = asarray(mask)
    if dtypes.is_kind(array.dtype, "signed", "unsigned", "floating", "complex"):
        got = dtypes.written(array.dtype)
        remedy = "compare it, or use astype(bool)"
        raise Refused(f"where is {got}, it has to be boolean: {remedy}", "dtypes")
    return array


def _reduce(
    primitive: Primitive,
    array: Array,
    axes: tuple[int, ...],
    keepdims: bool,
    initial: ArrayLike | None,
    combine: Primitive,
) -> Array:
    found = primitive(array, axes=axes)
    if initial is not None:
        first = asarray(initial)
        if first.shape:
            raise Refused("the initial value is a scalar")
        found = combine(found, weak_as(_in_its_dtype(first, found), found))
    return strong(widened(found, axes, keepdims))


@lowering(f"{_JNP}.sum")
def sum_(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    array = asarray(a, dtype)
    if dtype is None and promote_integers:
        array = accumulated(array)
    axes = axes_of(axis, array.rank)
    kept = masked(array, where, 0)
    if array.dtype == "bool":
        return _reduce(r.reduce_or, kept, axes, keepdims, initial, e.or_)
    return _reduce(r.reduce_sum, kept, axes, keepdims, initial, e.add)


@lowering(f"{_JNP}.prod")
def prod(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    array = open_if_narrow(asarray(a, dtype))
    if dtype is None and promote_integers:
        array = accumulated(array)
    axes = axes_of(axis, array.rank)
    kept = masked(array, where, 1)
    if array.dtype == "bool":
        return _reduce(r.reduce_and, kept, axes, keepdims, initial, e.and_)
    return _reduce(r.reduce_prod, kept, axes, keepdims, initial, e.mul)


def _in_its_dtype(value: Array, array: Array) -> Array:
    if array.dtype is None:
        return value
    return cast(value, array.dtype)


def _masked_by(
    array: Array, mask: ArrayLike | None, initial: ArrayLike | None
) -> Array:
    """The array, with the initial value of its extremum where a mask is false."""
    if mask is None:
        return array
    if initial is None:
        raise Refused("has no identity, so that `where` needs `initial`")
    value = _in_its_dtype(asarray(initial), array)
    return e.select_n(truths(mask), value, array, cases=2)


def _require_entries(array: Array, axes: Sequence[int], initial: Any) -> None:
    """Raises Refused for an extremum of nothing."""
    if initial is None and any(array.dims[axis] == 0 for axis in axes):
        raise Refused("no elements along the reduced axis, and no initial value")


@lowering(f"{_JNP}.max", f"{_JNP}.amax")
def max_(
    a: ArrayLike,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    array = asarray(a)
    axes = axes_of(axis, array.rank)
    array = _masked_by(array, where, initial)
    _require_entries(array, axes, initial)
    return _reduce(r.reduce_max, array, axes, keepdims, initial, e.max_)


@lowering(f"{_JNP}.min", f"{_JNP}.amin")
def min_(
    a: ArrayLike,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    array = asarray(a)
    axes = axes_of(axis, array.rank)
    array = _masked_by(array, where, initial)
    _require_entries(array, axes, initial)
    return _reduce(r.reduce_min, array, axes, keepdims, initial, e.min_)


@lowering(f"{_JNP}.any")
def any_(
    a: ArrayLike,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    array = truth(a)
    axes = axes_of(axis, array.rank)
    return _reduce(
        r.reduce_or, masked(array, where, False), axes, keepdims, None, e.or_
    )


@lowering(f"{_JNP}.all")
def all_(
    a: ArrayLike,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    array = truth(a)
    axes = axes_of(axis, array.rank)
    return _reduce(
        r.reduce_and, masked(array, where, True), axes, keepdims, None, e.and_
    )


def count(array: Array, axes: tuple[int, ...]) -> Any:
    """The number of entries along some axes."""
    sizes = sizes_of(array)
    total: Any = math.prod(sizes[axis] for axis in axes)
    if isinstance(total, int):
        return int(total)
    return total


def _flat(array: Array) -> Array:
    everything = tuple(range(array.rank))
    return reshape(array, new_sizes=(count(array, everything),))


def _along(array: Array, axis: Any) -> tuple[Array, int]:
    """The array and the number of one of its dimensions; of none, the flat array and its only one."""
    if axis is None:
        return _flat(array), 0
    return array, axis_of(axis, array.rank)


@lowering(f"{_JNP}.mean")
def mean(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    if dtype is None:
        (array,) = inexact(asarray(a))
    else:
        array = asarray(a, dtype)
    axes = axes_of(axis, array.rank)
    total = sum_(array, axis=axes, keepdims=keepdims, where=where)
    if where is None:
        found = divide(total, like(count(array, axes), total))
    else:
        kept = e.convert_element_type(_spread(where, array), new_dtype=array.dtype)
        found = divide(total, sum_(kept, axes, keepdims=keepdims))
    if dtype is None:
        return found
    return asarray(found, dtype)


def _spread(mask: ArrayLike, array: Array) -> Array:
    """A mask in the shape of an array."""
    from shardtypes.semantics.lowerings.shapes import broadcast_to

    return broadcast_to(truths(mask), array.dims)


@lowering(f"{_JNP}.var")
def var(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | None = None,
) -> Array:
    (array,) = inexact(asarray(a))
    axes = axes_of(axis, array.rank)
    if mean is None:
        middle = _mean(array, axis=axes, keepdims=True, where=where)
    else:
        middle = asarray(mean)
    centered = subtract(array, middle)
    if dtypes.is_kind(centered.dtype, "complex") is not False:
        centered = e.abs_(centered)
    total = sum_(e.square(centered), axis=axes, keepdims=keepdims, where=where)
    less = ddof if correction is None else correction
    if where is None:
        return divide(total, like(greatest(count(array, axes) - less, 0), total))
    number = sum_(
        e.convert_element_type(_spread(where, array), new_dtype=array.dtype),
        axes,
        keepdims=keepdims,
    )
    return divide(total, subtract(number, less))


_mean = mean


@lowering(f"{_JNP}.std")
def std(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | None = None,
) -> Array:
    return e.sqrt(
        var(
            a,
            axis,
            dtype,
            out,
            ddof,
            keepdims,
            where=where,
            mean=mean,
            correction=correction,
        )
    )


@lowering(f"{_JNP}.ptp")
def ptp(
    a: ArrayLike, axis: Any = None, out: None = None, keepdims: bool = False
) -> Array:
    return subtract(max_(a, axis, keepdims=keepdims), min_(a, axis, keepdims=keepdims))


@lowering(f"{_JNP}.count_nonzero")
def count_nonzero(a: ArrayLike, axis: Any = None, keepdims: bool = False) -> Array:
    return sum_(truth(a), axis, keepdims=keepdims)


def _ignoring_nan(
    reduction: Callable[..., Array], value: float
) -> Callable[..., Array]:
    @wraps(reduction)
    def function(a: ArrayLike, *args: Any, **options: Any) -> Array:
        array = open_if_narrow(asarray(a))
        if dtypes.is_kind(array.dtype, "floating", "complex"):
            array = where(isnan(array), like(value, array), array)
        return reduction(array, *args, **options)

    return function


lowering(f"{_JNP}.nansum")(_ignoring_nan(sum_, 0.0))
lowering(f"{_JNP}.nanprod")(_ignoring_nan(prod, 1.0))
lowering(f"{_JNP}.nanmax")(_ignoring_nan(max_, -float("inf")))
lowering(f"{_JNP}.nanmin")(_ignoring_nan(min_, float("inf")))


@lowering(f"{_JNP}.nanmean")
def nanmean(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    (array,) = inexact(asarray(a))
    known = e.not_(isnan(array))
    if where is not None:
        known = e.and_(known, _spread(where, array))
    return mean(array, axis, dtype, out, keepdims, where=known)


def _position(primitive: Primitive, worst: float | None = None) -> Callable[..., Array]:
    def function(
        a: ArrayLike, axis: Any = None, out: None = None, keepdims: bool = False
    ) -> Array:
        array = asarray(a)
        if worst is not None and dtypes.is_kind(array.dtype, "floating"):
            array = where(isnan(array), like(worst, array), array)
        if axis is None:
            found = primitive(_flat(array), axes=(0,), index_dtype=default(int))
            if keepdims:
                return expand_dims(found, axes=tuple(range(array.rank)))
            return found
        axes = (axis_of(axis, array.rank),)
        return widened(
            primitive(array, axes=axes, index_dtype=default(int)), axes, bool(keepdims)
        )

    return function


argmax = lowering(f"{_JNP}.argmax")(_position(r.argmax))
argmin = lowering(f"{_JNP}.argmin")(_position(r.argmin))
lowering(f"{_JNP}.nanargmax")(_position(r.argmax, -float("inf")))
lowering(f"{_JNP}.nanargmin")(_position(r.argmin, float("inf")))


@lowering(f"{_LAX}.argmax")
def lax_argmax(operand: ArrayLike, axis: int, index_dtype: Any) -> Array:
    return _lax_position(r.argmax, operand, axis, index_dtype)


@lowering(f"{_LAX}.argmin")
def lax_argmin(operand: ArrayLike, axis: int, index_dtype: Any) -> Array:
    return _lax_position(r.argmin, operand, axis, index_dtype)


def _lax_position(
    primitive: Primitive, operand: ArrayLike, axis: int, index_dtype: Any
) -> Array:
    array = asarray(operand)
    name = dtype_name(index_dtype)
    if dtypes.is_kind(name, "signed", "unsigned") is False:
        raise Refused(f"positions are integers, got {name}", "dtypes")
    axes = (lax_axis_of(axis, array.rank),)
    return primitive(array, axes=axes, index_dtype=name)


def _lax_reduction(primitive: Primitive) -> Callable[[ArrayLike, Any], Array]:
    return lambda operand, axes: primitive(
        asarray(operand), axes=lax_axes_of(axes, asarray(operand).rank)
    )


def _lax_bits(primitive: Primitive) -> Callable[[ArrayLike, Any], Array]:
    reduction = _lax_reduction(primitive)
    return lambda operand, axes: strong(reduction(operand, axes))


for _name in ("sum", "prod", "max", "min"):
    lowering(f"{_LAX}.reduce_{_name}", unread="out_sharding")(
        _lax_reduction(r.PRIMITIVES[f"reduce_{_name}"])
    )
for _name in ("and", "or", "xor"):
    lowering(f"{_LAX}.reduce_{_name}")(_lax_bits(r.PRIMITIVES[f"reduce_{_name}"]))


def _cumulative(primitive: Primitive, widen: bool) -> Callable[..., Array]:
    def function(
        a: ArrayLike, axis: Any = None, dtype: Any = None, out: None = None
    ) -> Array:
        array = asarray(a, dtype)
        if widen:
            array = cast_each(array, _summing_up)
        array, at = _along(array, axis)
        return strong(primitive(array, axis=at, reverse=False))

    return function


cumsum = lowering(f"{_JNP}.cumsum")(_cumulative(r.cumsum, True))
cumprod = lowering(f"{_JNP}.cumprod")(_cumulative(r.cumprod, True))


def _lax_cumulative(primitive: Primitive) -> Callable[..., Array]:
    def function(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
        array = asarray(operand)
        at = lax_axis_of(axis, array.rank)
        return primitive(array, axis=at, reverse=bool(reverse))

    return function


for _name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
    lowering(f"{_LAX}.{_name}")(_lax_cumulative(r.PRIMITIVES[_name]))


@lowering("jax.nn.logsumexp", "jax.scipy.special.logsumexp")
def logsumexp(
    a: ArrayLike,
    axis: Any = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    if return_sign:
        raise Unsupported("logsumexp with its sign")
    array = strong(_inexact(a))
    axes = axes_of(axis, array.rank)
    array = masked(array, where, -float("inf"))
    largest = e.stop_gradient(r.reduce_max(array, axes=axes))
    largest = _where(e.is_finite(largest), largest, 0.0)
    weights = e.exp(subtract(array, expand_dims(largest, axes=axes)))
    if b is not None:
        weights = multiply(weights, b)
    total = r.reduce_sum(weights, axes=axes)
    return widened(e.add(e.log(total), largest), axes, keepdims)


_where = where


def _logits(x: ArrayLike) -> Array:
    array = asarray(x)
    kinds.NUMBERS.require(array.dtype)
    return strong(_inexact(array))


@lowering("jax.nn.softmax", "jax.scipy.special.softmax")
def softmax(
    x: ArrayLike,
    axis: Any = -1,
    where: ArrayLike | None = None,
    initial: ArrayLike | None = None,
) -> Array:
    array = _logits(x)
    axes = axes_of(axis, array.rank)
    array = masked(array, where, -float("inf"))
    largest = e.stop_gradient(r.reduce_max(array, axes=axes))
    weights = e.exp(e.sub(array, expand_dims(largest, axes=axes)))
    found = e.div(weights, expand_dims(r.reduce_sum(weights, axes=axes), axes=axes))
    return masked(found, where, 0.0)


def _inexact(x: ArrayLike) -> Array:
    return inexact(asarray(x))[0]


@lowering("jax.nn.log_softmax", "jax.scipy.special.log_softmax")
def log_softmax(
    x: ArrayLike,
    axis: Any = -1,
    where: ArrayLike | None = None,
    initial: ArrayLike | None = None,
) -> Array:
    array = _logits(x)
    axes = axes_of(axis, array.rank)
    array = masked(array, where, -float("inf"))
    shifted = e.sub(
        array, expand_dims(e.stop_gradient(r.reduce_max(array, axes=axes)), axes=axes)
    )
    total = expand_dims(r.reduce_sum(e.exp(shifted), axes=axes), axes=axes)
    return e.sub(shifted, e.log(total))


@lowering("jax.nn.standardize", unread="algorithm")
def standardize(
    x: ArrayLike,
    axis: Any = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
) -> Array:
    if mean is None:
        middle = _mean(x, axis, keepdims=True, where=where)
    else:
        middle = asarray(mean)
    if variance is None:
        variance = subtract(
            _mean(e.square(_inexact(x)), axis, keepdims=True, where=where),
            e.square(middle),
        )
    return multiply(subtract(x, middle), e.rsqrt(asarray(variance) + epsilon))


@lowering(f"{_JNP}.sort")
def sort(
    a: ArrayLike,
    axis: Any = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    array, dimension = _along(asarray(a), axis)
    (found,) = r.sort(array, dimension=dimension, num_keys=1, is_stable=True, count=1)
    if descending:
        return _flipped(found, dimension)
    return found


def _flipped(array: Array, axis: int) -> Array:
    from shardtypes.semantics.primitives.structure import rev

    return rev(array, dimensions=(axis,))


def _falling(array: Array) -> Array:
    """What rises where an array falls. The negative of an unsigned 0 is still the least, and booleans have none."""
    if dtypes.is_kind(array.dtype, "unsigned", "bool"):
        return e.not_(array)
    return e.neg(array)


@lowering(f"{_JNP}.argsort")
def argsort(
    a: ArrayLike,
    axis: Any = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Array:
    array, dimension = _along(asarray(a), axis)
    key = _falling(array) if descending else array
    ordered = r.sort(
        key,
        r.positions(array.dims, dimension),
        dimension=dimension,
        num_keys=1,
        is_stable=True,
        count=2,
    )
    return cast(ordered[1], dtype_name(dtype or int))


@lowering(f"{_LAX}.sort")
def lax_sort(
    operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Any:
    several = isinstance(operand, (tuple, list))
    if several:
        arrays = [asarray(x) for x in operand]
    else:
        arrays = [asarray(operand)]
    at = axis_of(dimension, arrays[0].rank)
    found = r.sort(
        *arrays, dimension=at, num_keys=num_keys, is_stable=is_stable, count=len(arrays)
    )
    if several:
        return tuple(found)
    return found[0]


@lowering(f"{_LAX}.approx_max_k")
def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    array = asarray(operand)
    kinds.FLOATS.require(array.dtype)
    if not aggregate_to_topk:
        raise Unsupported("more candidates than are asked for")
    return top_k(array, k, axis=reduction_dimension)


@lowering(f"{_LAX}.approx_min_k")
def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    negated = e.neg(asarray(operand))
    largest, places = approx_max_k(
        negated, k, reduction_dimension, aggregate_to_topk=aggregate_to_topk
    )
    return [e.neg(largest), places]


@lowering(f"{_LAX}.top_k", unread="is_stable")
def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> list[Array]:

    array = asarray(operand)
    if dtypes.is_kind(array.dtype, "complex") is True:
        raise Refused(f"complex numbers have no order, got {array.dtype}", "dtypes")
    dimension = axis_of(axis, array.rank)
    size = array.dims[dimension]
    (count,) = shape_of(k)
    if is_surely_less(count, 0):
        raise Refused(f"k is {count}", "sizes")
    if size is not None and is_surely_less(size, count):
        what = f"k is {count}, dimension {dimension} has {size}"
        raise Refused(what, "sizes")
    places = r.positions(array.dims, dimension)
    _, found, where_ = r.sort(
        _falling(array),
        array,
        places,
        dimension=dimension,
        num_keys=1,
        is_stable=True,
        count=3,
    )
    return [
        _first(found, count, dimension),
        _first(weak_as(where_, array), count, dimension),
    ]


def _first(array: Array, count: Any, dimension: int) -> Array:
    """So many entries along a dimension, which has as many."""
    from shardtypes.semantics.lowerings.shapes import slice_in_dim

    sizes: list[Any] = list(array.dims)
    if isinstance(count, int) and isinstance(sizes[dimension], int):
        return slice_in_dim(array, 0, count, axis=dimension)
    sizes[dimension] = count
    return replace(array, shape=tuple(sizes))


@lowering(f"{_JNP}.average")
def average(
    a: ArrayLike,
    axis: Any = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Array:
    if returned:
        raise Unsupported("average with the sum of weights")
    if weights is None:
        return mean(a, axis, keepdims=keepdims)
    array, given = inexact(asarray(a), asarray(weights))
    if given.dims != array.dims:
        given = _placed_weights(given, array, axis)
    total = sum_(multiply(array, given), axis, keepdims=keepdims)
    return divide(total, sum_(_widened_weights(given, array), axis, keepdims=keepdims))


def _placed_weights(weights: Array, array: Array, axis: Any) -> Array:
    """Weights along the axes of an array, for all of it; of its shape, if there are as many dimensions."""
    from shardtypes.semantics.lowerings.unpromoted import require_same_shape

    if axis is None:
        why = "weights of another shape need an axis"
        require_same_shape(array, weights, why)
        return weights
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [axis_of(one, array.rank) for one in given]
    why = "weights have the shape of the array, or of its dimensions along the axes"
    if weights.rank == array.rank > len(axes):
        require_same_shape(array, weights, why)
        return weights
    if weights.rank != len(axes):
        raise Refused(why, "operands")
    for size, one in zip(weights.dims, axes, strict=True):
        require_equal(size, array.dims[one], why)
    return _along_axes(weights, axes, array.rank)


def _along_axes(weights: Array, axes: list[int], rank: int) -> Array:
    """Weights that are given for some dimensions, in their order, of an array of this rank."""
    from shardtypes.semantics.lowerings.shapes import transpose

    ordered = transpose(weights, sorted(range(len(axes)), key=axes.__getitem__))
    shape = [1] * rank
    for one, size in zip(sorted(axes), sizes_of(ordered), strict=True):
        shape[one] = size
    return reshape(ordered, new_sizes=tuple(shape))


def _widened_weights(weights: Array, array: Array) -> Array:
    from shardtypes.semantics.lowerings.shapes import broadcast_to

    return broadcast_to(weights, array.dims)
