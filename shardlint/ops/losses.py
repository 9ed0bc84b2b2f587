"""optax's losses as the functions of JAX that they are made of: shapes, dtypes and shardings follow from these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shardlint.ops.application import apply
from shardlint.ops.arrays import UNKNOWN_ARRAY, as_array
from shardlint.ops.joining import agree
from shardlint.ops.registry import Call, UnknownArgument, is_none, model, static_int
from shardlint.values import ArrayValue, IntValue, Literal, Value
from shardtypes.lang import Size, dtypes

_ZERO, _ONE, _LAST = (IntValue(Size.of(number)) for number in (0, 1, -1))
_Loss = Callable[["Steps"], Value]


class Steps:
    """The functions of JAX that one call of a loss is made of; each takes and gives values."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.axis = {} if is_none(call.get("axis")) else {"axis": call["axis"]}

    def __getitem__(self, name: str) -> Value:
        return self.call[name]

    def __call__(self, function: str, *args: Value, **options: Value) -> Value:
        return apply(f"jax.{function}", args, options, self.call.ctx)

    def floating(self, name: str, *kinds: str) -> Value:
        """An argument that optax demands to be an array of floats (or of ``kinds``)."""
        value = self.call[name]
        number = not isinstance(value, ArrayValue) and as_array(value) is not None
        if number or (
            isinstance(value, ArrayValue)
            and not _may_be(value, *(kinds or ("floating",)))
        ):
            raise UnknownArgument
        return value

    def where(self, of: str) -> Value:
        """The mask, with a dimension for the classes where it has none; without one where that is not known."""
        mask, scores = self.call.get("where"), self.call[of]
        if not isinstance(mask, ArrayValue) or not isinstance(scores, ArrayValue):
            return Literal(None)
        if mask.dims is None or scores.dims is None:
            return Literal(None)
        return (
            mask
            if len(mask.dims) == len(scores.dims)
            else self("numpy.expand_dims", mask, self.call["axis"])
        )

    def added_up(self, value: Value, where: Value) -> Value:
        """The sum along the axis of the classes, of what ``where`` leaves."""
        return self("numpy.sum", value, **self.axis, where=where)

    def errors(self) -> Value:
        """Predictions minus targets, where there are any."""
        predictions = self.floating("predictions")
        if is_none(self["targets"]):
            return predictions
        return self("numpy.subtract", predictions, self["targets"])

    def same_shape(self, *names: str) -> None:
        """Two arguments that do not broadcast: optax compares their shapes."""
        operands = [as_array(self.call[name]) for name in names]
        agree(self.call, [operand or UNKNOWN_ARRAY for operand in operands], None)


def _may_be(value: ArrayValue, *kinds: str) -> bool:
    return value.dtype is None or dtypes.is_kind(value.dtype, *kinds) is not False


def _loss(signature: str, *names: str) -> Callable[[_Loss], _Loss]:
    def register(loss: _Loss) -> _Loss:
        model(signature, *[f"optax.{name}" for name in names], composed=True)(
            lambda call: loss(Steps(call))
        )
        return loss

    return register


# --- of differences -------------------------------------------------------------------------------------------------


@_loss("predictions, targets=None", "squared_error", "l2_loss")
def squared(do: Steps) -> Value:
    """A factor of one half changes nothing here."""
    if not is_none(do["targets"]):
        do.same_shape("predictions", "targets")
    return do("numpy.square", do.errors())


@_loss("predictions, targets=None, *, delta=1.0", "huber_loss")
def huber(do: Steps) -> Value:
    size = do("numpy.abs", do.errors())
    near = do("numpy.minimum", size, do["delta"])
    far = do("numpy.subtract", size, near)
    return do(
        "numpy.add", do("numpy.square", near), do("numpy.multiply", do["delta"], far)
    )


@_loss("predictions, targets=None", "log_cosh")
def log_cosh(do: Steps) -> Value:
    errors = do.errors()
    value = do("numpy.logaddexp", errors, do("numpy.negative", errors))
    return replace(value, weak=False) if isinstance(value, ArrayValue) else value


@_loss("predictor_outputs, targets", "hinge_loss", "perceptron_loss")
def hinge(do: Steps) -> Value:
    if do.call.last == "perceptron_loss":
        do.same_shape("predictor_outputs", "targets")
    product = do("numpy.multiply", do["predictor_outputs"], do["targets"])
    return do("numpy.maximum", _ZERO, do("numpy.subtract", _ONE, product))


