"""``equinox``'s functions of modules in guarded code: what is filtered, put together, replaced and differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shardlint.evaluation import derivatives
from shardlint.evaluation.control import transparent
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import MARK
from shardlint.evaluation.outside import provide
from shardlint.evaluation.trees import Equinox
from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.trees import flatten, map_leaves, unflatten

_EQX = "equinox"


# --- kinds of leaves --------------------------------------------------------------------------------------------------


@provide(f"{_EQX}.is_array")
def is_array(element: Any) -> bool:
    return isinstance(element, Array)


@provide(f"{_EQX}.is_array_like")
def is_array_like(element: Any) -> bool:
    return isinstance(element, (Array, np.ndarray, np.generic, int, float, complex))


@provide(f"{_EQX}.is_inexact_array")
def is_inexact_array(element: Any) -> bool:
    return isinstance(element, Array) and bool(
        dtypes.is_kind(element.dtype, "floating", "complex")
    )


@provide(f"{_EQX}.is_inexact_array_like")
def is_inexact_array_like(element: Any) -> bool:
    if isinstance(element, (np.ndarray, np.generic)):
        return element.dtype.kind in "fc"
    return is_inexact_array(element) or isinstance(element, (float, complex))


# --- parts of trees ---------------------------------------------------------------------------------------------------


def _is_none(value: Any) -> bool:
    return value is None


def _chosen(tree: Any, spec: Any, is_leaf: Any = None) -> list[bool]:
    """Whether a filter takes each leaf of a tree."""
    found: list[bool] = []

    def choose(kind: Any, below: Any) -> None:
        takes = kind if callable(kind) else lambda leaf: kind
        found.extend(bool(takes(leaf)) for leaf in flatten(below, is_leaf)[0])

    # a module that can be called is a tree as well
    map_leaves(choose, spec, tree)
    return found


@provide(f"{_EQX}.partition")
def partition(
    pytree: Any, filter_spec: Any, replace: Any = None, is_leaf: Any = None
) -> tuple[Any, Any]:
    """The leaves that a filter takes, and the others, each with None for what is left out."""
    leaves, structure = flatten(pytree, is_leaf)
    chosen = _chosen(pytree, filter_spec, is_leaf)
    pairs = list(zip(leaves, chosen, strict=True))
    taken = [leaf if is_taken else replace for leaf, is_taken in pairs]
    others = [replace if is_taken else leaf for leaf, is_taken in pairs]
    return unflatten(structure, taken), unflatten(structure, others)


@provide(f"{_EQX}.filter")
def filter_(
    pytree: Any, filter_spec: Any, inverse: bool = False, replace: Any = None
) -> Any:
    taken, others = partition(pytree, filter_spec, replace)
    return others if inverse else taken


@provide(f"{_EQX}.combine")
def combine(*pytrees: Any, is_leaf: Any = None) -> Any:
    """The leaves that are not None in any of the trees."""
    leaves, structure = flatten(pytrees[0], _is_none)
    rows = [leaves, *(_aligned(pytrees[0], other) for other in pytrees[1:])]
    found = [
        next((leaf for leaf in row if leaf is not None), None)
        for row in zip(*rows, strict=True)
    ]
    return unflatten(structure, found)


def _aligned(tree: Any, other: Any) -> list[Any]:
    """What another tree has where a tree has leaves or nothing."""
    found: list[Any] = []
    map_leaves(lambda _, leaf: found.append(leaf), tree, other, is_leaf=_is_none)
    return found


@provide(f"{_EQX}.apply_updates")
def apply_updates(model: Any, updates: Any) -> Any:
    """The sums of a model's leaves and their updates, where there are any."""
    leaves, structure = flatten(updates, _is_none)
    given = _aligned(updates, model)
    pairs = zip(given, leaves, strict=True)
    return unflatten(
        structure,
        [leaf if update is None else asarray(leaf) + update for leaf, update in pairs],
    )


class _Place:
    """Stands for a leaf of a tree."""

    def __init__(self, number: int) -> None:
        self.number = number


