"""Objects of a class of arrays that hold something else in the place of each: its spec, its sharding, a mask, a label.

JAX and optax take such trees beside those of arrays: ``Params(w=P("d", "t"), b=P())`` for ``in_specs``, one of booleans
for ``optax.masked``, one of strings for ``optax.multi_transform``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import jax
from jax.sharding import PartitionSpec, Sharding

_INSTEAD = (PartitionSpec, Sharding, bool, str)


def is_described(value: Any) -> bool:
    """Whether it holds such things in the place of arrays, and no array. ``None`` alone is a missing array."""
    leaves = list(_leaves(value, set()))
    return bool(leaves) and all(isinstance(leaf, _INSTEAD) for leaf in leaves)


def _leaves(value: Any, nodes: set[int]) -> Iterator[Any]:
    """As JAX has them; the fields of a dataclass that JAX does not take apart, too. A value may hold itself."""
    parts = _parts(value)
    if parts is None:
        yield value
    elif id(value) not in nodes:
        nodes.add(id(value))
        for part in parts:
            yield from _leaves(part, nodes)


def _parts(value: Any) -> Iterable[Any] | None:
    """What a value is made of; None for a leaf."""
    if value is None:
        return ()
    node: tuple[Iterable[Any], Any] | None = (
        jax.tree_util.default_registry.flatten_one_level(value)
    )
    if node is not None:
        return node[0]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    return None
