"""``flax``'s training states and dicts of parameters in guarded code."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from shardlint.evaluation.guards import MARK
from shardlint.evaluation.layers.functions import call
from shardlint.evaluation.optimizers.parameters import apply_updates
from shardlint.evaluation.outside import provide
from shardlint.evaluation.trees import Node
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray

# --- training states --------------------------------------------------------------------------------------------------


def _static() -> Any:
    return dataclasses.field(metadata={"pytree_node": False})


@provide("flax.training.train_state.TrainState")
class TrainState(Node):
    """Parameters, the state of their optimizer, and how many steps it took."""

    step: Any
    apply_fn: Any = _static()
    params: Any = dataclasses.field(metadata={"pytree_node": True})
    tx: Any = _static()
    opt_state: Any = dataclasses.field(metadata={"pytree_node": True})

    def apply_gradients(self, *, grads: Any, **changes: Any) -> Any:
        """The state after a step of the optimizer."""
        found: Any = self
        updates, opt_state = found.tx.update(grads, found.opt_state, found.params)
        params = apply_updates(found.params, updates)
        return found.replace(
            step=found.step + 1, params=params, opt_state=opt_state, **changes
        )

    @classmethod
    def create(cls, *, apply_fn: Any, params: Any, tx: Any, **fields: Any) -> Any:
        """The state before the first step."""
        make: Any = cls
        return make(
            step=0,
            apply_fn=apply_fn,
            params=params,
            tx=tx,
            opt_state=tx.init(params),
            **fields,
        )


# --- dicts of parameters ----------------------------------------------------------------------------------------------


class FrozenDict(dict[str, Any]):
    """``flax.core.FrozenDict``."""

    def pop(self, key: str, *default: Any) -> Any:
        """The rest, and the value of a key."""
        rest = {name: value for name, value in self.items() if name != key}
        return FrozenDict(rest), self[key]

    def copy(self, add_or_replace: Mapping[str, Any] | None = None) -> FrozenDict:
        return FrozenDict({**self, **(add_or_replace or {})})

    def unfreeze(self) -> dict[str, Any]:
        return {name: _unfrozen(value) for name, value in self.items()}


def _unfrozen(x: Any) -> Any:
    if not isinstance(x, dict):
        return x
    return {name: _unfrozen(part) for name, part in x.items()}


setattr(FrozenDict, MARK, True)
for _base in ("flax.core", "flax.core.frozen_dict"):
    provide(f"{_base}.FrozenDict")(FrozenDict)
    provide(f"{_base}.freeze")(FrozenDict)
    provide(f"{_base}.unfreeze")(_unfrozen)


@provide("flax.core.pop")
@provide("flax.core.frozen_dict.pop")
def _pop(x: Mapping[str, Any], key: str) -> Any:
    rest = {name: value for name, value in x.items() if name != key}
    return type(x)(rest), x[key]  # type: ignore[call-arg]  # a dict or a frozen one


@provide("flax.core.copy")
@provide("flax.core.frozen_dict.copy")
def _copy(x: Mapping[str, Any], add_or_replace: Mapping[str, Any]) -> Any:
    return type(x)({**x, **add_or_replace})  # type: ignore[call-arg]  # a dict or a frozen one


Flat = dict[Any, Any]


@provide("flax.traverse_util.flatten_dict")
def flatten_dict(
    xs: Mapping[str, Any],
    keep_empty_nodes: bool = False,
    is_leaf: Any = None,
    sep: str | None = None,
) -> Flat:
    """The entries of nested dicts by path: a tuple, or text where a separator is given."""
    found: Flat = {}

    def gather(value: Any, path: tuple[str, ...]) -> None:
        is_end = is_leaf is not None and is_leaf(path, value)
        if not isinstance(value, dict) or is_end:
            found[path if sep is None else sep.join(path)] = value
            return
        for name, part in value.items():
            gather(part, (*path, name))

    gather(xs, ())
    return found


@provide("flax.traverse_util.unflatten_dict")
def unflatten_dict(xs: Flat, sep: str | None = None) -> dict[str, Any]:
    """Nested dicts of entries by path."""
    made: dict[str, Any] = {}
    for path, value in xs.items():
        *above, last = path if sep is None else path.split(sep)
        at = made
        for name in above:
            at = at.setdefault(name, {})
        at[last] = value
    return made


@provide("flax.traverse_util.path_aware_map")
def path_aware_map(f: Callable[..., Any], nested_dict: Mapping[str, Any]) -> Any:
    flat = flatten_dict(nested_dict)
    return unflatten_dict({path: f(path, value) for path, value in flat.items()})


# --- helpers of training loops ----------------------------------------------------------------------------------------


@provide("flax.training.common_utils.onehot")
def onehot(
    labels: Any, num_classes: int, on_value: float = 1.0, off_value: float = 0.0
) -> Array:
    hot = call("nn.one_hot", asarray(labels), num_classes)
    return hot * on_value + (1.0 - hot) * off_value
