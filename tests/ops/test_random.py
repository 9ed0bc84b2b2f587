"""``jax.random`` against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from hypothesis import strategies as st

from tests.ops.oracle import agree
from tests.ops.strategies import arrays, axes, positive
from tests.ops.tables import case, family, optional

RANDOM = "jax.random"
key = st.just(jax.random.key(0))
wanted = st.one_of(
    positive, positive, st.lists(st.integers(-1, 3), max_size=3).map(tuple)
)
float_dtypes = optional(st.sampled_from((jnp.float32, jnp.bfloat16, jnp.int32)))
parameter = st.one_of(
    st.just(2.0), st.just(0.5), arrays(positive, ("float32", "float32", "int32"))
)
batches = positive.flatmap(
    lambda shape: st.tuples(arrays(st.just(shape), ("float32",)), st.just(shape))
)


@st.composite
def gaussians(draw):
    n, m = draw(st.integers(1, 3)), draw(st.sampled_from((0,) * 5 + (1,)))
    batch = draw(st.sampled_from(((), (), (2,))))
    mean, cov = (
        jax.ShapeDtypeStruct((*batch, n), jnp.float32),
        jax.ShapeDtypeStruct((n, n + m), jnp.float32),
    )
    return [draw(key), mean, cov], (
        {"shape": (4, *batch)} if draw(st.booleans()) else {}
    )


@st.composite
def choices(draw):
    x, axis = draw(arrays(positive)), draw(st.one_of(st.just(0), axes))
    kwargs = {"axis": axis}
    if x.shape and -len(x.shape) <= axis < len(x.shape) and draw(st.booleans()):
        size = x.shape[axis] + draw(st.sampled_from((0, 0, 0, 1)))
        kwargs["p"] = jax.ShapeDtypeStruct((size,), jnp.float32)
    return [draw(key), x, draw(positive)], kwargs


@st.composite
def categoricals(draw):
    logits, shape = draw(batches)
    axis = draw(axes)
    kwargs = {"axis": axis}
    if draw(st.booleans()) and -len(shape) <= axis < len(shape):
        batch = list(shape)
        batch.pop(axis)
        kwargs["shape"] = (
            (*draw(st.sampled_from(((), (4,)))), *batch)
            if draw(st.integers(0, 4))
            else draw(positive)
        )
    return [draw(key), logits], kwargs


INTEGERS = ("int8", "int16", "int32", "uint8", "uint32")
FLOATS = ("float16", "bfloat16", "float32")

test_random = family(
    case(RANDOM, "normal uniform exponential laplace logistic cauchy gumbel maxwell", key, wanted, float_dtypes),
    case(RANDOM, "bits", key, wanted, dtype=optional(st.sampled_from(("uint8", "uint16", "uint32")))),
    case(RANDOM, "rademacher", key, wanted, dtype=optional(st.sampled_from((*INTEGERS, *FLOATS)))),
    case(RANDOM, "uniform", key, positive, minval=parameter, maxval=parameter, dtype=optional(float_dtypes)),
    case(RANDOM, "randint", key, positive, st.one_of(st.just(0), arrays(positive, ("int32",))), st.just(3),
         dtype=optional(st.sampled_from((*INTEGERS, *FLOATS)))),
    case(RANDOM, "gamma loggamma t chisquare pareto rayleigh lognormal generalized_normal", key,
         parameter, shape=optional(positive), dtype=optional(float_dtypes)),
    case(RANDOM, "poisson geometric", key, parameter, shape=optional(positive),
         dtype=optional(st.sampled_from((*INTEGERS, *FLOATS)))),
    case(RANDOM, "beta f truncated_normal binomial weibull_min", key, parameter, parameter, shape=optional(positive),
         dtype=optional(float_dtypes)),
    case(RANDOM, "triangular", key, parameter, parameter, parameter, shape=optional(positive),
         dtype=optional(float_dtypes)),
    case(RANDOM, "wald", key, parameter, shape=optional(positive), dtype=optional(float_dtypes)),
    case(RANDOM, "bernoulli", key, optional(parameter), shape=optional(positive)),
    case(RANDOM, "dirichlet", key, arrays(positive, ("float32",)), shape=optional(positive)),
    case(RANDOM, "multivariate_normal", drawn=gaussians()),
    case(RANDOM, "ball", key, st.integers(1, 3), shape=positive),
    case(RANDOM, "orthogonal", key, st.integers(1, 3), shape=positive),
    case(RANDOM, "permutation", key, st.one_of(st.integers(0, 5), arrays(positive)), axis=optional(axes)),
    case(RANDOM, "choice", drawn=choices()),
    case(RANDOM, "choice", key, st.integers(1, 5), positive),
    case(RANDOM, "categorical", drawn=categoricals()),
    case(RANDOM, "split", key, optional(st.one_of(st.integers(0, 4), st.just((2, 3))))),
    case(RANDOM, "fold_in", key, st.integers(0, 4)),
    case(RANDOM, "clone key_data", key),
    case(RANDOM, "wrap_key_data",
         arrays(st.sampled_from(((2,), (2,), (3, 2), (3,), ())), ("uint32", "uint32", "int32"))),
    case(RANDOM, "double_sided_maxwell", key, parameter, parameter, shape=optional(positive)),
    case(RANDOM, "multinomial", key, arrays(positive, ("float32",)), arrays(positive, ("float32",)),
         shape=optional(positive)),
    case(RANDOM, "key PRNGKey", st.integers(0, 5)),
)  # fmt: skip


VECTOR = jax.ShapeDtypeStruct((3,), jnp.float32)
MATRIX = jax.ShapeDtypeStruct((3, 3), jnp.float32)
#: What samplers are given after the key.
PARAMETERS = {
    "normal uniform exponential laplace logistic cauchy gumbel maxwell bits rademacher": (
        (2,),
    ),
    "gamma loggamma poisson t chisquare pareto rayleigh lognormal generalized_normal wald": (
        2.0,
    ),
    "geometric": (0.5,),
    "beta f truncated_normal binomial weibull_min double_sided_maxwell": (2.0, 0.5),
    "triangular": (0.0, 1.0, 2.0),
    "randint": ((2,), 0, 3),
    "dirichlet": (VECTOR,),
    "multivariate_normal": (VECTOR, MATRIX),
    "ball": (2,),
}
SAMPLERS = [
    (name, given) for names, given in PARAMETERS.items() for name in names.split()
]


@pytest.mark.parametrize(("name", "given"), SAMPLERS)
def test_dtypes_drawn(name: str, given: tuple[object, ...]) -> None:
    """The dtype that is asked for is given, or refused as JAX refuses it."""
    function = getattr(jax.random, name)
    args = [jax.random.key(0), *given]
    found = [
        agree(f"{RANDOM}.{name}", function, args, {"dtype": dtype})
        for dtype in (*INTEGERS, *FLOATS, "bool", "complex64")
    ]
    assert any(not isinstance(one, Exception) for one in found)