setattr(_Place, MARK, True)
_KEPT = object()


@provide(f"{_EQX}.tree_at")
def tree_at(
    where: Callable[[Any], Any],
    pytree: Any,
    replace: Any = _KEPT,
    replace_fn: Any = None,
    is_leaf: Any = None,
) -> Any:
    """The tree with others for the parts that ``where`` gives of it."""
    leaves, structure = flatten(pytree, is_leaf)
    marked = unflatten(structure, [_Place(k) for k in range(len(leaves))])
    parts = where(marked)
    is_several = isinstance(parts, (tuple, list))
    new = [replace] if not is_several else replace
    for k, part in enumerate(parts if is_several else [parts]):
        places, below = flatten(part)
        if not all(isinstance(place, _Place) for place in places):
            raise NotEvaluable("eqx.tree_at of what is no part of the tree")
        numbers = [place.number for place in places]
        old = unflatten(below, [leaves[number] for number in numbers])
        value = replace_fn(old) if replace_fn is not None else new[k]
        if len(numbers) == 1 and isinstance(part, _Place):
            leaves[numbers[0]] = value
            continue
        made, other = flatten(value)
        if other != below:
            raise NotEvaluable("eqx.tree_at that changes the structure")
        for number, leaf in zip(numbers, made, strict=True):
            leaves[number] = leaf
    return unflatten(structure, leaves)


@provide(f"{_EQX}.filter_shard")
def filter_shard(x: Any, *shardings: Any) -> Any:
    """Shardings change no number."""
    return x


@provide(f"{_EQX}.error_if")
def error_if(x: Any, *conditions: Any, on_error: Any = None) -> Any:
    return x


@provide(f"{_EQX}.nn.inference_mode")
@provide(f"{_EQX}.tree_inference")
def inference_mode(pytree: Any, value: bool = True) -> Any:
    """The tree with all its modules in use, or in training."""
    leaves, structure = flatten(pytree)
    made = unflatten(structure, leaves)
    _set_inference(made, value)
    return made


def _set_inference(value: Any, is_used: bool) -> None:
    if isinstance(value, (tuple, list)):
        for one in value:
            _set_inference(one, is_used)
    elif isinstance(value, dict):
        _set_inference(list(value.values()), is_used)
    elif isinstance(value, Equinox):
        for name, one in vars(value).items():
            if name == "inference":
                object.__setattr__(value, name, is_used)
            else:
                _set_inference(one, is_used)


# --- transformations --------------------------------------------------------------------------------------------------


def filter_value_and_grad(fun: Any, *, has_aux: bool = False, **options: Any) -> Any:
    """The result and the gradient with respect to the floats of the first argument; None for its other leaves."""

    def run(first: Any, *args: Any, **kwargs: Any) -> Any:
        floats, rest = partition(first, is_inexact_array)

        def inner(given: Any) -> Any:
            return fun(combine(given, rest), *args, **kwargs)

        inner.__name__ = getattr(fun, "__name__", inner.__name__)
        return derivatives.value_and_grad(inner, 0, has_aux)(floats)

    run.__wrapped__ = fun  # type: ignore[attr-defined]  # for whoever asks where it is defined
    run.__name__ = f"filter_value_and_grad({getattr(fun, '__name__', 'a function')})"
    return run


def filter_grad(fun: Any, *, has_aux: bool = False, **options: Any) -> Any:
    both = filter_value_and_grad(fun, has_aux=has_aux)
    return derivatives.without_value(both, fun, has_aux)


provide(f"{_EQX}.filter_value_and_grad")(derivatives.decorating(filter_value_and_grad))
provide(f"{_EQX}.filter_grad")(derivatives.decorating(filter_grad))
provide(f"{_EQX}.filter_eval_shape")(lambda fun, *args, **kwargs: fun(*args, **kwargs))
for _name in ("filter_closure_convert", "filter_named_call", "internal.noinline"):
    provide(f"{_EQX}.{_name}")(transparent)
