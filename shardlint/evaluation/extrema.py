"""``pmax`` and ``pmin``: JAX has no derivative of them, not even where none is needed."""

from __future__ import annotations

from typing import Any

from shardlint.evaluation import refusals
from shardlint.evaluation.derivatives import is_float
from shardlint.evaluation.outside import provide
from shardtypes.semantics import gradient
from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.trees import flatten


def _without_derivative(name: str) -> Any:
    """The function, which JAX refuses of what a derivative is taken by."""
    lowered = LOWERINGS[f"jax.lax.{name}"]

    def extremum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
        leaves = [leaf for leaf in flatten(x)[0] if is_float(leaf)]
        if gradient.levels_of(leaves):
            raise refusals.has_no_derivative(name, tuple(leaves))
        return lowered(x, axis_name, axis_index_groups=axis_index_groups)

    return extremum


for _name in ("pmax", "pmin"):
    provide(f"jax.lax.{_name}")(_without_derivative(_name))