# --- of classes -----------------------------------------------------------------------------------------------------


@_loss("logits, labels", "sigmoid_binary_cross_entropy")
def sigmoid_binary_cross_entropy(do: Steps) -> Value:
    logits = do.floating("logits")
    of_ones = do("numpy.multiply", do["labels"], do("nn.log_sigmoid", logits))
    others = do("nn.log_sigmoid", do("numpy.negative", logits))
    of_zeros = do("numpy.multiply", do("numpy.subtract", _ONE, do["labels"]), others)
    loss = do("numpy.negative", do("numpy.add", of_ones, of_zeros))
    if isinstance(loss, ArrayValue) and isinstance(logits, ArrayValue):
        # that of the labels is made the same before
        return replace(loss, dtype=logits.dtype, weak=False)
    return loss


@_loss("logits, labels, axis=-1, where=None", "softmax_cross_entropy")
@_loss("logits, labels, *, epsilon=2.0, axis=-1, where=None", "poly_loss_cross_entropy")
def softmax_cross_entropy(do: Steps) -> Value:
    logits, where = do.floating("logits"), do.where("logits")
    labels = (
        do.floating("labels")
        if do.call.last == "poly_loss_cross_entropy"
        else do["labels"]
    )
    logarithms = do("nn.log_softmax", logits, **do.axis, where=where)
    return do(
        "numpy.negative", do.added_up(do("numpy.multiply", labels, logarithms), where)
    )


@_loss("logits, labels", "safe_softmax_cross_entropy")
def safe_softmax_cross_entropy(do: Steps) -> Value:
    logarithms = do("nn.log_softmax", do.floating("logits"), axis=_LAST)
    products = do("numpy.multiply", do["labels"], logarithms)
    return do("numpy.negative", do("numpy.sum", products, axis=_LAST))


@_loss(
    "logits, labels, axis=-1, where=None", "softmax_cross_entropy_with_integer_labels"
)
def of_integer_labels(do: Steps) -> Value:
    logits, labels, axis = (
        do.floating("logits"),
        do.floating("labels", "signed", "unsigned"),
        do["axis"],
    )
    if static_int(axis) is None:
        raise UnknownArgument
    places = do("numpy.expand_dims", labels, axis)
    chosen = do(
        "numpy.squeeze", do("numpy.take_along_axis", logits, places, axis), axis
    )
    return do(
        "numpy.subtract",
        do("nn.logsumexp", logits, axis=axis, where=do.where("logits")),
        chosen,
    )


@_loss("log_predictions, targets, axis=-1, where=None", "kl_divergence")
def kl_divergence(do: Steps) -> Value:
    targets = do.floating("targets")
    ratio = do(
        "numpy.subtract", do("numpy.log", targets), do.floating("log_predictions")
    )
    return do.added_up(
        do("numpy.multiply", targets, ratio), do.where("log_predictions")
    )


@_loss(
    "log_predictions, log_targets, axis=-1, where=None",
    "kl_divergence_with_log_targets",
)
def kl_divergence_with_log_targets(do: Steps) -> Value:
    targets = do.floating("log_targets")
    ratio = do("numpy.subtract", targets, do.floating("log_predictions"))
    return do.added_up(
        do("numpy.multiply", do("numpy.exp", targets), ratio),
        do.where("log_predictions"),
    )


@_loss(
    "predictions, targets, *, epsilon=0.0, axis=-1, where=None",
    "cosine_similarity",
    "cosine_distance",
)
def cosine(do: Steps) -> Value:
    """Each divided by its norm."""
    where = do.where("predictions")
    predictions = _of_length_one(do, do.floating("predictions"), where)
    targets = _of_length_one(do, do.floating("targets"), where)
    return do.added_up(do("numpy.multiply", predictions, targets), where)


def _of_length_one(do: Steps, value: Value, where: Value) -> Value:
    squares = do(
        "numpy.sum",
        do("numpy.square", value),
        **do.axis,
        keepdims=Literal(True),
        where=where,
    )
    return do("numpy.divide", value, do("numpy.sqrt", squares))


@_loss("labels, alpha, *, axis=-1, where=None", "smooth_labels")
def smooth_labels(do: Steps) -> Value:
    labels = do.floating("labels")
    do.added_up(labels, do.where("labels"))  # the axis is one of its own
    return do("numpy.multiply", do("numpy.subtract", _ONE, do["alpha"]), labels)
