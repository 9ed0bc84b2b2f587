"""Differences, integrals and interpolation along a dimension."""

from __future__ import annotations

import math
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.comparison import (
    are_names_known,
    common_shape,
    require_equal,
)
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    DType,
    asarray,
    axes_of,
    axis_of,
    cast,
    inexact,
    like,
    of_shape,
    promoted,
    sizes_of,
    strong,
    weak_as,
)
from shardtypes.semantics.lowerings.creation import zeros
from shardtypes.semantics.lowerings.elementwise import isnan, where
from shardtypes.semantics.lowerings.indexing import searchsorted, take
from shardtypes.semantics.lowerings.joining import concatenate
from shardtypes.semantics.lowerings.operators import (
    absolute,
    divide,
    multiply,
    remainder,
    subtract,
)
from shardtypes.semantics.lowerings.reductions import (
    accumulated,
    argsort,
    cumprod,
    cumsum,
    sum_,
)
from shardtypes.semantics.lowerings.shapes import (
    broadcast_to,
    expand_dims,
    moveaxis,
    ravel,
    require_broadcast,
    reshape,
    slice_in_dim,
)
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.registry import Refused, Unsupported, lowering
from shardtypes.semantics.sizes import greatest, is_number, known

_JNP = "jax.numpy"


# --- differences ----------------------------------------------------------------------------------------------------


@lowering(f"{_JNP}.diff")
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    array = asarray(a)
    if is_number(n) and int(n) == 0:
        return array
    at = axis_of(axis, array.rank)
    items = [
        one
        for one in (_edge(prepend, array, at), array, _edge(append, array, at))
        if one is not None
    ]
    if len(items) > 1:
        array = concatenate(items, at)
    for _ in range(int(n)):
        later = slice_in_dim(array, 1, None, axis=at)
        earlier = slice_in_dim(array, None, -1, axis=at)
        if array.dtype == "bool":
            array = e.ne(later, earlier)
        else:
            array = e.sub(later, earlier)
    return array


def _edge(given: ArrayLike | None, array: Array, axis: int) -> Array | None:
    """What is put before or after; a number is one entry along the dimension."""
    if given is None:
        return None
    edge = asarray(given)
    if edge.rank:
        return edge
    return broadcast_to(
        edge, [1 if k == axis else size for k, size in enumerate(sizes_of(array))]
    )


@lowering(f"{_JNP}.ediff1d")
def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    array = ravel(ary)
    if array.dtype == "bool":
        raise Refused("booleans have no differences", "dtypes")
    items = [diff(array)]
    if to_begin is not None:
        items.insert(0, cast(ravel(to_begin), array.dtype))
    if to_end is not None:
        items.append(cast(ravel(to_end), array.dtype))
    return weak_as(concatenate(items), *items)


@lowering(f"{_JNP}.gradient")
def gradient(
    f: ArrayLike, *varargs: ArrayLike, axis: Any = None, edge_order: int | None = None
) -> Any:
    if edge_order is not None:
        raise Unsupported("a gradient with edge_order")
    array, *given = inexact(asarray(f), *map(asarray, varargs))
    axes = axes_of(axis, array.rank)
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError("Invalid number of spacing arguments")
    spacings = given
    if not given:
        spacings = [asarray(1.0)] * len(axes)
    elif len(given) == 1:
        spacings = given * len(axes)
    found = [
        _slope(array, spacing, at) for spacing, at in zip(spacings, axes, strict=True)
    ]
    if not varargs:
        found = [weak_as(slope, array) for slope in found]
    if len(found) == 1 and not isinstance(axis, (tuple, list)):
        return found[0]
    return found


def _slope(array: Array, spacing: Array, axis: int) -> Array:
    """Central differences inside, one-sided ones at both ends."""
    size = array.dims[axis]
    if isinstance(size, int) and size < 2:
        raise Refused(f"needs two entries along axis {axis}, got {size}", "sizes")
    if spacing.rank > 1:
        raise Unsupported("a gradient over a spacing of several dimensions")
    places = moveaxis(array, axis, -1)
    steps = diff(places)
    if spacing.rank:
        return moveaxis(_uneven(steps, diff(spacing)), -1, axis)
    both = e.add(steps[..., 1:], steps[..., :-1])
    middle = divide(both, 2 * spacing)
    ends = divide(steps, spacing)
    first = ends[..., :1]
    last = ends[..., -1:]
    return moveaxis(concatenate([first, middle, last], -1), -1, axis)


def _uneven(steps: Array, widths: Array) -> Array:
    """Each neighbour's slope counts by the distance of the other one."""
    slopes = divide(steps, widths)
    left = widths[:-1]
    right = widths[1:]
    total = left + right
    before = slopes[..., :-1]
    behind = slopes[..., 1:]
    middle = divide(before * right + behind * left, total)
    first = slopes[..., :1]
    last = slopes[..., -1:]
    return concatenate([first, middle, last], -1)


