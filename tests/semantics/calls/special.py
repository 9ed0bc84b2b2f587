"""``jax.scipy.special`` and the rest of ``jax.nn``."""

from __future__ import annotations

import numpy as np

from tests.semantics.calls.arrays import A
from tests.semantics.calls.entries import ABOVE_ONE, INSIDE, POSITIVE, WHOLE, X, each

_S = "jax.scipy.special"
_PROBABILITY = np.abs(INSIDE)

CALLS = [
    *each(_S, "i0 i1 ndtr erfcx", X),
    *each("jax.numpy", "i0", X),
    *each(_S, "dawsn", X, close=1e-6),
    *each(_S, "gammasgn", X),
    *each(_S, "gamma loggamma factorial", POSITIVE),
    *each(_S, "log_ndtr", 5 * X, close=1e-6),
    *each(_S, "beta betaln poch", POSITIVE, ABOVE_ONE),
    *each(_S, "comb", WHOLE * 1.0, np.minimum(WHOLE, 3) * 1.0, smooth=False),
    *each(_S, "multigammaln", ABOVE_ONE, 2),
    *each(_S, "zeta", 2.5, POSITIVE, smooth=False),
    *each(_S, "ndtri", _PROBABILITY),
    *each(_S, "xlog1py rel_entr kl_div boxcox boxcox1p", POSITIVE, _PROBABILITY),
    *each(_S, "expi exp1", POSITIVE, close=1e-6),
    *each(_S, "expn", 3.0, POSITIVE, close=1e-6),
    *each(
        _S,
        "expn",
        np.array([[0.0], [1.0], [5.0]]),
        POSITIVE,
        smooth=False,
        close=1e-6,
    ),
    *each(_S, "spence", POSITIVE, smooth=False),
    *each(_S, "fresnel sici", POSITIVE, smooth=False, close=1e-6),
    *each(_S, "hyp1f1", 0.5, 1.5, X, smooth=False, close=1e-6),
    *each(_S, "bernoulli", 6),
    *each("jax.nn", "tanh glu sparse_plus sparse_sigmoid logmeanexp", X),
    *each("jax.nn", "log1mexp", POSITIVE),
    *each("jax.nn", "logmeanexp", A, 1, keepdims=True),
]
