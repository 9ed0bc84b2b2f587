"""Reductions over dimensions, cumulative operations, extrema's positions and sorts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shardtypes.semantics import kinds
from shardtypes.semantics.array import Array, Dim, Params
from shardtypes.semantics.lazy import np
from shardtypes.semantics.letters import Letters, in_place
from shardtypes.semantics.primitive import PRIMITIVES as PRIMITIVES
from shardtypes.semantics.primitive import (
    Primitive,
    Pull,
    by_none,
    by_same,
    declare,
    declare_several,
    dtype_of_first,
)
from shardtypes.semantics.primitives.elementwise import (
    convert_element_type,
    div,
    eq,
    mul,
)
from shardtypes.semantics.primitives.indexing import put_along
from shardtypes.semantics.primitives.structure import (
    behind,
    broadcast_in_dim,
    iota,
    plain,
    zeros_like,
)
from shardtypes.semantics.registry import Refused
from shardtypes.semantics.relation import Monoid
from shardtypes.semantics.values import Values


def _reduced(operands: Sequence[Array], params: Params) -> Letters:
    own = plain("d", operands[0])
    return Letters(
        (own,),
        (tuple(factors for k, factors in enumerate(own) if k not in params["axes"]),),
    )


def _reduced_shape(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    return [
        tuple(
            size for k, size in enumerate(operands[0].dims) if k not in params["axes"]
        )
    ]


def _spread(array: Array, operand: Array, axes: Sequence[int]) -> Array:
    """A reduced array in the shape that it was reduced from."""
    kept = tuple(k for k in range(operand.rank) if k not in axes)
    return broadcast_in_dim(array, shape=operand.dims, broadcast_dimensions=kept)


def _pull_sum(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    return [_spread(cotangent, operands[0], params["axes"])]


def _pull_extremum(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    """Entries that reach the extremum share its cotangent."""
    (operand,), axes = operands, params["axes"]
    reached = convert_element_type(
        eq(operand, _spread(results[0], operand, axes)), new_dtype=operand.dtype
    )
    count = _spread(reduce_sum(reached, axes=axes), operand, axes)
    return [mul(_spread(cotangent, operand, axes), div(reached, count))]


def _pull_product(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    (operand,), axes = operands, params["axes"]
    return [div(_spread(mul(cotangent, results[0]), operand, axes), operand)]


def _reduction(
    name: str,
    evaluate: Callable[..., Any],
    values: Values,
    pull: Pull | None = None,
    takes: kinds.Kinds = kinds.ANY,
) -> Primitive:
    return declare(
        name,
        dtype=takes.checked(dtype_of_first),
        letters=_reduced,
        shape=_reduced_shape,
        values=values,
        evaluate=evaluate,
        stacked=lambda x, axes: evaluate(x, axes=behind(axes)),
        pull=pull,
    )


def _over(function: str) -> Callable[..., Any]:
    return lambda x, axes: getattr(np, function)(x, axis=tuple(axes))


def _extremum_values(monoid: Monoid) -> Values:
    return Values(degrees=(1,), monoid=monoid, idempotent=monoid)


reduce_sum = _reduction(
    "reduce_sum",
    lambda x, axes: np.sum(x, axis=tuple(axes), dtype=x.dtype),
    Values(jointly=frozenset({0}), monoid="sum"),
    _pull_sum,
    takes=kinds.NUMBERS,
)
reduce_prod = _reduction(
    "reduce_prod",
    lambda x, axes: np.prod(x, axis=tuple(axes), dtype=x.dtype),
    Values(degrees=(None,), monoid="prod"),
    _pull_product,
    takes=kinds.NUMBERS,
)
reduce_max = _reduction(
    "reduce_max", _over("max"), _extremum_values("max"), _pull_extremum
)
reduce_min = _reduction(
    "reduce_min", _over("min"), _extremum_values("min"), _pull_extremum
)
reduce_and = _reduction(
    "reduce_and",
    lambda x, axes: np.bitwise_and.reduce(x, axis=tuple(axes)),
    Values(degrees=(None,), monoid="and", idempotent="and"),
    takes=kinds.BITS,
)
reduce_or = _reduction(
    "reduce_or",
    lambda x, axes: np.bitwise_or.reduce(x, axis=tuple(axes)),
    Values(degrees=(None,), monoid="or", idempotent="or"),
    takes=kinds.BITS,
)
reduce_xor = _reduction(
    "reduce_xor",
    lambda x, axes: np.bitwise_xor.reduce(x, axis=tuple(axes)),
    Values(degrees=(None,)),
    takes=kinds.BITS,
)


# --- positions of extrema: the dimension is needed whole ----------------------------------------------------------


def _whole_and_gone(operands: Sequence[Array], params: Params) -> Letters:
    own = plain("d", operands[0])
    whole = frozenset(letter for k in params["axes"] for letter in own[k])
    return Letters(
        (own,),
        (tuple(factors for k, factors in enumerate(own) if k not in params["axes"]),),
        whole=whole,
    )


def _position(function: str) -> Callable[..., Any]:
    def evaluate(x: Any, *, axes: Sequence[int], index_dtype: str) -> Any:
        (axis,) = axes
        return getattr(np, function)(x, axis=axis).astype(index_dtype)

    return evaluate


def _index_dtype(operands: Sequence[Array], params: Params) -> Sequence[str | None]:
    return [params["index_dtype"]]


def _position_shape(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    for axis in params["axes"]:
        if operands[0].dims[axis] == 0:
            raise Refused(f"no elements along dimension {axis}", "sizes")
    return _reduced_shape(operands, params, letters)


argmax: Primitive = declare(
    "argmax",
    letters=_whole_and_gone,
    shape=_position_shape,
    dtype=_index_dtype,
    typed_by=by_none,
    values=Values(degrees=(0,)),
    evaluate=_position("argmax"),
)
argmin: Primitive = declare(
    "argmin",
    letters=_whole_and_gone,
    shape=_position_shape,
    dtype=_index_dtype,
    typed_by=by_none,
    values=Values(degrees=(0,)),
    evaluate=_position("argmin"),
)


# --- cumulative operations ----------------------------------------------------------------------------------------


def _along(operands: Sequence[Array], params: Params) -> Letters:
    own = [plain("d", operand) for operand in operands]
    whole = frozenset(own[0][params["axis"]])
    return Letters(tuple(own), tuple(own), whole, along=in_place(whole))


def _same_shape(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    return [operand.dims for operand in operands]


def _accumulated(accumulate: Callable[..., Any]) -> Callable[..., Any]:
    def evaluate(x: Any, *, axis: int, reverse: bool) -> Any:
        if not reverse:
            return accumulate(x, axis)
        return np.flip(accumulate(np.flip(x, axis), axis), axis)

    return evaluate


def _pull_cumsum(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    return [cumsum(cotangent, axis=params["axis"], reverse=not params["reverse"])]


def _pull_cumprod(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    weighed = cumsum(
        mul(cotangent, results[0]), axis=params["axis"], reverse=not params["reverse"]
    )
    return [div(weighed, operands[0])]


def _cumulative(
    name: str, accumulate: Callable[..., Any], values: Values, pull: Pull | None = None
) -> Primitive:
    return declare(
        name,
        letters=_along,
        shape=_same_shape,
        values=values,
        evaluate=_accumulated(accumulate),
        pull=pull,
    )


cumsum = _cumulative(
    "cumsum",
    lambda x, axis: np.cumsum(x, axis=axis, dtype=x.dtype),
    Values(jointly=frozenset({0})),
    _pull_cumsum,
)
cumprod = _cumulative(
    "cumprod",
    lambda x, axis: np.cumprod(x, axis=axis, dtype=x.dtype),
    Values(degrees=(None,)),
    _pull_cumprod,
)
cummax = _cumulative(
    "cummax",
    lambda x, axis: np.maximum.accumulate(x, axis=axis),
    Values(degrees=(1,), idempotent="max"),
)
cummin = _cumulative(
    "cummin",
    lambda x, axis: np.minimum.accumulate(x, axis=axis),
    Values(degrees=(1,), idempotent="min"),
)
cumlogsumexp = _cumulative(
    "cumlogsumexp",
    lambda x, axis: np.logaddexp.accumulate(x, axis=axis),
    Values(degrees=(None,)),
)


# --- sorts --------------------------------------------------------------------------------------------------------


def _sorted_letters(operands: Sequence[Array], params: Params) -> Letters:
    own = plain("d", operands[0])
    dims = (own,) * len(operands)
    whole = frozenset(own[params["dimension"]])
    return Letters(dims, dims, whole, along=in_place(whole))


def _sorted(
    *arrays: Any, dimension: int, num_keys: int, is_stable: bool, count: int
) -> Sequence[Any]:
    keys = arrays[:num_keys]
    if num_keys == 1:
        order = np.argsort(keys[0], axis=dimension, kind="stable")
    else:
        order = np.lexsort(tuple(reversed(keys)), axis=dimension)
    return [np.take_along_axis(array, order, axis=dimension) for array in arrays]


def _sort_values(params: Params) -> Values:
    return Values(degrees=(1,) * params["count"])


def _pull_sort(
    cotangents: Sequence[Array | None],
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    """Each cotangent goes back to where its entry came from."""
    dimension = params["dimension"]
    places = positions(operands[0].dims, dimension)
    keys = operands[: params["num_keys"]]
    order = sort(*keys, places, **{**params, "count": len(keys) + 1})[-1]
    return [
        None
        if cotangent is None
        else put_along(zeros_like(cotangent), order, cotangent, axis=dimension)
        for cotangent in cotangents
    ]


def positions(shape: Sequence[Dim], dimension: int) -> Array:
    """The index of each entry along one dimension."""
    return iota(shape=tuple(shape), dimension=dimension, dtype="int32")


sort = declare_several(
    "sort",
    letters=_sorted_letters,
    shape=_same_shape,
    dtype=lambda operands, params: [operand.dtype for operand in operands],
    typed_by=by_same,
    values=_sort_values,
    evaluate=_sorted,
    pull=_pull_sort,
    results=lambda params: params["count"],
)
