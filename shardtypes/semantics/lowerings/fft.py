"""``jax.numpy.fft``: transforms of real numbers are halves of those of complex ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.lazy import np
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    axes_of,
    axis_of,
    cast_each,
    inexact,
    int_of,
    number_of,
    of_shape,
    sizes_of,
    strong,
    with_sizes,
)
from shardtypes.semantics.lowerings.joining import concatenate
from shardtypes.semantics.lowerings.padding import pad
from shardtypes.semantics.lowerings.shapes import flip, roll, slice_in_dim
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives import fft as p
from shardtypes.semantics.registry import Refused, Unsupported, lowering
from shardtypes.semantics.sizes import is_number

_FFT = "jax.numpy.fft"


def _complex(a: ArrayLike) -> Array:
    (array,) = inexact(asarray(a))
    return strong(cast_each(array, dtypes.complex_))


def _resized(array: Array, axis: int, size: int | None) -> Array:
    """Cut, or filled up with zeros."""
    if is_number(size) and size is not None and size < 1:
        raise Refused(f"{size} points along a dimension", "sizes")
    if size is None or size == sizes_of(array)[axis]:
        return array
    if not (is_number(size) and is_number(sizes_of(array)[axis])):
        return of_shape(array, with_sizes(array.dims, axis, size))
    if size < sizes_of(array)[axis]:
        return slice_in_dim(array, 0, size, axis=axis)
    more = [
        (0, size - sizes_of(array)[axis] if k == axis else 0) for k in range(array.rank)
    ]
    return pad(array, more)


def _scale(sizes: Sequence[Any], norm: str | None, inverse: bool) -> float:
    """What the transform is multiplied by, beyond the inverse's division; 1 for all that depends on names."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f"Invalid norm value {norm}")
    count = math.prod(sizes)
    if norm in (None, "backward") or not is_number(count):
        return 1.0
    power = 0.5 if norm == "ortho" else 1.0
    return float(count**power if inverse else count**-power)


def _transformed(
    array: Array, axes: Sequence[int], sizes: Any, norm: str | None, inverse: bool
) -> Array:
    if sizes is None:
        given = [None] * len(axes)
    else:
        given = list(sizes)
    for axis, size in zip(axes, given, strict=True):
        array = _resized(array, axis, None if size is None else number_of(size))
    scale = _scale([sizes_of(array)[axis] for axis in axes], norm, inverse)
    found = p.fft(array, axes=tuple(axes), inverse=inverse)
    if scale == 1.0:
        return found
    return found * scale


