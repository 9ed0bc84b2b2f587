"""Functions of ``jax.numpy`` that tell of dtypes and arguments, or map functions of the program, in guarded code."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.lowered import jnp, lax
from shardlint.evaluation.mapping import vmap
from shardlint.evaluation.outside import provide
from shardlint.evaluation.python import plain_class
from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import (
    DType,
    asarray,
    axis_of,
    cast,
    counting,
    int_of,
    promoted,
    sizes_of,
)
from shardtypes.semantics.lowerings.creation import zeros
from shardtypes.semantics.registry import Unsupported

# --- dtypes -----------------------------------------------------------------------------------------------------------

_WEAK: dict[Any, Any] = {int: 0, float: 0.0, complex: 0j}
"""Python's classes of numbers, which give way to others."""
_VALUES: tuple[Any, ...] = (Array, np.ndarray, np.generic, bool, int, float, complex)


def _example(dtype: Any) -> Array:
    """An array of the dtype that is given, or that something has."""
    given: Any = plain_class(dtype)
    if isinstance(given, _VALUES):
        return asarray(given)
    if isinstance(given, type) and given in _WEAK:
        return asarray(_WEAK[given])
    return zeros((), given)


@provide("jax.numpy.result_type")
@provide("jax.dtypes.result_type")
def result_type(*args: Any) -> DType:
    if not args:
        raise ValueError("at least one array or dtype is required")
    examples = [_example(one) for one in args]
    return DType(promoted(*examples)[0].dtype or "float32")


@provide("jax.numpy.promote_types")
def promote_types(a: Any, b: Any) -> DType:
    examples = [_example(a), _example(b)]
    return DType(promoted(*examples)[0].dtype or "float32")


_LONG = {
    "float32": "float64",
    "int32": "int64",
    "uint32": "uint64",
    "complex64": "complex128",
}
"""What a dtype of 32 bits may have been in the program: here it is the same."""


def _may_be(given: Any) -> list[Any]:
    given = plain_class(given)
    if isinstance(given, DType):
        name = str(given.name)
        names = [name, _LONG[name]] if name in _LONG else [name]
    else:
        names = [np.dtype(given).name]
    if not hasattr(np, names[0]):
        raise Unsupported(f"a cast of {names[0]}")
    return [np.dtype(name) for name in names]


@provide("jax.numpy.can_cast")
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    pairs = itertools.product(_may_be(from_), _may_be(to))
    found = {bool(np.can_cast(one, other, casting)) for one, other in pairs}
    if len(found) > 1:
        raise NotEvaluable("a cast between dtypes of 32 bits and of 64")
    return found.pop()


_KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": ("signed",),
    "unsigned integer": ("unsigned",),
    "integral": ("signed", "unsigned"),
    "real floating": ("floating",),
    "complex floating": ("complex",),
    "numeric": ("signed", "unsigned", "floating", "complex"),
}


@provide("jax.numpy.isdtype")
def isdtype(dtype: Any, kind: Any) -> bool:
    name = _example(dtype).dtype
    for one in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(one, str) and one in _KINDS:
            if dtypes.is_kind(name, *_KINDS[one]):
                return True
        elif isinstance(one, str):
            raise ValueError(f"Unrecognized kind={one!r}")
        elif _example(one).dtype == name:
            return True
    return False


# --- arguments --------------------------------------------------------------------------------------------------------


@provide("jax.numpy.isscalar")
def isscalar(element: Any) -> bool:
    if isinstance(element, (Array, np.ndarray)):
        return len(element.shape or ()) == 0
    return bool(np.isscalar(element))


@provide("jax.numpy.iterable")
def iterable(y: Any) -> bool:
    if isinstance(y, Array):
        return y.rank > 0
    return bool(np.iterable(y))


# --- arrays -----------------------------------------------------------------------------------------------------------


@provide("jax.numpy.apply_along_axis")
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
) -> Any:
    array = asarray(arr)
    at = axis_of(axis, array.rank)

    def function(row: Any) -> Any:
        return func1d(row, *args, **kwargs)

    mapped: Any = function
    for place in range(1, array.rank - at):
        mapped = vmap(mapped, in_axes=place, out_axes=-1)
    for _ in range(at):
        mapped = vmap(mapped)
    return mapped(array)