@lowering(f"{_JNP}.unwrap")
def unwrap(
    p: ArrayLike,
    discont: ArrayLike | None = None,
    axis: int = -1,
    period: ArrayLike = 2 * math.pi,
) -> Array:
    array = asarray(p)
    if dtypes.is_kind(array.dtype, "signed", "unsigned", "bool"):
        raise Unsupported("unwrap of whole numbers")
    at = axis_of(axis, array.rank)
    half = divide(period, 2)
    steps = diff(array, axis=at)
    wrapped = remainder(steps + half, period) - half
    wrapped = where(e.and_(wrapped == -half, steps > 0), half, wrapped)
    correction = where(
        absolute(steps) < (half if discont is None else discont), 0.0, wrapped - steps
    )
    first = slice_in_dim(array, 0, 1, axis=at)
    later = slice_in_dim(array, 1, None, axis=at) + cumsum(correction, axis=at)
    return concatenate([first, later], at)


# --- sums and integrals ---------------------------------------------------------------------------------------------


def _spaced(x: ArrayLike | None, dx: ArrayLike, axis: int) -> Any:
    """The widths of the steps along the last dimension."""
    if x is None:
        return dx
    places = asarray(x)
    return diff(places if places.rank == 1 else moveaxis(places, axis, -1))


@lowering(f"{_JNP}.trapezoid", "jax.scipy.integrate.trapezoid")
def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    (array,) = inexact(asarray(y))
    heights = moveaxis(array, axis, -1)
    pairs = e.add(heights[..., 1:], heights[..., :-1])
    return multiply(0.5, sum_(multiply(pairs, _spaced(x, dx, axis)), axis=-1))


def _with_initial(cumulated: Array, axis: int, value: int, wanted: bool) -> Array:
    if not wanted:
        return cumulated
    shape = [1 if k == axis else size for k, size in enumerate(sizes_of(cumulated))]
    return concatenate([zeros(shape, DType(cumulated.dtype)) + value, cumulated], axis)


def _axis_to_cumulate(array: Array, axis: int | None) -> int:
    """Unlike ``cumsum``, the array standard's functions need an axis where there are several."""
    if axis is not None:
        return axis_of(axis, array.rank)
    if array.rank > 1:
        raise Refused(f"needs axis= for an array of {array.rank} dimensions", "ranks")
    return 0


@lowering(f"{_JNP}.cumulative_sum")
def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
) -> Array:
    array = asarray(x)
    at = _axis_to_cumulate(array, axis)
    if dtype is None:
        array = accumulated(array)
    return _with_initial(cumsum(array, at, dtype), at, 0, include_initial)


@lowering(f"{_JNP}.cumulative_prod")
def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
) -> Array:
    array = asarray(x)
    at = _axis_to_cumulate(array, axis)
    return _with_initial(cumprod(array, at, dtype), at, 1, include_initial)


@lowering(f"{_JNP}.nancumsum")
def nancumsum(
    a: ArrayLike, axis: Any = None, dtype: Any = None, out: None = None
) -> Array:
    return cumsum(where(isnan(a), 0, a), axis, dtype)


@lowering(f"{_JNP}.nancumprod")
def nancumprod(
    a: ArrayLike, axis: Any = None, dtype: Any = None, out: None = None
) -> Array:
    return cumprod(where(isnan(a), 1, a), axis, dtype)


# --- interpolation --------------------------------------------------------------------------------------------------


@lowering(f"{_JNP}.interp")
def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: Any = None,
    right: Any = None,
    period: ArrayLike | None = None,
) -> Array:
    places, known = inexact(asarray(x), asarray(xp))
    (heights,) = inexact(asarray(fp))
    if known.rank != 1 or heights.rank != 1:
        raise Refused("xp and fp are vectors", "ranks")
    require_equal(known.dims[0], heights.dims[0], "lengths of xp and fp differ")
    if known.dims[0] == 0:
        raise Refused("no points to interpolate between", "sizes")
    if dtypes.is_kind(places.dtype, "complex") is True:
        raise Refused(f"x and xp are real, got {places.dtype}", "dtypes")
    if period is not None:
        return _periodic(places, known, heights, period)
    after = _clipped(searchsorted(known, places, "right"), 1, sizes_of(known)[0] - 1)
    low = take(known, after - 1)
    high = take(known, after)
    width = subtract(high, low)
    empty = width == 0
    fraction = divide(subtract(places, low), where(empty, 1, width))
    start = take(heights, after - 1)
    end = take(heights, after)
    inside = where(empty, start, start + fraction * (end - start))
    return _beyond(places, known, heights, inside, left, right)


def _clipped(index: Array, low: int, high: int) -> Array:
    return e.clamp(*promoted(asarray(low), index, asarray(high)))


