"""Arrays as an annotation writes them, from what they are: ``f32[16, 64/t] on mesh d=2, t=4``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from shardtypes import messages
from shardtypes.beneath import beneath
from shardtypes.layouts import Layout, layout_of
from shardtypes.meshes import bound_axes


def describe(value: Any) -> str:
    """The actual type of a value as an annotation writes it: ``f32[16, 64/t]``, with the mesh where there is one."""
    if not isinstance(value, (jax.Array, jax.ShapeDtypeStruct)):
        return type(value).__name__
    bound = bound_axes()
    if bound:
        return f"{messages.array_text(value.dtype, value.shape)} (local shape) on mesh {_axes_text(bound)}"
    try:
        under = beneath(value)
        actual = (
            layout_of(under.value).without(under.mapped) if under is not None else None
        )
    except (TypeError, ValueError):
        actual = None  # no layout is known here: the shape alone is shown
    return (
        described(value.dtype, actual)
        if actual is not None
        else messages.array_text(value.dtype, value.shape)
    )


def described(dtype: Any, actual: Layout) -> str:
    """An array as an annotation writes it, from its layout: ``f32[16, 64/t] on mesh d=2, t=4``."""
    return without_mesh(dtype, actual) + actual.suffix


def without_mesh(dtype: Any, actual: Layout) -> str:
    """As ``described``, without what a shape string has no words for: ``f32[16, 64/t {U:d}]``."""
    dims = str(actual).split()
    sums = f" {dims.pop()}" if actual.pending else ""
    return f"{messages.short_dtype(dtype)}[{', '.join(dims)}{sums}]"


def _axes_text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())
