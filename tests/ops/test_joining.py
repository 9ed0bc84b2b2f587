"""Joining and creation against JAX."""

from __future__ import annotations

import jax.numpy as jnp
from hypothesis import strategies as st

from tests.ops.strategies import DTYPES, arrays, axes, broadcastable, positive, shapes
from tests.ops.tables import case, family, optional

JNP = "jax.numpy"


@st.composite
def joinable(draw):
    """A few arrays of one rank that mostly differ in one dimension only."""
    shape = draw(positive)
    where = draw(axes)
    out = []
    for _ in range(draw(st.integers(1, 3))):
        one = list(shape)
        if one and draw(st.booleans()):
            one[where % len(one)] = draw(st.integers(0, 4))
        if draw(st.integers(0, 9)) == 0:
            one = draw(positive)
        out.append(draw(arrays(st.just(tuple(one)))))
    return out, where


@st.composite
def selections(draw):
    """Conditions and choices, mostly as many and of shapes that broadcast."""
    count = draw(st.integers(1, 3))
    conditions = draw(broadcastable(count, ("bool",)))
    choices = draw(broadcastable(count + draw(st.sampled_from((0,) * 7 + (1,)))))
    return [conditions, choices, *draw(st.sampled_from(((), (0,), (0.0,))))], {}


filled_with = st.one_of(st.just(1), st.just(1.5), st.just(True), arrays(positive))
dtypes = optional(st.sampled_from([jnp.dtype(name) for name in DTYPES]))
few_dtypes = optional(st.sampled_from([jnp.dtype("float32"), jnp.dtype("int8")]))
numbers = st.one_of(
    st.integers(-4, 9),
    st.integers(-4, 9),
    st.floats(0, 4),
    st.sampled_from((1e-308, -0.5)),
)
vectors = arrays(st.lists(st.integers(1, 3), max_size=1).map(tuple))
rows = st.lists(
    st.one_of(st.integers(0, 3), st.floats(0, 1), arrays(st.just(()))), max_size=3
)
counts = st.integers(0, 4)


def along(drawn):
    return [drawn[0]], {"axis": drawn[1]}


test_joining = family(
    case(JNP, "concatenate stack", drawn=joinable().map(along), times=2),
    case(
        JNP,
        "concatenate",
        drawn=joinable().map(lambda drawn: ([drawn[0]], {"axis": None})),
    ),
    case(
        JNP,
        "vstack hstack dstack column_stack",
        drawn=joinable().map(lambda drawn: ([drawn[0]], {})),
        times=2,
    ),
    case(
        JNP,
        "append",
        drawn=joinable().map(
            lambda drawn: ([drawn[0][0], drawn[0][-1]], {"axis": drawn[1]})
        ),
    ),
    case("jax.lax", "select", arrays(dtypes=("bool",)), arrays(), arrays()),
    case(JNP, "select", drawn=selections()),
)

test_creation = family(
    case(JNP, "zeros ones empty", st.one_of(shapes, st.integers(-1, 4)), dtypes),
    case(JNP, "full", shapes, filled_with, few_dtypes),
    case("jax.lax", "full", shapes, filled_with, few_dtypes),
    case(JNP, "zeros_like ones_like asarray array", filled_with, dtype=few_dtypes),
    case(JNP, "array asarray", rows, times=2),
    case(JNP, "array asarray", st.lists(rows, min_size=1, max_size=2)),
    case(JNP, "arange", drawn=st.lists(numbers, min_size=1, max_size=3).map(lambda args: (args, {})), times=3),
    case(JNP, "linspace", st.one_of(st.integers(0, 3), st.floats(0, 3)), st.just(1.0), st.integers(0, 6)),
    case(JNP, "linspace", arrays(positive), st.one_of(st.just(1.0), arrays(positive)), st.integers(0, 6),
         axis=optional(st.just(-1)), endpoint=optional(st.booleans())),
    case(JNP, "linspace logspace geomspace",
         drawn=st.tuples(broadcastable(), st.fixed_dictionaries({}, optional={"num": st.integers(-1, 6),
               "axis": st.integers(-4, 3), "endpoint": st.booleans(), "dtype": st.just(jnp.dtype("bfloat16"))}))
         .map(lambda pair: (pair[0], pair[1]))),
    case(JNP, "eye tri", counts, st.one_of(st.none(), counts), dtype=few_dtypes),
    case(JNP, "identity", counts, few_dtypes),
    case(JNP, "meshgrid", vectors, vectors, vectors, indexing=optional(st.sampled_from(("xy", "ij", "x")))),
    case(JNP, "meshgrid", vectors, sparse=optional(st.booleans())),
)  # fmt: skip
