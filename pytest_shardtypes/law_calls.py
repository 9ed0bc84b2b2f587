"""The calls of a test run with which laws are tried: the first ones of each function whose arguments are arrays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from shardtypes import _stats
from shardtypes.laws.declarations import concerns, declared_roles
from shardtypes.meshes import current_mesh
from shardtypes.prng_keys import is_key

_MOST_CALLS, _MOST_NUMBERS = 3, 1_000_000


@dataclass(frozen=True)
class Recorded:
    """One call, with the mesh that was in force."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    mesh: Any


class Calls:
    """Watches calls from ``begin`` to ``end``. ``roles`` are those of the project's dimensions."""

    def __init__(self, roles: dict[str, str]) -> None:
        self._roles = roles
        self._wanted: dict[str, bool] = {}
        self._shapes: set[tuple[str, str]] = set()
        self._busy = False
        self.found: dict[str, list[Recorded]] = {}

    def begin(self) -> None:
        """See every call of a checked function from now on."""
        _stats.watch(self._see)

    def end(self) -> None:
        """See none any longer."""
        _stats.unwatch(self._see)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """See none in the block."""
        before, self._busy = self._busy, True
        try:
            yield
        finally:
            self._busy = before

    def of(self, name: str) -> Recorded | None:
        """The first call of a function, by its name with the module."""
        return next(iter(self.found.get(name, ())), None)

    def _see(
        self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> bool:
        if not self._busy:
            self._keep(name, function, args, kwargs)
        return (
            not self._wanted.get(name, True)
            or len(self.found.get(name, ())) >= _MOST_CALLS
        )

    def _keep(
        self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if (
            not self._is_wanted(name, function)
            or len(self.found.get(name, ())) >= _MOST_CALLS
        ):
            return
        leaves = jax.tree.leaves((args, kwargs))
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return
        if (
            sum(np.size(leaf) for leaf in leaves if hasattr(leaf, "shape"))
            > _MOST_NUMBERS
        ):
            return
        shapes = name, str([np.shape(leaf) for leaf in leaves])
        if shapes in self._shapes:
            return
        self._shapes.add(shapes)
        kept, named = jax.tree.map(_kept, (args, kwargs))
        self.found.setdefault(name, []).append(Recorded(kept, named, current_mesh()))

    def _is_wanted(self, name: str, function: Any) -> bool:
        known = self._wanted.get(name)
        if known is None:
            dims = declared_roles(function, self._roles)
            known = self._wanted[name] = any(concerns(function, dim) for dim in dims)
        return known


def _kept(leaf: Any) -> Any:
    """An array that the program cannot change or give away later."""
    plain = isinstance(leaf, np.ndarray) or (
        isinstance(leaf, jax.Array) and len(leaf.sharding.device_set) == 1
    )
    if plain and not is_key(leaf):
        return np.array(leaf)
    return leaf
