"""Which dtypes of arrays the dtype class of an annotation accepts."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np


class DTypeClass(type):
    """The class of dtype classes: ``isinstance(x, f32)`` asks for an array of that dtype."""

    __shardtypes__ = True
    # what the string between the brackets is: text, not code
    __shardtypes_text__ = True
    # of each dtype class; see `ArrayDType`
    name: str
    family: bool

    def __init__(cls, *parts: Any) -> None:
        super().__init__(*parts)
        # The annotations with this dtype, by what stands between the brackets.
        cls._annotations: dict[Any, Any] = {}

    if not TYPE_CHECKING:  # as which it is `__class_getitem__`, that of the class

        def __getitem__(cls, shape: Any) -> Any:
            if type(shape) is not str and type(shape) is not bytes:
                return cls.__class_getitem__(shape)
            made = cls._annotations.get(shape)
            if made is None:  # else asked for again: typeguard does at each call
                made = cls._annotations[shape] = cls.__class_getitem__(shape)
            return made

    def __instancecheck__(cls, value: object) -> bool:
        import jax

        return isinstance(value, (jax.Array, jax.ShapeDtypeStruct)) and accepts(
            cls, value.dtype
        )


@cache
def _numpy_dtype(name: str) -> np.dtype[Any] | None:
    import jax.numpy as jnp

    scalar: Any = getattr(jnp, name, None)
    if scalar is not None:
        found: np.dtype[Any] = np.dtype(scalar)
        return found
    try:
        return np.dtype(name)
    except TypeError:
        return None


def numpy_dtype(dtype: DTypeClass) -> np.dtype[Any] | None:
    """NumPy's dtype object for a concrete dtype; None for a family, a key, or one this JAX does not have."""
    if dtype.family or dtype.name == "key":
        return None
    return _numpy_dtype(dtype.name)


@lru_cache(maxsize=4096)
def accepts(dtype: DTypeClass, actual: Any) -> bool:
    """Whether an array of dtype ``actual`` is allowed where ``dtype`` is declared."""
    import jax
    import jax.numpy as jnp

    if dtype.name == "key":
        return bool(jnp.issubdtype(actual, jax.dtypes.prng_key))
    if dtype.family:
        if dtype.name == "any":
            return True
        return bool(jnp.issubdtype(actual, getattr(np, dtype.name)))
    return bool(numpy_dtype(dtype) == actual)
