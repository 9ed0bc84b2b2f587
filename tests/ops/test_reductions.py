"""Reductions, cumulative functions and arg-extrema against JAX."""

from __future__ import annotations

import jax.numpy as jnp
from hypothesis import strategies as st

from tests.ops.strategies import DTYPES, arrays, axes, axis_or_axes, shapes
from tests.ops.tables import case, family, optional

JNP = "jax.numpy"
REDUCE = "sum prod mean std var max min amax amin all any nansum nanprod nanmean nanstd nanvar nanmax nanmin ptp"
wide = arrays(shapes, DTYPES)

test_reductions = family(
    case(JNP, REDUCE, wide, axis=optional(axis_or_axes), keepdims=st.booleans()),
    case(JNP, "count_nonzero", wide, axis=optional(axis_or_axes), keepdims=st.booleans()),
    case(JNP, "min max sum any", arrays(), arrays()),
    case(JNP, "sum max", arrays(), axis=axis_or_axes, where=arrays(dtypes=("bool",)), initial=st.just(0)),
    case(JNP, "sum mean", arrays(), dtype=st.sampled_from([jnp.dtype(name) for name in ("float32", "bfloat16")])),
    case(JNP, "argmax argmin nanargmax nanargmin", arrays(), axis=optional(st.one_of(st.none(), axes)),
         keepdims=st.booleans()),
    case(JNP, "cumsum cumprod nancumsum nancumprod", wide, axis=optional(st.one_of(st.none(), axes))),
)  # fmt: skip
