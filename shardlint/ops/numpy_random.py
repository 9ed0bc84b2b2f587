"""NumPy's random generators: arrays of the ``size`` that is asked for."""

from __future__ import annotations

from shardlint.ops.arrays import dims_of, sizes_argument
from shardlint.ops.registry import Call, is_none, is_number, model, names
from shardlint.values import (
    ArrayValue,
    ExternalValue,
    ScalarValue,
    SequenceValue,
    Unknown,
    Value,
)

GENERATOR = "numpy.random.Generator"


@model("seed=None", "numpy.random.default_rng", "numpy.random.RandomState")
def generator(call: Call) -> Value:
    """A generator; its methods are the functions below."""
    return ExternalValue(GENERATOR)


@model(
    "loc=0.0, scale=1.0, size=None",
    *names(GENERATOR, "normal laplace logistic gumbel"),
    "numpy.random.normal",
)
@model("low=0.0, high=1.0, size=None", f"{GENERATOR}.uniform", "numpy.random.uniform")
@model("size=None", *names("numpy.random", "random random_sample"))
@model(
    "size=None, dtype=None, out=None",
    *names(GENERATOR, "random standard_normal standard_exponential"),
)
@model("low, high=None, size=None, dtype=None, endpoint=False", f"{GENERATOR}.integers")
@model(
    "low, high=None, size=None, dtype=None",
    "numpy.random.randint",
    f"{GENERATOR}.randint",
)
def drawn(call: Call) -> Value:
    """Without ``size`` the result has the shape that the parameters broadcast to, or is a number."""
    if is_none(call["size"]):
        plain = all(
            is_number(value) or is_none(value)
            for name, value in call.args.items()
            if name != "size"
        )
        if plain and call.last not in ("integers", "randint"):
            return ScalarValue("float")
        return Unknown("one random number, or as many as the parameters are")
    sizes = sizes_argument(call["size"])
    return ArrayValue(None if sizes is None else dims_of(*sizes), None, numpy=True)


@model("*sizes", *names("numpy.random", "rand randn"), *names(GENERATOR, "rand randn"))
def drawn_by_sizes(call: Call) -> Value:
    """``np.random.randn(4, 3)``; without sizes one number."""
    if call["sizes"] == SequenceValue(()):
        return ScalarValue("float")
    sizes = sizes_argument(call["sizes"])
    return ArrayValue(None if sizes is None else dims_of(*sizes), None, numpy=True)
