"""What the oracle tests draw: shapes, dtypes, axes, indices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

FLOATS = ("bfloat16", "float16", "float32")
INTS = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
DTYPES = ("bool", *INTS, *FLOATS, "complex64", "float8_e4m3fn", "int4")
COMMON = ("bool", "int32", "uint8", "float32", "bfloat16")
sizes = st.integers(0, 4)
shapes = st.lists(st.sampled_from((1, 2, 3, 3, 4, 0)), max_size=4).map(tuple)
positive = st.lists(st.integers(1, 4), max_size=4).map(tuple)
axes = st.integers(-5, 4)


def arrays(shape: st.SearchStrategy[tuple[int, ...]] = shapes, dtypes: tuple[str, ...] = COMMON,
           weak: bool = True) -> st.SearchStrategy[jax.ShapeDtypeStruct]:  # fmt: skip
    def make(shape: tuple[int, ...], name: str, is_weak: bool) -> jax.ShapeDtypeStruct:
        is_weak = is_weak and name in ("int32", "float32", "complex64")
        return jax.ShapeDtypeStruct(shape, jnp.dtype(name), weak_type=is_weak)

    return st.builds(
        make, shape, st.sampled_from(dtypes), st.booleans() if weak else st.just(False)
    )


@st.composite
def broadcastable(
    draw: st.DrawFn, count: int = 2, dtypes: tuple[str, ...] = COMMON
) -> list[object]:
    """Arrays that often, not always, broadcast; Python numbers among them."""
    full = draw(positive)
    out: list[object] = []
    for _ in range(count):
        if draw(st.integers(0, 7)) == 0:
            out.append(draw(st.sampled_from((True, 2, 1.5))))
            continue
        shape = list(full[draw(st.integers(0, len(full))) :])
        for i in range(len(shape)):
            roll = draw(st.integers(0, 11))
            shape[i] = 1 if roll < 3 else (draw(sizes) if roll == 11 else shape[i])
        out.append(draw(arrays(st.just(tuple(shape)), dtypes)))
    return out


several = st.lists(axes, max_size=3)
axis_or_axes = st.one_of(
    st.none(), axes, axes, several.map(tuple), several.map(tuple), several
)
