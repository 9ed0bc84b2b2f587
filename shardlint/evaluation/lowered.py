"""The functions of JAX that have a meaning here, under JAX's names, for what is written as JAX writes it."""

from __future__ import annotations

from typing import Any

from shardtypes.semantics.lowerings import LOWERINGS


class _Functions:
    """``jnp.sum`` is what ``jax.numpy.sum`` means."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return LOWERINGS[f"{self._module}.{name}"]


jnp = _Functions("jax.numpy")
lax = _Functions("jax.lax")
nn = _Functions("jax.nn")
linalg = _Functions("jax.numpy.linalg")
random = _Functions("jax.random")
