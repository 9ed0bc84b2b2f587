"""Sorting, searching and sets against JAX."""

from __future__ import annotations

import jax.numpy as jnp
from hypothesis import strategies as st

from tests.ops.strategies import COMMON, arrays, axes, positive, shapes
from tests.ops.tables import case, family, optional

LAX, JNP = "jax.lax", "jax.numpy"
vectors = st.integers(0, 5).map(lambda n: (n,))
some_vector = st.one_of(arrays(vectors), arrays(vectors), arrays())


@st.composite
def alike(draw, minimum=1):
    """Arrays of mostly one shape."""
    shape = draw(positive)
    count = draw(st.integers(minimum, 3))
    return tuple(
        draw(arrays(st.just(shape) if draw(st.integers(0, 9)) else shapes))
        for _ in range(count)
    )


test_ordering = family(
    case(LAX, "sort", arrays(), dimension=optional(axes)),
    case(LAX, "sort", alike(), dimension=optional(axes)),
    case(
        LAX,
        "sort_key_val",
        drawn=st.tuples(alike(2), axes).map(
            lambda d: ([*d[0][:2]], {"dimension": d[1]})
        ),
    ),
    case(LAX, "top_k", arrays(), st.integers(-1, 4), axis=optional(axes)),
    case(
        LAX,
        "approx_max_k approx_min_k",
        arrays(positive),
        st.integers(1, 4),
        optional(axes),
    ),
    case(
        LAX,
        "cumsum cumprod cummax cummin cumlogsumexp",
        arrays(),
        optional(axes),
        reverse=st.booleans(),
    ),
    case(LAX, "argmax argmin", arrays(), axes, st.sampled_from((jnp.int32, jnp.uint8))),
    case(
        JNP,
        "partition argpartition",
        arrays(positive, ("float32", "int32")),
        st.just(0),
        optional(axes),
    ),
    case(JNP, "sort argsort", arrays(), optional(st.one_of(st.none(), axes))),
    case(JNP, "searchsorted", some_vector, arrays()),
    case(JNP, "digitize", arrays(), some_vector),
    case(JNP, "lexsort", alike(), optional(axes)),
    case(JNP, "isin", arrays(), arrays()),
    case(
        JNP,
        "nonzero argwhere flatnonzero",
        arrays(shapes, COMMON),
        size=st.integers(0, 4),
    ),
    case(JNP, "unique", arrays(), size=st.integers(0, 4)),
    case(JNP, "union1d", arrays(), arrays(), size=st.integers(1, 4)),
    case(JNP, "setdiff1d intersect1d", arrays(), arrays(), size=st.integers(1, 4)),
)