def _half(array: Array, axis: int) -> Array:
    return slice_in_dim(array, 0, sizes_of(array)[axis] // 2 + 1, axis=axis)


def _mirrored(array: Array, axis: int, size: int | None) -> Array:
    """The whole of a transform of real numbers, from its half."""
    if size is None:
        wanted = 2 * (sizes_of(array)[axis] - 1)
    else:
        wanted = number_of(size)
    if is_number(wanted) and wanted == 0:
        return slice_in_dim(array, 0, 0, axis=axis)
    half = _resized(array, axis, wanted // 2 + 1)
    inside = slice_in_dim(half, 1, (wanted + 1) // 2, axis=axis)
    rest = flip(e.conj(inside), axis)
    return concatenate([half, rest], axis)


# --- along one dimension --------------------------------------------------------------------------------------------


def _one(inverse: bool) -> Callable[..., Array]:
    def function(
        a: ArrayLike, n: Any = None, axis: int = -1, norm: str | None = None
    ) -> Array:
        array = _complex(a)
        return _transformed(
            array,
            [axis_of(axis, array.rank)],
            None if n is None else [n],
            norm,
            inverse,
        )

    return function


fft = lowering(f"{_FFT}.fft")(_one(False))
ifft = lowering(f"{_FFT}.ifft")(_one(True))


def _real(a: ArrayLike) -> Array:
    array = asarray(a)
    if dtypes.is_kind(array.dtype, "complex"):
        raise TypeError("a transform of real numbers was given complex ones")
    return array


@lowering(f"{_FFT}.rfft")
def rfft(a: ArrayLike, n: Any = None, axis: int = -1, norm: str | None = None) -> Array:
    found = fft(_real(a), n, axis, norm)
    return _half(found, axis_of(axis, found.rank))


@lowering(f"{_FFT}.irfft")
def irfft(
    a: ArrayLike, n: Any = None, axis: int = -1, norm: str | None = None
) -> Array:
    array = _complex(a)
    whole = _mirrored(array, axis_of(axis, array.rank), n)
    return e.real(ifft(whole, None, axis, norm))


_SWAPPED = {
    None: "forward",
    "backward": "forward",
    "ortho": "ortho",
    "forward": "backward",
}


@lowering(f"{_FFT}.hfft")
def hfft(a: ArrayLike, n: Any = None, axis: int = -1, norm: str | None = None) -> Array:
    return irfft(e.conj(_complex(a)), n, axis, _SWAPPED[norm])


@lowering(f"{_FFT}.ihfft")
def ihfft(
    a: ArrayLike, n: Any = None, axis: int = -1, norm: str | None = None
) -> Array:
    return e.conj(rfft(a, n, axis, _SWAPPED[norm]))


# --- along several --------------------------------------------------------------------------------------------------


def _ordered(array: Array, axes: Any, s: Any) -> tuple[int, ...]:
    if axes is not None:
        return tuple(axis_of(axis, array.rank) for axis in axes)
    if s is None:
        return tuple(range(array.rank))
    return tuple(range(array.rank - len(s), array.rank))


def _several(inverse: bool, default: Any) -> Callable[..., Array]:
    def function(
        a: ArrayLike, s: Any = None, axes: Any = default, norm: str | None = None
    ) -> Array:
        array = _complex(a)
        return _transformed(array, _ordered(array, axes, s), s, norm, inverse)

    return function


def _several_real(default: Any) -> Callable[..., Array]:
    def function(
        a: ArrayLike, s: Any = None, axes: Any = default, norm: str | None = None
    ) -> Array:
        array = _complex(_real(a))
        places = _ordered(array, axes, s)
        return _half(_transformed(array, places, s, norm, False), places[-1])

    return function


def _several_to_real(default: Any) -> Callable[..., Array]:
    def function(
        a: ArrayLike, s: Any = None, axes: Any = default, norm: str | None = None
    ) -> Array:
        array = _complex(a)
        *first, last = _ordered(array, axes, s)
        found = _transformed(array, first, None if s is None else s[:-1], norm, True)
        return irfft(found, None if s is None else s[-1], last, norm)

    return function


_PAIR = (-2, -1)
for _name, _default in (("", None), ("2", _PAIR)):
    _suffix = _name or "n"
    lowering(f"{_FFT}.fft{_suffix}")(_several(False, _default))
    lowering(f"{_FFT}.ifft{_suffix}")(_several(True, _default))
    lowering(f"{_FFT}.rfft{_suffix}")(_several_real(_default))
    lowering(f"{_FFT}.irfft{_suffix}")(_several_to_real(_default))


@lowering("jax.lax.fft")
def lax_fft(x: ArrayLike, fft_type: Any, fft_lengths: Any) -> Array:
    kind = str(getattr(fft_type, "name", fft_type)).upper()
    array = asarray(x)
    axes = tuple(range(array.rank - len(fft_lengths), array.rank))
    made = {"FFT": _several(False, axes), "IFFT": _several(True, axes)}
    made |= {"RFFT": _several_real(axes), "IRFFT": _several_to_real(axes)}
    if kind not in made:
        raise Unsupported(f"a transform of kind {fft_type}")
    return made[kind](array, fft_lengths)


# --- frequencies ----------------------------------------------------------------------------------------------------


@lowering(f"{_FFT}.fftfreq")
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    return asarray(np.fft.fftfreq(int_of(n), float(d)), dtype)


@lowering(f"{_FFT}.rfftfreq")
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    return asarray(np.fft.rfftfreq(int_of(n), float(d)), dtype)


@lowering(f"{_FFT}.fftshift")
def fftshift(x: ArrayLike, axes: Any = None) -> Array:
    array = asarray(x)
    places = axes_of(axes, array.rank)
    return roll(array, [sizes_of(array)[k] // 2 for k in places], places)


@lowering(f"{_FFT}.ifftshift")
def ifftshift(x: ArrayLike, axes: Any = None) -> Array:
    array = asarray(x)
    places = axes_of(axes, array.rank)
    return roll(array, [-(sizes_of(array)[k] // 2) for k in places], places)
