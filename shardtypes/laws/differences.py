"""Which numbers of two runs differ by more than rounding explains."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardtypes.laws.walk import Host
from shardtypes.prng_keys import is_key

# What sums in another order differ by, of the largest value: about the square root of the type's precision.
_TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 4e-2}
_TOLERANCE |= {"complex128": 1e-9, "complex64": 1e-4}
_COARSE = 0.25  # eight bits and fewer


def tolerance_of(dtype: Any) -> float:
    """The part of the largest value by which numbers of a dtype may differ; 0 for those that are exact."""
    if not jnp.issubdtype(dtype, jnp.inexact):
        return 0.0
    return _TOLERANCE.get(np.dtype(dtype).name, _COARSE)


def on_host(value: Any) -> Host:
    """A value as NumPy's array; of a PRNG key the bits."""
    if is_key(value):
        value = jax.random.key_data(value)
    return np.asarray(value)


def differs(one: Host, other: Host, tolerance: float) -> Host:
    """Where two arrays differ by more than this part of their largest value."""
    if not jnp.issubdtype(one.dtype, jnp.inexact):
        return np.asarray(one != other)
    a = wide(one)
    b = wide(other)
    fine = np.isfinite(a) & np.isfinite(b)
    with np.errstate(invalid="ignore", over="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        far = np.abs(a - b) > tolerance * largest(a, b)
        return np.asarray(~same & (~fine | far))


def largest(*arrays: Host) -> float:
    """The largest absolute value among those that are finite; 1 where there is none."""
    found = 0.0
    for array in map(wide, arrays):
        finite = np.abs(array[np.isfinite(array)])
        if finite.size:
            found = max(found, float(finite.max()))
    return found or 1.0


def wide(array: Host) -> Host:
    """In double precision."""
    return array.astype(
        np.complex128
        if jnp.issubdtype(array.dtype, jnp.complexfloating)
        else np.float64
    )
