"""``jax.scipy.stats``."""

from __future__ import annotations

import numpy as np

from tests.semantics.call import Call, numbers
from tests.semantics.calls.entries import ABOVE_ONE, INSIDE, POSITIVE, WHOLE, X, each

_S = "jax.scipy.stats"
_PROBABILITY = np.abs(INSIDE)
_WHOLE = WHOLE.astype(float)
_SHARES = np.asarray([0.2, 0.5, 0.3])
_MATRIX = numbers((3, 3))

CALLS = [
    *each(f"{_S}.norm", "pdf logpdf cdf logcdf sf logsf", X, 0.5, 1.5, close=1e-6),
    *each(f"{_S}.cauchy", "pdf logpdf cdf logcdf sf logsf", X, 0.5, 1.5),
    *each(f"{_S}.laplace", "pdf logpdf cdf", X, 0.5, 1.5),
    *each(f"{_S}.logistic", "pdf logpdf cdf sf", X, 0.5, 1.5),
    *each(f"{_S}.gumbel_r", "pdf logpdf cdf logcdf sf logsf", X, 0.5, 1.5),
    *each(f"{_S}.gumbel_l", "pdf logpdf cdf logcdf sf logsf", X, 0.5, 1.5),
    *(
        call
        for name in "norm cauchy logistic expon uniform".split()
        for call in each(f"{_S}.{name}", "ppf", _PROBABILITY, 0.5, 1.5)
    ),
    *(
        call
        for name in "norm cauchy logistic".split()
        for call in each(f"{_S}.{name}", "isf", _PROBABILITY, 0.5, 1.5)
    ),
    *(
        call
        for name in ("l", "r")
        for call in each(f"{_S}.gumbel_{name}", "ppf", _PROBABILITY, smooth=False)
    ),
    *each(f"{_S}.t", "pdf logpdf", X, 3.5, 0.5, scale=1.5),
    *each(f"{_S}.expon", "pdf logpdf cdf logcdf sf logsf", POSITIVE, 0.1, 1.5),
    *each(f"{_S}.gamma", "pdf logpdf cdf logcdf sf logsf", POSITIVE, 2.5, 0.1, 1.5),
    *each(f"{_S}.chi2", "pdf logpdf cdf logcdf sf logsf", POSITIVE, 2.5),
    *each(f"{_S}.beta", "pdf logpdf cdf logcdf sf logsf", _PROBABILITY, 2.5, 1.5),
    *each(f"{_S}.pareto", "pdf logpdf cdf logcdf sf logsf", ABOVE_ONE, 2.5),
    *each(f"{_S}.pareto", "ppf", _PROBABILITY, 2.5),
    *each(f"{_S}.uniform", "pdf logpdf cdf", X, -1.0, 2.0),
    *each(
        f"{_S}.truncnorm", "pdf logpdf cdf logcdf sf logsf", X, -2.5, 3.0, close=1e-6
    ),
    *each(f"{_S}.gennorm", "pdf logpdf cdf", X, 2.5),
    *each(f"{_S}.vonmises", "pdf logpdf", X, 2.5),
    *each(f"{_S}.wrapcauchy", "pdf logpdf", POSITIVE, 0.5),
    *each(f"{_S}.bernoulli", "pmf logpmf", np.minimum(_WHOLE, 1.0), 0.3, smooth=False),
    *each(f"{_S}.bernoulli", "cdf", X, 0.3),
    *each(f"{_S}.bernoulli", "ppf", _PROBABILITY, 0.3, smooth=False),
    *each(f"{_S}.binom", "pmf logpmf", _WHOLE, 9.0, 0.3, smooth=False),
    *each(
        f"{_S}.betabinom", "pmf logpmf", _WHOLE, 9.0, 1.5, 2.5, smooth=False, close=1e-5
    ),
    *each(f"{_S}.nbinom", "pmf logpmf", _WHOLE, 9.0, 0.3, smooth=False),
    *each(f"{_S}.geom", "pmf logpmf", _WHOLE, 0.3, smooth=False),
    *each(f"{_S}.poisson", "pmf logpmf cdf", _WHOLE, 2.5, smooth=False),
    *each(
        f"{_S}.multinomial",
        "pmf logpmf",
        np.asarray([1, 3, 2]),
        6,
        _SHARES,
        smooth=False,
    ),
    *each(
        f"{_S}.dirichlet",
        "pdf logpdf",
        _SHARES,
        np.asarray([1.5, 2.5, 0.5]),
        smooth=False,
    ),
    Call(
        f"{_S}.multivariate_normal.logpdf",
        (_MATRIX, numbers(3), _MATRIX @ _MATRIX.T + np.eye(3)),
        smooth=False,
    ),
    Call(
        f"{_S}.multivariate_normal.pdf",
        (_MATRIX, numbers(3), _MATRIX @ _MATRIX.T + np.eye(3)),
        smooth=False,
    ),
]
