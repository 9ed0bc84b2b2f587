"""optax's losses against optax."""

from __future__ import annotations

import jax
import pytest
from hypothesis import strategies as st

from shardlint import ops
from tests.ops.oracle import abstract, context
from tests.ops.strategies import arrays, axes, broadcastable, positive
from tests.ops.tables import case, family, optional

FLOATS = ("float32", "bfloat16")
two = broadcastable(2, FLOATS).map(lambda xs: (xs, {}))
two_arrays = two.filter(
    lambda drawn: all(isinstance(x, jax.ShapeDtypeStruct) for x in drawn[0])
)


@st.composite
def classes(draw, names="axis"):
    """Scores and weights of one shape, now and then of others that broadcast or do not."""
    shape = draw(positive)
    xs = [draw(arrays(st.just(shape), FLOATS)), draw(arrays(st.just(shape), FLOATS))]
    kwargs = {}
    if draw(st.booleans()):
        kwargs["axis"] = draw(axes)
    if draw(st.integers(0, 5)) == 0:
        xs[1] = draw(arrays(positive, FLOATS))
    return xs, {name: kwargs[name] for name in names.split() if name in kwargs}


@st.composite
def integer_labels(draw):
    """Scores, and for all dimensions but one a class; now and then of another shape or dtype."""
    shape = list(draw(positive))
    axis = draw(st.sampled_from((-1, -1, 0)))
    scores = jax.ShapeDtypeStruct(tuple(shape), draw(st.sampled_from(FLOATS)))
    rest = (
        [size for i, size in enumerate(shape) if i != axis % len(shape)]
        if shape
        else []
    )
    if rest and draw(st.integers(0, 4)) == 0:
        rest[draw(st.integers(0, len(rest) - 1))] += draw(st.integers(0, 1))
    if draw(st.integers(0, 9)) == 0:
        rest = [*rest, draw(st.integers(1, 3))]
    labels = jax.ShapeDtypeStruct(
        tuple(rest), draw(st.sampled_from(("int32", "uint8")))
    )
    return [scores, labels], {"axis": axis} if axis == 0 or draw(st.booleans()) else {}


CLASSES = "softmax_cross_entropy poly_loss_cross_entropy kl_divergence kl_divergence_with_log_targets"


test_losses = family(
    case(
        "optax",
        "squared_error l2_loss huber_loss log_cosh hinge_loss perceptron_loss",
        drawn=two,
    ),
    case(
        "optax", "squared_error l2_loss huber_loss log_cosh", arrays(positive, FLOATS)
    ),
    case("optax", "sigmoid_binary_cross_entropy", drawn=two_arrays),
    case("optax", CLASSES, drawn=classes()),
    case("optax", "cosine_similarity cosine_distance", drawn=classes()),
    case("optax", "safe_softmax_cross_entropy", drawn=classes("")),
    case("optax", "softmax_cross_entropy_with_integer_labels", drawn=integer_labels()),
    case(
        "optax",
        "smooth_labels",
        arrays(positive, FLOATS),
        st.just(0.1),
        axis=optional(axes),
    ),
)


def test_they_are_the_same_in_their_module() -> None:
    assert ops.is_modelled("optax.losses.l2_loss")
    assert ops.is_modelled("optax.l2_loss")


def test_a_refusal_names_the_loss() -> None:
    scores, labels = (ops_value(shape) for shape in ((4, 5), (3,)))
    with pytest.raises(
        ops.OpError, match=r"^optax\.softmax_cross_entropy_with_integer_labels: "
    ):
        ops.apply(
            "optax.softmax_cross_entropy_with_integer_labels",
            [scores, labels],
            {},
            context(),
        )


def ops_value(shape):
    return abstract(
        jax.ShapeDtypeStruct(shape, "int32" if len(shape) == 1 else "float32")
    )
