"""One test of a function, run as it is, compiled, batched, and on each device of a mesh."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from shardtypes.function_names import display_name
from shardtypes.laws.differences import differs, on_host, tolerance_of
from shardtypes.meshes import current_mesh

NAMES = ("eager", "jit", "vmap", "shard_map")
_COPIES = 2
_DEVICES = "_shardtypes_variant"


class BadVariant(ValueError):
    """A name that no variant has; the message says which there are."""


@dataclass(frozen=True)
class Variant:
    """``variant(f)`` is ``f`` in one of the ways that JAX runs functions; its text is the name of the way.

    Under ``vmap`` and ``shard_map`` each copy of the function has the same arguments, and all have to give the same
    result, which is returned once.
    """

    name: str

    def __str__(self) -> str:
        return self.name

    def __call__(
        self, function: Callable[..., Any], *, static_argnames: Sequence[str] = ()
    ) -> Callable[..., Any]:
        """The function in this way. ``static_argnames`` are arguments that are no arrays, given by keyword."""
        if self.name == "eager":
            return function
        if self.name == "jit":
            return jax.jit(function, static_argnames=tuple(static_argnames))
        copies = _batched if self.name == "vmap" else _on_devices

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            leaves, structure = jax.tree_util.tree_flatten((args, kwargs))
            places = [at for at, leaf in enumerate(leaves) if _is_array(leaf)]

            def of_arrays(arrays: Sequence[Any]) -> Any:
                for at, array in zip(places, arrays, strict=True):
                    leaves[at] = array
                given, named = jax.tree_util.tree_unflatten(structure, leaves)
                return function(*given, **named)

            results = copies(of_arrays, [jnp.asarray(leaves[at]) for at in places])
            return jax.tree_util.tree_map(
                functools.partial(_first, display_name(function), self.name), results
            )

        return run


def marked(marker: pytest.Mark | None) -> list[Variant]:
    """The variants that a test asks for, all of them where it names none. Raises ``BadVariant``."""
    names = NAMES if marker is None or not marker.args else marker.args
    for name in names:
        if name not in NAMES:
            raise BadVariant(
                f"there is no variant {name!r}; there are {', '.join(NAMES)}"
            )
    return [Variant(name) for name in names]


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray))


def _batched(function: Callable[..., Any], arrays: Sequence[Any]) -> Any:
    copies = [jnp.stack([array] * _COPIES) for array in arrays]
    return jax.vmap(function, axis_size=_COPIES)(copies)


def _on_devices(function: Callable[..., Any], arrays: Sequence[Any]) -> Any:
    """What each device gives, along a new dimension in front."""
    mesh = current_mesh()
    if not isinstance(mesh, Mesh):
        mesh = Mesh(np.array(jax.devices()), (_DEVICES,))

    def on_each(arrays: Sequence[Any]) -> Any:
        return jax.tree_util.tree_map(lambda x: jnp.asarray(x)[None], function(arrays))

    everywhere = PartitionSpec(mesh.axis_names)
    mapped = jax.shard_map(
        on_each,
        mesh=mesh,
        in_specs=PartitionSpec(),
        out_specs=everywhere,
        check_vma=False,
    )
    return jax.jit(mapped)(list(arrays))


def _first(function: str, name: str, copies: jax.Array) -> jax.Array:
    """The result of all copies. Fails the test where two of them differ."""
    __tracebackhide__ = True
    found = on_host(copies)
    for at in range(1, len(found)):
        if differs(found[0], found[at], tolerance_of(copies.dtype)).any():
            pytest.fail(
                f"{function} under {name}: copy {at} of it gives another result than copy 0, of the same arguments",
                pytrace=False,
            )
    return copies[0]
