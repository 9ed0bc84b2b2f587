"""A function with arguments of any kind, as one of their arrays alone, which JAX can trace."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def of_array_arguments(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """The function of the arrays in its arguments alone, and the arguments with None in place of all else."""
    leaves, structure = jax.tree.flatten((args, kwargs))

    @functools.wraps(f)
    def of_arrays(*args: Any, **kwargs: Any) -> Any:
        arrays = iter(jax.tree.leaves((args, kwargs)))
        whole = [next(arrays) if _is_array(leaf) else leaf for leaf in leaves]
        all_args, all_kwargs = jax.tree.unflatten(structure, whole)
        return jax.tree.map(_if_traced, f(*all_args, **all_kwargs))

    arrays = [leaf if _is_array(leaf) else None for leaf in leaves]
    return of_arrays, *jax.tree.unflatten(structure, arrays)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct, np.ndarray, np.generic))


def _if_traced(leaf: Any) -> Any:
    """A part of a result, None where it is nothing that a compiled function returns."""
    is_number = isinstance(leaf, (bool, int, float, complex))
    return leaf if is_number or _is_array(leaf) else None
