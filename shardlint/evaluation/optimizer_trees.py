"""``optax``'s functions of trees in guarded code: averages of parameters, and arithmetic of whole trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardlint.evaluation.optimizers import global_norm
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.lowerings.creation import ones_like, zeros_like
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.reductions import max_, sum_
from shardtypes.semantics.trees import flatten, map_leaves


@provide("optax.incremental_update")
def incremental_update(new_tensors: Any, old_tensors: Any, step_size: Any) -> Any:
    """An exponential average of parameters."""
    return map_leaves(
        lambda new, old: step_size * asarray(new) + (1.0 - step_size) * asarray(old),
        new_tensors,
        old_tensors,
    )


@provide("optax.periodic_update")
def periodic_update(
    new_tensors: Any, old_tensors: Any, steps: Any, update_period: int
) -> Any:
    """The new parameters every so many steps, else the old ones."""
    is_due = asarray(steps) % update_period == 0
    return map_leaves(
        lambda new, old: where(is_due, new, old), new_tensors, old_tensors
    )


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _provided(name: str) -> Callable[[Any], Any]:
    """Under the names that versions of optax have."""

    def register(function: Any) -> Any:
        provide(f"optax.tree_utils.tree_{name}")(function)
        return provide(f"optax.tree.{name}")(function)

    return register


@_provided("add")
def add(first: Any, second: Any, *rest: Any) -> Any:
    found = map_leaves(lambda a, b: asarray(a) + b, first, second)
    return add(found, *rest) if rest else found


@_provided("sub")
def sub(first: Any, second: Any) -> Any:
    return map_leaves(lambda a, b: asarray(a) - b, first, second)


@_provided("mul")
def mul(first: Any, second: Any) -> Any:
    return map_leaves(lambda a, b: asarray(a) * b, first, second)


@_provided("div")
def div(first: Any, second: Any) -> Any:
    return map_leaves(lambda a, b: asarray(a) / b, first, second)


@_provided("scale")
@_provided("scalar_mul")
def scale(scalar: Any, tree: Any) -> Any:
    return map_leaves(lambda leaf: scalar * asarray(leaf), tree)


@_provided("add_scale")
@_provided("add_scalar_mul")
def add_scale(first: Any, scalar: Any, second: Any) -> Any:
    return map_leaves(lambda a, b: asarray(a) + scalar * asarray(b), first, second)


@_provided("zeros_like")
def zeros(tree: Any, dtype: Any = None) -> Any:
    return map_leaves(zeros_like, tree)


@_provided("ones_like")
def ones(tree: Any, dtype: Any = None) -> Any:
    return map_leaves(ones_like, tree)


@_provided("sum")
def total(tree: Any) -> Any:
    found = asarray(0.0)
    for leaf in flatten(tree)[0]:
        found = found + sum_(asarray(leaf))
    return found


@_provided("vdot")
def vdot(first: Any, second: Any) -> Any:
    return total(mul(first, second))


@_provided("max")
def largest(tree: Any) -> Any:
    found: Array | None = None
    for leaf in flatten(tree)[0]:
        one = max_(asarray(leaf))
        found = one if found is None else where(one > found, one, found)
    return found


@_provided("l2_norm")
@_provided("norm")
def norm(tree: Any, squared: bool = False) -> Any:
    return vdot(tree, tree) if squared else global_norm(tree)
