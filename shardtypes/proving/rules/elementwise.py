"""Functions of each entry."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt

from shardtypes.proving.rules.case import Case, Rule, exact, no_parts, unified
from shardtypes.proving.state import State, Unknown, leveled, refuse


def _result(
    case: Case,
    states: list[State],
    dims: tuple[tuple[str, ...], ...],
    uniform: frozenset[int],
    **more: object,
) -> list[State]:
    whole = next(wholes for wholes in case.wholes)
    return [State(whole, dims, uniform=uniform, **more)]  # type: ignore[arg-type]


def _nonlinear(case: Case) -> list[State]:
    case.agree(*(name for name in case.params if name != "accuracy"))
    states, dims, uniform = unified(case)
    exact(states)
    return _result(case, states, dims, uniform)


def _zero_kept(case: Case) -> list[State]:
    """Zero for zero, otherwise nonlinear."""
    found = _nonlinear(case)
    if all(state.zero for state in case.states):
        return [
            State(found[0].whole, found[0].dims, uniform=found[0].uniform, zero=True)
        ]
    return found


def _homogeneous(
    power: Callable[[Fraction], Fraction | None], zero: bool = True
) -> Rule:
    """One operand; a factor is taken out in some way."""

    def rule(case: Case) -> list[State]:
        case.agree(*(name for name in case.params if name != "accuracy"))
        states, dims, uniform = unified(case)
        no_parts(states)
        (state,) = states
        factor = power(state.factor)
        refuse(factor is None, "an operand is off by a factor that cannot be taken out")
        return _result(
            case, states, dims, uniform, factor=factor, zero=zero and state.zero
        )

    return rule


def _root(factor: Fraction) -> Fraction | None:
    if factor <= 0:
        return None
    above, below = isqrt(factor.numerator), isqrt(factor.denominator)
    found = Fraction(above, below)
    return found if found * found == factor else None


def _inverse_root(factor: Fraction) -> Fraction | None:
    found = _root(factor)
    return None if found is None else 1 / found


def _linear(case: Case) -> list[State]:
    """One operand: whatever holds of it holds of the result."""
    states, dims, uniform = unified(case)
    (state,) = states
    refuse(
        state.monoid not in (None, "sum") and not state.zero,
        "a partial result that is no sum",
    )
    return _result(
        case,
        states,
        dims,
        uniform,
        parts=state.parts,
        factor=state.factor,
        zero=state.zero,
    )


def _moved(case: Case) -> list[State]:
    """One operand, unchanged."""
    (state,) = case.states
    return [state]


def _converted(case: Case) -> list[State]:
    case.agree("new_dtype")
    (state,) = case.states
    refuse(
        not case.floats and (state.parts or state.factor != 1) and not state.zero,
        "a partial result, or one off by a factor, becomes another kind of number",
    )
    return [state]


def _added(case: Case) -> list[State]:
    states, dims, uniform = unified(case)
    rest = [state for state in states if not state.zero]
    if not rest:
        return _result(case, states, dims, uniform, zero=True)
    parted = len({state.parts for state in rest}) > 1
    rest = leveled(rest, case.sizes)
    if len({state.factor for state in rest}) > 1:
        refuse(parted, "a partial result and a complete value are added")
        raise Unknown("operands are off by different factors")
    return _result(
        case, states, dims, uniform, parts=rest[0].parts, factor=rest[0].factor
    )


def _multiplied(case: Case) -> list[State]:
    states, dims, uniform = unified(case)
    if any(state.zero for state in states):
        return _result(case, states, dims, uniform, zero=True)
    parted = [state for state in states if state.parts]
    refuse(
        len(parted) > 1 or any(state.monoid != "sum" for state in parted),
        "partial results are multiplied",
    )
    parts = parted[0].parts if parted else ()
    return _result(
        case,
        states,
        dims,
        uniform,
        parts=parts,
        factor=states[0].factor * states[1].factor,
    )


def _divided(case: Case) -> list[State]:
    states, dims, uniform = unified(case)
    above, below = states
    refuse(below.parts or below.zero, "a partial result is divided by")
    if not case.floats:
        exact(states)
    refuse(
        above.monoid not in (None, "sum") and not above.zero,
        "a partial result that is no sum",
    )
    factor = above.factor / below.factor
    return _result(
        case, states, dims, uniform, parts=above.parts, factor=factor, zero=above.zero
    )


def _extreme(monoid: str) -> Rule:
    def rule(case: Case) -> list[State]:
        states, dims, uniform = unified(case)
        refuse(
            len({state.factor for state in states if not state.zero}) > 1
            or any(state.factor <= 0 for state in states),
            "operands are off by different factors",
        )
        parted = [state for state in states if state.parts and not state.zero]
        if not parted:
            factor = next(
                (state.factor for state in states if not state.zero), Fraction(1)
            )
            return _result(
                case,
                states,
                dims,
                uniform,
                factor=factor,
                zero=all(state.zero for state in states),
            )
        refuse(
            any(own != monoid for state in parted for _, own in state.parts)
            or len({s.parts for s in parted}) > 1,
            "a partial result is compared",
        )
        refuse(
            any(state.zero for state in states),
            "a partial result is compared with zero",
        )
        # The others are the same on the devices whose values are combined, and combine to themselves.
        return _result(
            case, states, dims, uniform, parts=parted[0].parts, factor=parted[0].factor
        )

    return rule


def _compared(case: Case) -> list[State]:
    states, dims, uniform = unified(case)
    no_parts(states)
    factors = {state.factor for state in states if not state.zero}
    refuse(
        len(factors) > 1 or any(factor <= 0 for factor in factors),
        "values off by different factors are compared",
    )
    return _result(case, states, dims, uniform)


def _selected(case: Case) -> list[State]:
    which = case.states[0]
    states, dims, uniform = unified(case)
    exact([states[0]])
    refuse(which.zero and which.parts, "a mask is a partial result")
    cases = [state for state in states[1:] if not state.zero]
    if len({state.parts for state in cases}) > 1:
        cases = leveled(cases, case.sizes)
    if not cases:
        return _result(case, states, dims, uniform, zero=True)
    refuse(
        len({state.factor for state in cases}) > 1,
        "operands are off by different factors",
    )
    refuse(
        len({state.parts for state in cases}) > 1,
        "a partial result beside a complete value",
    )
    monoid = cases[0].monoid
    refuse(
        monoid not in (None, "sum", "max", "min")
        or (monoid in ("max", "min") and len(cases) < len(states) - 1),
        "a partial result that is no sum",
    )
    return _result(
        case, states, dims, uniform, parts=cases[0].parts, factor=cases[0].factor
    )


def _power(case: Case) -> list[State]:
    case.agree("y")
    power = int(case.params["y"])
    return _homogeneous(
        lambda factor: factor**power if power >= 0 or factor else None, zero=power > 0
    )(case)


_NONLINEAR = """exp exp2 log log2 log1p expm1 cos acos cosh tan logistic erfc lgamma digamma pow atan2 is_finite
    and or not xor rem clamp shift_left shift_right_logical shift_right_arithmetic population_count round floor ceil
    igamma igammac regularized_incomplete_beta nextafter acosh atanh polygamma zeta clz bessel_i0e bessel_i1e erf_inv
    random_gamma_grad one_minus_square cbrt mulhi eq_to le_to lt_to
    bitcast_convert_type"""
_ODD = "sin tanh sinh asin atan asinh erf"

RULES: dict[str, Rule] = {
    **dict.fromkeys(_NONLINEAR.split(), _nonlinear),
    **dict.fromkeys(_ODD.split(), _zero_kept),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), _compared),
    **dict.fromkeys(("add", "add_any", "sub"), _added),
    **dict.fromkeys(("neg", "real", "imag", "conj"), _linear),
    "mul": _multiplied,
    "div": _divided,
    "max": _extreme("max"),
    "min": _extreme("min"),
    "select_n": _selected,
    "convert_element_type": _converted,
    "integer_pow": _power,
    "square": _homogeneous(lambda factor: factor**2),
    "sqrt": _homogeneous(_root),
    "rsqrt": _homogeneous(_inverse_root, zero=False),
    "abs": _homogeneous(abs),
    "sign": _homogeneous(lambda factor: Fraction(1) if factor > 0 else None),
}
