"""What moves entries: reshapes, transposes, slices, concatenations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from shardtypes.proving.rules.case import Case, Rule, unified
from shardtypes.proving.state import Shape, State, refuse, settled


def _transposed(case: Case) -> list[State]:
    case.agree("permutation")
    (state,) = case.states
    order = case.params["permutation"]
    moved = enumerate(order)
    return [
        replace(
            state,
            whole=case.whole,
            dims=tuple(state.dims[dim] for dim in order),
            uniform=frozenset(place for place, dim in moved if dim in state.uniform),
        )
    ]


def _broadcast(case: Case) -> list[State]:
    case.agree("broadcast_dimensions")
    state = case.states[0]
    local, result, whole_result = case.shape, case.result, case.whole
    places = tuple(case.params["broadcast_dimensions"])
    rank = len(result)
    dims: list[tuple[str, ...]] = [()] * rank
    uniform = set(range(rank)) - set(places)
    for dim, place in enumerate(places):
        few, many = local[dim], state.whole[dim]
        grows = result[place] != few or whole_result[place] != many
        has_several = few != 1 or many != 1 or state.dims[dim]
        refuse(grows and has_several, "a dimension is repeated on one side alone")
        if grows or dim in state.uniform:
            uniform.add(place)
        dims[place] = state.dims[dim]
    return [
        replace(
            state,
            whole=whole_result,
            dims=tuple(dims),
            uniform=frozenset(uniform),
        )
    ]


def _reshaped(case: Case) -> list[State]:
    is_plain = case.params.get("dimensions") is None
    refuse(
        case.primitive == "reshape" and not is_plain,
        "a reshape in another order",
    )
    (state,) = case.states
    local, whole = case.shape, state.whole
    out_local, out_whole = case.result, case.whole
    rank = len(out_whole)
    if len(state.uniform) == state.rank and not state.axes:
        return [
            replace(
                state,
                whole=out_whole,
                dims=((),) * rank,
                uniform=frozenset(range(rank)),
            )
        ]
    dims: list[tuple[str, ...]] = [()] * rank
    uniform: set[int] = set()
    for before, after in _groups(whole, out_whole, local, out_local):
        _regroup(
            state, before, after, (local, whole, out_local, out_whole), dims, uniform
        )
    return [
        replace(
            state,
            whole=out_whole,
            dims=tuple(dims),
            uniform=frozenset(uniform),
        )
    ]


def _regroup(
    state: State,
    before: Sequence[int],
    after: Sequence[int],
    shapes: tuple[Shape, Shape, Shape, Shape],
    dims: list[tuple[str, ...]],
    uniform: set[int],
) -> None:
    """Dimensions that become other ones; raises ``Unknown`` unless shards stay shards."""
    local, whole, out_local, out_whole = shapes
    if all(dim in state.uniform and not state.dims[dim] for dim in before):
        uniform.update(after)
        return
    for dim in before:
        refuse(
            dim in state.uniform and not state.dims[dim] and local[dim] != whole[dim],
            "a constant dimension whose size depends on the mesh",
        )
    if len(before) == 1 and len(after) == 1 and before[0] in state.uniform:
        uniform.add(after[0])
    sharded = [dim for dim in before if state.dims[dim]]
    if not sharded:
        refuse(
            [out_local[dim] for dim in after] != [out_whole[dim] for dim in after],
            "a reshape to other sizes on one device",
        )
        return
    (first, *more) = sharded
    refuse(
        more or any(whole[dim] != 1 for dim in before if dim < first),
        "a sharded dimension becomes a minor factor",
    )
    leading = next((dim for dim in after if out_whole[dim] != 1), None)
    refuse(leading is None, "a sharded dimension disappears")
    assert leading is not None
    rest = [dim for dim in after if dim > leading]
    ratio = whole[first] // local[first]
    refuse(
        out_local[leading] * ratio != out_whole[leading]
        or any(out_local[dim] != out_whole[dim] for dim in rest),
        "a reshape takes the sharded dimension apart",
    )
    dims[leading] = state.dims[first]


def _groups(
    whole: Shape, out: Shape, local: Shape, out_local: Shape
) -> list[tuple[list[int], list[int]]]:
    """Runs of dimensions with as many entries before as after, on one device and on devices."""
    groups = []
    i = j = 0
    while i < len(whole) or j < len(out):
        before: list[int] = []
        after: list[int] = []
        sizes = [1, 1, 1, 1]
        while True:
            if sizes[0] == sizes[1] and sizes[2] == sizes[3] and (before or after):
                break
            if i < len(whole) and (
                (sizes[0] <= sizes[1] and sizes[2] <= sizes[3]) or j >= len(out)
            ):
                sizes[0], sizes[2] = sizes[0] * whole[i], sizes[2] * local[i]
                before.append(i)
                i += 1
            elif j < len(out):
                sizes[1], sizes[3] = sizes[1] * out[j], sizes[3] * out_local[j]
                after.append(j)
                j += 1
            else:
                break
        groups.append((before, after))
    for before, after in groups:
        refuse(
            math.prod(whole[d] for d in before) != math.prod(out[d] for d in after),
            "a reshape that is another on one device",
        )
        refuse(
            math.prod(local[d] for d in before)
            != math.prod(out_local[d] for d in after),
            "a reshape that is another on one device",
        )
    return groups


def _concatenated(case: Case) -> list[State]:
    case.agree("dimension")
    along = case.params["dimension"]
    states = list(case.states)
    for number, state in enumerate(states):
        refuse(
            state.dims[along] or case.shapes[number][along] != state.whole[along],
            "a concatenation along a sharded dimension",
        )
    found, dims, uniform = unified(case)
    rest = [state for state in found if not state.zero]
    refuse(
        len({(state.parts, state.factor) for state in rest}) > 1,
        "a partial result and a complete value are concatenated",
    )
    if not rest:
        return [State(case.whole, dims, uniform=uniform - {along}, zero=True)]
    refuse(
        rest[0].monoid not in (None, "sum") and len(rest) < len(found),
        "a partial result that is no sum",
    )
    return [State(case.whole, dims, rest[0].parts, rest[0].factor, uniform - {along})]


def _stacked(case: Case) -> list[State]:
    case.agree("axis")
    axis = case.params["axis"]
    whole = tuple(size for dim, size in enumerate(case.whole) if dim != axis)
    local = tuple(size for dim, size in enumerate(case.result) if dim != axis)
    found, dims, uniform = unified(replace_results(case, local, whole))
    rest = [state for state in found if not state.zero]
    refuse(
        len({(state.parts, state.factor) for state in rest}) > 1,
        "a partial result and a complete value are stacked",
    )
    refuse(
        rest and rest[0].monoid not in (None, "sum") and len(rest) < len(found),
        "a partial result that is no sum",
    )
    dims = (*dims[:axis], (), *dims[axis:])
    shifted = frozenset(dim + (dim >= axis) for dim in uniform)
    if not rest:
        return [State(case.whole, dims, uniform=shifted, zero=True)]
    return [State(case.whole, dims, rest[0].parts, rest[0].factor, shifted)]


def replace_results(case: Case, local: Shape, whole: Shape) -> Case:
    """The same operands, as if for results of another shape."""
    return replace(case, results=[local], wholes=[whole])


def _unstacked(case: Case) -> list[State]:
    case.agree("axis")
    (state,) = case.states
    axis = case.params["axis"]
    refuse(
        state.dims[axis] or case.shape[axis] != state.whole[axis],
        "a sharded dimension is taken apart",
    )
    dims = (*state.dims[:axis], *state.dims[axis + 1 :])
    uniform = frozenset(dim - (dim > axis) for dim in state.uniform if dim != axis)
    return [
        replace(state, whole=whole, dims=dims, uniform=uniform) for whole in case.wholes
    ]


def _tiled(case: Case) -> list[State]:
    (state,) = case.states
    for dim, (here, there) in enumerate(
        zip(case.params["reps"], case.one["reps"], strict=True)
    ):
        if here == there == 1 or (dim in state.uniform and not state.dims[dim]):
            continue
        refuse(
            here != there or state.dims[dim] or case.shape[dim] != state.whole[dim],
            "a sharded dimension is repeated",
        )
    return [replace(state, whole=case.whole)]


def _sliced(case: Case) -> list[State]:
    (state,) = case.states
    starts = case.params["start_indices"], case.one["start_indices"]
    limits = case.params["limit_indices"], case.one["limit_indices"]
    strides = tuple(
        (case_["strides"] or (1,) * state.rank) for case_ in (case.params, case.one)
    )
    for dim in range(state.rank):
        here = starts[0][dim], limits[0][dim], strides[0][dim]
        there = starts[1][dim], limits[1][dim], strides[1][dim]
        whole = here == (0, case.shape[dim], 1) and there == (
            0,
            state.whole[dim],
            1,
        )
        equal = (
            here == there
            and case.shape[dim] == state.whole[dim]
            and not state.dims[dim]
        )
        uniform = dim in state.uniform and not state.dims[dim]
        refuse(
            not whole and not equal and not uniform, "a slice of a sharded dimension"
        )
    return [replace(state, whole=case.whole)]


def _padded(case: Case) -> list[State]:
    case.agree("padding_config")
    state, value = case.states
    settled(state, case.shape)
    refuse(value.parts and not value.zero, "padded with a partial result")
    changed = [
        dim
        for dim, config in enumerate(case.params["padding_config"])
        if tuple(config) != (0, 0, 0)
    ]
    refuse(any(state.dims[dim] for dim in changed), "a sharded dimension is padded")
    refuse(
        not value.zero and (state.parts or state.factor != value.factor) and changed,
        "a partial result is padded with a number",
    )
    refuse(
        state.monoid not in (None, "sum") and changed,
        "a partial result that is no sum is padded",
    )
    zero = state.zero and (value.zero or not changed)
    return [
        replace(
            state, whole=case.whole, uniform=state.uniform - set(changed), zero=zero
        )
    ]


def _reversed(case: Case) -> list[State]:
    case.agree("dimensions")
    (state,) = case.states
    refuse(
        any(state.dims[dim] for dim in case.params["dimensions"]),
        "a sharded dimension is reversed",
    )
    return [state]


def _split(case: Case) -> list[State]:
    case.agree("axis")
    (state,) = case.states
    axis = case.params["axis"]
    refuse(
        tuple(case.params["sizes"]) != tuple(case.one["sizes"]) or state.dims[axis],
        "a sharded dimension is taken apart",
    )
    settled(state, case.shape)
    return [replace(state, whole=whole) for whole in case.wholes]


def _counted(case: Case) -> list[State]:
    dim = case.params["dimension"]
    case.agree("dimension", "dtype")
    rank = len(case.whole)
    refuse(case.result[dim] != case.whole[dim], "each device counts its own")
    return [State(case.whole, ((),) * rank, uniform=frozenset(range(rank)) - {dim})]


RULES: dict[str, Rule] = {
    "transpose": _transposed,
    "broadcast_in_dim": _broadcast,
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), _reshaped),
    "concatenate": _concatenated,
    "slice": _sliced,
    "stack": _stacked,
    "unstack": _unstacked,
    "tile": _tiled,
    "pad": _padded,
    "rev": _reversed,
    "split": _split,
    "iota": _counted,
}
