"""Stacks that ``vmap`` makes: one object, each of whose arrays has dimensions more than its class says, in front."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
from typeguard import TypeCheckError


def is_stack(value: Any, check: Callable[[Any], None]) -> bool:
    """Whether what ``check`` refuses is a stack of what it takes."""
    for one in _elements(value):
        try:
            check(one)
        except TypeCheckError:
            continue
        return True
    return False


def _elements(value: Any) -> Iterator[Any]:
    """One of a stack, of one dimension, of two, and so on: the shapes of its arrays are in the place of them."""
    leaves, structure = jax.tree_util.tree_flatten(value)
    while True:
        arrays = [
            leaf
            for leaf in leaves
            if isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct))
        ]
        if len({leaf.shape[:1] for leaf in arrays}) != 1 or arrays[0].ndim == 0:
            return
        leaves = [
            _first(leaf) if any(leaf is array for array in arrays) else leaf
            for leaf in leaves
        ]
        yield jax.tree_util.tree_unflatten(structure, leaves)


def _first(array: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape[1:], array.dtype)