@provide("jax.numpy.argpartition")
def argpartition(a: Any, kth: Any, axis: int = -1) -> Any:
    """The positions up to the place in order, and those of the rest as they stand."""
    array = asarray(a)
    at = axis_of(axis, array.rank)
    rows = jnp.moveaxis(array, at, -1)
    size = sizes_of(rows)[-1]
    place = axis_of(int_of(kth), size)
    if dtypes.is_kind(rows.dtype, "unsigned"):
        least = np.iinfo(rows.dtype or "uint32").max - rows
    else:
        least = -rows
    first = lax.top_k(least, place + 1)[1]
    is_first = jnp.any(first[..., None] == counting(size), axis=-2)
    rest = jnp.argsort(is_first, axis=-1)[..., : size - place - 1]
    return jnp.moveaxis(jnp.concatenate([first, rest], axis=-1), -1, at)


@provide("jax.numpy.histogram2d")
def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    weights: Any = None,
    density: Any = None,
) -> Any:
    given = bins
    if not isinstance(bins, int) and len(bins) not in (1, 2):
        given = [asarray(bins)] * 2
    sample = jnp.stack([jnp.ravel(x), jnp.ravel(y)], axis=-1)
    counts, edges = histogramdd(sample, given, range, weights, density)
    return counts, edges[0], edges[1]


@provide("jax.numpy.histogramdd")
def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Any = None,
    weights: Any = None,
    density: Any = None,
) -> Any:
    points = asarray(sample)
    count = sizes_of(points)[1]
    per_dimension = [bins] * count if isinstance(bins, int) else list(bins)
    if len(per_dimension) != count:
        raise ValueError("should be a bin for each dimension.")
    ranges = [None] * count if range is None else list(range)
    flat: Any = asarray(0)
    every = []
    for k, wanted in enumerate(per_dimension):
        column = points[:, k]
        edges = jnp.histogram_bin_edges(column, wanted, ranges[k], weights)
        place = jnp.searchsorted(edges, column, side="right")
        place = jnp.where(column == edges[-1], place - 1, place)
        flat = flat * (len(edges) + 1) + place
        every.append(edges)
    shape = tuple(len(edges) + 1 for edges in every)
    length = int(np.prod(shape))
    found = jnp.reshape(jnp.bincount(flat, weights, length=length), shape)
    found = found[(slice(1, -1),) * count]
    if density:
        found = found / jnp.sum(found)
        for widths in jnp.ix_(*[jnp.diff(edges) for edges in every]):
            found = found / widths
    return found, every


def _refuse_order(bitorder: str) -> None:
    if bitorder not in ("little", "big"):
        raise ValueError("'order' must be either 'little' or 'big'")


def _bits(bitorder: str) -> Array:
    order = np.arange(8) if bitorder == "little" else np.arange(8)[::-1]
    return asarray((1 << order).astype(np.int32))


def _rows(array: Array, axis: int | None) -> tuple[Array, int]:
    """The array with the axis at the end, and where it was; flat without an axis."""
    if axis is None:
        return jnp.ravel(array), 0
    return jnp.swapaxes(array, axis, -1), axis


@provide("jax.numpy.packbits")
def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Any:
    array = asarray(a)
    if not dtypes.is_kind(array.dtype, "bool", "signed", "unsigned"):
        raise TypeError("Expected an input array of integer or boolean data type")
    _refuse_order(bitorder)
    rows, at = _rows(cast(array != 0, "int32"), axis)
    size = sizes_of(rows)[-1]
    rows = jnp.pad(rows, [(0, 0)] * (rows.rank - 1) + [(0, -size % 8)])
    rows = jnp.reshape(rows, (*rows.dims[:-1], -1, 8))
    packed = cast(jnp.sum(rows * _bits(bitorder), axis=-1), "uint8")
    return jnp.swapaxes(packed, at, -1)


@provide("jax.numpy.unpackbits")
def unpackbits(
    a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Any:
    array = asarray(a)
    if array.dtype != "uint8":
        raise TypeError("Expected an input array of unsigned byte data type")
    _refuse_order(bitorder)
    rows, at = _rows(cast(array, "int32"), axis)
    bits = cast((rows[..., None] & _bits(bitorder)) > 0, "uint8")
    bits = jnp.reshape(bits, (*rows.dims[:-1], -1))
    if count is not None:
        missing = max(0, count - sizes_of(bits)[-1])
        bits = jnp.pad(bits, [(0, 0)] * (bits.rank - 1) + [(0, missing)])
        bits = bits[..., :count]
    return jnp.swapaxes(bits, at, -1)
