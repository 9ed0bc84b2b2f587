"""Picking and placing entries by indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardtypes.proving.rules.case import Case, Rule, exact
from shardtypes.proving.state import State, Unknown, adopted, refuse, settled


def _starts(states: Sequence[State]) -> None:
    for state in states:
        exact([state])
        refuse(state.axes, "an index that is sharded")


def _dynamic_slice(case: Case) -> list[State]:
    state, *starts = case.states
    _starts(starts)
    here, there = tuple(case.params["slice_sizes"]), tuple(case.one["slice_sizes"])
    for dim in range(state.rank):
        full = here[dim] == case.shape[dim] and there[dim] == state.whole[dim]
        equal = (
            here[dim] == there[dim]
            and case.shape[dim] == state.whole[dim]
            and not state.dims[dim]
        )
        refuse(not full and not equal, "a slice of a sharded dimension")
    return [replace(state, whole=case.whole, uniform=frozenset())]


def _dynamic_update(case: Case) -> list[State]:
    state, update, *starts = case.states
    _starts(starts)
    for dim in range(state.rank):
        full = (
            case.shapes[1][dim] == case.shape[dim]
            and update.whole[dim] == state.whole[dim]
        )
        equal = (
            case.shapes[1][dim] == update.whole[dim]
            and case.shape[dim] == state.whole[dim]
        )
        refuse(
            not full and (not equal or state.dims[dim] or update.dims[dim]),
            "a sharded dimension is written to in part",
        )
    return [_both(case, state, update)]


def _both(case: Case, state: State, update: State) -> State:
    """Entries of one of two values of one layout."""
    dims = []
    for dim, (mine, his) in enumerate(zip(state.dims, update.dims, strict=True)):
        if mine == his:
            dims.append(mine)
        elif not mine and dim in state.uniform:
            dims.append(his)
        elif not his and dim in update.uniform:
            dims.append(mine)
        else:
            raise Unknown("operands are sharded differently")
    sharded = {axis for axes in dims for axis in axes}
    rest = [one for one in (state, update) if not one.zero]
    if not rest:
        return State(case.whole, tuple(dims), zero=True)
    refuse(
        len({(one.parts, one.factor) for one in rest}) > 1
        or any(one.over & sharded for one in rest),
        "a partial result and a complete value",
    )
    refuse(
        rest[0].monoid not in (None, "sum") and len(rest) == 1,
        "a partial result that is no sum",
    )
    return State(case.whole, tuple(dims), rest[0].parts, rest[0].factor)


def _gather(case: Case) -> list[State]:
    case.agree("dimension_numbers", "mode", "fill_value")
    state, indices = case.states
    exact([indices])
    settled(indices, case.shapes[1])
    numbers = case.params["dimension_numbers"]
    here, there = tuple(case.params["slice_sizes"]), tuple(case.one["slice_sizes"])
    batching, inner = (
        tuple(numbers.operand_batching_dims),
        tuple(numbers.start_indices_batching_dims),
    )
    refuse(state.monoid not in (None, "sum"), "a partial result that is no sum")
    refuse(
        "FILL" in str(case.params["mode"])
        and (state.parts or state.factor != 1)
        and not _fills_with_nan(case),
        "entries out of bounds are filled with a number",
    )
    settled(state, case.shape)
    rank = len(case.whole)
    dims: list[tuple[str, ...]] = [()] * rank
    window = [
        d
        for d in range(state.rank)
        if d not in numbers.collapsed_slice_dims and d not in batching
    ]
    for dim in range(state.rank):
        full = (
            here[dim] == case.shape[dim]
            and there[dim] == state.whole[dim]
            and dim not in numbers.start_index_map
        )
        equal = (
            here[dim] == there[dim]
            and case.shape[dim] == state.whole[dim]
            and not state.dims[dim]
        )
        refuse(
            dim not in batching and not full and not equal,
            "a sharded dimension is indexed",
        )
    for dim, place in zip(window, numbers.offset_dims, strict=True):
        dims[place] = state.dims[dim]
    rest = [dim for dim in range(rank) if dim not in numbers.offset_dims]
    for dim, place in enumerate(rest):
        dims[place] = indices.dims[dim]
    refuse(indices.dims[-1], "an index vector that is sharded")
    for mine, his in zip(batching, inner, strict=True):
        refuse(
            state.dims[mine] != indices.dims[his], "operands are sharded differently"
        )
    refuse(state.over & indices.axes, "a partial result beside sharded indices")
    return [
        State(
            case.whole,
            tuple(dims),
            state.parts,
            state.factor,
        )
    ]


def _fills_with_nan(case: Case) -> bool:
    return case.params.get("fill_value") is None and case.floats


def _scatter_add(case: Case) -> list[State]:
    case.agree("dimension_numbers", "mode", "unique_indices")
    state, indices, updates = case.states
    exact([indices])
    updates = _beside(case, updates, indices)
    case = replace(case, states=[state, indices, updates])
    for one, shape in zip(case.states, case.shapes, strict=True):
        if not one.zero:
            settled(one, shape)
    dims = _scattered(case)
    parts = dict(updates.parts)
    refuse(
        updates.monoid not in (None, "sum") or state.monoid not in (None, "sum"),
        "a partial result that is no sum",
    )
    numbers = case.params["dimension_numbers"]
    rows = [dim for dim in range(updates.rank) if dim not in numbers.update_window_dims]
    kept = set(numbers.scatter_indices_batching_dims)
    for number, dim in enumerate(rows):
        refuse(
            updates.dims[dim] != indices.dims[number],
            "indices and updates are sharded differently",
        )
        if number not in kept:
            parts |= dict.fromkeys(updates.dims[dim], "sum")
    refuse(
        indices.dims[-1] or updates.over & indices.axes,
        "a partial result beside sharded indices",
    )
    sharded = {axis for axes in dims for axis in axes}
    refuse(sharded & set(parts), "one axis in two places")
    found = tuple(sorted(parts.items()))
    if updates.zero:
        refuse(
            any(mine != his for mine, his in zip(dims, state.dims, strict=True)),
            "operands are sharded differently",
        )
        return [replace(state, uniform=frozenset())]
    refuse(
        not state.zero and (state.parts != found or state.factor != updates.factor),
        "a partial result is added to a complete value",
    )
    return [State(case.whole, tuple(dims), found, updates.factor)]


def _beside(case: Case, updates: State, indices: State) -> State:
    """Updates that are all the same are the shard that their indices are."""
    numbers = case.params["dimension_numbers"]
    rows = [dim for dim in range(updates.rank) if dim not in numbers.update_window_dims]
    for number, dim in enumerate(rows):
        updates = adopted(
            updates, dim, indices.dims[number], case.shapes[2], case.sizes
        )
    return updates


def _scattered(case: Case) -> list[tuple[str, ...]]:
    """The axes of each dimension of what is written to: those of the updates, where these are as long."""
    state, indices, updates = case.states
    numbers = case.params["dimension_numbers"]
    batching = tuple(numbers.operand_batching_dims)
    window = [
        d
        for d in range(state.rank)
        if d not in numbers.inserted_window_dims and d not in batching
    ]
    dims: list[tuple[str, ...]] = list(state.dims)
    for dim, place in zip(window, numbers.update_window_dims, strict=True):
        full = (
            case.shapes[2][place] == case.shape[dim]
            and updates.whole[place] == state.whole[dim]
        )
        if dim in numbers.scatter_dims_to_operand_dims:
            full = False
        equal = (
            case.shapes[2][place] == updates.whole[place]
            and case.shape[dim] == state.whole[dim]
        )
        if full:
            dims[dim] = _placed(state, dim, updates.dims[place])
        else:
            refuse(
                not equal or state.dims[dim] or updates.dims[place],
                "a sharded dimension is written to in part",
            )
    for dim, place in zip(batching, numbers.scatter_indices_batching_dims, strict=True):
        dims[dim] = _placed(state, dim, indices.dims[place])
    for dim in numbers.inserted_window_dims:
        refuse(
            state.dims[dim] or case.shape[dim] != state.whole[dim],
            "a sharded dimension is indexed",
        )
    return dims


def _placed(state: State, dim: int, axes: tuple[str, ...]) -> tuple[str, ...]:
    if state.dims[dim] == axes:
        return axes
    refuse(
        state.dims[dim]
        or dim not in state.uniform
        or set(axes) & (state.over | state.axes),
        "operands are sharded differently",
    )
    return axes


RULES: dict[str, Rule] = {
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update,
    "gather": _gather,
    "scatter-add": _scatter_add,
    "scatter_add": _scatter_add,
}
