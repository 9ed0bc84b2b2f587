"""What is asked of a function: its value for these arrays, and perhaps its gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import KeyPath

from shardtypes.proving.kept_sizes import Guess, KeptSizes, in_place
from shardtypes.proving.relation import Sizes


@dataclass(frozen=True)
class Call:
    """A function of arrays alone: the other leaves of the arguments are kept as they are.

    ``rebuilt`` makes the arguments of ``f`` of arrays, and ``flat`` calls it with them. ``guess`` is what numbers that
    the program keeps may be on other meshes, ``own`` the mesh axes and sizes that it has read itself.
    """

    flat: Callable[..., Any]
    arrays: list[Any]
    f: Callable[..., Any]
    rebuilt: Callable[[Sequence[Any]], tuple[Any, Any]]
    #: where each array is among the arguments
    paths: list[KeyPath[Any]]
    guess: Guess | None = None
    own: Sizes = field(default_factory=dict)

    @cached_property
    def kept(self) -> KeptSizes:
        """What the function keeps that it read from a mesh."""
        return KeptSizes(self.f)

    @contextmanager
    def on_mesh(self, sizes: Sizes) -> Iterator[None]:
        """In the block, what the function has read from its mesh is what it would read from one of other sizes."""
        changes = self.kept.read(self.own, sizes)
        if self.guess is not None:
            changes += self.kept.guessed(self.guess)
        with in_place(changes):
            yield

    @classmethod
    def of(cls, f: Callable[..., Any], examples: Any, named: Any, grad: bool) -> Call:
        with_paths, tree = jax.tree_util.tree_flatten_with_path((examples, named))
        leaves = [leaf for _, leaf in with_paths]
        dynamic = [number for number, leaf in enumerate(leaves) if is_array(leaf)]

        def rebuilt(arrays: Sequence[Any]) -> tuple[Any, Any]:
            full = list(leaves)
            for number, array in zip(dynamic, arrays, strict=True):
                full[number] = array
            args, kwargs = jax.tree_util.tree_unflatten(tree, full)
            return args, kwargs

        def flat(arrays: Sequence[Any]) -> Any:
            args, kwargs = rebuilt(arrays)
            return f(*args, **kwargs)

        made = _with_gradients(flat) if grad else flat
        arrays = [leaves[number] for number in dynamic]
        paths = [with_paths[number][0] for number in dynamic]
        return cls(made, arrays, f, rebuilt, paths)


def is_array(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct))


def _with_gradients(flat: Callable[..., Any]) -> Callable[..., Any]:
    """The results, and the gradients for cotangents that are the results themselves."""

    def both(arrays: Sequence[Any]) -> Any:
        floats = [
            number
            for number, array in enumerate(arrays)
            if jnp.issubdtype(array.dtype, jnp.inexact)
        ]

        def loss(chosen: Sequence[Any]) -> Any:
            full = list(arrays)
            for number, array in zip(floats, chosen, strict=True):
                full[number] = array
            results = flat(full)
            leaves = [
                leaf
                for leaf in jax.tree_util.tree_leaves(results)
                if jnp.issubdtype(leaf.dtype, jnp.inexact)
            ]
            if not leaves:
                raise TypeError("grad=True needs a function with a float result")
            return sum(
                jnp.sum(leaf * jax.lax.stop_gradient(leaf)) for leaf in leaves
            ), results

        gradients, results = jax.grad(loss, has_aux=True)(
            [arrays[number] for number in floats]
        )
        return results, gradients

    return both
