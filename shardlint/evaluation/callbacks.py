"""Functions of the program that JAX calls back on the host: ``pure_callback`` and ``io_callback``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardlint.evaluation.derivatives import detached
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.outside import provide
from shardtypes.semantics.lowerings.collectives import bound
from shardtypes.semantics.lowerings.convert import asarray, cast
from shardtypes.semantics.trees import flatten, unflatten


@provide("jax.experimental.io_callback")
def io_callback(callback: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A callback with effects. In a mapped function each device calls it, and here all do at once."""
    if bound().axes:
        raise NotEvaluable("io_callback in a mapped function")
    return pure_callback(callback, *args, **kwargs)


@provide("jax.pure_callback")
def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """What the function gives of the arrays, which has the shapes and dtypes that are said."""
    found = callback(*detached(list(args)), **detached(kwargs))
    declared, structure = flatten(result_shape_dtypes)
    if not declared:
        return None
    leaves, _ = flatten(found)
    if len(leaves) != len(declared):
        raise NotEvaluable("a callback that gives something else than it says")
    made = []
    for leaf, said in zip(leaves, declared, strict=True):
        array = asarray(leaf)
        wanted: Any = asarray(said) if isinstance(said, (int, float)) else said
        if array.dims != tuple(wanted.shape):
            raise NotEvaluable("a callback that gives another shape than it says")
        made.append(cast(array, str(wanted.dtype)))
    return unflatten(structure, made)
