"""Typed PRNG keys, which are arrays without numbers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def is_key(value: Any) -> bool:
    """Whether a value, or what stands for its shape and dtype, is an array of typed PRNG keys."""
    dtype = getattr(value, "dtype", None)
    return dtype is not None and bool(jnp.issubdtype(dtype, jax.dtypes.prng_key))


def functions_for(value: Any) -> Any:
    """The functions of arrays that take a value: NumPy's, but JAX's for typed keys, of which NumPy can make nothing."""
    return jnp if is_key(value) else np
