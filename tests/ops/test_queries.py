"""Questions about arrays and dtypes, scalar types, placement, calls made for their effect, against the real ones."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jax.experimental import checkify
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from shardlint.ops.queries import SCALARS
from tests.ops.oracle import eager
from tests.ops.strategies import DTYPES, arrays, axes, broadcastable, positive, shapes
from tests.ops.tables import case, family, optional, resolve

JNP, NP = "jax.numpy", "numpy"
dtypes = st.sampled_from([jnp.dtype(name) for name in DTYPES if name != "int4"])
one = broadcastable(1, DTYPES).map(lambda xs: (xs, {}))
two = broadcastable(2).map(lambda xs: (xs, {}))
numbers = st.sampled_from((True, 2, 1.5, 1j))


def concrete(shape: tuple[int, ...], name: str) -> np.ndarray:
    return np.ones(shape, name)


numpy_dtypes = (
    "bool",
    "int8",
    "int32",
    "int64",
    "uint16",
    "float16",
    "float32",
    "float64",
    "complex64",
)
ones = st.builds(concrete, shapes, st.sampled_from(numpy_dtypes))
floats = st.builds(concrete, positive, st.just("float32"))

test_jax_queries = family(
    case(JNP, "array_equal array_equiv", drawn=two),
    case(JNP, "iscomplexobj isrealobj isscalar ndim shape iterable", drawn=one),
    case(JNP, "size", arrays(), optional(axes)),
    case(JNP, "issubdtype can_cast promote_types", dtypes, dtypes),
    case(
        JNP,
        "isdtype",
        dtypes,
        st.sampled_from(("integral", "real floating", "numeric", jnp.dtype("int32"))),
    ),
    case(JNP, "dtype", dtypes),
    case(
        JNP,
        "result_type",
        st.one_of(arrays(), dtypes, numbers),
        st.one_of(arrays(), dtypes, numbers),
    ),
    case("jax.dtypes", "result_type", arrays(), arrays()),
    *(
        case(JNP, name, arrays(), function=eager(resolve(f"{JNP}.{name}")))
        for name in ("array_str", "array_repr")
    ),
    case(JNP, " ".join(SCALARS), drawn=one),
    case(JNP, " ".join(SCALARS), st.sampled_from((1j, True, 1.5))),
    case(JNP, " ".join(SCALARS), st.lists(st.sampled_from((1, 0, 2)), max_size=3)),
)
test_numpy_queries = family(
    case(NP, "array_equal array_equiv", ones, ones),
    case(NP, "iscomplexobj isrealobj isscalar iterable", st.one_of(ones, numbers)),
    case(NP, "array_str array_repr", ones),
    case(NP, "issubdtype", dtypes, st.sampled_from([jnp.dtype("float32"), jnp.dtype("int32")])),
    case(NP, "dtype", st.sampled_from([np.dtype(name) for name in numpy_dtypes])),
    case(NP, "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 "
         "single double", st.one_of(ones, st.just(1), st.just(True))),
    case(NP, "broadcast_shapes", shapes, shapes),
    case(NP, "unstack", ones, axis=optional(axes)),
    case(f"{NP}.testing", "assert_allclose assert_array_equal assert_equal assert_array_almost_equal "
         "assert_almost_equal", drawn=floats.map(lambda x: ([x, x], {}))),
    case(f"{NP}.testing", "assert_array_almost_equal_nulp", drawn=floats.map(lambda x: ([x, x], {}))),
    case(f"{NP}.testing", "assert_array_less", drawn=floats.map(lambda x: ([x, x + 1], {}))),
    case(f"{NP}.testing", "assert_approx_equal", st.just(1.5), st.just(1.5)),
    case(f"{NP}.testing", "assert_", st.just(True)),
)  # fmt: skip


def discarded(value: object) -> None:
    """A callback that wants nothing."""


def checked(x: object) -> object:
    return checkify.checkify(lambda: checkify.check(jnp.all(x), "all"))()[1]


AUTO, EXPLICIT = (
    NamedSharding(jax.make_mesh((1,), ("d",), axis_types=(kind,)), P())
    for kind in (AxisType.Auto, AxisType.Explicit)
)

test_placement = family(
    case("jax", "device_put", arrays(), st.just(AUTO)),
    case("jax.lax", "with_sharding_constraint", arrays(), st.just(AUTO)),
    case("jax.sharding", "reshard", arrays(), st.just(EXPLICIT)),
    case("jax", "reshard", arrays(), st.just(EXPLICIT)),
    case("jax", "device_get", st.one_of(ones, st.lists(ones, max_size=2))),
    case("jax", "block_until_ready", ones),
    case("jax.ad_checkpoint", "checkpoint_name", arrays(), st.just("name")),
    case("jax.experimental.multihost_utils", "broadcast_one_to_all", ones),
)
test_effects = family(
    case("jax.debug", "print", st.just("{}"), arrays()),
    case("jax.debug", "callback", st.just(discarded), arrays()),
    case("jax.debug", "visualize_array_sharding", arrays(st.just((2, 2))),
         function=eager(jax.debug.visualize_array_sharding)),
    case("jax.debug", "inspect_array_sharding", arrays(), callback=st.just(discarded)),
    case("jax.experimental.checkify", "check debug_check", arrays(), function=checked),
)  # fmt: skip
