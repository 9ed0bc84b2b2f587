"""Convolutions and reductions over windows.

A convolution is a product of the windows of its padded operand with the kernel, so it has the relations and gradients
of slices and products. A dimension that the kernel does not reach over stays as it is.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shardtypes.semantics.array import Array
from shardtypes.semantics.lazy import np
from shardtypes.semantics.lowerings.contractions import added_up_in, einsum
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    beside_constants,
    cast,
    in_dtype_of,
    inexact,
    like,
    number_of,
    of_shape,
    promoted,
    sizes_of,
    weak_as,
)
from shardtypes.semantics.lowerings.indexing import indexed
from shardtypes.semantics.lowerings.shapes import (
    expand_dims,
    flip,
    ravel,
    reshape,
    slice_in_dim,
    transpose,
)
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives import structure as s
from shardtypes.semantics.registry import LOWERINGS, Unsupported, lowering
from shardtypes.semantics.sizes import greatest, is_less, is_number, least, rounded_up

_JNP, _LAX, _SIGNAL = "jax.numpy", "jax.lax", "jax.scipy.signal"


@dataclass(frozen=True, slots=True)
class ConvDimensionNumbers:
    """Where batch and features, outputs and inputs, and the places are, by dimension."""

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


@lowering(f"{_LAX}.conv_dimension_numbers")
def conv_dimension_numbers(
    lhs_shape: Any, rhs_shape: Any, dimension_numbers: Any
) -> ConvDimensionNumbers:
    return _dimension_numbers(dimension_numbers, len(lhs_shape))


def _dimension_numbers(given: Any, rank: int) -> ConvDimensionNumbers:
    if given is None:
        plain = tuple(range(rank))
        return ConvDimensionNumbers(plain, plain, plain)
    if hasattr(given, "lhs_spec"):
        return ConvDimensionNumbers(
            tuple(given.lhs_spec), tuple(given.rhs_spec), tuple(given.out_spec)
        )
    lhs, rhs, out = given
    places = [letter for letter in rhs if letter not in "OI"]

    def spec(text: str, first: str) -> tuple[int, ...]:
        return tuple(text.index(letter) for letter in (*first, *places))

    return ConvDimensionNumbers(spec(lhs, "NC"), spec(rhs, "OI"), spec(out, "NC"))


def _paddings(
    padding: Any, sizes: Sequence[int], windows: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """What is added before and behind each place's dimension."""
    if not isinstance(padding, str):
        return [(number_of(low), number_of(high)) for low, high in padding]
    if padding.upper() == "VALID":
        return [(0, 0)] * len(sizes)
    if padding.upper() not in ("SAME", "SAME_LOWER"):
        raise Unsupported(f"padding {padding}")
    found = []
    for size, window, stride in zip(sizes, windows, strides, strict=True):
        places = rounded_up(size, stride)
        covered = (places - 1) * stride + window
        total = greatest(covered - size, 0)
        less = total // 2
        more = total - less
        if padding.upper() == "SAME_LOWER":
            found.append((more, less))
        else:
            found.append((less, more))
    return found


def _windows(array: Array, axis: int, window: int, stride: int, dilation: int) -> Array:
    """The windows along one dimension, with a dimension for the places in each behind it."""
    if window == 1 and stride == 1:
        return expand_dims(array, axis + 1)
    last = (window - 1) * dilation
    count = (sizes_of(array)[axis] - last - 1) // stride + 1
    if not is_number(count):
        shape = list(array.dims)
        shape[axis : axis + 1] = [greatest(count, 0), window]
        return of_shape(array, shape)
    starts = np.arange(max(count, 0))[:, None] * stride
    offsets = np.arange(window)[None, :] * dilation
    before = (slice(None),) * axis
    return indexed(array, (*before, starts + offsets))


def per_dimension(given: Any, count: int) -> tuple[int, ...]:
    """A number for each of ``count`` dimensions, of one number or several; ones of None."""
    if given is None:
        return (1,) * count
    if isinstance(given, (tuple, list)):
        return tuple(int(one) for one in given)
    return (int(given),) * count


