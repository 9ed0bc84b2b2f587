"""``jax.nn``: attention and initializers; activations are with the functions of each entry."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from shardtypes.lang.size import Size
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.contractions import einsum
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    axis_of,
    cast,
    constant,
    dtype_name,
    not_read,
    of_shape,
    real,
    shape_of,
    sizes_of,
)
from shardtypes.semantics.lowerings.creation import tri
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.operators import multiply
from shardtypes.semantics.lowerings.padding import pad
from shardtypes.semantics.lowerings.random import normal, truncated_normal, uniform
from shardtypes.semantics.lowerings.reductions import softmax
from shardtypes.semantics.lowerings.samplers import orthogonal
from shardtypes.semantics.lowerings.shapes import expand_dims, moveaxis, reshape
from shardtypes.semantics.registry import Refused, Unsupported, lowering
from shardtypes.semantics.sizes import is_surely_less

_NN = "jax.nn"


@lowering(f"{_NN}.dot_product_attention", unread="implementation")
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: Any = None,
    return_residual: bool = False,
) -> Array:
    not_read(
        query_seq_lengths=query_seq_lengths,
        key_value_seq_lengths=key_value_seq_lengths,
        local_window_size=local_window_size,
        return_residual=return_residual or None,
    )
    q = asarray(query)
    k = asarray(key)
    v = asarray(value)
    if q.rank != 4 or q.dims[2] != k.dims[2]:
        raise Unsupported("attention with grouped heads")
    factor = 1 / real(sizes_of(q)[-1]) ** 0.5 if scale is None else scale
    scores = einsum("bqhd,bkhd->bhqk", q, k) * factor
    if bias is not None:
        scores = scores + bias
    if is_causal:
        scores = where(tri(q.dims[1], k.dims[1], dtype=bool), scores, -1e30)  # type: ignore[arg-type]
    if mask is not None:
        scores = where(mask, scores, -1e30)
    return cast(einsum("bhqk,bkhd->bqhd", softmax(scores), v), q.dtype)


Initializer = Callable[..., Array]


def _of_constant(value: float, dtype: Any = float) -> Initializer:
    def init(
        key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None
    ) -> Array:
        return constant(value, shape_of(shape), dtype_name(dtype or float))

    return init


lowering(f"{_NN}.initializers.zeros")(_of_constant(0))
lowering(f"{_NN}.initializers.ones")(_of_constant(1))


@lowering(f"{_NN}.initializers.constant")
def constant_initializer(value: float, dtype: Any = float) -> Initializer:
    return _of_constant(value, dtype)


def _times(drawn: Array, scale: ArrayLike) -> Array:
    """The draws, scaled in their own dtype."""
    return multiply(drawn, asarray(scale, drawn.dtype))


def _random(draw: Callable[..., Array], scale: float, dtype: Any) -> Initializer:
    def init(
        key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None
    ) -> Array:
        return _times(draw(key, shape_of(shape), dtype or float), scale)

    return init


@lowering(f"{_NN}.initializers.normal")
def normal_initializer(stddev: float = 1e-2, dtype: Any = float) -> Initializer:
    return _random(normal, stddev, dtype)


@lowering(f"{_NN}.initializers.truncated_normal")
def truncated_initializer(
    stddev: float = 1e-2, dtype: Any = float, lower: float = -2.0, upper: float = 2.0
) -> Initializer:
    def draw(key: Array, shape: Any, dtype: Any) -> Array:
        return truncated_normal(key, lower, upper, shape, dtype)

    return _random(draw, stddev, dtype)


@lowering(f"{_NN}.initializers.uniform")
def uniform_initializer(scale: float = 1e-2, dtype: Any = float) -> Initializer:
    return _random(uniform, scale, dtype)


@lowering(f"{_NN}.initializers.orthogonal")
def orthogonal_initializer(
    scale: float = 1.0, column_axis: int = -1, dtype: Any = float
) -> Initializer:
    def init(
        key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None
    ) -> Array:
        sizes = shape_of(shape)
        if len(sizes) < 2:
            raise Refused("needs at least 2 dimensions", "ranks")
        if 0 in sizes:
            return constant(0.0, sizes, dtype_name(dtype or float))
        others = list(sizes)
        columns = others.pop(column_axis)
        rows = math.prod(others)
        matrix = orthogonal(key, rows, (), dtype, columns)
        drawn = reshape(matrix, (*others, columns))
        placed = moveaxis(drawn, -1, column_axis)
        return _times(placed, scale)

    return init


@lowering(f"{_NN}.initializers.delta_orthogonal")
def delta_orthogonal_initializer(
    scale: float = 1.0, column_axis: int = -1, dtype: Any = float
) -> Initializer:
    """An orthogonal matrix in the middle of a kernel, and zeros around it."""
    make = orthogonal_initializer(scale, column_axis)

    def init(
        key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None
    ) -> Array:
        sizes = shape_of(shape)
        if len(sizes) not in (3, 4, 5):
            raise Refused("needs 3, 4 or 5 dimensions", "ranks")
        *window, inputs, outputs = sizes
        if is_surely_less(outputs, inputs):
            raise Refused("needs at most as many inputs as outputs", "sizes")
        matrix = make(key, (inputs, outputs), dtype)
        if any(isinstance(size, Size) for size in window):
            return of_shape(matrix, sizes)
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
        def init(
            key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None
        ) -> Array:
            sizes = shape_of(shape)
            kind = dtype or float
            if in_axis == -2 and len(sizes) < 2:
                raise Refused("needs at least 2 dimensions", "ranks")
            chosen = tuple(
                _product(sizes, axes) for axes in (in_axis, out_axis, batch_axis)
            )
            deviation = _deviation(scale, mode, math.prod(sizes), chosen)
            if distribution == "normal":
                return _times(normal(key, sizes, kind), deviation)
            if distribution == "uniform":
                drawn = uniform(key, sizes, kind, -1, 1)
                return _times(drawn, deviation * math.sqrt(3))
            drawn = truncated_normal(key, -2, 2, sizes, kind)
            return _times(drawn, deviation / 0.87962566103423978)

        return init

    return make


def _product(sizes: tuple[Any, ...], axes: Any) -> Any:
    """The product of the sizes along one axis, or several."""
    if isinstance(axes, (tuple, list)):
        along = [axis_of(axis, len(sizes)) for axis in axes]
    else:
        along = [axis_of(axes, len(sizes))]
    return math.prod(sizes[axis] for axis in along)


def _deviation(scale: float, mode: str, entries: Any, chosen: tuple[Any, ...]) -> Any:
    """By how much draws are scaled. ``chosen``: the products of sizes of inputs, outputs and of a batch. Of sizes that
    depend on names the value is not known."""
    if isinstance(entries, Size):
        return real(entries)
    inputs, outputs, batch = chosen
    field = entries / max(inputs * outputs * batch, 1)
    fan_in = inputs * field
    fan_out = outputs * field
    fan = {
        "fan_in": fan_in,
        "fan_out": fan_out,
        "fan_avg": (fan_in + fan_out) / 2,
        "fan_geo_avg": math.sqrt(fan_in * fan_out),
    }[mode]
    if fan == 0:
        return 0.0
    return math.sqrt(scale / fan)


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
