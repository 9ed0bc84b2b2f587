"""Segments, insertions, gathers by axis, images and matrix-vector products against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

from tests.ops.oracle import eager
from tests.ops.strategies import arrays, axes, positive, shapes
from tests.ops.tables import case, family, optional

JNP = "jax.numpy"
small = st.lists(st.sampled_from((2, 2, 2, 3, 1)), max_size=3).map(tuple)
ints = arrays(positive, ("int32", "int32", "uint8", "float32", "bool"))


@st.composite
def segments(draw):
    data = draw(arrays(positive))
    length = data.shape[0] if data.shape else 2
    ids = (
        (length + draw(st.sampled_from((0, 0, 0, 0, 1))),)
        if draw(st.integers(0, 9))
        else draw(positive)
    )
    return [data, jax.ShapeDtypeStruct(ids, jnp.int32)], {
        "num_segments": draw(st.integers(1, 4))
    }


@st.composite
def along_axis(draw):
    """Indices that mostly have the array's shape but for one axis."""
    x, axis = draw(arrays(positive)), draw(axes)
    shape = [
        draw(st.sampled_from((n, n, n, 1, 2))) if draw(st.integers(0, 3)) == 0 else n
        for n in x.shape
    ]
    return [x, draw(arrays(st.just(tuple(shape)), ("int32", "int32", "float32")))], {
        "axis": axis
    }


@st.composite
def pieces(draw):
    x = draw(arrays(positive))
    conditions = [
        jax.ShapeDtypeStruct(x.shape, jnp.dtype("bool"))
        for _ in range(draw(st.integers(1, 2)))
    ]
    return [
        x,
        conditions,
        [draw(st.sampled_from((0, 1.5, jnp.exp))) for _ in conditions],
    ], {}


@st.composite
def scaled(draw):
    """An image, a new size for some of its dimensions, and where it goes."""
    image = draw(arrays(positive, ("float32", "bfloat16", "int32")))
    which = sorted(
        draw(
            st.sets(
                st.integers(0, max(len(image.shape) - 1, 0)), max_size=len(image.shape)
            )
        )
    )
    shape = tuple(
        draw(st.integers(1, 4)) if i in which else n for i, n in enumerate(image.shape)
    )
    if not draw(st.integers(0, 7)):
        shape = draw(positive)
    numbers = jax.ShapeDtypeStruct((len(which),), jnp.float32)
    return [
        image,
        shape,
        which,
        numbers,
        numbers,
        draw(st.sampled_from(("linear", "cubic"))),
    ], {}


vectors = arrays(st.integers(0, 5).map(lambda n: (n,)))

test_indexing = family(
    case("jax.ops", "segment_sum segment_prod segment_max segment_min", drawn=segments()),
    case(JNP, "take", arrays(), ints, axis=st.one_of(st.none(), axes), mode=st.just("clip")),
    case(JNP, "take_along_axis", drawn=along_axis()),
    case(JNP, "extract", arrays(shapes, ("bool",)), arrays(), size=st.integers(0, 3)),
    case(JNP, "insert", arrays(positive), st.just(0), st.just(1), axis=optional(axes)),
    case(JNP, "delete", arrays(positive), st.just(0), axis=optional(axes)),
    case(JNP, "put place", drawn=st.one_of(
        st.tuples(arrays(positive), arrays(positive, ("int32",)), arrays(positive))
        .map(lambda drawn: (list(drawn), {"inplace": False})))),
    case(JNP, "trim_zeros", vectors, function=eager(jnp.trim_zeros)),
    case(JNP, "choose", arrays(positive, ("int32", "uint8")), st.lists(arrays(positive), min_size=1, max_size=2),
         mode=st.sampled_from(("wrap", "clip"))),
    case(JNP, "ravel_multi_index", st.lists(arrays(small, ("int32", "uint8")), min_size=1, max_size=3),
         st.lists(st.integers(1, 4), min_size=1, max_size=3), mode=st.just("wrap")),
    case(JNP, "piecewise", drawn=pieces()),
    case(JNP, "apply_over_axes", st.sampled_from((jnp.sum, jnp.max)), arrays(positive),
         st.lists(axes, min_size=1, max_size=2).map(tuple)),
    case(JNP, "apply_along_axis", st.sampled_from((jnp.sum, jnp.cumsum, jnp.exp)), axes, arrays(positive)),
    case("jax.image", "scale_and_translate", drawn=scaled()),
    case(JNP, "matvec vecmat", arrays(small), arrays(small)),
    case("jax.image", "resize", arrays(positive, ("float32", "uint8", "bfloat16")), positive,
         st.sampled_from(("linear", "nearest"))),
)  # fmt: skip
