"""The rules in force that say which mesh axes a dimension *name* is sharded over: ours, else flax's."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
from jax.sharding import PartitionSpec

from shardtypes.lang import Shape

Rules = Sequence[tuple[str, Any]]

_rules: ContextVar[tuple[tuple[str, Any], ...]] = ContextVar(
    "shardtypes_logical_rules", default=()
)


class _Unassigned:
    """No rule has spoken for this dimension yet."""

    def __repr__(self) -> str:
        return "UnassignedAxis"

    def __bool__(self) -> bool:
        return False


UNASSIGNED = _Unassigned()


def set_logical_axis_rules(rules: Rules) -> None:
    """Put rules in force for this thread or task."""
    _rules.set(frozen(rules))


def get_logical_axis_rules() -> Rules:
    """The rules in force: ours, else flax's."""
    return rules_in_force()


@contextmanager
def axis_rules(rules: Rules) -> Iterator[None]:
    """Put rules in force for a block: ``with axis_rules([('batch', 'data'), ('embed', None)]): ...``

    A rule is a name and the mesh axis that it is sharded over, several, or None. Rules of the thread or task as they
    were before hold again after the block.
    """
    token = _rules.set(frozen(rules))
    try:
        yield
    finally:
        _rules.reset(token)


def frozen(rules: Rules) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (name, tuple(axes) if isinstance(axes, list) else axes) for name, axes in rules
    )


def rules_in_force() -> tuple[tuple[str, Any], ...]:
    """The rules as a hashable tuple; empty without any."""
    ours = _rules.get()
    if ours:
        return ours
    # only a program that uses flax can have set its rules
    flax = sys.modules.get("flax.core.spmd")
    if flax is None:
        return ()
    theirs = flax.get_logical_axis_rules()
    return frozen(theirs) if theirs else ()


def resolve_axes(shape: Shape) -> tuple[tuple[str, ...], ...]:
    """The mesh axes of each dimension of an annotation, under the rules in force."""
    rules = rules_in_force()
    if not rules:
        return tuple(dim.axes for dim in shape.dims)
    return _resolve(shape, rules)


@functools.lru_cache(maxsize=4096)
def _resolve(
    shape: Shape, rules: tuple[tuple[str, Any], ...]
) -> tuple[tuple[str, ...], ...]:
    result: list[Any] = [dim.axes or UNASSIGNED for dim in shape.dims]
    names = [None if dim.size is None else dim.size.symbol_name for dim in shape.dims]
    for name, axes in rules:
        if name in names:
            position = names.index(name)
            if result[position] is UNASSIGNED and is_free(
                axes, [*result, shape.pending]
            ):
                result[position] = axes
    return tuple(_as_axes(axes) for axes in result)


def _as_axes(axes: Any) -> tuple[str, ...]:
    if axes is UNASSIGNED or axes is None:
        return ()
    return (axes,) if isinstance(axes, str) else tuple(axes)


def is_free(new: Any, existing: list[Any]) -> bool:
    taken = set(jax.tree_util.tree_leaves(existing))
    wanted = set(jax.tree_util.tree_leaves(new)) - {PartitionSpec.UNCONSTRAINED, None}
    return not taken & wanted
