"""``optax``'s functions of parameters and of what belongs to them in states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardlint.evaluation.outside import provide
from shardlint.evaluation.trees import register_fields
from shardtypes.semantics.lowerings.convert import asarray, cast
from shardtypes.semantics.trees import map_leaves


@provide("optax.apply_updates")
def apply_updates(params: Any, updates: Any) -> Any:
    return map_leaves(
        lambda p, u: (
            None if p is None else cast(asarray(p + u), asarray(p).dtype or "float32")
        ),
        params,
        updates,
    )


class _Parameters:
    """Stands for the parameters of which a state is made: a tree without leaves."""


register_fields(_Parameters, (), ())


def is_parameters(value: Any) -> bool:
    return isinstance(value, _Parameters)


@provide("optax.tree_map_params")
@provide("optax.tree_utils.tree_map_params")
@provide("optax.tree.map_params")
def map_parameters(
    initable: Any,
    function: Callable[..., Any],
    state: Any,
    /,
    *rest: Any,
    transform_non_params: Callable[[Any], Any] | None = None,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Call a function for what belongs to parameters in the state of an optimizer, as the moments do."""
    init = initable if callable(initable) else initable.init
    shape = init(_Parameters())

    def mapped(kind: Any, held: Any) -> Any:
        if is_parameters(kind):
            return map_leaves(function, held, *rest, is_leaf=is_leaf)
        return held if transform_non_params is None else transform_non_params(held)

    return map_leaves(mapped, shape, state, is_leaf=is_parameters)
