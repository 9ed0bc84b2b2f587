"""Functions of ``jax.lax`` that are others in another form, in guarded code."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from shardlint.evaluation.lowered import jnp, lax
from shardlint.evaluation.outside import known, provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, cast, sizes_of
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


@provide("jax.lax.pbroadcast")
def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """What one device has."""
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
