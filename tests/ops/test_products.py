"""Products, joins and makers of arrays once more, with symbols for sizes; casts, aliases and what is rarely called."""

from __future__ import annotations

import jax.numpy as jnp
from hypothesis import strategies as st

from tests.ops.strategies import (
    DTYPES,
    arrays,
    axes,
    axis_or_axes,
    broadcastable,
    positive,
    shapes,
)
from tests.ops.tables import case, family, optional

JNP, LAX = "jax.numpy", "jax.lax"
small = st.lists(st.sampled_from((2, 2, 2, 3, 1)), max_size=3).map(tuple)
square = st.lists(st.sampled_from((2, 2, 2, 2, 3)), min_size=1, max_size=3).map(tuple)
two = broadcastable(2).map(lambda xs: (xs, {}))
lists = st.lists(arrays(square), min_size=1, max_size=3)
dtypes = st.sampled_from([jnp.dtype(name) for name in ("float32", "int32", "bfloat16")])

test_products = family(
    case(JNP, "matmul dot inner vdot outer vecdot cross", arrays(small), arrays(small)),
    case(JNP, "tensordot", arrays(small), arrays(small), st.integers(0, 2)),
    case(
        JNP,
        "tensordot",
        arrays(small),
        arrays(small),
        st.tuples(st.tuples(axes), st.tuples(axes)),
    ),
    case(LAX, "dot", arrays(small), arrays(small)),
    case(JNP, "concatenate concat stack", lists, axis=optional(axes)),
    case(JNP, "vstack hstack dstack column_stack", lists),
    case(JNP, "append", arrays(square), arrays(square), axis=optional(axes)),
    case(LAX, "concatenate", lists, st.integers(0, 2)),
)

test_makers = family(
    case(JNP, "zeros ones empty", shapes, optional(dtypes)),
    case(
        JNP,
        "full",
        positive,
        st.one_of(st.just(1), st.just(1.5), arrays(positive)),
        optional(dtypes),
    ),
    case(JNP, "zeros_like ones_like empty_like", arrays(), optional(dtypes)),
    case(JNP, "full_like", arrays(), st.just(0), optional(dtypes)),
    case(JNP, "array asarray", arrays()),
    case(JNP, "array asarray", lists),
    case(JNP, "logspace geomspace", st.just(1.0), st.just(3.0), st.integers(1, 5)),
    case(JNP, "kaiser", st.integers(1, 4), st.just(14.0)),
    case(JNP, "meshgrid", arrays(square), arrays(square)),
)

test_others = family(
    case(
        JNP,
        "around bitwise_invert iscomplex conjugate asin acos atan asinh acosh atanh",
        arrays(dtypes=DTYPES),
    ),
    case(
        JNP,
        "bitwise_left_shift bitwise_right_shift atan2 array_equal array_equiv",
        drawn=two,
    ),
    case(JNP, "astype", arrays(dtypes=DTYPES), dtypes),
    case(JNP, "cumulative_sum cumulative_prod", arrays(), axis=optional(axes)),
    case(JNP, "setxor1d", arrays(), arrays()),
    case(
        JNP,
        "compress",
        arrays(shapes, ("bool",)),
        arrays(),
        axis=optional(axes),
        size=st.integers(0, 2),
    ),
    case(
        JNP,
        "put_along_axis",
        arrays(),
        arrays(dtypes=("int32",)),
        st.just(0),
        axes,
        inplace=st.just(False),
    ),
    case(JNP, "median", arrays(), axis=optional(axis_or_axes)),
    case(LAX, "stop_gradient optimization_barrier", arrays()),
)
