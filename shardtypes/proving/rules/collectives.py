"""Collectives: what is combined becomes the same on all devices, or sharded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardtypes.proving.program import axis_names
from shardtypes.proving.rules.case import Case, Rule
from shardtypes.proving.state import State, adopted, refuse
from shardtypes.semantics.relation import Monoid


def _names(case: Case) -> tuple[str, ...]:
    names = axis_names(case.params)
    refuse(names != axis_names(case.one), "a collective over other axes on one device")
    refuse(
        any(not isinstance(name, str) for name in names), "a collective over positions"
    )
    refuse(
        case.params.get("axis_index_groups") is not None,
        "a collective in groups of devices",
    )
    return names


def _reduced(monoid: Monoid) -> Rule:
    def rule(case: Case) -> list[State]:
        names = _names(case)
        return [_over(case, state, names, monoid) for state in case.states]

    return rule


def _over(case: Case, state: State, names: Sequence[str], monoid: Monoid) -> State:
    refuse(state.axes & set(names), "different shards are combined")
    if state.zero:
        return replace(state, parts=())
    refuse(
        any(own != monoid for _, own in state.parts),
        "a partial result is combined otherwise",
    )
    factor = state.factor
    for name in names:
        if name not in state.over and monoid == "sum":
            factor *= case.sizes[name]
    refuse(factor <= 0 and monoid != "sum", "off by a negative factor")
    return replace(
        state,
        parts=tuple(pair for pair in state.parts if pair[0] not in names),
        factor=factor,
    )


def _gathered(case: Case) -> list[State]:
    names = _names(case)
    refuse(not case.params["tiled"], "all_gather adds a dimension of the axis size")
    case.agree("all_gather_dimension", "tiled")
    (state,) = case.states
    dim = case.params["all_gather_dimension"]
    state = _shard(case, state, dim, names)
    axes = _minor(state, dim, names)
    return [replace(state, dims=(*state.dims[:dim], axes, *state.dims[dim + 1 :]))]


def _shard(case: Case, state: State, dim: int, names: tuple[str, ...]) -> State:
    """A constant dimension as the shard that is gathered."""
    if (
        dim in state.uniform
        and not state.dims[dim]
        and case.shape[dim] != state.whole[dim]
    ):
        return adopted(state, dim, names, case.shape, case.sizes)
    return state


def _minor(state: State, dim: int, names: tuple[str, ...]) -> tuple[str, ...]:
    """The axes of a dimension without its minor ones, which have to be these."""
    axes = state.dims[dim]
    refuse(
        axes[len(axes) - len(names) :] != names or len(axes) < len(names),
        "what is gathered is not sharded over these axes along this dimension",
    )
    return axes[: len(axes) - len(names)]


def _scattered(case: Case) -> list[State]:
    names = _names(case)
    refuse(not case.params["tiled"], "psum_scatter takes a dimension away")
    case.agree("scatter_dimension", "tiled")
    (state,) = case.states
    dim = case.params["scatter_dimension"]
    summed = _over(case, state, names, "sum")
    dims = (*summed.dims[:dim], (*summed.dims[dim], *names), *summed.dims[dim + 1 :])
    return [replace(summed, whole=case.whole, dims=dims)]


def _exchanged(case: Case) -> list[State]:
    names = _names(case)
    case.agree("split_axis", "concat_axis")
    (state,) = case.states
    apart, together = case.params["split_axis"], case.params["concat_axis"]
    refuse(
        apart == together or state.over & set(names),
        "devices exchange their parts of one dimension",
    )
    state = _shard(case, state, together, names)
    dims = list(state.dims)
    dims[together] = _minor(state, together, names)
    dims[apart] = (*dims[apart], *names)
    return [replace(state, dims=tuple(dims), uniform=state.uniform - {apart, together})]


def _permuted(case: Case) -> list[State]:
    names = _names(case)
    count = 1
    for name in names:
        count *= case.sizes[name]
    refuse(
        sorted(target for _, target in case.params["perm"]) != list(range(count)),
        "some devices receive nothing",
    )
    (state,) = case.states
    refuse((state.axes | state.over) & set(names), "devices exchange their shards")
    refuse(sorted(case.one["perm"]) != [(0, 0)], "one device receives nothing")
    return [state]


RULES: dict[str, Rule] = {
    **dict.fromkeys(("psum", "psum_invariant", "unreduced_psum"), _reduced("sum")),
    "pmax": _reduced("max"),
    "pmin": _reduced("min"),
    **dict.fromkeys(
        ("all_gather", "all_gather_invariant", "all_gather_reduced"), _gathered
    ),
    **dict.fromkeys(("reduce_scatter", "unreduced_reduce_scatter"), _scattered),
    "all_to_all": _exchanged,
    "ppermute": _permuted,
}