@lowering(f"{_LAX}.conv_general_dilated")
def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    **options: Any,
) -> Array:
    left, right = added_up_in(
        preferred_element_type, promoted(asarray(lhs), asarray(rhs))
    )
    numbers = _dimension_numbers(dimension_numbers, left.rank)
    x = transpose(left, numbers.lhs_spec)
    kernel = transpose(right, numbers.rhs_spec)
    count = left.rank - 2
    strides, spread, dilation = (
        per_dimension(one, count)
        for one in (window_strides, lhs_dilation, rhs_dilation)
    )
    x = _padded_places(x, kernel, padding, strides, spread, dilation)
    for k in range(count):
        x = _windows(x, 2 + 2 * k, sizes_of(kernel)[2 + k], strides[k], dilation[k])
    found = _product(x, kernel, int(feature_group_count), int(batch_group_count))
    found = transpose(
        found, tuple(sorted(range(left.rank), key=lambda k: numbers.out_spec[k]))
    )
    if preferred_element_type is None:
        return weak_as(found, left)
    return asarray(found, preferred_element_type)


def _padded_places(
    x: Array,
    kernel: Array,
    padding: Any,
    strides: Sequence[int],
    spread: Sequence[int],
    dilation: Sequence[int],
) -> Array:
    reach = [
        (size - 1) * step + 1
        for size, step in zip(sizes_of(kernel)[2:], dilation, strict=True)
    ]
    edges = _paddings(padding, sizes_of(x)[2:], reach, strides)
    inner = [
        (low, high, between - 1)
        for (low, high), between in zip(edges, spread, strict=True)
    ]
    if not any(one != (0, 0, 0) for one in inner):
        return x
    return s.pad(x, like(0, x), padding_config=((0, 0, 0), (0, 0, 0), *inner))


def _product(x: Array, kernel: Array, groups: int, batches: int) -> Array:
    """Of windows ``(N, C, place, in window, …)`` and a kernel ``(O, I, in window, …)``."""
    outputs, inputs = sizes_of(kernel)[:2]
    batch = sizes_of(x)[0]
    examples = batch // batches
    outputs_of_group = outputs // (groups * batches)
    x = reshape(x, (batches, examples, groups, inputs, *x.dims[2:]))
    kernel = reshape(kernel, (batches, groups, outputs_of_group, *kernel.dims[1:]))
    count = kernel.rank - 4
    places = string.ascii_lowercase[:count]
    inside = string.ascii_uppercase[:count]
    both = "".join(a + b for a, b in zip(places, inside, strict=True))
    found = einsum(f"xnyz{both},xywz{inside}->nxyw{places}", x, kernel)
    return reshape(found, (examples, outputs, *found.dims[4:]))


@lowering(f"{_LAX}.conv")
def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Any,
    padding: Any,
    precision: Any = None,
    **options: Any,
) -> Array:
    return conv_general_dilated(lhs, rhs, window_strides, padding, **options)


@lowering(f"{_LAX}.conv_with_general_padding")
def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    precision: Any = None,
    **options: Any,
) -> Array:
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, **options
    )


@lowering(f"{_LAX}.conv_transpose")
def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Any,
    padding: Any,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    **options: Any,
) -> Array:
    left = asarray(lhs)
    right = asarray(rhs)
    if transpose_kernel:
        raise Unsupported("a transposed convolution with its kernel turned round")
    if dimension_numbers is None:
        dimension_numbers = {
            3: ("NHC", "HIO", "NHC"),
            4: ("NHWC", "HWIO", "NHWC"),
            5: ("NHWDC", "HWDIO", "NHWDC"),
        }[left.rank]
    numbers = _dimension_numbers(dimension_numbers, left.rank)
    steps = per_dimension(strides, left.rank - 2)
    dilation = per_dimension(rhs_dilation, left.rank - 2)
    if isinstance(padding, str):
        sizes = [sizes_of(right)[k] for k in numbers.rhs_spec[2:]]
        reach = [
            (size - 1) * step + 1 for size, step in zip(sizes, dilation, strict=True)
        ]
        padding = [
            _transposed_padding(size, step, padding)
            for size, step in zip(reach, steps, strict=True)
        ]
    ones = (1,) * (left.rank - 2)
    return conv_general_dilated(left, right, ones, padding, steps, dilation, numbers)


