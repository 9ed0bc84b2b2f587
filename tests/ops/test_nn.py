"""``jax.nn``, its initializers, and ``jax.scipy`` against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

from shardlint import ops
from shardlint.values import PartialValue
from shardtypes.semantics.lowerings import LOWERINGS
from tests.ops.strategies import (
    COMMON,
    arrays,
    axes,
    axis_or_axes,
    broadcastable,
    positive,
    shapes,
)
from tests.ops.tables import case, family, optional, resolve

NN, SPECIAL, JNP = "jax.nn", "jax.scipy.special", "jax.numpy"
floats = arrays(shapes, ("float32", "bfloat16", "float16"))
two, three = (
    broadcastable(n, ("float32", "int32")).map(lambda xs: (xs, {})) for n in (2, 3)
)


@st.composite
def attention(draw):
    """Queries, keys and values that mostly fit, masks of several forms."""
    batch, q, k, heads, d = (draw(st.integers(1, 3)) for _ in range(5))
    groups = draw(st.integers(1, 2))
    off = st.sampled_from((0,) * 12 + (1,))
    front = [batch] if draw(st.booleans()) else []
    shapes_ = [
        (*front, q, heads * groups + draw(off), d),
        (*front, k, heads, d + draw(off)),
        (*front, k + draw(off), heads, d),
    ]
    if not draw(st.integers(0, 15)):
        shapes_[draw(st.integers(0, 2))] = (q, d)
    dtype = draw(st.sampled_from((jnp.float32, jnp.bfloat16)))
    args = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes_]
    kwargs = {"is_causal": True} if draw(st.booleans()) else {}
    if draw(st.booleans()) and front:
        mask = (
            draw(st.sampled_from((1, batch))),
            draw(st.sampled_from((1, heads * groups))),
            q,
            k + draw(off),
        )
        kwargs["mask"] = jax.ShapeDtypeStruct(mask, jnp.bool_)
    return args, kwargs


test_nn = family(
    case(NN, "softmax log_softmax", arrays(), optional(st.one_of(axes, st.lists(axes, min_size=1, max_size=2)
                                                                   .map(tuple)))),
    case(NN, "standardize", arrays(), optional(axes)),
    case(NN, "logsumexp logmeanexp", arrays(), axis=optional(axis_or_axes), keepdims=st.booleans()),
    case(NN, "one_hot", arrays(positive, ("int32", "uint8")), st.integers(1, 5), axis=optional(axes)),
    case(NN, "glu", arrays(positive), axis=optional(axes)),
    case(NN, "identity squareplus log1mexp", floats),
    case(NN, "relu relu6 sigmoid soft_sign silu swish log_sigmoid mish softplus hard_sigmoid hard_silu hard_swish selu "
         "hard_tanh sparse_plus sparse_sigmoid elu celu leaky_relu gelu tanh", arrays(dtypes=(*COMMON, "float16"))),
    case(NN, "dot_product_attention", drawn=attention()),
    case(SPECIAL, "erf erfc erfinv expit logit gammaln digamma ndtr ndtri log_ndtr i0 i0e i1 i1e entr gamma loggamma "
         "gammasgn spence expi exp1 erfcx dawsn", floats),
    case(SPECIAL, "xlogy xlog1py kl_div rel_entr beta betaln gammainc gammaincc poch zeta polygamma expn boxcox "
         "boxcox1p", drawn=two),
    case(SPECIAL, "betainc hyp1f1", drawn=three),
    case(SPECIAL, "logsumexp", arrays(), axis=optional(axis_or_axes), keepdims=st.booleans()),
    case(SPECIAL, "bernoulli", st.integers(0, 5)),
    case(JNP, "real imag angle bitwise_count spacing frexp modf i0", arrays(dtypes=(*COMMON, "complex64"))),
    case(JNP, "ldexp divmod", drawn=two),
)  # fmt: skip

ARGUMENTS = {"norm": 1, "expon": 1, "uniform": 1, "laplace": 1, "logistic": 1, "cauchy": 1, "gumbel_l": 1,
             "gumbel_r": 1, "beta": 3, "truncnorm": 3, "nbinom": 3, "binom": 3, "betabinom": 4}  # fmt: skip


METHODS = "pdf logpdf pmf logpmf cdf logcdf sf logsf ppf isf".split()


def distribution(qualname):
    prefix, _, method = qualname.rpartition(".")
    name = prefix.rpartition(".")[2]
    count = ARGUMENTS.get(name, 2)
    drawn = broadcastable(count, ("float32",)).map(lambda xs: (xs, {}))
    return case(prefix, method, drawn=drawn)


#: Of which the arguments do not broadcast.
OF_VECTORS = ("dirichlet", "multinomial", "multivariate_normal")
DISTRIBUTIONS = [
    name
    for name in sorted(LOWERINGS)
    if name.startswith("jax.scipy.stats.")
    and name.rpartition(".")[2] in METHODS
    and name.split(".")[3] not in OF_VECTORS
]
test_distributions = family(*map(distribution, DISTRIBUTIONS))


def test_every_distribution_exists():
    assert len(DISTRIBUTIONS) > 100
    assert not [name for name in DISTRIBUTIONS if not resolve(name)]


INITIALIZERS = "jax.nn.initializers"


def initialized(name):
    """A factory gives a function of a key and a shape: both calls at once."""

    def run(values, named):
        key, shape, *rest = values
        made = ops.apply(f"{INITIALIZERS}.{name}", rest, named, ops.OpContext())
        assert isinstance(made, PartialValue)
        return ops.apply(
            made.func.qualname, [*made.args, key, shape], {}, ops.OpContext()
        )

    def real(key, shape, *args, **kwargs):
        return getattr(jax.nn.initializers, name)(*args, **kwargs)(key, shape)

    return {"function": real, "run": run}


key = st.just(jax.random.key(0))
float_dtypes = optional(st.sampled_from((jnp.float32, jnp.bfloat16)))
in_and_out = {
    "in_axis": optional(axes),
    "out_axis": optional(axes),
    "dtype": float_dtypes,
}

test_initializers = family(
    *(case(INITIALIZERS, name, key, positive, dtype=float_dtypes, **initialized(name))
      for name in ("normal", "uniform", "truncated_normal", "orthogonal", "delta_orthogonal")),
    *(case(INITIALIZERS, name, key, positive, **in_and_out, **initialized(name))
      for name in "lecun_normal lecun_uniform glorot_normal glorot_uniform xavier_normal xavier_uniform he_normal "
      "he_uniform kaiming_normal kaiming_uniform".split()),
    case(INITIALIZERS, "constant", key, positive, st.just(0.5), dtype=float_dtypes, **initialized("constant")),
    case(INITIALIZERS, "variance_scaling", key, positive, st.just(1.0), st.just("fan_in"), st.just("normal"),
         **in_and_out, **initialized("variance_scaling")),
    case(INITIALIZERS, "zeros ones", key, positive, float_dtypes),
)  # fmt: skip
