"""``jax.scipy.special`` and ``jax.scipy.stats``: functions of several arguments that broadcast."""

from __future__ import annotations

from shardlint.ops.arrays import (
    UNKNOWN_ARRAY,
    arrays,
    as_array,
    elementwise,
    with_dtype,
)
from shardlint.ops.elementwise import names
from shardlint.ops.registry import Call, model
from shardlint.values import DictValue, SequenceValue, Value

_OPEN = frozenset({"ldexp", "boxcox", "boxcox1p", "polygamma", "expn"})


@model("x1, x2, /", "jax.numpy.ldexp")
@model("x, y", *names("jax.scipy.special", "xlogy xlog1py"))
@model("p, q", *names("jax.scipy.special", "kl_div rel_entr"))
@model("a, b", *names("jax.scipy.special", "beta betaln"))
@model("a, x", *names("jax.scipy.special", "gammainc gammaincc"))
@model("z, m", "jax.scipy.special.poch")
@model("x, q", "jax.scipy.special.zeta")
@model("n, x", *names("jax.scipy.special", "polygamma expn"))
@model("a, b, x", *names("jax.scipy.special", "betainc hyp1f1"))
@model("x, lmbda", *names("jax.scipy.special", "boxcox boxcox1p"))
def broadcasting(call: Call) -> Value:
    """Shapes broadcast; the dtype is given where all arguments are float32."""
    operands = arrays(call, *call.args)
    out = elementwise(call.name, operands, call.ctx)
    usual = all(operand.dtype == "float32" and not operand.weak for operand in operands)
    return with_dtype(out, "float32" if usual and call.last not in _OPEN else None)


_DENSITY = "pdf logpdf"
_MASS = "pmf logpmf"
METHODS = {
    "norm": f"{_DENSITY} cdf logcdf sf logsf ppf isf", "cauchy": f"{_DENSITY} cdf logcdf sf logsf ppf isf",
    "expon": f"{_DENSITY} cdf logcdf sf logsf ppf", "beta": f"{_DENSITY} cdf logcdf sf logsf",
    "gamma": f"{_DENSITY} cdf logcdf sf logsf", "chi2": f"{_DENSITY} cdf logcdf sf logsf",
    "uniform": f"{_DENSITY} cdf ppf", "laplace": f"{_DENSITY} cdf", "logistic": f"{_DENSITY} cdf sf ppf isf",
    "t": _DENSITY, "pareto": f"{_DENSITY} cdf logcdf sf logsf ppf", "gennorm": f"{_DENSITY} cdf",
    "gumbel_l": f"{_DENSITY} cdf logcdf sf logsf ppf", "gumbel_r": f"{_DENSITY} cdf logcdf sf logsf ppf",
    "truncnorm": f"{_DENSITY} cdf logcdf sf logsf", "vonmises": _DENSITY, "wrapcauchy": _DENSITY,
    "poisson": f"{_MASS} cdf", "bernoulli": f"{_MASS} cdf ppf", "geom": _MASS, "binom": _MASS, "nbinom": _MASS,
    "betabinom": _MASS,
}  # fmt: skip


@model(
    "*args, **kwargs",
    *[
        f"jax.scipy.stats.{name}.{method}"
        for name, methods in METHODS.items()
        for method in methods.split()
    ],
)
def distribution(call: Call) -> Value:
    """Densities and their relatives: all arguments broadcast."""
    args, kwargs = call["args"], call["kwargs"]
    if not isinstance(args, SequenceValue) or not isinstance(kwargs, DictValue):
        return UNKNOWN_ARRAY
    given = [*args.items, *(value for _, value in kwargs.items)]
    operands = [as_array(value, call.ctx.x64) or UNKNOWN_ARRAY for value in given]
    if not operands:
        return UNKNOWN_ARRAY
    out = elementwise(call.name, operands, call.ctx)
    return with_dtype(
        out, "float32" if out.dtype == "float32" and not out.weak else None
    )
