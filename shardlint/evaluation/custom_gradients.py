"""``custom_gradient``, ``closure_convert`` and ``linear_transpose`` in guarded code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardlint.evaluation.arrays import zeros_of
from shardlint.evaluation.derivatives import CustomVjp, detached, is_float, vjp
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.trees import flatten, map_leaves


class _Backward:
    """A backward rule that the forward one gives. It stands in no file of the program."""

    def __call__(self, pull: Callable[[Any], Any], cotangents: Any) -> Any:
        found = pull(cotangents)
        return found if isinstance(found, (tuple, list)) else (found,)


@provide("jax.custom_gradient")
def custom_gradient(fun: Callable[..., Any]) -> CustomVjp:
    """A function that gives its result, and what takes cotangents back."""

    def result(*args: Any) -> Any:
        return fun(*args)[0]

    made = CustomVjp(result)
    made.defvjp(fun, _Backward())
    return made


@provide("jax.closure_convert")
def closure_convert(
    fun: Callable[..., Any], *example_args: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """The function, and what it closes over that is differentiated, which is nothing here."""
    found = fun(*detached(map_leaves(zeros_of, list(example_args))))
    leaves, _ = flatten(found)
    if any(isinstance(leaf, Array) and leaf.node is not None for leaf in leaves):
        raise NotEvaluable(
            "closure_convert of a function that closes over what is differentiated"
        )
    return fun, []


@provide("jax.linear_transpose")
def linear_transpose(
    fun: Callable[..., Any], *primals: Any, **options: Any
) -> Callable[[Any], Any]:
    """The transpose of a function that is linear: what takes its cotangents back, wherever that is asked for."""
    places = map_leaves(lambda leaf: asarray(zeros_of(leaf)), list(primals))
    if not all(is_float(leaf) for leaf in flatten(places)[0]):
        raise NotEvaluable("linear_transpose of what is no float")
    pull = vjp(fun, *map_leaves(lambda leaf: leaf * 0, places))[1]
    return lambda cotangents: pull(cotangents)
