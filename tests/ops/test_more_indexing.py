"""Segments, insertions, gathers by axis, images and matrix-vector products against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

from tests.ops.strategies import arrays, axes, positive, shapes
from tests.ops.tables import case, family, optional

JNP = "jax.numpy"
small = st.lists(st.sampled_from((2, 2, 2, 3, 1)), max_size=3).map(tuple)
ints = arrays(positive, ("int32", "int32", "uint8", "float32", "bool"))


@st.composite
def segments(draw):
    data = draw(arrays(positive))
    length = data.shape[0] if data.shape else 2
    ids = (length + draw(st.sampled_from((0, 0, 0, 0, 1))),) if draw(st.integers(0, 9)) else draw(positive)
    return [data, jax.ShapeDtypeStruct(ids, jnp.int32)], {"num_segments": draw(st.integers(1, 4))}


@st.composite
def along_axis(draw):
    """Indices that mostly have the array's shape but for one axis."""
    x, axis = draw(arrays(positive)), draw(axes)
    shape = [draw(st.sampled_from((n, n, n, 1, 2))) if draw(st.integers(0, 3)) == 0 else n for n in x.shape]
    return [x, draw(arrays(st.just(tuple(shape)), ("int32", "int32", "float32")))], {"axis": axis}


test_indexing = family(
    case("jax.ops", "segment_sum segment_prod segment_max segment_min", drawn=segments()),
    case(JNP, "take", arrays(), ints, axis=st.one_of(st.none(), axes), mode=st.just("clip")),
    case(JNP, "take_along_axis", drawn=along_axis()),
    case(JNP, "extract", arrays(shapes, ("bool",)), arrays(), size=st.integers(0, 3)),
    case(JNP, "insert", arrays(positive), st.just(0), st.just(1), axis=optional(axes)),
    case(JNP, "delete", arrays(positive), st.just(0), axis=optional(axes)),
    case(JNP, "matvec vecmat", arrays(small), arrays(small)),
    case("jax.image", "resize", arrays(positive, ("float32", "uint8", "bfloat16")), positive,
         st.sampled_from(("linear", "nearest"))),
)  # fmt: skip
