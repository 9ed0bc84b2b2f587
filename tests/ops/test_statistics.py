"""Quantiles, histograms, differences and the like against JAX."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.ops.strategies import COMMON, arrays, axes, axis_or_axes, positive
from tests.ops.tables import case, family, optional

JNP = "jax.numpy"
vectors = st.integers(0, 5).map(lambda n: (n,))
vector = st.one_of(arrays(vectors), arrays(vectors), arrays(vectors), arrays())
same_vectors = st.integers(1, 4).flatmap(
    lambda n: st.tuples(arrays(st.just((n,))), arrays(st.just((n,))))
)


@st.composite
def weighted(draw):
    x, axis = draw(arrays(positive)), draw(st.one_of(st.none(), axes))
    shape = x.shape
    if draw(st.booleans()) and axis is not None and -len(shape) <= axis < len(shape):
        shape = (shape[axis],)
    weights = draw(st.one_of(arrays(st.just(shape)), arrays(positive)))
    return [x], {"axis": axis, "weights": weights, "keepdims": draw(st.booleans())}


test_statistics = family(
    case(JNP, "quantile percentile nanquantile nanpercentile", arrays(dtypes=COMMON),
         st.one_of(st.just(0.5), arrays(vectors, ("float32",)), arrays()), axis=optional(axis_or_axes),
         keepdims=st.booleans()),
    case(JNP, "average", arrays(), axis=optional(axis_or_axes), keepdims=st.booleans()),
    case(JNP, "average", drawn=weighted()),
    case(JNP, "histogram", arrays(), optional(st.integers(1, 5))),
    case(JNP, "bincount", vector, length=st.integers(0, 5)),
    case(JNP, "cov corrcoef", arrays(positive), rowvar=st.booleans()),
    case(JNP, "diff", arrays(), optional(st.integers(-1, 4)), axis=optional(axes)),
    case(JNP, "ediff1d", arrays()),
    case(JNP, "gradient", arrays(), axis=optional(st.one_of(st.none(), axes))),
    case(JNP, "trapezoid", arrays(), axis=optional(axes)),
    case(JNP, "interp", arrays(), vector, vector),
    case(JNP, "interp", drawn=st.tuples(arrays(), same_vectors).map(lambda d: ([d[0], *d[1]], {}))),
    case(JNP, "polyval", vector, arrays()),
    case(JNP, "polyfit", drawn=st.tuples(same_vectors, st.integers(0, 3)).map(lambda d: ([*d[0], d[1]], {}))),
    case(JNP, "convolve correlate", vector, vector, mode=optional(st.sampled_from(("full", "same", "valid")))),
    case(JNP, "unwrap", arrays(), axis=optional(axes)),
    case(JNP, "median nanmedian", arrays(), axis=optional(axis_or_axes), keepdims=st.booleans()),
)  # fmt: skip
