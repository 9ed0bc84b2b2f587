"""``jax.nn``: attention and initializers; activations are with the functions of each entry."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.contractions import einsum
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    cast,
    constant,
    dtype_name,
    real,
    shape_of,
    sizes_of,
)
from shardtypes.semantics.lowerings.creation import tri
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.padding import pad
from shardtypes.semantics.lowerings.random import normal, truncated_normal, uniform
from shardtypes.semantics.lowerings.reductions import softmax
from shardtypes.semantics.lowerings.samplers import orthogonal
from shardtypes.semantics.lowerings.shapes import expand_dims, moveaxis, reshape
from shardtypes.semantics.registry import Refused, Unsupported, lowering

_NN = "jax.nn"


@lowering(f"{_NN}.dot_product_attention")
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    **options: Any,
) -> Array:
    q = asarray(query)
    k = asarray(key)
    v = asarray(value)
    if (
        q.rank != 4
        or q.dims[2] != k.dims[2]
        or any(option is not None for option in options.values())
    ):
        raise Unsupported("attention with grouped heads, a window or lengths")
    factor = 1 / real(sizes_of(q)[-1]) ** 0.5 if scale is None else scale
    scores = einsum("bqhd,bkhd->bhqk", q, k) * factor
    if bias is not None:
        scores = scores + bias
    if is_causal:
        scores = where(tri(q.dims[1], k.dims[1], dtype=bool), scores, -1e30)  # type: ignore[arg-type]
    if mask is not None:
        scores = where(mask, scores, -1e30)
    return cast(einsum("bhqk,bkhd->bqhd", softmax(scores), v), q.dtype or "float32")


Initializer = Callable[..., Array]


def _of_constant(value: float) -> Initializer:
    def init(key: Any, shape: Any, dtype: Any = float, **options: Any) -> Array:
        return constant(value, shape_of(shape), dtype_name(dtype))

    return init


lowering(f"{_NN}.initializers.zeros")(_of_constant(0))
lowering(f"{_NN}.initializers.ones")(_of_constant(1))


@lowering(f"{_NN}.initializers.constant")
def constant_initializer(value: float, dtype: Any = float) -> Initializer:
    return _of_constant(value)


def _random(draw: Callable[..., Array], scale: float) -> Initializer:
    def init(key: Any, shape: Any, dtype: Any = float, **options: Any) -> Array:
        return draw(key, shape_of(shape), dtype) * scale

    return init


@lowering(f"{_NN}.initializers.normal")
def normal_initializer(stddev: float = 1e-2, dtype: Any = float) -> Initializer:
    return _random(normal, stddev)


@lowering(f"{_NN}.initializers.truncated_normal")
def truncated_initializer(
    stddev: float = 1e-2, dtype: Any = float, lower: float = -2.0, upper: float = 2.0
) -> Initializer:
    return lambda key, shape, dtype=float, **options: (
        truncated_normal(key, lower, upper, shape_of(shape), dtype) * stddev
    )


@lowering(f"{_NN}.initializers.uniform")
def uniform_initializer(scale: float = 1e-2, dtype: Any = float) -> Initializer:
    return _random(uniform, scale)


@lowering(f"{_NN}.initializers.orthogonal")
def orthogonal_initializer(
    scale: float = 1.0, column_axis: int = -1, dtype: Any = float
) -> Initializer:
    def init(key: Any, shape: Any, dtype: Any = float, **options: Any) -> Array:
        sizes = shape_of(shape)
        if len(sizes) < 2:
            raise Refused("needs at least 2 dimensions", "ranks")
        if 0 in sizes:
            return constant(0.0, sizes, dtype_name(dtype))
        others = list(sizes)
        columns = others.pop(column_axis)
        rows = math.prod(others)
        matrix = orthogonal(key, rows, (), dtype, columns)
        drawn = reshape(matrix, (*others, columns))
        placed = moveaxis(drawn, -1, column_axis)
        return placed * scale

    return init


@lowering(f"{_NN}.initializers.delta_orthogonal")
def delta_orthogonal_initializer(
    scale: float = 1.0, column_axis: int = -1, dtype: Any = float
) -> Initializer:
    """An orthogonal matrix in the middle of a kernel, and zeros around it."""
    make = orthogonal_initializer(scale, column_axis)

    def init(key: Any, shape: Any, dtype: Any = float, **options: Any) -> Array:
        sizes = shape_of(shape)
        if len(sizes) not in (3, 4, 5):
            raise Refused("needs 3, 4 or 5 dimensions", "ranks")
        *window, inputs, outputs = sizes
        if outputs < inputs:
            raise Refused("needs at most as many inputs as outputs", "sizes")
        matrix = make(key, (inputs, outputs), dtype)
        first = tuple(range(len(window)))
        centre = expand_dims(matrix, first)
        widths = []
        for size in window:
            before = (size - 1) // 2
            after = size // 2
            widths.append((before, after))
        whole = (0, 0)
        return pad(centre, (*widths, whole, whole))

    return init


def _scaled(scale: float, mode: str, distribution: str) -> Callable[..., Initializer]:
    def make(
        in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = float
    ) -> Initializer:
        def init(key: Any, shape: Any, dtype: Any = float, **options: Any) -> Array:
            sizes = shape_of(shape)
            rest = math.prod(sizes) // (sizes[in_axis] * sizes[out_axis])
            fan_in = sizes[in_axis] * rest
            fan_out = sizes[out_axis] * rest
            fan = {
                "fan_in": fan_in,
                "fan_out": fan_out,
                "fan_avg": (fan_in + fan_out) / 2,
            }[mode]
            deviation = math.sqrt(scale / fan)
            if distribution == "normal":
                return normal(key, sizes, dtype) * deviation
            if distribution == "uniform":
                return uniform(key, sizes, dtype, -1, 1) * (deviation * math.sqrt(3))
            return truncated_normal(key, -2, 2, sizes, dtype) * (
                deviation / 0.87962566103423978
            )

        return init

    return make


for _name, _form in {
    "xavier_uniform": (1.0, "fan_avg", "uniform"),
    "glorot_uniform": (1.0, "fan_avg", "uniform"),
    "xavier_normal": (1.0, "fan_avg", "truncated"),
    "glorot_normal": (1.0, "fan_avg", "truncated"),
    "lecun_uniform": (1.0, "fan_in", "uniform"),
    "lecun_normal": (1.0, "fan_in", "truncated"),
    "kaiming_uniform": (2.0, "fan_in", "uniform"),
    "he_uniform": (2.0, "fan_in", "uniform"),
    "kaiming_normal": (2.0, "fan_in", "truncated"),
    "he_normal": (2.0, "fan_in", "truncated"),
}.items():
    lowering(f"{_NN}.initializers.{_name}")(_scaled(*_form))


@lowering(f"{_NN}.initializers.variance_scaling")
def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: Any = -2,
    out_axis: Any = -1,
    batch_axis: Any = (),
    dtype: Any = float,
) -> Initializer:
    kind = {"truncated_normal": "truncated"}.get(distribution, distribution)
    return _scaled(scale, mode, kind)(in_axis, out_axis, batch_axis, dtype)
