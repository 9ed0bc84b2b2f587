"""``jax.image`` in guarded code: each dimension by a matrix of weights."""

from __future__ import annotations

import enum
import math
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shardlint.evaluation.guards import MARK
from shardlint.evaluation.lowered import jnp
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import (
    asarray,
    cast,
    counting,
    inexact,
    shape_of,
    sizes_of,
)
from shardtypes.semantics.registry import Unsupported

Kernel = Callable[[Array], Array]


class ResizeMethod(enum.Enum):
    """``jax.image.ResizeMethod``."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6


setattr(ResizeMethod, MARK, True)
provide("jax.image.ResizeMethod")(ResizeMethod)

_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    "linear": ResizeMethod.LINEAR,
    "bilinear": ResizeMethod.LINEAR,
    "trilinear": ResizeMethod.LINEAR,
    "triangle": ResizeMethod.LINEAR,
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    "cubic": ResizeMethod.CUBIC,
    "bicubic": ResizeMethod.CUBIC,
    "tricubic": ResizeMethod.CUBIC,
    "cubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    "bicubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    "area": ResizeMethod.AREA,
}


def _triangle(x: Array) -> Array:
    found: Array = jnp.maximum(0.0, 1 - x)
    return found


def _cubic(x: Array) -> Array:
    out = (1.5 * x - 2.5) * x * x + 1.0
    out = jnp.where(x >= 1.0, ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0, out)
    found: Array = jnp.where(x >= 2.0, 0.0, out)
    return found


def _lanczos(radius: float) -> Kernel:
    def kernel(x: Array) -> Array:
        sines = radius * jnp.sin(math.pi * x) * jnp.sin(math.pi * x / radius)
        below = jnp.where(x != 0, math.pi**2 * x**2, 1.0)
        out = jnp.where(x > 1e-3, sines / below, 1.0)
        found: Array = jnp.where(x > radius, 0.0, out)
        return found

    return kernel


_KERNELS: dict[ResizeMethod, Kernel] = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.LANCZOS3: _lanczos(3.0),
    ResizeMethod.LANCZOS5: _lanczos(5.0),
    ResizeMethod.CUBIC: _cubic,
}
_LEAST = 1000.0 * 2.0**-23
"""A sum of weights that is no larger is none."""


def _method(given: Any) -> ResizeMethod:
    """Raises ValueError for an unknown name, as JAX does."""
    if isinstance(given, ResizeMethod):
        return given
    if given not in _NAMES:
        raise ValueError(f'Unknown resize method "{given}"')
    return _NAMES[given]


def _kernel(method: ResizeMethod, antialias: bool) -> Kernel:
    if method is ResizeMethod.CUBIC_PYTORCH and antialias:
        return _cubic
    if method not in _KERNELS:
        raise Unsupported(f"the method {method.name}")
    return _KERNELS[method]


def _weights(
    before: int,
    after: int,
    scale: Any,
    translation: Any,
    kernel: Kernel,
    antialias: bool,
) -> Array:
    """What each entry of the image, a row, is of each entry of the result, a column."""
    inverse = 1.0 / scale
    width = jnp.maximum(inverse, 1.0) if antialias else 1.0
    places = cast(counting(after), "float32") + 0.5
    places = places * inverse - translation * inverse - 0.5
    entries = cast(counting(before), "float32")
    distances = jnp.abs(places[None, :] - entries[:, None]) / width
    weights = kernel(distances)
    total = jnp.sum(weights, axis=0, keepdims=True)
    is_any = jnp.abs(total) > _LEAST
    weights = jnp.where(is_any, weights / jnp.where(total != 0, total, 1.0), 0.0)
    is_inside = (places >= -0.5) & (places <= before - 0.5)
    found: Array = jnp.where(is_inside[None, :], weights, 0.0)
    return found


def _scaled(
    image: Array,
    shape: Sequence[int],
    dimensions: Sequence[int],
    scales: Sequence[Any],
    translations: Sequence[Any],
    kernel: Kernel,
    antialias: bool,
) -> Array:
    (array,) = inexact(image)
    sizes = sizes_of(array)
    letters = string.ascii_lowercase[: array.rank]
    given = zip(dimensions, scales, translations, strict=True)
    for number, scale, translation in given:
        dimension = number % array.rank
        weights = _weights(
            sizes[dimension], shape[dimension], scale, translation, kernel, antialias
        )
        weights = cast(weights, array.dtype or "float32")
        letter = letters[dimension]
        made = letters.replace(letter, "Z")
        array = jnp.einsum(f"{letters},{letter}Z->{made}", array, weights)
    return array


def _shape(image: Array, shape: Any) -> tuple[int, ...]:
    sizes = shape_of(shape)
    if len(sizes) != image.rank:
        raise ValueError(
            f"shape must have length equal to the number of dimensions of x;  {sizes} vs {image.dims}"
        )
    return sizes


def _nearest(image: Array, shape: Sequence[int]) -> Array:
    array = image
    for dimension, (before, after) in enumerate(
        zip(sizes_of(image), shape, strict=True)
    ):
        if before == after:
            continue
        places = (np.arange(after, dtype=np.float32) + np.float32(0.5)) * np.float32(
            before
        )
        places = np.floor(places / np.float32(after)).astype(np.int32)
        array = jnp.take(array, places, axis=dimension)
    return array


@provide("jax.image.resize")
def resize(
    image: Any, shape: Any, method: Any, antialias: bool = True, precision: Any = None
) -> Array:
    array = asarray(image)
    sizes = _shape(array, shape)
    chosen = _method(method)
    if chosen is ResizeMethod.NEAREST:
        return _nearest(array, sizes)
    before = sizes_of(array)
    changed = [k for k in range(array.rank) if before[k] != sizes[k]]
    scales = [sizes[k] / before[k] if sizes[k] else 1.0 for k in changed]
    kernel = _kernel(chosen, antialias)
    none = [0.0] * len(changed)
    return _scaled(array, sizes, changed, scales, none, kernel, antialias)


@provide("jax.image.scale_and_translate")
def scale_and_translate(
    image: Any,
    shape: Any,
    spatial_dims: Sequence[int],
    scale: Any,
    translation: Any,
    method: Any,
    antialias: bool = True,
    precision: Any = None,
) -> Array:
    array = asarray(image)
    sizes = _shape(array, shape)
    chosen = _method(method)
    if chosen is ResizeMethod.NEAREST:
        raise ValueError(
            "Nearest neighbor resampling is not currently supported for scale_and_translate."
        )
    scales, translations = inexact(asarray(scale), asarray(translation))
    kernel = _kernel(chosen, antialias)
    return _scaled(
        array, sizes, spatial_dims, list(scales), list(translations), kernel, antialias
    )
