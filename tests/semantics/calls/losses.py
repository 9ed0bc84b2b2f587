"""optax's losses, and its functions that give one number for a tree."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from tests.semantics.call import Call, numbers, positions
from tests.semantics.calls.entries import each

_SCORES, _TARGETS = numbers((4, 5)), numbers((4, 5), seed=1)
_SHARES = np.asarray(jax.nn.softmax(numbers((4, 5), seed=2)), np.float64)
_SIGNS, _LABELS = np.sign(_TARGETS), positions((4,), 5)

_L = "optax.losses"


def both(names: str, *args: Any, **kwargs: Any) -> list[Call]:
    """The names in optax, and in its module of losses."""
    return [*each("optax", names, *args, **kwargs), *each(_L, names, *args, **kwargs)]


_TREE, _OTHER = [_SCORES, numbers(3)], [_TARGETS, numbers(3, seed=1)]


def of_trees(name: str, *args: Any, **kwargs: Any) -> list[Call]:
    """The name in optax.tree, and in the module that it was in before."""
    return [
        *each("optax.tree", name, *args, **kwargs),
        *each("optax.tree_utils", f"tree_{name}", *args, **kwargs),
    ]


CALLS = [
    *of_trees("norm", _TREE),
    *of_trees("norm", _TREE, 1, squared=True),
    *of_trees("norm", _TREE, "inf", smooth=False),
    *of_trees("sum", _TREE),
    *of_trees("vdot", _TREE, _OTHER),
    *of_trees("max", _TREE, smooth=False),
    *of_trees("min", _TREE, smooth=False),
    *both(
        "squared_error l2_loss huber_loss log_cosh cosine_similarity cosine_distance",
        _SCORES,
        _TARGETS,
    ),
    *both("softmax_cross_entropy safe_softmax_cross_entropy", _SCORES, _SHARES),
    *both("sigmoid_binary_cross_entropy sigmoid_focal_loss", _SCORES, _SHARES),
    *both("softmax_cross_entropy", _SCORES, _SHARES, 0),
    *both("softmax_cross_entropy_with_integer_labels", _SCORES, _LABELS),
    *both("kl_divergence generalized_kl_divergence", np.log(_SHARES), _SHARES[::-1]),
    *both("smooth_labels", _SHARES, 0.1),
    *both("hinge_loss", _SCORES, _SIGNS, smooth=False),
    *each(_L, "perceptron_loss", _SCORES, _SIGNS, smooth=False),
    *each(_L, "kl_divergence_with_log_targets", np.log(_SHARES), np.log(_SHARES[::-1])),
    *each(_L, "poly_loss_cross_entropy", _SCORES, _SHARES),
    *each(_L, "multiclass_hinge_loss multiclass_perceptron_loss", _SCORES, _LABELS),
]