def _beyond(
    places: Array, known: Array, heights: Array, inside: Array, left: Any, right: Any
) -> Array:
    """The values outside of the known places: the first and the last one, what is given, or the line's."""
    if left != "extrapolate":
        inside = where(places < known[0], heights[0] if left is None else left, inside)
    if right != "extrapolate":
        inside = where(
            places > known[-1], heights[-1] if right is None else right, inside
        )
    return inside


def _periodic(places: Array, known: Array, heights: Array, period: ArrayLike) -> Array:
    known = remainder(known, period)
    places = remainder(places, period)
    order = argsort(known)
    known = take(known, order)
    heights = take(heights, order)
    known = concatenate([known[-1:] - period, known, known[:1] + period])
    return interp(places, known, concatenate([heights[-1:], heights, heights[:1]]))


# --- vectors --------------------------------------------------------------------------------------------------------


@lowering(f"{_JNP}.cross")
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promoted(moveaxis(a, axisa, -1), moveaxis(b, axisb, -1))
    sizes = sizes_of(x)[-1], sizes_of(y)[-1]
    if sizes == (2, 2) and are_names_known():
        raise Unsupported("vectors of two components: releases of JAX differ")
    if sizes == (2, 2):
        first = x[..., 0] * y[..., 1]
        second = x[..., 1] * y[..., 0]
        return strong(first - second)
    if sizes != (3, 3):
        raise Unsupported("a cross product of two and three components")
    columns = []
    for i, j in ((1, 2), (2, 0), (0, 1)):
        first = x[..., i] * y[..., j]
        second = x[..., j] * y[..., i]
        part = strong(first - second)
        columns.append(expand_dims(part, -1))
    return moveaxis(concatenate(columns, -1), -1, axisc)


@lowering(f"{_JNP}.linalg.cross")
def linalg_cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    return cross(x1, x2, axis=axis)


# --- polynomials ----------------------------------------------------------------------------------------------------


@lowering(f"{_JNP}.polyval")
def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    given = asarray(p), asarray(x)
    if any(array.dtype == "bool" for array in given):
        raise Unsupported("a polynomial of booleans: releases of JAX differ")
    coefficients, places = map(strong, promoted(*given))
    if coefficients.rank == 0:
        raise Refused("needs coefficients along a dimension", "ranks")
    count = sizes_of(coefficients)[0]
    shape = common_shape([coefficients.dims[1:], places.dims])
    require_broadcast(coefficients.dims[1:], shape)
    require_broadcast(places.dims, shape)
    if not is_number(count):
        return of_shape(places, shape)
    if not count:
        if coefficients.rank > 1:
            raise Unsupported("no coefficients: NumPy's result has another shape")
        return strong(broadcast_to(like(0, places), shape))
    found = broadcast_to(coefficients[0], shape)
    for k in range(1, known(count)):
        found = found * places + coefficients[k]
    return found


def _coefficients(p: ArrayLike) -> Array:
    array = asarray(p)
    if array.rank != 1:
        raise Unsupported("polynomials with several dimensions of coefficients")
    return array


def _aligned(a1: ArrayLike, a2: ArrayLike) -> list[Array]:
    """Coefficients of the same number of powers."""
    from shardtypes.semantics.lowerings.padding import pad

    arrays = promoted(_coefficients(a1), _coefficients(a2))
    longest = greatest(*(sizes_of(array)[0] for array in arrays))
    return [pad(array, (longest - sizes_of(array)[0], 0)) for array in arrays]


@lowering(f"{_JNP}.polyadd")
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    return e.add(*_aligned(a1, a2))


@lowering(f"{_JNP}.polysub")
def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    return e.sub(*_aligned(a1, a2))


@lowering(f"{_JNP}.polyder")
def polyder(p: ArrayLike, m: int = 1) -> Array:
    (array,) = inexact(_coefficients(p))
    array = strong(array)
    for _ in range(int(m)):
        count = known(sizes_of(array)[0])
        factors = [float(count - 1 - k) for k in range(count - 1)]
        array = array[:-1] * asarray(factors)
    return array


@lowering(f"{_JNP}.polyint")
def polyint(p: ArrayLike, m: int = 1, k: Any = None) -> Array:
    (array,) = inexact(_coefficients(p))
    array = strong(array)
    added = ravel(asarray(0.0 if k is None else k))
    for step in range(int(m)):
        count = known(sizes_of(array)[0])
        array = array / asarray([float(count - place) for place in range(count)])
        last = added[step if sizes_of(added)[0] > 1 else 0]
        array = concatenate([array, reshape(last, (1,))])
    return array


@lowering(f"{_JNP}.vander")
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    array = asarray(x)
    if array.dtype == "bool":
        raise TypeError("powers of booleans")
    if array.rank != 1:
        raise Refused("needs a vector", "ranks")
    if N is None:
        count = known(sizes_of(array)[0])
    else:
        count = int(N)
    if increasing:
        powers = range(count)
    else:
        powers = range(count - 1, -1, -1)
    columns = [
        expand_dims(strong(e.integer_pow(array, y=power)), -1) for power in powers
    ]
    return concatenate(columns, -1)
