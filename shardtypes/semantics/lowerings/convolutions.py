"""Convolutions and reductions over windows.

A dimension that the kernel does not reach over stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shardtypes.semantics.array import Array, Dim
from shardtypes.semantics.comparison import require_equal
from shardtypes.semantics.lazy import np
from shardtypes.semantics.lowerings.contractions import added_up_in
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    beside_constants,
    cast,
    in_dtype_of,
    inexact,
    not_read,
    number_of,
    of_shape,
    promoted,
    sizes_of,
    strong,
    weak_as,
)
from shardtypes.semantics.lowerings.operators import conjugate
from shardtypes.semantics.lowerings.shapes import (
    broadcast_to,
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
from shardtypes.semantics.primitives.structure import padded_size
from shardtypes.semantics.primitives.windows import (
    convolution,
    count_of,
    reach_of,
    windows,
)
from shardtypes.semantics.registry import LOWERINGS, Refused, Unsupported, lowering
from shardtypes.semantics.sizes import (
    greatest,
    is_less,
    is_number,
    is_surely_less,
    least,
    rounded_up,
)

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


@dataclass(frozen=True, slots=True)
class _Slide:
    """How windows slide along one dimension: what is added before it, behind it and between neighbours, and how many
    windows there are."""

    padding: tuple[Any, Any, Any]
    window: Any
    stride: Any
    dilation: Any
    count: Any

    @property
    def params(self) -> dict[str, Any]:
        """Those of ``windows``, but for the dimension."""
        return {name: getattr(self, name) for name in self.__slots__}


def _slides(
    padding: Any,
    sizes: Sequence[Any],
    windows: Sequence[Any],
    strides: Sequence[Any],
    spread: Sequence[Any],
    dilations: Sequence[Any],
) -> list[_Slide]:
    """How windows slide along each dimension of these sizes."""
    pairs: Any
    if isinstance(padding, str):
        pairs = [padding.upper()] * len(sizes)
    elif not is_number(padding):  # of which nothing is known
        pairs = [(padding, padding)] * len(sizes)
    else:
        pairs = [_pair(one) for one in padding]
    if len(pairs) != len(sizes):
        many = _counted(len(pairs), "pair")
        few = _counted(len(sizes), "dimension")
        raise Refused(f"{many} of padding for {few}", "ranks")
    if any(is_number(one) and one < 1 for one in (*spread, *dilations)):
        raise Refused("dilations are positive", "sizes")
    return list(map(_slide, pairs, sizes, windows, strides, spread, dilations))


def _pair(given: Any) -> tuple[Any, Any]:
    if not is_number(given):
        return given, given
    low, high = given
    return number_of(low), number_of(high)


def _slide(
    padding: Any, size: Any, window: Any, stride: Any, between: Any, dilation: Any
) -> _Slide:
    reach = reach_of(window, dilation)
    if padding in ("SAME", "SAME_LOWER"):
        count = rounded_up(size, stride)
        total = greatest((count - 1) * stride + reach - size, 0)
        low, high = total // 2, total - total // 2
        if padding == "SAME_LOWER":
            low, high = high, low
        return _Slide((low, high, between - 1), window, stride, dilation, count)
    if padding == "VALID":
        low = high = 0
    elif isinstance(padding, str):
        raise Unsupported(f"padding {padding}")
    else:
        low, high = padding
    wide = (low, high, between - 1)
    if is_surely_less(padded_size(size, *wide), 0):
        raise Unsupported("a padding that leaves less than nothing")
    if is_number(stride) and stride < 1:
        raise Unsupported(f"a stride of {stride}")
    count = count_of(size, reach, stride, wide)
    return _Slide(wide, window, stride, dilation, count)


def per_dimension(given: Any, count: int, what: str = "numbers") -> tuple[Any, ...]:
    """A number for each of ``count`` dimensions, of one number or several; ones of None."""
    if given is None:
        return (1,) * count
    if not isinstance(given, (tuple, list)):
        return (number_of(given),) * count
    if len(given) != count:
        few = _counted(count, "dimension")
        raise Refused(f"{len(given)} {what} for {few}", "ranks")
    return tuple(number_of(one) for one in given)


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
    strides = per_dimension(window_strides, count, "window_strides")
    spread = per_dimension(lhs_dilation, count, "lhs_dilation")
    dilation = per_dimension(rhs_dilation, count, "rhs_dilation")
    if isinstance(padding, str) and any(is_number(k) and k != 1 for k in spread):
        raise Refused("padding is given in numbers beside lhs_dilation", "operands")
    groups = number_of(feature_group_count)
    batches = number_of(batch_group_count)
    _require_groups(x, kernel, groups, batches)
    reach = sizes_of(kernel)[2:]
    slides = _slides(padding, sizes_of(x)[2:], reach, strides, spread, dilation)
    found = _product(x, kernel, groups, batches, slides)
    found = transpose(found, _places_of(numbers.out_spec))
    if preferred_element_type is None:
        return weak_as(found, left)
    return asarray(found, preferred_element_type)


def _places_of(spec: Sequence[int]) -> tuple[int, ...]:
    """Which of the dimensions in the order of a spec comes first, second and so on."""
    return tuple(sorted(range(len(spec)), key=lambda k: spec[k]))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _require_groups(x: Array, kernel: Array, groups: Any, batches: Any) -> None:
    """The input has as many features as the kernel takes, times the groups, which share the kernel's outputs."""
    if not is_number(groups) or not is_number(batches):
        return
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


