"""``jax.lax`` functions of single elements, selections, reductions and products against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

from tests.ops.strategies import (
    COMMON,
    FLOATS,
    arrays,
    axes,
    broadcastable,
    positive,
    shapes,
)
from tests.ops.tables import case, family, optional

LAX, JNP = "jax.lax", "jax.numpy"
floats = arrays(shapes, ("float32", "bfloat16"))
pairs = broadcastable(2, COMMON).filter(lambda xs: all(hasattr(x, "shape") for x in xs))


@st.composite
def same_kind(draw):
    """Two arrays of one dtype that often broadcast, in the sense of ``lax``."""
    x, y = draw(pairs)
    y = jax.ShapeDtypeStruct(y.shape, x.dtype) if draw(st.integers(0, 9)) else y
    return [jax.ShapeDtypeStruct(x.shape, x.dtype), y], {}


@st.composite
def selections(draw):
    shape = draw(positive)

    def like(dtype):
        other = (
            draw(st.one_of(st.just(shape), st.just(shape), shapes))
            if not draw(st.integers(0, 5))
            else shape
        )
        return jax.ShapeDtypeStruct(other, jnp.dtype(dtype))

    which = (
        like("bool")
        if draw(st.booleans())
        else jax.ShapeDtypeStruct((), jnp.dtype("bool"))
    )
    dtype = draw(st.sampled_from(("float32", "int32")))
    return [
        which,
        like(dtype),
        like(draw(st.sampled_from((dtype, dtype, "float32")))),
    ], {}


@st.composite
def clamps(draw):
    x = draw(arrays(st.one_of(positive, st.just(())), ("float32", "int32"), weak=False))
    bounds = [
        jax.ShapeDtypeStruct(
            draw(st.sampled_from((x.shape, x.shape, (), (2,), (2, 3)))),
            draw(st.sampled_from((x.dtype,) * 4)),
        )
        for _ in range(2)
    ]
    return [bounds[0], x, bounds[1]], {}


small = st.lists(st.sampled_from((2, 2, 2, 3, 1)), max_size=4).map(tuple)


@st.composite
def ragged(draw):
    m, k, n, groups = (draw(st.integers(1, 4)) for _ in range(4))
    shapes_ = [(m, k), (groups, k + draw(st.sampled_from((0, 0, 0, 1))), n)]
    args = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes_]
    return [
        *args,
        jax.ShapeDtypeStruct(
            (groups + draw(st.sampled_from((0, 0, 0, 1))),), jnp.int32
        ),
    ], {}


test_lax = family(
    case(LAX, "exp exp2 log log1p expm1 tanh logistic sin cos tan sqrt rsqrt cbrt abs sign floor ceil square is_finite "
         "erf erfc erf_inv neg acos asin atan acosh asinh atanh cosh sinh reciprocal conj lgamma digamma bessel_i0e "
         "bessel_i1e bitwise_not clz population_count real imag", floats),
    case(LAX, "bitwise_not clz population_count", arrays(shapes, ("int32", "uint8", "bool"))),
    case(LAX, "round", floats),
    case(LAX, "reduce_precision", floats, st.just(5), st.just(4)),
    case(LAX, "integer_pow", floats, st.integers(0, 3)),
    case(LAX, "add sub mul div max min rem pow atan2 nextafter bitwise_and bitwise_or bitwise_xor shift_left "
         "shift_right_arithmetic shift_right_logical eq ne lt le gt ge complex igamma igammac polygamma zeta",
         drawn=same_kind()),
    case(LAX, "add sub mul div max min pow eq", drawn=pairs.map(lambda xs: (list(xs), {}))),
    case(LAX, "select_n select", drawn=selections()),
    case(LAX, "clamp", drawn=clamps()),
    case(LAX, "clamp", st.just(0.0), floats, st.just(1.0)),
    case(LAX, "bitcast_convert_type", arrays(shapes, ("float32", "int32", "uint8", "bfloat16", "int16", "bool")),
         st.sampled_from([jnp.dtype(name) for name in ("float32", "uint32", "uint8", "int16", "bfloat16")])),
    case(LAX, "reduce_max reduce_min reduce_sum reduce_prod reduce_and reduce_or reduce_xor",
         arrays(shapes, ("float32", "int32", "bool", *FLOATS)), st.lists(axes, max_size=2).map(tuple)),
    case(LAX, "batch_matmul", arrays(small), arrays(small)),
    case(LAX, "batch_matmul dot", arrays(st.just((2, 2)), ("int4", "uint4", "int8", "float8_e4m3fn", "bfloat16")),
         arrays(st.just((2, 2)), ("int8", "float16", "float8_e5m2"))),
    case(LAX, "ragged_dot", drawn=ragged()),
    case(LAX, "convert_element_type", arrays(), st.sampled_from((jnp.float32, jnp.int32, jnp.bfloat16))),
    case(LAX, "full_like", arrays(), st.just(0)),
    case(LAX, "iota", st.sampled_from((jnp.float32, jnp.int32)), st.integers(0, 4)),
    case(LAX, "broadcasted_iota", st.just(jnp.int32), positive, st.just(0)),
    case(LAX, "rng_uniform", arrays(st.just(()), ("float32", "int32")), arrays(st.just(()), ("float32",)), shapes),
    case(LAX, "broadcast_shapes", shapes, shapes),
    case(JNP, "broadcast_shapes", shapes, shapes, optional(shapes), times=3),
    case("jax.Array", "view", arrays(shapes, ("float32", "int32", "uint8", "bfloat16", "int16", "bool", "complex64")),
         optional(st.sampled_from([jnp.dtype(n) for n in ("float32", "uint32", "uint8", "int16", "bfloat16", "bool")])),
         function=lambda x, *dtype: x.view(*dtype)),
    case(LAX, "collapse", arrays(), st.integers(0, 3), st.one_of(st.none(), st.integers(0, 4))),
)  # fmt: skip