def _transposed_padding(window: int, stride: int, padding: str) -> tuple[int, int]:
    if padding == "SAME":
        total = window + stride - 2
        if is_less(window, stride + 1):
            low = window - 1
        else:
            low = rounded_up(total, 2)
    else:
        total = window + stride - 2 + greatest(window - stride, 0)
        low = window - 1
    return low, total - low


# --- signals --------------------------------------------------------------------------------------------------------


def _convolved(x: Array, kernel: Array) -> Array:
    """The whole convolution, in as many dimensions as they have."""
    edges = [(size - 1, size - 1) for size in sizes_of(kernel)]
    turned = expand_dims(flip(kernel), (0, 1))
    found = conv_general_dilated(expand_dims(x, (0, 1)), turned, (1,) * x.rank, edges)
    return reshape(found, found.dims[2:])


def _part(
    whole: Array, first: Sequence[int], second: Sequence[int], mode: str
) -> Array:
    """The part of a whole convolution that a mode asks for: as large as the first, or where both overlap wholly."""
    if mode == "full":
        return whole
    if mode not in ("same", "valid"):
        raise ValueError("mode must be one of ['full', 'same', 'valid']")
    for k, (m, n) in enumerate(zip(first, second, strict=True)):
        if mode == "same":
            size = m
            start = (n - 1) // 2
        else:
            size = greatest(m, n) - least(m, n) + 1
            start = least(m, n) - 1
        whole = slice_in_dim(whole, start, start + size, axis=k)
    return whole


def _are_numbers(*arrays: Array) -> bool:
    return all(is_number(size) for array in arrays for size in sizes_of(array))


def _of_mode(x: Array, kernel: Array, mode: str) -> Array:
    """What a convolution in one dimension has the shape of, whichever of the two is longer."""
    m, n = sizes_of(x)[0], sizes_of(kernel)[0]
    sizes = {
        "full": m + n - 1,
        "same": greatest(m, n),
        "valid": greatest(m, n) - least(m, n) + 1,
    }
    if mode not in sizes:
        raise ValueError("mode must be one of ['full', 'same', 'valid']")
    return of_shape(x, (sizes[mode],))


@lowering(f"{_JNP}.convolve")
def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: Any = None,
    **options: Any,
) -> Array:
    x, kernel = inexact(asarray(a), asarray(v))
    if not _are_numbers(x, kernel):
        return _of_mode(x, kernel, mode)
    if sizes_of(x)[0] < sizes_of(kernel)[0]:
        x, kernel = kernel, x
    found = _part(_convolved(x, kernel), sizes_of(x), sizes_of(kernel), mode)
    return weak_as(found, x)


@lowering(f"{_JNP}.correlate")
def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: Any = None,
    **options: Any,
) -> Array:
    x, kernel = inexact(asarray(a), asarray(v))
    if not _are_numbers(x, kernel):
        return _of_mode(x, kernel, mode)
    if sizes_of(x)[0] < sizes_of(kernel)[0]:
        return flip(e.conj(correlate(kernel, x, mode)))
    return _part(
        _convolved(x, flip(e.conj(kernel))), sizes_of(x), sizes_of(kernel), mode
    )


def _signal(in1: ArrayLike, in2: ArrayLike, mode: str, turned: bool) -> Array:
    x, kernel = inexact(asarray(in1), asarray(in2))
    if turned:
        kernel = flip(e.conj(kernel))
    if mode == "valid" and any(
        is_less(m, n) for m, n in zip(sizes_of(x), sizes_of(kernel), strict=True)
    ):
        raise Unsupported("a valid convolution with a larger kernel")
    found = _part(_convolved(x, kernel), sizes_of(x), sizes_of(kernel), mode)
    return weak_as(found, x)


@lowering(f"{_SIGNAL}.convolve")
def signal_convolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    **options: Any,
) -> Array:
    return _signal(in1, in2, mode, False)


@lowering(f"{_SIGNAL}.fftconvolve")
def fftconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Any = None
) -> Array:
    if axes is not None:
        raise Unsupported("a convolution along some dimensions")
    return beside_constants(_signal(in1, in2, mode, False))


@lowering(f"{_SIGNAL}.correlate")
def signal_correlate(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    **options: Any,
) -> Array:
    return _signal(in1, in2, mode, True)


