"""Convolutions and reductions over windows.

A convolution is a product of the windows of its padded operand with the kernel, so it has the relations and gradients
of slices and products. A dimension that the kernel does not reach over stays as it is.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shardtypes.semantics.array import Array, Dim
from shardtypes.semantics.comparison import require_equal
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
    not_read,
    number_of,
    of_shape,
    promoted,
    sizes_of,
    weak_as,
)
from shardtypes.semantics.lowerings.indexing import indexed
from shardtypes.semantics.lowerings.operators import conjugate
from shardtypes.semantics.lowerings.shapes import (
    expand_dims,
    flip,
    ravel,
    reshape,
    slice_in_dim,
    swapaxes,
    transpose,
)
from shardtypes.semantics.lowerings.unpromoted import of_one_dtype
from shardtypes.semantics.primitives import structure as s
from shardtypes.semantics.registry import LOWERINGS, Refused, Unsupported, lowering
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
    for text in (lhs, rhs, out):
        if len(text) != rank:
            what = f"'{text}' names {len(text)} dimensions, but the arrays have {rank}"
            raise Refused(what, "ranks")
    places = [letter for letter in rhs if letter not in "OI"]

    def spec(text: str, first: str) -> tuple[int, ...]:
        return tuple(text.index(letter) for letter in (*first, *places))

    return ConvDimensionNumbers(spec(lhs, "NC"), spec(rhs, "OI"), spec(out, "NC"))


def _paddings(
    padding: Any, sizes: Sequence[int], windows: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """What is added before and behind each place's dimension."""
    if not isinstance(padding, str):
        pairs = [(number_of(low), number_of(high)) for low, high in padding]
        if len(pairs) != len(sizes):
            many = _counted(len(pairs), "pair")
            few = _counted(len(sizes), "dimension")
            raise Refused(f"{many} of padding for {few}", "ranks")
        return pairs
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


@lowering(f"{_LAX}.conv_general_dilated", unread="out_sharding")
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
) -> Array:
    left, right = of_one_dtype(lhs=lhs, rhs=rhs)
    left, right = added_up_in(preferred_element_type, promoted(left, right))
    if left.rank != right.rank:
        raise Refused("input and kernel differ in rank", "operands")
    if left.rank < 2:
        raise Refused("needs 2 dimensions at least", "ranks")
    numbers = _dimension_numbers(dimension_numbers, left.rank)
    x = transpose(left, numbers.lhs_spec)
    kernel = transpose(right, numbers.rhs_spec)
    count = left.rank - 2
    strides, spread, dilation = (
        per_dimension(one, count)
        for one in (window_strides, lhs_dilation, rhs_dilation)
    )
    _require_strides(strides, count)
    if isinstance(padding, str) and any(one != 1 for one in spread):
        raise Refused("padding is given in numbers beside lhs_dilation", "operands")
    if any(one < 1 for one in (*spread, *dilation)):
        raise Refused("dilations are positive", "sizes")
    groups = int(feature_group_count)
    batches = int(batch_group_count)
    _require_groups(x, kernel, groups, batches)
    x = _padded_places(x, kernel, padding, strides, spread, dilation)
    for k in range(count):
        width = sizes_of(kernel)[2 + k]
        x = _windows(x, 2 + 2 * k, width, strides[k], dilation[k])
    found = _product(x, kernel, groups, batches)
    found = transpose(
        found, tuple(sorted(range(left.rank), key=lambda k: numbers.out_spec[k]))
    )
    if preferred_element_type is None:
        return weak_as(found, left)
    return asarray(found, preferred_element_type)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _require_strides(strides: Sequence[int], count: int) -> None:
    if len(strides) != count:
        many = f"{len(strides)} window_strides"
        raise Refused(f"{many} for {_counted(count, 'dimension')}", "ranks")


def _require_groups(x: Array, kernel: Array, groups: int, batches: int) -> None:
    """The input has as many features as the kernel takes, times the groups, which share the kernel's outputs."""
    if groups < 1 or batches < 1:
        raise Refused("the numbers of groups are positive", "operands")
    if groups > 1 and batches > 1:
        raise Refused("groups are of features or of the batch", "operands")
    features = x.dims[1]
    outputs, taken = kernel.dims[:2]
    if features is not None and taken is not None:
        times = f" in each of {groups} groups" if groups != 1 else ""
        why = f"the input has {features} features, but the kernel takes {taken}{times}"
        require_equal(features, taken * groups, why)
    _require_divisible(outputs, groups, "output features")
    _require_divisible(outputs, batches, "output features")
    _require_divisible(x.dims[0], batches, "examples")


def _require_divisible(size: Dim, groups: int, what: str) -> None:
    if isinstance(size, int) and size % groups:
        raise Refused(f"{size} {what} are not divisible by {groups} groups", "sizes")


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
    # that groups of so many inputs make up the channels is for the program to know
    parts = (batches, examples, groups, inputs, *x.dims[2:])
    x = s.reshape(x, new_sizes=parts)
    parts = (batches, groups, outputs_of_group, *kernel.dims[1:])
    kernel = s.reshape(kernel, new_sizes=parts)
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
    preferred_element_type: Any = None,
) -> Array:
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        preferred_element_type=preferred_element_type,
    )


