"""optax's losses, from its documentation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.comparison import require_equal
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    DType,
    asarray,
    axis_of,
    cast,
    inexact,
    is_zero,
    like,
    promoted,
    real,
    sizes_of,
    strong,
)
from shardtypes.semantics.lowerings.elementwise import (
    clip,
    log_sigmoid,
    logaddexp,
    one_hot,
    where,
    xlogy,
)
from shardtypes.semantics.lowerings.operators import multiply, negative
from shardtypes.semantics.lowerings.reductions import log_softmax, max_, sum_
from shardtypes.semantics.lowerings.shapes import moveaxis
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.registry import Unsupported, lowering

_F = TypeVar("_F", bound=Callable[..., Array])
_where = where


def _loss(name: str) -> Callable[[_F], _F]:
    return lowering(f"optax.{name}", f"optax.losses.{name}")


def _floats(*given: ArrayLike) -> list[Array]:
    return inexact(*[asarray(one) for one in given])


def _required(*given: ArrayLike) -> None:
    """Raises TypeError for what is no array of floats, as optax does."""
    for one in given:
        dtype = asarray(one).dtype
        if not isinstance(one, Array) or dtypes.is_kind(dtype, "floating") is False:
            raise TypeError(f"an array of floats is needed, got {dtype}")


def _of_one_shape(*given: ArrayLike) -> None:
    """optax compares the shapes of some arguments: they do not broadcast."""
    first, *rest = [asarray(one) for one in given]
    for other in rest:
        if first.rank != other.rank:
            raise ValueError("arrays of different ranks")
        for a, b in zip(first.dims, other.dims, strict=True):
            require_equal(a, b)


# --- of differences -------------------------------------------------------------------------------------------------


def _errors(predictions: ArrayLike, targets: ArrayLike | None) -> Array:
    _required(predictions)
    if targets is None:
        return _floats(predictions)[0]
    return e.sub(*_floats(predictions, targets))


@_loss("squared_error")
def squared_error(predictions: ArrayLike, targets: ArrayLike | None = None) -> Array:
    if targets is not None:
        _of_one_shape(predictions, targets)
    return e.square(_errors(predictions, targets))


@_loss("l2_loss")
def l2_loss(predictions: ArrayLike, targets: ArrayLike | None = None) -> Array:
    return 0.5 * squared_error(predictions, targets)


@_loss("huber_loss")
def huber_loss(
    predictions: ArrayLike, targets: ArrayLike | None = None, *, delta: ArrayLike = 1.0
) -> Array:
    """Quadratic up to ``delta``, linear from there on."""
    size = e.abs_(_errors(predictions, targets))
    near = clip(size, None, delta)
    return 0.5 * e.square(near) + delta * (size - near)


@_loss("log_cosh")
def log_cosh(predictions: ArrayLike, targets: ArrayLike | None = None) -> Array:
    error = _errors(predictions, targets)
    return logaddexp(error, e.neg(error)) - strong(like(math.log(2.0), error))


# --- of classes -----------------------------------------------------------------------------------------------------


@_loss("softmax_cross_entropy")
def softmax_cross_entropy(
    logits: ArrayLike,
    labels: ArrayLike,
    axis: Any = -1,
    where: ArrayLike | None = None,  # its name
) -> Array:
    _required(logits)
    logarithms = log_softmax(logits, axis, where)
    return e.neg(sum_(_products(asarray(labels), logarithms, where), axis))


def _products(weights: Array, logarithms: Array, kept: ArrayLike | None) -> Array:
    """The products, nothing where entries are left out."""
    products = multiply(weights, logarithms)
    if kept is None:
        return products
    return _where(kept, products, 0.0)


@_loss("softmax_cross_entropy_with_integer_labels")
def softmax_cross_entropy_with_integer_labels(
    logits: ArrayLike,
    labels: ArrayLike,
    axis: Any = -1,
    where: ArrayLike | None = None,  # its name
) -> Array:
    if isinstance(axis, (tuple, list)):
        raise Unsupported("integer labels over several dimensions")
    _required(logits)
    (scores,) = _floats(logits)
    at = axis_of(axis, scores.rank)
    if asarray(labels).rank != scores.rank - 1:
        raise ValueError("labels have a dimension less than logits")
    chosen = one_hot(labels, sizes_of(scores)[at], dtype=DType(scores.dtype))
    return softmax_cross_entropy(scores, moveaxis(chosen, -1, at), at, where)


@_loss("safe_softmax_cross_entropy")
def safe_softmax_cross_entropy(logits: ArrayLike, labels: ArrayLike) -> Array:
    _required(logits)
    weights = asarray(labels)
    products = where(is_zero(weights), 0.0, multiply(weights, log_softmax(logits)))
    return e.neg(sum_(products, axis=-1))


@_loss("sigmoid_binary_cross_entropy")
def sigmoid_binary_cross_entropy(logits: ArrayLike, labels: ArrayLike) -> Array:
    _required(logits)
    scores = asarray(logits)
    weights = cast(asarray(labels), scores.dtype)
    return e.neg(
        weights * log_sigmoid(scores) + (1.0 - weights) * log_sigmoid(e.neg(scores))
    )


@_loss("sigmoid_focal_loss")
def sigmoid_focal_loss(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    alpha: ArrayLike | None = None,
    gamma: ArrayLike = 2.0,
) -> Array:
    """The cross entropy, less where the prediction is good."""
    scores = asarray(logits)
    weights = cast(asarray(labels), scores.dtype)
    chance = e.logistic(scores)
    right = chance * weights + (1.0 - chance) * (1.0 - weights)
    power = cast(asarray(gamma), scores.dtype)
    loss = sigmoid_binary_cross_entropy(scores, weights) * e.pow_(1.0 - right, power)
    if alpha is None:
        return loss
    share = asarray(alpha)
    return loss * (weights * share + (1.0 - weights) * (1.0 - share))


@lowering("optax.losses.poly_loss_cross_entropy")
def poly_loss_cross_entropy(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    epsilon: ArrayLike = 2.0,
    axis: Any = -1,
    where: ArrayLike | None = None,  # its name
) -> Array:
    from shardtypes.semantics.lowerings.reductions import softmax

    _required(logits, labels)
    scores, weights = asarray(logits), asarray(labels)
    missing = sum_(_products(weights, 1.0 - softmax(scores, axis, where), where), axis)
    return softmax_cross_entropy(scores, weights, axis, where) + epsilon * missing


@_loss("smooth_labels")
def smooth_labels(
    labels: ArrayLike,
    alpha: ArrayLike,
    *,
    axis: Any = -1,
    where: ArrayLike | None = None,
) -> Array:
    _required(labels)
    (weights,) = _floats(labels)
    if where is not None or isinstance(axis, (tuple, list)) or axis is None:
        raise Unsupported("labels smoothed over some entries, or several dimensions")
    count = sizes_of(weights)[axis_of(axis, weights.rank)]
    share = asarray(alpha)
    smoothed: Array = weights * (1.0 - share) + share / real(count)
    return smoothed


def _positive(array: Array) -> Array:
    return e.max_(*promoted(array, asarray(0)))


@_loss("hinge_loss")
def hinge_loss(predictor_outputs: ArrayLike, targets: ArrayLike) -> Array:
    return _positive(1 - multiply(predictor_outputs, targets))


@lowering("optax.losses.perceptron_loss")
def perceptron_loss(predictor_outputs: ArrayLike, targets: ArrayLike) -> Array:
    _of_one_shape(predictor_outputs, targets)
    return _positive(negative(multiply(predictor_outputs, targets)))


@lowering("optax.losses.multiclass_hinge_loss")
def multiclass_hinge_loss(scores: ArrayLike, labels: ArrayLike) -> Array:
    (given,) = _floats(scores)
    chosen = one_hot(labels, sizes_of(given)[-1])
    return max_(given + 1.0 - chosen, axis=-1) - sum_(given * chosen, axis=-1)


@lowering("optax.losses.multiclass_perceptron_loss")
def multiclass_perceptron_loss(scores: ArrayLike, labels: ArrayLike) -> Array:
    (given,) = _floats(scores)
    chosen = one_hot(labels, sizes_of(given)[-1])
    return max_(given, axis=-1) - sum_(given * chosen, axis=-1)


# --- of distributions -----------------------------------------------------------------------------------------------


def _divergence(targets: Array, logarithms: Array, kept: ArrayLike | None) -> Array:
    return _products(
        like(1.0, targets), xlogy(targets, targets) - targets * logarithms, kept
    )


@_loss("kl_divergence")
def kl_divergence(
    log_predictions: ArrayLike,
    targets: ArrayLike,
    axis: Any = -1,
    where: ArrayLike | None = None,
) -> Array:
    _required(log_predictions, targets)
    logarithms, weights = _floats(log_predictions, targets)
    return sum_(_divergence(weights, logarithms, where), axis)


@lowering("optax.losses.kl_divergence_with_log_targets")
def kl_divergence_with_log_targets(
    log_predictions: ArrayLike,
    log_targets: ArrayLike,
    axis: Any = -1,
    where: ArrayLike | None = None,
) -> Array:
    _required(log_predictions, log_targets)
    logarithms, wanted = _floats(log_predictions, log_targets)
    return sum_(_products(e.exp(wanted), wanted - logarithms, where), axis)


def _convex(
    log_predictions: ArrayLike,
    targets: ArrayLike,
    axis: Any = -1,
    where: ArrayLike | None = None,
) -> Array:
    """The divergence with the difference of both sums, which makes it convex in predictions that add up to no 1."""
    logarithms, weights = _floats(log_predictions, targets)
    more = _products(like(1.0, weights), e.exp(logarithms) - weights, where)
    return sum_(_divergence(weights, logarithms, where) + more, axis)


_loss("convex_kl_divergence")(_convex)
_loss("generalized_kl_divergence")(_convex)


# --- of directions --------------------------------------------------------------------------------------------------


@_loss("cosine_similarity")
def cosine_similarity(
    predictions: ArrayLike,
    targets: ArrayLike,
    *,
    epsilon: ArrayLike = 0.0,
    axis: Any = -1,
    where: ArrayLike | None = None,
) -> Array:
    if where is not None or epsilon != 0.0:
        raise Unsupported("cosine_similarity with where or epsilon")
    _required(predictions, targets)
    first, second = asarray(predictions), asarray(targets)
    sizes = [e.sqrt(sum_(e.square(one), axis)) for one in (first, second)]
    return sum_(first * second, axis) / (sizes[0] * sizes[1])


@_loss("cosine_distance")
def cosine_distance(
    predictions: ArrayLike, targets: ArrayLike, **options: Any
) -> Array:
    return 1.0 - cosine_similarity(predictions, targets, **options)
