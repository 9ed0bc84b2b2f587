"""The common primitives on NumPy arrays with leading dimensions for devices: nothing is compiled for them.

A rule gets the operands, each with as many leading dimensions as there are axes (of size one where it does not depend
on an axis), the primitive's parameters, the number of these dimensions and JAX's types of the results. What has no rule
here is asked of JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import special  # type: ignore[import-untyped] # comes with JAX; its stubs are a package of their own

from shardtypes.proving.program import Params

Host = Any
Rule = Callable[[list[Host], Params, int, Sequence[Any]], list[Host]]


def _entrywise(function: Callable[..., Any]) -> Rule:
    return lambda arrays, params, lead, types: [function(*_stretched(arrays, lead))]


def _stretched(arrays: list[Host], lead: int) -> list[Host]:
    """Scalars beside arrays get their rank."""
    rank = max(array.ndim for array in arrays)
    found = []
    for array in arrays:
        if array.ndim == rank:
            found.append(array)
            continue
        ones = (1,) * (rank - array.ndim)
        shape = array.shape[:lead] + ones + array.shape[lead:]
        found.append(array.reshape(shape))
    return found


def _divided(x: Host, y: Host) -> Host:
    if x.dtype.kind in "iu":
        safe = np.where(y == 0, 1, y)
        size = np.abs(x) // np.abs(safe)
        quotient = size * np.sign(x) * np.sign(safe)
        return np.where(y == 0, -1, quotient).astype(x.dtype)
    return x / y


def _remainder(x: Host, y: Host) -> Host:
    if x.dtype.kind in "iu":
        safe = np.where(y == 0, 1, y)
        rest = np.fmod(x, safe)
        return np.where(y == 0, x, rest).astype(x.dtype)
    return np.fmod(x, y)


def _integer_power(
    arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
) -> list[Host]:
    power = params["y"]
    return [
        arrays[0] ** power
        if power >= 0 or arrays[0].dtype.kind in "iu"
        else 1 / arrays[0] ** -power
    ]


def _round(
    arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
) -> list[Host]:
    away = int(params["rounding_method"]) == 0
    x = arrays[0]
    if away:
        return [np.trunc(x + np.copysign(0.5, x))]
    return [np.rint(x)]


def _converted(
    arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
) -> list[Host]:
    dtype = params["new_dtype"]
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return [arrays[0].astype(np.complex128)]
    if arrays[0].dtype.kind == "c":
        array = arrays[0].real
    else:
        array = arrays[0]
    if jnp.issubdtype(dtype, jnp.floating):
        return [array.astype(np.float64)]
    if dtype == np.bool_:
        return [array != 0]
    if array.dtype.kind == "f":  # XLA saturates
        limits = np.iinfo(dtype)
        whole = np.nan_to_num(np.trunc(array))
        array = np.clip(whole, limits.min, limits.max)
    return [array.astype(dtype)]


def _select(
    arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
) -> list[Host]:
    which, *cases = arrays
    rank = max(case.ndim for case in cases)
    which = which.reshape(which.shape + (1,) * (rank - which.ndim))
    if which.dtype == np.bool_:
        if len(cases) > 1:
            return [np.where(which, cases[1], cases[0])]
        return [cases[0]]
    result = cases[0]
    for number, case in enumerate(cases[1:], 1):
        result = np.where(which == number, case, result)
    return [result]


def _reduction(function: Callable[..., Any]) -> Rule:
    def rule(
        arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
    ) -> list[Host]:
        axes = tuple(axis + lead for axis in params["axes"])
        return [
            np.asarray(function(array, axis=axes)).astype(array.dtype, copy=False)
            for array in arrays
        ]

    return rule


def _argument(function: Callable[..., Any]) -> Rule:
    def rule(
        arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
    ) -> list[Host]:
        (axis,) = params["axes"]
        return [
            np.asarray(function(arrays[0], axis=axis + lead)).astype(
                params["index_dtype"]
            )
        ]

    return rule


def _cumulative(function: Callable[..., Any]) -> Rule:
    def rule(
        arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
    ) -> list[Host]:
        axis = params["axis"] + lead
        if params["reverse"]:
            array = np.flip(arrays[0], axis)
        else:
            array = arrays[0]
        found = function(array, axis=axis).astype(array.dtype, copy=False)
        if params["reverse"]:
            found = np.flip(found, axis)
        return [found]

    return rule


def _reshape(
    arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
) -> list[Host]:
    array = arrays[0]
    shape = array.shape[:lead] + tuple(types[0].shape)
    return [array.reshape(shape)]


def _transpose(
    arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
) -> list[Host]:
    (array,) = arrays
    places = [dim + lead for dim in params["permutation"]]
    order = [*range(lead), *places]
    return [np.transpose(array, order)]


def _broadcast(
    arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
) -> list[Host]:
    array = arrays[0]
    shape = params["shape"]
    places = params["broadcast_dimensions"]
    sizes = [1] * len(shape)
    for dim, place in enumerate(places):
        sizes[place] = array.shape[lead + dim]
    before = array.shape[:lead]
    whole = array.reshape(before + tuple(sizes))
    wanted = array.shape[:lead] + tuple(shape)
    return [np.broadcast_to(whole, wanted)]


def _concatenate(
    arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
) -> list[Host]:
    axis = params["dimension"] + lead
    return [np.concatenate(_of_all_devices(arrays, lead), axis=axis)]


def _of_all_devices(arrays: list[Host], lead: int) -> list[Host]:
    """Each for all devices for which one of them is."""
    devices = np.broadcast_shapes(*(array.shape[:lead] for array in arrays))
    found = []
    for array in arrays:
        shape = devices + array.shape[lead:]
        found.append(np.broadcast_to(array, shape))
    return found


def _stack(
    arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
) -> list[Host]:
    axis = params["axis"] + lead
    everywhere = _of_all_devices(arrays, lead)
    return [np.stack(everywhere, axis=axis)]


def _unstack(
    arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
) -> list[Host]:
    axis = params["axis"] + lead
    (array,) = arrays
    count = array.shape[axis]
    return [np.take(array, number, axis=axis) for number in range(count)]


def _tile(
    arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
) -> list[Host]:
    return [np.tile(arrays[0], (*(1,) * lead, *params["reps"]))]


def _slice(
    arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
) -> list[Host]:
    (array,) = arrays
    starts = params["start_indices"]
    limits = params["limit_indices"]
    strides = params["strides"] or (1,) * len(starts)
    parts = [slice(None)] * lead
    for start, limit, stride in zip(starts, limits, strides, strict=True):
        parts.append(slice(start, limit, stride))
    return [array[tuple(parts)]]


def _split(
    arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
) -> list[Host]:
    ends = np.cumsum(params["sizes"])[:-1]
    axis = params["axis"] + lead
    return list(np.split(arrays[0], ends, axis=axis))


def _iota(
    arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
) -> list[Host]:
    shape = params["shape"]
    dim = params["dimension"]
    if jnp.issubdtype(params["dtype"], jnp.floating):
        dtype = np.dtype(np.float64)
    else:
        dtype = params["dtype"]
    row = np.arange(shape[dim], dtype=dtype).reshape(
        [-1 if i == dim else 1 for i in range(len(shape))]
    )
    return [np.broadcast_to(row, shape)]


def _dot(
    arrays: list[Host], params: Params, lead: int, types: Sequence[Any]
) -> list[Host]:
    (left_over, right_over), (left_batch, right_batch) = params["dimension_numbers"]
    first, second = (_added_up_in(types[0].dtype, array) for array in arrays)
    left, m = _matrix(first, lead, left_batch, left_over, last=True)
    right, n = _matrix(second, lead, right_batch, right_over, last=False)
    batch = tuple(first.shape[lead + dim] for dim in left_batch)
    found = np.matmul(left, right)
    before = found.shape[:lead]
    return [found.reshape(before + batch + m + n)]


def _added_up_in(dtype: Any, array: Host) -> Host:
    """An operand as JAX adds up its products: integers in the dtype of the result, which holds more of them."""
    if array.dtype.kind not in "iu":
        return array
    return array.astype(dtype if np.dtype(dtype).kind in "iu" else np.float64)


def _matrix(
    array: Host, lead: int, batch: Sequence[int], over: Sequence[int], last: bool
) -> tuple[Host, tuple[int, ...]]:
    """As matrices: devices, the batch in one dimension, rows and columns; and the sizes of those that are kept."""
    rank = array.ndim - lead
    front = array.shape[:lead]
    shape = array.shape[lead:]
    kept = [dim for dim in range(rank) if dim not in batch and dim not in over]
    sizes = tuple(shape[dim] for dim in kept)
    count = math.prod(shape[dim] for dim in batch)
    many = math.prod(sizes)
    inner = math.prod(shape[dim] for dim in over)
    if last:
        order = [*batch, *kept, *over]
        matrix = many, inner
    else:
        order = [*batch, *over, *kept]
        matrix = inner, many
    behind = [lead + dim for dim in order]
    moved = np.transpose(array, [*range(lead), *behind])
    return moved.reshape(*front, count, *matrix), sizes


def _unary_sign(x: Host) -> Host:
    return np.sign(x)


QUICK: dict[str, Rule] = {
    "add": _entrywise(lambda x, y: x + y),
    "add_any": _entrywise(lambda x, y: x + y),
    "sub": _entrywise(lambda x, y: x - y),
    "mul": _entrywise(lambda x, y: x * y),
    "div": _entrywise(_divided),
    "rem": _entrywise(_remainder),
    "max": _entrywise(np.maximum),
    "min": _entrywise(np.minimum),
    "pow": _entrywise(np.power),
    "atan2": _entrywise(np.arctan2),
    "neg": _entrywise(np.negative),
    "exp": _entrywise(np.exp),
    "exp2": _entrywise(np.exp2),
    "log": _entrywise(np.log),
    "log2": _entrywise(np.log2),
    "log1p": _entrywise(np.log1p),
    "expm1": _entrywise(np.expm1),
    "sin": _entrywise(np.sin),
    "cos": _entrywise(np.cos),
    "tan": _entrywise(np.tan),
    "tanh": _entrywise(np.tanh),
    "sinh": _entrywise(np.sinh),
    "cosh": _entrywise(np.cosh),
    "logistic": _entrywise(special.expit),
    "erf": _entrywise(special.erf),
    "erfc": _entrywise(special.erfc),
    "erf_inv": _entrywise(special.erfinv),
    "lgamma": _entrywise(special.gammaln),
    "sqrt": _entrywise(np.sqrt),
    "cbrt": _entrywise(np.cbrt),
    "rsqrt": _entrywise(lambda x: 1 / np.sqrt(x)),
    "square": _entrywise(np.square),
    "one_minus_square": _entrywise(lambda x: 1 - x * x),
    "abs": _entrywise(np.abs),
    "sign": _entrywise(_unary_sign),
    "floor": _entrywise(np.floor),
    "ceil": _entrywise(np.ceil),
    "is_finite": _entrywise(np.isfinite),
    "eq": _entrywise(np.equal),
    "ne": _entrywise(np.not_equal),
    "lt": _entrywise(np.less),
    "le": _entrywise(np.less_equal),
    "gt": _entrywise(np.greater),
    "ge": _entrywise(np.greater_equal),
    "and": _entrywise(np.bitwise_and),
    "or": _entrywise(np.bitwise_or),
    "xor": _entrywise(np.bitwise_xor),
    "not": _entrywise(np.invert),
    "real": _entrywise(np.real),
    "imag": _entrywise(np.imag),
    "conj": _entrywise(np.conj),
    "clamp": _entrywise(lambda low, x, high: np.minimum(np.maximum(x, low), high)),
    "integer_pow": _integer_power,
    "round": _round,
    "convert_element_type": _converted,
    "select_n": _select,
    "reduce_sum": _reduction(np.sum),
    "reduce_max": _reduction(np.max),
    "reduce_min": _reduction(np.min),
    "reduce_prod": _reduction(np.prod),
    "reduce_and": _reduction(np.all),
    "reduce_or": _reduction(np.any),
    "argmax": _argument(np.argmax),
    "argmin": _argument(np.argmin),
    "cumsum": _cumulative(np.cumsum),
    "cumprod": _cumulative(np.cumprod),
    "cummax": _cumulative(np.maximum.accumulate),
    "cummin": _cumulative(np.minimum.accumulate),
    "reshape": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "transpose": _transpose,
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "slice": _slice,
    "stack": _stack,
    "unstack": _unstack,
    "tile": _tile,
    "split": _split,
    "rev": lambda arrays, params, lead, types: [
        np.flip(arrays[0], tuple(dim + lead for dim in params["dimensions"]))
    ],
    "iota": _iota,
    "dot_general": _dot,
}