def _product(
    x: Array, kernel: Array, groups: Any, batches: Any, slides: Sequence[_Slide]
) -> Array:
    """Of an operand ``(N, C, place, …)`` and a kernel ``(O, I, in window, …)``."""
    outputs, inputs = sizes_of(kernel)[:2]
    batch = sizes_of(x)[0]
    counts = [slide.count for slide in slides]
    if not is_number(groups) or not is_number(batches):
        examples = batch if batches == 1 else None
        return of_shape(x, (examples, outputs, *counts))
    examples = batch // batches
    outputs_of_group = outputs // (groups * batches)
    # that groups of so many inputs make up the channels is for the program to know
    parts = (batches, examples, groups, inputs, *x.dims[2:])
    x = s.reshape(x, new_sizes=parts)
    parts = (batches, groups, outputs_of_group, *kernel.dims[1:])
    kernel = s.reshape(kernel, new_sizes=parts)
    found = convolution(x, kernel, slides=tuple(slide.params for slide in slides))
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
    steps = per_dimension(strides, left.rank - 2, "strides")
    dilation = per_dimension(rhs_dilation, left.rank - 2, "rhs_dilation")
    if padding in ("SAME", "VALID"):
        sizes = [sizes_of(right)[k] for k in numbers.rhs_spec[2:]]
        reach = map(reach_of, sizes, dilation)
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


def _transposed_padding(window: Any, stride: Any, padding: str) -> tuple[Any, Any]:
    if padding == "SAME":
        total = window + stride - 2
        # how many are in front matters to numbers alone
        if not is_number(total) or window <= stride:
            low = window - 1
        else:
            low = rounded_up(total, 2)
    else:
        total = window + stride - 2 + greatest(window - stride, 0)
        low = window - 1
    return low, total - low


@lowering(f"{_LAX}.conv_general_dilated_patches")
def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Any,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Every window as the features of one place: those of the operand one after another, each with its window."""
    array = asarray(lhs)
    if array.rank < 2:
        raise Refused("needs 2 dimensions at least", "ranks")
    count = array.rank - 2
    numbers = _dimension_numbers(dimension_numbers, array.rank)
    reach = per_dimension(filter_shape, count, "sizes of a window")
    strides = per_dimension(window_strides, count, "window_strides")
    spread = per_dimension(lhs_dilation, count, "lhs_dilation")
    dilation = per_dimension(rhs_dilation, count, "rhs_dilation")
    x = transpose(array, numbers.lhs_spec)
    slides = _slides(padding, sizes_of(x)[2:], reach, strides, spread, dilation)
    for k, slide in enumerate(slides):
        x = windows(x, axis=2 + 2 * k, **slide.params)
    inside = tuple(range(3, x.rank, 2))
    outside = tuple(range(2, x.rank, 2))
    x = transpose(x, (0, 1, *inside, *outside))
    batch, features, *sizes = sizes_of(x)
    for size in sizes[:count]:
        features = features * size
    x = s.reshape(x, new_sizes=(batch, features, *sizes[count:]))
    found = transpose(x, _places_of(numbers.out_spec))
    if preferred_element_type is None:
        return strong(found)
    return asarray(found, preferred_element_type)


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
    operand: Any,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Any,
    window_strides: Any = None,
    padding: Any = "VALID",
    base_dilation: Any = None,
    window_dilation: Any = None,
) -> Any:
    """The computation of all places in a window, one slice after the other."""
    how = (window_strides, padding, base_dilation, window_dilation)
    if not isinstance(operand, (tuple, list)):
        if isinstance(init_value, (int, float)):
            # where JAX knows the computation it asks for no dtype of a number
            array = asarray(operand)
            first = in_dtype_of(init_value, array)
        else:
            array, first = of_one_dtype(operand=operand, init_value=init_value)
        return _reduced(array, first, computation, window_dimensions, *how)
    if not isinstance(init_value, (tuple, list)) or len(init_value) != len(operand):
        raise Unsupported("several arrays, and not as many values to begin with")
    found = []
    for k, (one, first) in enumerate(zip(operand, init_value, strict=True)):
        names = {f"operand[{k}]": one, f"init_value[{k}]": first}
        array, first = of_one_dtype(**names)
        found.append(_reduced(array, first, None, window_dimensions, *how))
    return tuple(found)


def _reduced(
    array: Array,
    first: Array,
    computation: Callable[..., Any] | None,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilation: Any,
    window_dilation: Any,
) -> Array:
    """One array. Without a computation, or where sizes are not numbers, its shape is all that is known."""
    rank = array.rank
    sizes = per_dimension(window_dimensions, rank, "window_dimensions")
    strides = per_dimension(window_strides, rank, "window_strides")
    spread = per_dimension(base_dilation, rank, "base_dilation")
    dilation = per_dimension(window_dilation, rank, "window_dilation")
    if padding == "SAME" and window_strides is None:
        return of_shape(array, (None,) * rank)  # releases of JAX differ
    slides = _slides(padding, sizes_of(array), sizes, strides, spread, dilation)
    counts = [slide.count for slide in slides]
    if computation is None or not all(map(is_number, (*counts, *sizes))):
        return of_shape(array, counts)
    config = tuple(slide.padding for slide in slides)
    if any(one != (0, 0, 0) for one in config):
        wide = s.pad(array, first, padding_config=config)
    else:
        wide = array
    found = broadcast_to(first, counts)
    if 0 in counts:
        return found
    for place in np.ndindex(*sizes):
        starts = tuple(k * step for k, step in zip(place, dilation, strict=True))
        limits = tuple(
            a + (n - 1) * step + 1
            for a, n, step in zip(starts, counts, strides, strict=True)
        )
        part = s.slice_(
            wide, start_indices=starts, limit_indices=limits, strides=strides
        )
        found = computation(found, part)
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