@lowering(f"{_LAX}.conv_with_general_padding")
def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        preferred_element_type=preferred_element_type,
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
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Array:
    left = asarray(lhs)
    right = asarray(rhs)
    if left.rank != right.rank:
        raise Refused("input and kernel differ in rank", "operands")
    if use_consistent_padding:
        raise Unsupported("a transposed convolution with padding in other numbers")
    if dimension_numbers is None:
        if left.rank not in (2, 3, 4, 5):
            raise Refused("needs dimension_numbers beyond 5 dimensions", "ranks")
        dimension_numbers = {
            2: ("NC", "IO", "NC"),
            3: ("NHC", "HIO", "NHC"),
            4: ("NHWC", "HWIO", "NHWC"),
            5: ("NHWDC", "HWDIO", "NHWDC"),
        }[left.rank]
    numbers = _dimension_numbers(dimension_numbers, left.rank)
    steps = per_dimension(strides, left.rank - 2)
    dilation = per_dimension(rhs_dilation, left.rank - 2)
    if padding in ("SAME", "VALID"):
        sizes = [sizes_of(right)[k] for k in numbers.rhs_spec[2:]]
        reach = [
            (size - 1) * step + 1 for size, step in zip(sizes, dilation, strict=True)
        ]
        padding = [
            _transposed_padding(size, step, padding)
            for size, step in zip(reach, steps, strict=True)
        ]
    if transpose_kernel:
        outputs, inputs, *places = numbers.rhs_spec
        right = swapaxes(flip(right, tuple(places)), outputs, inputs)
    ones = (1,) * (left.rank - 2)
    return conv_general_dilated(
        left,
        right,
        ones,
        padding,
        steps,
        dilation,
        numbers,
        preferred_element_type=preferred_element_type,
    )


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


def _vectors(a: ArrayLike, v: ArrayLike) -> list[Array]:
    arrays = inexact(asarray(a), asarray(v))
    if any(array.rank != 1 for array in arrays):
        raise Refused("needs vectors", "ranks")
    if any(array.dims[0] == 0 for array in arrays):
        raise Refused("a vector is empty", "sizes")
    return arrays


@lowering(f"{_JNP}.convolve")
def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    not_read(preferred_element_type=preferred_element_type)
    x, kernel = _vectors(a, v)
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
    preferred_element_type: Any = None,
) -> Array:
    not_read(preferred_element_type=preferred_element_type)
    x, kernel = _vectors(a, v)
    if not _are_numbers(x, kernel):
        return _of_mode(x, kernel, mode)
    if sizes_of(x)[0] < sizes_of(kernel)[0]:
        return flip(conjugate(correlate(kernel, x, mode)))
    return _part(
        _convolved(x, flip(conjugate(kernel))), sizes_of(x), sizes_of(kernel), mode
    )


def _signal(in1: ArrayLike, in2: ArrayLike, mode: str, turned: bool) -> Array:
    x, kernel = inexact(asarray(in1), asarray(in2))
    if turned:
        kernel = flip(conjugate(kernel))
    if mode == "valid" and any(
        is_less(m, n) for m, n in zip(sizes_of(x), sizes_of(kernel), strict=True)
    ):
        raise Unsupported("a valid convolution with a larger kernel")
    found = _part(_convolved(x, kernel), sizes_of(x), sizes_of(kernel), mode)
    return weak_as(found, x)


@lowering(f"{_SIGNAL}.convolve", unread="precision")
def signal_convolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
) -> Array:
    return _signal(in1, in2, mode, False)


@lowering(f"{_SIGNAL}.fftconvolve")
def fftconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Any = None
) -> Array:
    if axes is not None:
        raise Unsupported("a convolution along some dimensions")
    return beside_constants(_signal(in1, in2, mode, False))


@lowering(f"{_SIGNAL}.correlate", unread="precision")
def signal_correlate(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
) -> Array:
    return _signal(in1, in2, mode, True)


def _filled(boundary: str, fillvalue: Any) -> None:
    if boundary != "fill" or fillvalue != 0:
        raise Unsupported(f"a convolution with boundary {boundary}")


@lowering(f"{_SIGNAL}.convolve2d", unread="precision")
def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
) -> Array:
    _filled(boundary, fillvalue)
    return _signal(in1, in2, mode, False)


@lowering(f"{_SIGNAL}.correlate2d", unread="precision")
def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
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


@lowering(f"{_LAX}.reduce", unread="out_sharding")
def reduce(operands: Any, init_values: Any, computation: Any, dimensions: Any) -> Array:
    name = getattr(computation, "qualname", None)
    known = next(
        (one for one in _COMPUTATIONS if one == name or LOWERINGS[one] is computation),
        None,
    )
    if known is None or isinstance(operands, (tuple, list)):
        raise Unsupported("a reduction by a function of its own, or of several arrays")
    array = asarray(operands)
    found: Array = LOWERINGS[_COMPUTATIONS[known]](array, tuple(dimensions))
    first = cast(asarray(init_values), array.dtype)
    combined: Array = LOWERINGS[known](first, found)
    return weak_as(combined, array)
