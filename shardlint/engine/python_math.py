"""Functions of Python's ``math``: numbers of numbers, exact where all arguments are."""

from __future__ import annotations

import math

from shardlint.engine.libraries import knows
from shardlint.engine.plain import constant
from shardlint.engine.sharding.site import Site
from shardlint.values import IntValue, Literal, ScalarValue, Value, number_in

_WHOLE = frozenset(
    {"ceil", "comb", "factorial", "floor", "gcd", "isqrt", "lcm", "perm", "trunc"}
)
_QUESTIONS = frozenset({"isclose", "isfinite", "isinf", "isnan"})
#: What gives tuples, or takes sequences.
_OTHERS = frozenset({"dist", "frexp", "fsum", "modf", "prod", "sumprod"})
#: Beyond it, exact results may take long to compute.
_LARGE = 10**6


@knows(prefixes=("math.",))
def call(site: Site) -> Value | None:
    """The result of ``math.name``; None for what is no function of numbers. Arrays are made numbers, or refused."""
    name, args, kwargs = site.qualname.removeprefix("math."), site.args, site.kwargs
    function = getattr(math, name, None)
    if not callable(function) or name in _OTHERS:
        return None
    numbers = [
        number
        for arg in args
        if (number := _number(arg)) is not None and abs(number) < _LARGE
    ]
    if not kwargs and len(numbers) == len(args):
        try:
            return constant(function(*numbers))
        except (ArithmeticError, TypeError, ValueError):
            return None
    if name in _QUESTIONS:
        return ScalarValue("bool")
    return IntValue(None) if name in _WHOLE else ScalarValue("float")


def _number(value: Value) -> int | float | None:
    if isinstance(value, IntValue):
        return number_in(value)
    number = value.value if isinstance(value, Literal) else None
    return number if isinstance(number, (int, float)) else None
