"""Products that add up over dimensions."""

from __future__ import annotations

from fractions import Fraction

from shardtypes.proving.rules.case import Case, Rule
from shardtypes.proving.state import State, adopted, refuse


def _dot(case: Case) -> list[State]:
    case.agree("dimension_numbers")
    (left_over, right_over), (left_batch, right_batch) = case.params[
        "dimension_numbers"
    ]
    left, right = case.states
    factor = Fraction(1)
    pairs = [
        *zip(left_over, right_over, strict=True),
        *zip(left_batch, right_batch, strict=True),
    ]
    contracted = set(left_over)
    for a, b in pairs:
        if left.dims[a] != right.dims[b]:
            left, right = _alike(case, left, right, a, b)
        few, many = case.shape[a], left.whole[a]
        if (
            not left.dims[a]
            and few != many
            and (a in contracted or not (a in left.uniform and b in right.uniform))
        ):
            # Both are constant along it: so many times one product.
            refuse(
                a not in left.uniform or b not in right.uniform or not few,
                "a contracted dimension whose size depends on the mesh",
            )
            factor *= Fraction(few, many)
    return [_product(case, left, right, factor)]


def _alike(
    case: Case, left: State, right: State, a: int, b: int
) -> tuple[State, State]:
    if left.dims[a]:
        return left, adopted(right, b, left.dims[a], case.shapes[1], case.sizes)
    return adopted(left, a, right.dims[b], case.shape, case.sizes), right


def _kept(
    case: Case, left: State, right: State
) -> tuple[list[tuple[str, ...]], set[int]]:
    """The dimensions of the result: the axes of each, and which are uniform."""
    (left_over, right_over), (left_batch, right_batch) = case.params[
        "dimension_numbers"
    ]
    left_free = [
        dim
        for dim in range(left.rank)
        if dim not in left_over and dim not in left_batch
    ]
    right_free = [
        dim
        for dim in range(right.rank)
        if dim not in right_over and dim not in right_batch
    ]
    dims = [
        *(left.dims[d] for d in left_batch),
        *(left.dims[d] for d in left_free),
        *(right.dims[d] for d in right_free),
    ]
    uniform = {
        number
        for number, (a, b) in enumerate(zip(left_batch, right_batch, strict=True))
        if a in left.uniform and b in right.uniform
    }
    uniform |= {
        len(left_batch) + number
        for number, dim in enumerate(left_free)
        if dim in left.uniform
    }
    first = len(left_batch) + len(left_free)
    uniform |= {
        first + number for number, dim in enumerate(right_free) if dim in right.uniform
    }
    return dims, uniform


def _product(case: Case, left: State, right: State, factor: Fraction) -> State:
    (left_over, _), _ = case.params["dimension_numbers"]
    dims, uniform = _kept(case, left, right)
    whole = case.whole
    if left.zero or right.zero:
        return State(whole, tuple(dims), uniform=frozenset(uniform), zero=True)
    refuse(
        (left.parts and right.parts) or {left.monoid, right.monoid} - {None, "sum"},
        "partial results are multiplied",
    )
    refuse(
        left.over & right.axes or right.over & left.axes,
        "a partial result is multiplied with a sharded operand",
    )
    parts = dict(left.parts) | dict(right.parts)
    # A dimension that both have, or that is added up, is one place of an axis; every other is one of its own.
    places = [axis for names in dims for axis in names]
    places += [axis for dim in left_over for axis in left.dims[dim]]
    refuse(
        len(set(places)) != len(places),
        "operands are sharded over one axis along different dimensions",
    )
    for dim in left_over:
        parts |= dict.fromkeys(left.dims[dim], "sum")
    factor *= left.factor * right.factor
    return State(
        whole, tuple(dims), tuple(sorted(parts.items())), factor, frozenset(uniform)
    )


def _convolved(case: Case) -> list[State]:
    case.agree(
        "window_strides",
        "padding",
        "lhs_dilation",
        "rhs_dilation",
        "dimension_numbers",
        "feature_group_count",
        "batch_group_count",
    )
    left, right = case.states
    numbers = case.params["dimension_numbers"]
    batch, in_features, *space = numbers.lhs_spec
    out_features, in_kernel, *window = numbers.rhs_spec
    for state, shape in zip(case.states, case.shapes, strict=True):
        for dim in range(state.rank):
            refuse(
                shape[dim] != state.whole[dim] and not state.dims[dim],
                "a constant dimension whose size depends on the mesh",
            )
    refuse(
        any(left.dims[dim] for dim in space) or any(right.dims[dim] for dim in window),
        "a convolution along a sharded dimension",
    )
    grouped = case.params["feature_group_count"] != 1
    refuse(
        case.params["batch_group_count"] != 1 and (left.axes or right.axes),
        "a convolution in groups of a sharded operand",
    )
    refuse(
        grouped and (left.dims[in_features] or right.axes),
        "a convolution in groups of a sharded operand",
    )
    refuse(
        left.dims[in_features] != right.dims[in_kernel],
        "operands are sharded differently",
    )
    refuse(
        (left.parts and right.parts) or {left.monoid, right.monoid} - {None, "sum"},
        "partial results are multiplied",
    )
    refuse(
        left.over & right.axes or right.over & left.axes,
        "a partial result is multiplied with a sharded operand",
    )
    dims: list[tuple[str, ...]] = [()] * left.rank
    dims[numbers.out_spec[0]] = left.dims[batch]
    dims[numbers.out_spec[1]] = right.dims[out_features]
    places = [*left.dims[batch], *right.dims[out_features], *left.dims[in_features]]
    refuse(
        len(set(places)) != len(places),
        "operands are sharded over one axis along different dimensions",
    )
    parts = (
        dict(left.parts)
        | dict(right.parts)
        | dict.fromkeys(left.dims[in_features], "sum")
    )
    zero = left.zero or right.zero
    if zero:
        return [State(case.whole, tuple(dims), zero=True)]
    return [
        State(
            case.whole,
            tuple(dims),
            tuple(sorted(parts.items())),
            left.factor * right.factor,
        )
    ]


RULES: dict[str, Rule] = {"dot_general": _dot, "conv_general_dilated": _convolved}
