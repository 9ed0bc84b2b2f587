"""Functions of ``jax.lax`` that are others in another form, in guarded code."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import sending
from shardlint.evaluation.lowered import jnp, lax
from shardlint.evaluation.outside import known, provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, cast, counting, sizes_of
from shardtypes.semantics.lowerings.indexing import indexed
from shardtypes.semantics.registry import Unsupported


@provide("jax.lax.approx_min_k")
def approx_min_k(
    operand: Any, k: int, reduction_dimension: int = -1, **options: Any
) -> Any:
    values, places = lax.top_k(-asarray(operand), k, axis=reduction_dimension)
    return [-values, places]


@provide("jax.lax.broadcast_like")
def broadcast_like(arr: Any, like_arr: Any) -> Any:
    return jnp.broadcast_to(arr, asarray(like_arr).dims)


@provide("jax.lax.empty")
def empty(shape: Any, dtype: Any, **options: Any) -> Any:
    return jnp.zeros(shape, dtype)


@provide("jax.lax.composite")
def composite(
    decomposition: Callable[..., Any], name: str, version: int = 0
) -> Callable[..., Any]:
    """The function itself, which compilers may know under a name."""
    return decomposition


@provide("jax.lax.platform_dependent")
def platform_dependent(
    *args: Any,
    default: Callable[..., Any] | None = None,
    **per_platform: Callable[..., Any],
) -> Any:
    """What is computed on a CPU, as JAX says the devices here are."""
    chosen = per_platform.get("cpu", default)
    if chosen is None:
        raise NotImplementedError("platform_dependent without a branch for the CPU")
    return chosen(*args)


@provide("jax.lax.pswapaxes")
def pswapaxes(
    x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None
) -> Any:
    options = {"axis_index_groups": axis_index_groups}
    return known("jax.lax.all_to_all")(x, axis_name, axis, axis, **options)


def _refuse_sending(name: str) -> None:
    """What is computed by a larger collective sends less than that does."""
    if sending() is not None:
        raise NotEvaluable(f"what {name} sends")


@provide("jax.lax.ragged_all_to_all")
def ragged_all_to_all(
    operand: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    *,
    axis_name: Any,
    axis_index_groups: Any = None,
) -> Array:
    """The output, with rows of all devices: from which of theirs on, how many, and to which of ours."""
    _refuse_sending("ragged_all_to_all")
    if axis_index_groups is not None:
        raise Unsupported("groups of devices")
    gather = known("jax.lax.all_gather")
    own = known("jax.lax.axis_index")(axis_name)

    def for_us(numbers: Any) -> Array:
        found: Array = jnp.take(gather(asarray(numbers), axis_name), own, axis=1)
        return found

    starts, counts, places = map(for_us, (input_offsets, send_sizes, output_offsets))
    given, kept = gather(asarray(operand), axis_name), asarray(output)
    rows = counting(sizes_of(kept)[0])[:, None]
    is_of = (rows >= places) & (rows < places + counts)
    sender = jnp.argmax(cast(is_of, "int32"), axis=1)
    row = jnp.take(starts - places, sender) + rows[:, 0]
    row = jnp.clip(row, 0, sizes_of(given)[1] - 1)
    is_sent = jnp.any(is_of, axis=1)
    is_sent = jnp.reshape(is_sent, (-1, *[1] * (kept.rank - 1)))
    found: Array = jnp.where(is_sent, indexed(given, (sender, row)), kept)
    return found


@provide("jax.lax.pbroadcast")
def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """What one device has."""
    _refuse_sending("pbroadcast")
    gathered = known("jax.lax.all_gather")(x, axis_name)
    return gathered[source]


@provide("jax.lax.conv_general_dilated_patches")
def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The windows of an image, as channels."""
    array = asarray(lhs)
    sizes = tuple(int(size) for size in filter_shape)
    count = math.prod(sizes)
    channel, kernel_axes = 1, (0, 1)
    if dimension_numbers is not None:
        image, kernel = _named(dimension_numbers)
        channel = image.index("C")
        kernel_axes = kernel.index("O"), kernel.index("I")
    channels = sizes_of(array)[channel]
    window = jnp.reshape(jnp.eye(count), (count, 1, *sizes))
    window = jnp.tile(window, (channels, 1, *[1] * len(sizes)))
    window = jnp.moveaxis(window, (0, 1), kernel_axes)
    found: Array = lax.conv_general_dilated(
        array,
        cast(window, array.dtype or "float32"),
        window_strides,
        padding,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        dimension_numbers=dimension_numbers,
        feature_group_count=channels,
        preferred_element_type=preferred_element_type,
    )
    return found


def _named(dimension_numbers: Any) -> tuple[str, str]:
    """The letters of the dimensions of the image and of the kernel."""
    if not isinstance(dimension_numbers, (tuple, list)):
        raise Unsupported("dimension numbers that are no letters")
    image, kernel, _ = dimension_numbers
    if not isinstance(image, str) or not isinstance(kernel, str):
        raise Unsupported("dimension numbers that are no letters")
    return image, kernel
