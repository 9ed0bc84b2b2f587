"""Quantiles, spreads, correlations, histograms and ranks."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.contractions import matmul
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    axes_of,
    cast,
    default,
    inexact,
    int_of,
    like,
    not_read,
    real,
    sizes_of,
    strong,
)
from shardtypes.semantics.lowerings.creation import linspace
from shardtypes.semantics.lowerings.elementwise import clip, isnan, where
from shardtypes.semantics.lowerings.indexing import (
    At,
    searchsorted,
    sorted_vector,
    take_along_axis,
)
from shardtypes.semantics.lowerings.joining import concatenate, stack
from shardtypes.semantics.lowerings.operators import conjugate, divide, multiply
from shardtypes.semantics.lowerings.operators import real as real_part
from shardtypes.semantics.lowerings.reductions import (
    any_,
    average,
    max_,
    mean,
    min_,
    sort,
    std,
    sum_,
    truths,
    var,
)
from shardtypes.semantics.lowerings.shapes import (
    along,
    atleast_2d,
    broadcast_to,
    expand_dims,
    moveaxis,
    ravel,
    reshape,
    size_of,
    squeeze,
    transpose,
)
from shardtypes.semantics.lowerings.unpromoted import require_same_shape
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.registry import Refused, Unsupported, lowering
from shardtypes.semantics.sizes import greatest, is_number, known

_JNP = "jax.numpy"


# --- quantiles ------------------------------------------------------------------------------------------------------


def _gathered(array: Array, axis: Any) -> tuple[Array, tuple[int, ...]]:
    """The array with the dimensions that are reduced as one, the last."""
    axes = axes_of(axis, array.rank)
    if len(set(axes)) < len(axes):
        raise Refused("an axis is given twice", "operands")
    kept = [k for k in range(array.rank) if k not in axes]
    moved = transpose(array, (*kept, *axes))
    entries = math.prod(sizes_of(array)[k] for k in axes)
    return reshape(moved, (*(array.dims[k] for k in kept), entries)), axes


def _between(low: Array, high: Array, fraction: Array, method: str) -> Array:
    match method:
        case "linear":
            return low * (1.0 - fraction) + high * fraction
        case "lower":
            return low
        case "higher":
            return where(fraction > 0, high, low)
        case "midpoint":
            return where(fraction > 0, (low + high) * 0.5, low)
        case "nearest":
            return where(fraction > 0.5, high, low)
        case _:
            raise Unsupported(f"quantiles by method {method}")


def _quantiles(ignoring_nan: bool) -> Callable[..., Array]:
    def function(
        a: ArrayLike,
        q: ArrayLike,
        axis: Any = None,
        out: None = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
        *,
        weights: ArrayLike | None = None,
    ) -> Array:
        not_read(weights=weights)
        if isinstance(axis, list):
            raise Unsupported("axes in a list, which JAX does not take here")
        (given,) = inexact(asarray(a))
        if keepdims and given.rank == 0:
            raise Unsupported("a quantile of a scalar, which JAX gives a dimension")
        if dtypes.is_kind(given.dtype, "complex") is True:
            raise Refused(f"complex numbers have no order, got {given.dtype}", "dtypes")
        asked = asarray(q)
        if dtypes.is_kind(asked.dtype, "floating") is False:
            raise Refused(f"q is a float, got {asked.dtype}", "dtypes")
        if asked.rank > 1:
            raise Refused("q is a scalar or a vector", "ranks")
        wanted = cast(asked, given.dtype)
        rows, axes = _gathered(given, axis)
        if 0 in rows.dims[-1:] and 0 not in wanted.dims:
            _refuse_no_entries(ignoring_nan)
        ordered = sort(rows)
        if ignoring_nan:
            numbers = sum_(
                cast(e.not_(isnan(rows)), given.dtype), axis=-1, keepdims=True
            )
        else:
            numbers = like(sizes_of(rows)[-1], given)
            ordered = where(
                any_(isnan(rows), axis=-1, keepdims=True), float("nan"), ordered
            )
        found = [
            _quantile(ordered, numbers, ravel(wanted)[k], method)
            for k in range(known(size_of(wanted)))
        ]
        made = strong(reshape(stack(found), (*wanted.dims, *found[0].dims)))
        if not keepdims:
            return made
        return expand_dims(made, tuple(axis + wanted.rank for axis in axes))

    return function


def _refuse_no_entries(ignoring_nan: bool) -> NoReturn:
    if ignoring_nan:
        raise Unsupported("quantiles of no entries: releases of JAX differ")
    raise Refused("no entries along the reduced dimensions", "sizes")


def _quantile(ordered: Array, known: Array, q: Array, method: str) -> Array:
    """One quantile along the last dimension; ``known`` counts the entries that are numbers."""
    place = multiply(q, known - 1)
    low = e.floor(place)
    last = e.max_(known - 1, like(0, known))
    index = [cast(clip(one, 0, last), "int32") for one in (low, e.ceil(place))]
    rows = (*ordered.dims[:-1], 1)
    first, second = (
        take_along_axis(ordered, broadcast_to(one, rows), -1) for one in index
    )
    return squeeze(_between(first, second, place - low, method), -1)


quantile = lowering(f"{_JNP}.quantile")(_quantiles(False))
nanquantile = lowering(f"{_JNP}.nanquantile")(_quantiles(True))


def _in_percent(function: Callable[..., Array]) -> Callable[..., Array]:
    @wraps(function)
    def percentile(a: ArrayLike, q: ArrayLike, *args: Any, **options: Any) -> Array:
        return function(a, divide(q, 100), *args, **options)

    return percentile


lowering(f"{_JNP}.percentile", unread="out_sharding")(_in_percent(quantile))
lowering(f"{_JNP}.nanpercentile")(_in_percent(nanquantile))


def _middle(function: Callable[..., Array]) -> Callable[..., Array]:
    def median(
        a: ArrayLike,
        axis: Any = None,
        out: None = None,
        overwrite_input: bool = False,
        keepdims: bool = False,
    ) -> Array:
        return function(a, 0.5, axis, method="midpoint", keepdims=keepdims)

    return median


lowering(f"{_JNP}.median")(_middle(quantile))
lowering(f"{_JNP}.nanmedian")(_middle(nanquantile))


# --- spreads --------------------------------------------------------------------------------------------------------


def _of_numbers(function: Callable[..., Array]) -> Callable[..., Array]:
    def ignoring(
        a: ArrayLike,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        ddof: int = 0,
        keepdims: bool = False,
        where: ArrayLike | None = None,
        mean: ArrayLike | None = None,
    ) -> Array:
        if dtypes.is_kind(asarray(a).dtype, "complex"):
            raise Unsupported("a spread of complex numbers that ignores NaN")
        known = e.not_(isnan(a))
        if where is not None:
            known = e.and_(known, truths(where))
        return function(
            _zero_for_nan(a), axis, dtype, out, ddof, keepdims, where=known, mean=mean
        )

    return ignoring


def _zero_for_nan(a: ArrayLike) -> Array:
    return where(isnan(a), 0, a)


lowering(f"{_JNP}.nanvar")(_of_numbers(var))
lowering(f"{_JNP}.nanstd")(_of_numbers(std))


@lowering("jax.scipy.stats.sem")
def sem(
    a: ArrayLike,
    axis: Any = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    if nan_policy != "propagate":
        raise Unsupported(f"sem with nan_policy={nan_policy}")
    (array,) = inexact(asarray(a))
    array, at = along(array, axis)
    count = sizes_of(array)[at]
    return divide(std(array, at, ddof=ddof, keepdims=keepdims), real(count) ** 0.5)


@lowering(f"{_JNP}.cov")
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: Any = None,
) -> Array:
    not_read(dtype=dtype)
    rows = _variables(m, rowvar)
    if y is not None:
        rows = concatenate(inexact(rows, _variables(y, rowvar)), 0)
    if ddof is None:
        less = 0 if bias else 1
    else:
        less = ddof
    given = [asarray(one) for one in (fweights, aweights) if one is not None]
    if not given:
        centred = rows - mean(rows, axis=1, keepdims=True)
        count = greatest(sizes_of(rows)[1] - less, 0)
        products = matmul(centred, conjugate(transpose(centred)))
        return squeeze(divide(products, like(count, products)))
    if len(given) == 1:
        weights = given[0]
    else:
        weights = given[0] * given[1]
    centred = rows - expand_dims(average(rows, 1, weights), 1)
    total = sum_(weights)
    if aweights is None:
        lost = asarray(less)
    else:
        lost = divide(less * sum_(weights * asarray(aweights)), total)
    return squeeze(
        divide(matmul(centred * weights, conjugate(transpose(centred))), total - lost)
    )


def _variables(m: ArrayLike, rowvar: bool) -> Array:
    (array,) = inexact(asarray(m))
    wide = atleast_2d(array)
    if not rowvar and sizes_of(wide)[0] != 1:
        found: Array = transpose(wide)
    else:
        found = wide
    return found


@lowering(f"{_JNP}.corrcoef")
def corrcoef(
    x: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    dtype: Any = None,
) -> Array:
    from shardtypes.semantics.lowerings.contractions import diagonal

    not_read(dtype=dtype)
    shared = cov(x, y, rowvar)
    if shared.rank == 0:
        return divide(shared, shared)
    deviations = e.sqrt(real_part(diagonal(shared)))
    return clip(
        divide(divide(shared, expand_dims(deviations, 1)), deviations), -1.0, 1.0
    )


# --- histograms -----------------------------------------------------------------------------------------------------


@lowering(f"{_JNP}.histogram_bin_edges")
def histogram_bin_edges(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
) -> Array:
    if isinstance(bins, str):
        raise Unsupported(f"bins chosen by {bins}")
    given, (array,) = asarray(bins), inexact(asarray(a))
    if given.rank:
        edges, _ = inexact(given, array)
        return strong(edges)
    if is_number(bins) and int_of(given) < 0:
        raise Refused(f"bins is {int_of(given)}", "sizes")
    if range is None and 0 in array.dims:
        raise Unsupported("the range of no entries: releases of JAX differ")
    if range is None:
        low = min_(array)
        high = max_(array)
    else:
        low, high = (cast(asarray(one), array.dtype) for one in range)
    same = low == high
    count = int(given.numbers()) + 1
    first = where(same, low - 0.5, low)
    last = where(same, high + 0.5, high)
    places: Array = linspace(first, last, count)
    return places


@lowering(f"{_JNP}.histogram", unread="out_sharding")
def histogram(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
    given = asarray(a)
    if weights is not None:
        require_same_shape(given, asarray(weights), "weights have the shape of a")
    (array,) = inexact(ravel(given))
    edges = strong(histogram_bin_edges(array, bins, range))
    last = sizes_of(edges)[0] - 1
    place = where(array == edges[-1], last, searchsorted(edges, array, "right"))
    inside = e.and_(place > 0, place <= last)
    if weights is None:
        counted = strong(like(1.0, array))
    else:
        (counted,) = inexact(ravel(weights))
        counted = strong(counted)
    counted = where(inside, broadcast_to(counted, array.dims), 0)
    counts = At(
        broadcast_to(like(0, counted), (last,)), clip(place - 1, 0, last - 1)
    ).add(counted)
    if not density:
        return counts, edges
    widths = edges[1:] - edges[:-1]
    return divide(divide(counts, widths), sum_(counts)), edges


@lowering(f"{_JNP}.digitize")
def digitize(
    x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None
) -> Array:
    edges = sorted_vector(bins)
    side = "left" if right else "right"
    if sizes_of(edges)[0] in (0, 1):
        return searchsorted(edges, x, side)
    falling = searchsorted(edges[::-1], x, "right" if right else "left")
    return where(
        edges[-1] >= edges[0],
        searchsorted(edges, x, side),
        sizes_of(edges)[0] - falling,
    )


# --- ranks ----------------------------------------------------------------------------------------------------------


@lowering("jax.scipy.stats.rankdata")
def rankdata(
    a: ArrayLike,
    method: str = "average",
    *,
    axis: Any = None,
    nan_policy: str = "propagate",
) -> Array:
    """The rank of each entry counts those below it, and those beside it."""
    if method not in ("average", "min", "max") or nan_policy != "propagate":
        raise Unsupported(f"ranks by method {method}")
    array = asarray(a)
    if axis is None:
        rows = ravel(array)
    else:
        rows = moveaxis(array, axis, -1)
    mine = expand_dims(rows, -1)
    others = expand_dims(rows, -2)
    below = cast(sum_(others < mine, axis=-1), default(float))
    beside = cast(sum_(others == mine, axis=-1), default(float))
    share = {"min": 1.0, "max": beside, "average": (beside + 1.0) * 0.5}[method]
    found = below + share
    if axis is None:
        return found
    return moveaxis(found, -1, axis)
