"""The rest of ``jax.numpy``."""

from __future__ import annotations

import numpy as np

from tests.semantics.call import Call, Function, numbers, positions
from tests.semantics.calls.arrays import CUBE, ROW, SQUARE, A
from tests.semantics.calls.entries import MASK, OTHER, POSITIVE, WHOLE, X, Y, each

_N = "jax.numpy"
HOLES = np.where(numbers((4, 6), seed=8) > 1, np.nan, numbers((4, 6), seed=9))
KNOTS = np.sort(numbers((5,), -1.5, 1.5, seed=5))
HEIGHTS = numbers((5,), seed=6)

_FLOATS = [
    *each(_N, "angle", X, smooth=False),
    *each(_N, "angle", X + 1j * POSITIVE),
    *each(_N, "fmax fmin logaddexp2", X, Y),
    *each(
        _N, "modf signbit isposinf isneginf isreal iscomplex iscomplexobj isrealobj", X
    ),
    *each(_N, "isreal iscomplex", X + 1j * POSITIVE),
    *each(_N, "frexp", X, smooth=False),
    *each(_N, "ldexp", X, OTHER),
    *each(_N, "gcd lcm", WHOLE, OTHER),
    *each(_N, "bitwise_count", WHOLE),
    *each("jax.lax", "reciprocal", X),
    *each(_N, "allclose array_equal array_equiv", X, X),
    *each(_N, "isin", WHOLE, np.asarray([1, 4])),
]
_CALCULUS = [
    *each(_N, "diff", A),
    *each(_N, "diff", A, 2, 0, 1.0, A[:1]),
    *each(_N, "ediff1d", A, 1.0, ROW),
    *each(_N, "gradient", A),
    *each(_N, "gradient", A, 0.5, axis=1),
    *each(_N, "gradient", ROW, np.sort(numbers((6,), seed=7))),
    *each(_N, "unwrap", 5 * A),
    *each(_N, "trapezoid", A),
    *each("jax.scipy.integrate", "trapezoid", A, axis=0),
    *each(_N, "trapezoid", A, ROW),
    *each(_N, "cumulative_sum cumulative_prod", A, axis=1, include_initial=True),
    *each(_N, "sum prod max min", A > 0, 1, initial=1, where=A < 1, smooth=False),
    *each(_N, "max min", A, 1, initial=0),
    *each(_N, "sum prod", A > 0, 0, dtype=bool, smooth=False),
    *each(_N, "nancumsum nancumprod", HOLES, 1, smooth=False),
    *each(_N, "interp", X, KNOTS, HEIGHTS),
    *each(_N, "interp", X, KNOTS, HEIGHTS, -1.0, "extrapolate"),
    *each(_N, "interp", X, KNOTS, HEIGHTS, period=3.5),
    *each(_N, "cross", numbers((4, 3)), numbers((4, 3), seed=1)),
    *each(f"{_N}.linalg", "cross", numbers((4, 3)), numbers((4, 3), seed=1)),
    *each(_N, "polyval", ROW, X),
    *each(_N, "polyval", np.zeros(0), X, smooth=False),
    *each(_N, "interp", WHOLE, KNOTS, positions((5,), 9)),
    *each(_N, "average", X, (1, 0), POSITIVE.T),
    *each(_N, "average", X, 0, POSITIVE[:, 0]),
    *each(_N, "average", X, 0, POSITIVE),
    *each(_N, "bincount", OTHER.ravel() > 2, length=2),
    *each(_N, "polyadd polysub", ROW, Y),
    *each(_N, "polyder", ROW, 2),
    *each(_N, "polyint", ROW),
    *each(_N, "vander", Y),
]
_STATISTICS = [
    *each(_N, "quantile percentile", A, 0.3, 1),
    *each(_N, "quantile", A, np.asarray([0.1, 0.75]), 0, keepdims=True),
    *(
        Call(f"{_N}.quantile", (A, 0.3, 1), {"method": name}, smooth=False)
        for name in ("lower", "higher", "nearest")
    ),
    *each(_N, "median", A, 1),
    *each(_N, "median", A),
    *each(_N, "nanquantile nanpercentile", HOLES, 0.3, 1, smooth=False),
    *each(_N, "nanmedian nanvar nanstd", HOLES, 1, smooth=False),
    *each("jax.scipy.stats", "sem", A),
    *each(_N, "cov corrcoef", A),
    *each(_N, "cov", A, fweights=np.asarray([1, 2, 1, 1, 3, 1]), aweights=np.abs(ROW)),
    *each(_N, "histogram", A, 4, smooth=False),
    *each(_N, "histogram", A, KNOTS, weights=np.abs(A), density=True, smooth=False),
    *each(_N, "histogram_bin_edges", A, 4, smooth=False),
    *each(_N, "digitize", X, KNOTS),
    *each("jax.scipy.stats", "rankdata", A),
    *each("jax.scipy.stats", "rankdata", np.round(A), "min", axis=1),
]
_SELECTION = [
    *each(_N, "select", [X > 1, X > 0], [X, POSITIVE], 2.0),
    *each(
        _N,
        "piecewise",
        X,
        [X < 0, X > 1],
        [-1.0, Function("jax.numpy.sin"), Function("jax.numpy.square")],
    ),
    *each(_N, "choose", WHOLE, [X, POSITIVE], mode="clip"),
    *each(_N, "place", X, MASK, Y, inplace=False),
    *each(_N, "put", X, np.asarray([1, 5]), Y[:2], inplace=False),
    *each(_N, "nonzero flatnonzero argwhere", WHOLE > 3, size=9),
    *each(_N, "compress", np.asarray([True, False, True]), X, 0, size=2),
    *each(_N, "extract", MASK, X, size=9),
    *each(_N, "extract", MASK.ravel()[:5], X, size=4),
    *each(_N, "argwhere", np.asarray(3), size=2),
    *each(_N, "unique", np.zeros(0), size=2, fill_value=1.5),
    *each(_N, "unique", np.zeros(0), True, True, True, size=0),
    *each(_N, "unravel_index", positions((3,), 12), (3, 4)),
    *each(
        _N,
        "ravel_multi_index",
        (positions((3,), 3), positions((3,), 4)),
        (3, 4),
        mode="clip",
    ),
    *each(_N, "unique unique_values unique_counts", WHOLE, size=10),
    *each(_N, "unique", WHOLE.ravel(), True, True, True, size=5),
    *each(_N, "union1d", WHOLE, OTHER, size=12),
    *each(_N, "partition", A, 2),
    *each(_N, "lexsort", (WHOLE, OTHER)),
    *each("jax.lax", "sort_key_val", A, 2 * A),
    *each(_N, "apply_over_axes", Function("jax.numpy.sum"), CUBE, (0, 2)),
]
_LAYOUT = [
    *each(_N, "shape ndim size", A),
    *each(_N, "atleast_3d", A),
    *each(_N, "dstack", [A, A]),
    *each(_N, "dsplit", CUBE, 2),
    *each("jax.lax", "stack", [A, A], 1),
    *each("jax.lax", "unstack", A, 1),
    *each("jax.lax", "tile", A, (2, 1)),
    *each("jax.lax", "broadcast_to_rank", A, 3),
    *each(_N, "block", [[A, A], [2 * A, A]]),
    *each(_N, "diag diagflat", ROW, 1),
    *each(_N, "diag", A),
    *each(_N, "fill_diagonal", SQUARE, 3.0, inplace=False),
    *each(_N, "delete", A, 2, 1),
    *each(_N, "insert", A, 2, ROW, 0),
    *each(_N, "insert", A, 1, A[:2], 0),
    *each(_N, "resize", A, (5, 7)),
    Call(f"{_N}.tril_indices", (4, 1)),
    Call(f"{_N}.triu_indices", (4, 1)),
    *each(_N, "tril_indices_from triu_indices_from", A),
    *each(_N, "diag_indices_from", SQUARE),
    Call(f"{_N}.diag_indices", (4,)),
    Call(f"{_N}.indices", ((2, 3),)),
    *each(_N, "ix_", positions((3,), 3), positions((2,), 3)),
    *each(_N, "fromfunction", Function("jax.numpy.add"), (2, 3)),
    *each(_N, "logspace geomspace", 1.0, 3.0, 5),
    *each(_N, "bartlett blackman hamming hanning", 7),
    *each(_N, "kaiser", 7, 2.5, close=1e-6),
]
CALLS = [*_FLOATS, *_CALCULUS, *_STATISTICS, *_SELECTION, *_LAYOUT]
