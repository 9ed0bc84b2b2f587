"""Reductions over dimensions, cumulative ones, and what needs a dimension whole."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from shardtypes.proving.rules.case import Case, Rule, exact, no_parts, unified
from shardtypes.proving.state import State, refuse, settled
from shardtypes.semantics.relation import Monoid


def _without(
    case: Case, state: State, axes: tuple[int, ...]
) -> tuple[tuple[tuple[str, ...], ...], frozenset[int]]:
    kept = [dim for dim in range(state.rank) if dim not in axes]
    uniform = frozenset(
        number for number, dim in enumerate(kept) if dim in state.uniform
    )
    return tuple(state.dims[dim] for dim in kept), uniform


def _summed(case: Case) -> list[State]:
    case.agree("axes")
    (state,) = case.states
    axes = tuple(case.params["axes"])
    refuse(
        state.monoid not in (None, "sum") and not state.zero,
        "a partial result that is no sum is added up",
    )
    factor, parts = state.factor, dict(state.parts)
    for dim in axes:
        few, many = case.shape[dim], state.whole[dim]
        if state.dims[dim]:
            parts |= dict.fromkeys(state.dims[dim], "sum")
        elif few != many:  # all the same: so many times one of them
            refuse(
                dim not in state.uniform or not few,
                "a dimension whose size depends on the mesh",
            )
            factor *= Fraction(few, many)
    dims, uniform = _without(case, state, axes)
    return [
        State(
            case.whole,
            dims,
            tuple(sorted(parts.items())),
            factor,
            uniform,
            state.zero,
        )
    ]


def _combined(monoid: Monoid) -> Rule:
    def rule(case: Case) -> list[State]:
        case.agree("axes")
        (state,) = case.states
        axes = tuple(case.params["axes"])
        refuse(
            any(own != monoid for _, own in state.parts) and not state.zero,
            "a partial result is reduced as if it were complete",
        )
        refuse(
            monoid not in ("max", "min") and state.factor != 1,
            "an operand is off by a factor",
        )
        refuse(state.factor <= 0, "an operand is off by a negative factor")
        if monoid == "prod" or state.zero:
            settled(state, case.shape)
        parts = {} if state.zero else dict(state.parts)
        for dim in axes:
            if not state.zero:
                parts |= dict.fromkeys(state.dims[dim], monoid)
        dims, uniform = _without(case, state, axes)
        zero = state.zero and monoid in ("max", "min", "and", "or")
        return [
            State(
                case.whole,
                dims,
                tuple(sorted(parts.items())),
                state.factor,
                uniform,
                zero,
            )
        ]

    return rule


def _position(case: Case) -> list[State]:
    """Where the largest is: needs the dimension whole."""
    case.agree("axes", "index_dtype")
    (state,) = case.states
    state = settled(state, case.shape)
    no_parts([state])
    axes = tuple(case.params["axes"])
    refuse(
        state.factor <= 0 or any(state.dims[dim] for dim in axes),
        "a position along a sharded dimension",
    )
    dims, uniform = _without(case, state, axes)
    return [State(case.whole, dims, uniform=uniform)]


def _cumulative(case: Case) -> list[State]:
    case.agree("axis", "reverse")
    (state,) = case.states
    state = settled(state, case.shape)
    axis = case.params["axis"]
    refuse(state.dims[axis], "a running total along a sharded dimension")
    if case.primitive == "cumsum":
        refuse(
            state.monoid not in (None, "sum") and not state.zero,
            "a partial result that is no sum is added up",
        )
    else:
        exact([state])
    return [
        replace(
            state,
            uniform=state.uniform - {axis},
            zero=state.zero and case.primitive == "cumsum",
        )
    ]


def _sorted(case: Case) -> list[State]:
    case.agree("dimension", "is_stable", "num_keys")
    states, dims, uniform = unified(case)
    exact(states)
    for state, shape in zip(states, case.shapes, strict=True):
        settled(state, shape)
    axis = case.params["dimension"]
    refuse(dims[axis], "a sharded dimension is sorted")
    return [State(whole, dims, uniform=uniform - {axis}) for whole in case.wholes]


def _top(case: Case) -> list[State]:
    case.agree("k", "axis", "operand_axis")
    (state,) = case.states
    exact([settled(state, case.shape)])
    axis = case.params.get("axis", case.params.get("operand_axis", -1)) % state.rank
    refuse(state.dims[axis], "the largest along a sharded dimension")
    return [
        State(whole, state.dims, uniform=state.uniform - {axis})
        for whole in case.wholes
    ]


RULES: dict[str, Rule] = {
    "reduce_sum": _summed,
    "reduce_max": _combined("max"),
    "reduce_min": _combined("min"),
    "reduce_prod": _combined("prod"),
    "reduce_and": _combined("and"),
    "reduce_or": _combined("or"),
    "argmax": _position,
    "argmin": _position,
    **dict.fromkeys(
        ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"), _cumulative
    ),
    "sort": _sorted,
    "top_k": _top,
}