def _filled(boundary: str, fillvalue: Any) -> None:
    if boundary != "fill" or fillvalue != 0:
        raise Unsupported(f"a convolution with boundary {boundary}")


@lowering(f"{_SIGNAL}.convolve2d")
def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
    **options: Any,
) -> Array:
    _filled(boundary, fillvalue)
    return _signal(in1, in2, mode, False)


@lowering(f"{_SIGNAL}.correlate2d")
def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
    **options: Any,
) -> Array:
    _filled(boundary, fillvalue)
    if mode != "same":
        return _signal(in1, in2, mode, True)
    whole = _signal(in1, in2, "full", True)
    sizes = sizes_of(asarray(in2))
    for k, size in enumerate(sizes_of(asarray(in1))):
        whole = slice_in_dim(whole, sizes[k] // 2, sizes[k] // 2 + size, axis=k)
    return whole


def _polynomial(a: ArrayLike) -> Array:
    (array,) = inexact(ravel(a))
    return array


@lowering(f"{_JNP}.polymul")
def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    if trim_leading_zeros:
        raise Unsupported("a product whose size depends on zeros")
    return convolve(_polynomial(a1), _polynomial(a2))


# --- reductions over windows ----------------------------------------------------------------------------------------


@lowering(f"{_LAX}.reduce_window")
def reduce_window(
    operand: ArrayLike,
    init_value: ArrayLike,
    computation: Callable[..., Any],
    window_dimensions: Any,
    window_strides: Any = None,
    padding: Any = "VALID",
    base_dilation: Any = None,
    window_dilation: Any = None,
    **options: Any,
) -> Array:
    """The computation of all places in a window, one slice after the other."""
    if isinstance(operand, (tuple, list)):
        raise Unsupported("a window over several arrays")
    array = asarray(operand)
    sizes = per_dimension(window_dimensions, array.rank)
    strides, spread, dilation = (
        per_dimension(x, array.rank)
        for x in (window_strides, base_dilation, window_dilation)
    )
    reach = [(size - 1) * step + 1 for size, step in zip(sizes, dilation, strict=True)]
    edges = _paddings(padding, sizes_of(array), reach, strides)
    config = tuple(
        (low, high, between - 1)
        for (low, high), between in zip(edges, spread, strict=True)
    )
    first = in_dtype_of(init_value, array)
    if any(one != (0, 0, 0) for one in config):
        wide = s.pad(array, first, padding_config=config)
    else:
        wide = array
    counts = [
        (n - r) // step + 1
        for n, r, step in zip(sizes_of(wide), reach, strides, strict=True)
    ]
    found = first
    for place in np.ndindex(*sizes):
        starts = tuple(k * step for k, step in zip(place, dilation, strict=True))
        limits = tuple(
            a + (n - 1) * step + 1
            for a, n, step in zip(starts, counts, strides, strict=True)
        )
        found = computation(
            found,
            s.slice_(wide, start_indices=starts, limit_indices=limits, strides=strides),
        )
    return found


_COMPUTATIONS = {
    "jax.lax.add": "jax.lax.reduce_sum",
    "jax.lax.mul": "jax.lax.reduce_prod",
    "jax.lax.max": "jax.lax.reduce_max",
    "jax.lax.min": "jax.lax.reduce_min",
    "jax.lax.bitwise_and": "jax.lax.reduce_and",
    "jax.lax.bitwise_or": "jax.lax.reduce_or",
}


@lowering(f"{_LAX}.reduce")
def reduce(
    operands: Any, init_values: Any, computation: Any, dimensions: Any, **options: Any
) -> Array:
    name = getattr(computation, "qualname", None)
    known = next(
        (one for one in _COMPUTATIONS if one == name or LOWERINGS[one] is computation),
        None,
    )
    if known is None or isinstance(operands, (tuple, list)):
        raise Unsupported("a reduction by a function of its own, or of several arrays")
    array = asarray(operands)
    found: Array = LOWERINGS[_COMPUTATIONS[known]](array, tuple(dimensions))
    first = cast(asarray(init_values), array.dtype or "float32")
    combined: Array = LOWERINGS[known](first, found)
    return weak_as(combined, array)
