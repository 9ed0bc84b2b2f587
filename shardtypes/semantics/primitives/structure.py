"""Operations that move entries and compute nothing: broadcasting, reshapes, transposes, joins, slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from shardtypes.lang.size import Size
from shardtypes.semantics.array import Array, Dim, Params, SizesDiffer
from shardtypes.semantics.lazy import np
from shardtypes.semantics.letters import Factors, Letters, fresh, names
from shardtypes.semantics.local_sizes import capacity_axes
from shardtypes.semantics.primitive import (
    PRIMITIVES,
    Primitive,
    by_first,
    by_none,
    declare,
)
from shardtypes.semantics.primitives.elementwise import number, sub
from shardtypes.semantics.registry import Refused
from shardtypes.semantics.sizes import is_surely_less
from shardtypes.semantics.values import Values


def behind(axes: Sequence[int]) -> tuple[int, ...]:
    """The same dimensions of an array that has one more in front."""
    return tuple(axis + 1 for axis in axes)


_MOVED = Values(jointly=frozenset({0}), monotone=(1,), moves=True)


def plain(prefix: str, array: Array) -> tuple[Factors, ...]:
    """A letter for each dimension, none for those of size 1."""
    return tuple(
        () if size == 1 else (f"{prefix}{k}",) for k, size in enumerate(array.dims)
    )


# --- iota and full -----------------------------------------------------------------------------------------------


def _shape_given(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    return [tuple(params["shape"])]


def _counted(*, shape: Sequence[int], dimension: int, dtype: str) -> Any:
    from shardtypes.semantics.special import held

    sizes = [1] * len(shape)
    sizes[dimension] = shape[dimension]
    return held(
        np.broadcast_to(np.arange(shape[dimension]).reshape(sizes), shape), dtype
    )


def _of_capacity(operands: Sequence[Array], params: Params) -> frozenset[str]:
    """What has a capacity in its shape depends on the number of devices."""
    return capacity_axes(*params["shape"])


iota: Primitive = declare(
    "iota",
    own=_of_capacity,
    letters=lambda operands, params: Letters((), (fresh("n", len(params["shape"])),)),
    shape=_shape_given,
    dtype=lambda operands, params: [params["dtype"]],
    values=Values(),
    evaluate=_counted,
)


def _broadcast_letters(operands: Sequence[Array], params: Params) -> Letters:
    own = plain("d", operands[0])
    result: list[Factors] = [(f"n{k}",) for k in range(len(params["shape"]))]
    for factors, place in zip(own, params["broadcast_dimensions"], strict=True):
        if factors:
            result[place] = factors
    return Letters((own,), (tuple(result),))


def _broadcast(
    x: Any, *, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Any:
    sizes = [1] * len(shape)
    for size, place in zip(x.shape, broadcast_dimensions, strict=True):
        sizes[place] = size
    return np.broadcast_to(x.reshape(sizes), shape)


def _pull_broadcast(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    (operand,) = operands
    places = params["broadcast_dimensions"]
    stretched = {
        place for size, place in zip(operand.dims, places, strict=True) if size == 1
    }
    summed = tuple(
        k for k in range(cotangent.rank) if k not in places or k in stretched
    )
    found = PRIMITIVES["reduce_sum"](cotangent, axes=summed)
    return [reshape(found, new_sizes=operand.dims) if stretched else found]


broadcast_in_dim: Primitive = declare(
    "broadcast_in_dim",
    own=_of_capacity,
    letters=_broadcast_letters,
    shape=_shape_given,
    values=_MOVED,
    evaluate=_broadcast,
    stacked=lambda x, shape, broadcast_dimensions: _broadcast(
        x,
        shape=(len(x), *shape),
        broadcast_dimensions=(0, *behind(broadcast_dimensions)),
    ),
    pull=_pull_broadcast,
)


# --- reshape, squeeze, expand_dims, transpose, rev ----------------------------------------------------------------


def _quotient(numerator: Dim, divisor: Dim) -> Dim:
    """The exact quotient of two sizes; None where there is none for all sizes."""
    if numerator is None or divisor is None:
        return None
    if isinstance(numerator, int) and isinstance(divisor, int):
        return numerator // divisor if divisor and numerator % divisor == 0 else None
    if divisor == 0:
        return None
    quotient = Size.of(numerator).divides_exactly(Size.of(divisor))
    if quotient is None:
        return None
    return quotient if quotient.constant is None else quotient.constant


def _alike_at_the_end(before: Sequence[Dim], after: Sequence[Dim]) -> int:
    """How many of the last dimensions stay as they are."""
    count = 0
    for size, other in zip(reversed(before), reversed(after), strict=False):
        if size is None or size == 1 or size != other:
            break
        count += 1
    return count


def factorised(
    before: Sequence[Dim], after: Sequence[Dim]
) -> tuple[tuple[Factors, ...], tuple[Factors, ...]]:
    """The common factors of the dimensions before and after a reshape, major to minor.

    From where on sizes do not divide each other nothing is paired any more: the letters there are of one side only.
    """
    letters = names()
    same = _alike_at_the_end(before, after)
    if same:
        kept = tuple((f"e{k}",) for k in range(same))
        left_over = factorised(before[:-same], after[:-same])
        return (*left_over[0], *kept), (*left_over[1], *kept)
    first: list[list[str]] = [[] for _ in before]
    second: list[list[str]] = [[] for _ in after]
    i = j = 0
    left: Dim = 1
    right: Dim = 1
    while True:
        while left == 1 and i < len(before):
            left, i = before[i], i + 1
        while right == 1 and j < len(after):
            right, j = after[j], j + 1
        if left == 1 or right == 1:
            break
        fewer, more = _quotient(left, right), _quotient(right, left)
        if fewer is None and more is None:
            break
        letter = next(letters)
        first[i - 1].append(letter)
        second[j - 1].append(letter)
        left, right = (
            (fewer if fewer is not None else 1),
            (more if more is not None else 1),
        )
    for side, start, rest in ((first, i, left), (second, j, right)):
        for k in range(start - (rest != 1), len(side)):
            side[k].append(f"{next(letters)}{'a' if side is first else 'b'}")
    return tuple(tuple(one) for one in first), tuple(tuple(one) for one in second)


def _reshape_letters(operands: Sequence[Array], params: Params) -> Letters:
    before, after = factorised(operands[0].dims, params["new_sizes"])
    return Letters((before,), (after,))


def _reshaped(x: Any, new_sizes: Sequence[int]) -> Any:
    """Raises SizesDiffer where the numbers of entries differ."""
    if np.size(x) != math.prod(new_sizes):
        sizes = tuple(map(int, new_sizes))
        raise SizesDiffer(
            f"reshape of an array of shape {np.shape(x)} to {sizes}: {np.size(x)} is not {math.prod(sizes)}"
        )
    return np.reshape(x, tuple(new_sizes))


def _reshaped_everywhere(x: Any, new_sizes: Sequence[int]) -> Any:
    _reshaped(x[0], new_sizes)  # raises for one device
    return np.reshape(x, (len(x), *new_sizes))


def _pull_reshape(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    return [reshape(cotangent, new_sizes=operands[0].dims)]


reshape: Primitive = declare(
    "reshape",
    letters=_reshape_letters,
    shape=lambda operands, params, letters: [tuple(params["new_sizes"])],
    values=_MOVED,
    evaluate=_reshaped,
    stacked=_reshaped_everywhere,
    pull=_pull_reshape,
)


def _squeeze_letters(operands: Sequence[Array], params: Params) -> Letters:
    own = plain("d", operands[0])
    return Letters(
        (own,),
        (tuple(factors for k, factors in enumerate(own) if k not in params["axes"]),),
    )


def _squeezed_shape(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    return [
        tuple(
            size for k, size in enumerate(operands[0].dims) if k not in params["axes"]
        )
    ]


squeeze: Primitive = declare(
    "squeeze",
    letters=_squeeze_letters,
    shape=_squeezed_shape,
    values=_MOVED,
    evaluate=lambda x, axes: np.squeeze(x, axis=tuple(axes)),
    stacked=lambda x, axes: np.squeeze(x, axis=behind(axes)),
    pull=lambda cotangent, operands, results, params: [
        expand_dims(cotangent, axes=params["axes"])
    ],
)


def _expand_letters(operands: Sequence[Array], params: Params) -> Letters:
    own = plain("d", operands[0])
    rest = list(own)
    for axis in sorted(params["axes"]):
        rest.insert(axis, ())
    return Letters((own,), (tuple(rest),))


def _expanded_shape(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    sizes = list(operands[0].dims)
    for axis in sorted(params["axes"]):
        sizes.insert(axis, 1)
    return [tuple(sizes)]


expand_dims: Primitive = declare(
    "expand_dims",
    letters=_expand_letters,
    shape=_expanded_shape,
    values=_MOVED,
    evaluate=lambda x, axes: np.expand_dims(x, axis=tuple(axes)),
    stacked=lambda x, axes: np.expand_dims(x, axis=behind(axes)),
    pull=lambda cotangent, operands, results, params: [
        squeeze(cotangent, axes=params["axes"])
    ],
)


def _transpose_letters(operands: Sequence[Array], params: Params) -> Letters:
    own = plain("d", operands[0])
    return Letters((own,), (tuple(own[k] for k in params["permutation"]),))


def _inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(permutation)), key=lambda k: permutation[k]))


transpose: Primitive = declare(
    "transpose",
    letters=_transpose_letters,
    shape=lambda operands, params, letters: [
        tuple(operands[0].dims[k] for k in params["permutation"])
    ],
    values=_MOVED,
    evaluate=lambda x, permutation: np.transpose(x, permutation),
    stacked=lambda x, permutation: np.transpose(x, (0, *behind(permutation))),
    pull=lambda cotangent, operands, results, params: [
        transpose(cotangent, permutation=_inverse(params["permutation"]))
    ],
)


def _reversed_letters(operands: Sequence[Array], params: Params) -> Letters:
    own = plain("d", operands[0])
    moved = frozenset(letter for k in params["dimensions"] for letter in own[k])
    return Letters((own,), (own,), window=moved)


rev: Primitive = declare(
    "rev",
    letters=_reversed_letters,
    values=_MOVED,
    shape=lambda operands, params, letters: [operands[0].dims],
    evaluate=lambda x, dimensions: np.flip(x, axis=tuple(dimensions)),
    stacked=lambda x, dimensions: np.flip(x, axis=behind(dimensions)),
    pull=lambda cotangent, operands, results, params: [
        rev(cotangent, dimensions=params["dimensions"])
    ],
)


# --- concatenate, pad ---------------------------------------------------------------------------------------------


def _joined(params: Params) -> Values:
    every = frozenset(range(params["count"]))
    return Values(jointly=every, monotone=(1,) * len(every), moves=True)


def _concatenate_letters(operands: Sequence[Array], params: Params) -> Letters:
    dimension = params["dimension"]
    if len({operand.rank for operand in operands}) > 1:
        raise Refused("ranks differ")
    own = [list(fresh("d", operand.rank)) for operand in operands]
    for k in range(operands[0].rank):
        if all(operand.dims[k] == 1 for operand in operands):
            for dims in own:
                dims[k] = ()
    for i, dims in enumerate(own):
        dims[dimension] = (f"j{i}",)
    result = list(own[0])
    result[dimension] = ("joined",)
    moved = frozenset(f"j{i}" for i in range(len(operands)))
    return Letters(tuple(tuple(dims) for dims in own), (tuple(result),), window=moved)


def _concatenated_shape(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    sizes = list(operands[0].dims)
    total: Dim = 0
    for operand in operands:
        size = operand.dims[params["dimension"]]
        total = None if total is None or size is None else total + size
    sizes[params["dimension"]] = total
    return [tuple(sizes)]


def _pull_concatenate(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    found: list[Array | None] = []
    start: Dim = 0
    for operand in operands:
        low: list[Dim] = [0] * cotangent.rank
        high = list(cotangent.dims)
        low[params["dimension"]] = start
        size = operand.dims[params["dimension"]]
        start = None if start is None or size is None else start + size
        high[params["dimension"]] = start
        found.append(
            slice_(
                cotangent,
                start_indices=tuple(low),
                limit_indices=tuple(high),
                strides=None,
            )
        )
    return found


concatenate: Primitive = declare(
    "concatenate",
    letters=_concatenate_letters,
    shape=_concatenated_shape,
    values=_joined,
    evaluate=lambda *arrays, dimension, count: np.concatenate(arrays, axis=dimension),
    stacked=lambda *arrays, dimension, count: np.concatenate(
        arrays, axis=dimension + 1
    ),
    pull=_pull_concatenate,
)


def _pad_letters(operands: Sequence[Array], params: Params) -> Letters:
    if len(params["padding_config"]) != operands[0].rank:
        raise Refused(f"{len(params['padding_config'])} paddings", "ranks")
    own = plain("d", operands[0])
    result = list(own)
    moved: set[str] = set()
    for k, (low, high, interior) in enumerate(params["padding_config"]):
        if (low, high, interior) != (0, 0, 0):
            moved.update(own[k])
            result[k] = (f"p{k}",)
    return Letters((own, ()), (tuple(result),), window=frozenset(moved))


def padded_size(size: Any, low: Any, high: Any, interior: Any) -> Any:
    """Of a dimension with so much before, behind and between neighbours."""
    between = 0
    if interior and size != 0:
        between = (size - 1) * interior
    return size + low + high + between


def _padded_shape(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    sizes: list[Dim] = []
    config = params["padding_config"]
    for size, (low, high, interior) in zip(operands[0].dims, config, strict=True):
        if interior < 0:
            raise Refused(f"interior padding of {interior}", "sizes")
        if size is None:
            sizes.append(None)
        else:
            left = padded_size(size, low, high, interior)
            if is_surely_less(left, 0):
                raise Refused(f"the padding leaves a size of {left}", "sizes")
            sizes.append(left)
    return [tuple(sizes)]


def _padded(
    x: Any, value: Any, *, padding_config: Sequence[tuple[int, int, int]]
) -> Any:
    shape, full, places, cut = [], [], [], []
    for size, (low, high, interior) in zip(x.shape, padding_config, strict=True):
        between = max(size - 1, 0) * interior
        shape.append(size + low + high + between)
        full.append(size + max(low, 0) + max(high, 0) + between)
        first = max(low, 0)
        last = first + max(size - 1, 0) * (interior + 1)
        places.append(slice(first, last + (size > 0), interior + 1))
        cut.append(slice(max(-low, 0), max(-low, 0) + shape[-1]))
    out = np.full(full, value, x.dtype)
    out[tuple(places)] = x
    return out[tuple(cut)]


def _pull_pad(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    zero = number(0.0, cotangent)
    back = tuple((-low, -high, 0) for low, high, _ in params["padding_config"])
    inner = pad(cotangent, zero, padding_config=back)
    steps = tuple(interior + 1 for _, _, interior in params["padding_config"])
    inner = slice_(
        inner, start_indices=(0,) * inner.rank, limit_indices=inner.dims, strides=steps
    )
    every = tuple(range(cotangent.rank))
    outside = sub(
        PRIMITIVES["reduce_sum"](cotangent, axes=every),
        PRIMITIVES["reduce_sum"](inner, axes=every),
    )
    return [inner, outside]


pad: Primitive = declare(
    "pad",
    letters=_pad_letters,
    shape=_padded_shape,
    values=Values(jointly=frozenset({0, 1}), monotone=(1, 1), moves=True),
    evaluate=_padded,
    pull=_pull_pad,
)


# --- slices -------------------------------------------------------------------------------------------------------


def _refuse_outside(operand: Array, params: Params) -> None:
    """Raises Refused where a slice certainly does not lie in the array: nothing is clamped."""
    starts, limits = params["start_indices"], params["limit_indices"]
    for name, given in (("start", starts), ("limit", limits)):
        if len(given) != operand.rank:
            raise Refused(f"{len(given)} {name} indices", "ranks")
    for k, size in enumerate(operand.dims):
        start, limit = starts[k], limits[k]
        outside = is_surely_less(start, 0) or is_surely_less(size, limit)
        if outside or is_surely_less(limit, start):
            text = f"[{start}:{limit}] is out of bounds for dimension {k}"
            raise Refused(text, "sizes")


def _slice_letters(operands: Sequence[Array], params: Params) -> Letters:
    _refuse_outside(operands[0], params)
    own = plain("d", operands[0])
    result = list(own)
    moved: set[str] = set()
    strides = params["strides"] or (1,) * len(own)
    bounds = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    for k, (start, limit, stride) in enumerate(bounds):
        if start != 0 or limit != operands[0].dims[k] or stride != 1:
            moved.update(own[k])
            result[k] = (f"s{k}",)
    return Letters((own,), (tuple(result),), window=frozenset(moved))


def _sliced_shape(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    strides = params["strides"] or (1,) * len(params["start_indices"])
    sizes: list[Dim] = []
    for start, limit, stride in zip(
        params["start_indices"], params["limit_indices"], strides, strict=True
    ):
        sizes.append(
            None
            if start is None or limit is None
            else (limit - start + stride - 1) // stride
        )
    return [tuple(sizes)]


def _sliced(
    x: Any,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None,
) -> Any:
    return x[_bounds(start_indices, limit_indices, strides)]


def _sliced_everywhere(
    x: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None,
) -> Any:
    return x[(slice(None), *_bounds(start_indices, limit_indices, strides))]


def _bounds(
    starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None
) -> tuple[slice, ...]:
    steps = strides or (1,) * len(starts)
    return tuple(map(slice, starts, limits, steps))


def _pull_slice(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    strides = params["strides"] or (1,) * cotangent.rank
    config = []
    for k, (start, stride) in enumerate(
        zip(params["start_indices"], strides, strict=True)
    ):
        size, kept = operands[0].dims[k], cotangent.dims[k]
        covered = start + (kept - 1) * stride + 1  # type: ignore[operator]  # sizes are known where gradients are taken
        config.append((start, size - covered, stride - 1))
    return [pad(cotangent, number(0.0, cotangent), padding_config=tuple(config))]


slice_: Primitive = declare(
    "slice",
    own=lambda operands, params: capacity_axes(*params["limit_indices"]),
    letters=_slice_letters,
    shape=_sliced_shape,
    values=_MOVED,
    evaluate=_sliced,
    stacked=_sliced_everywhere,
    pull=_pull_slice,
)


def _refuse_larger(operand: Array, sizes: Sequence[Dim]) -> None:
    """Raises Refused where a slice is certainly larger than the array."""
    if len(sizes) != operand.rank:
        raise Refused(f"{len(sizes)} slice sizes", "ranks")
    for k, (whole, size) in enumerate(zip(operand.dims, sizes, strict=True)):
        if is_surely_less(whole, size) or is_surely_less(size, 0):
            raise Refused(f"a slice of {size} from dimension {k}", "sizes")


def _dynamic_letters(operands: Sequence[Array], params: Params) -> Letters:
    _refuse_larger(operands[0], params["slice_sizes"])
    own = plain("d", operands[0])
    result = list(own)
    moved: set[str] = set()
    for k, size in enumerate(params["slice_sizes"]):
        if size != operands[0].dims[k]:
            moved.update(own[k])
            result[k] = () if size == 1 else (f"s{k}",)
    return Letters(
        (own, *((),) * (len(operands) - 1)), (tuple(result),), window=frozenset(moved)
    )


def _dynamic_values(params: Params) -> Values:
    starts = frozenset(range(1, 1 + len(params["slice_sizes"])))
    return Values(jointly=frozenset({0}), controls=starts, monotone=(1,), moves=True)


def clamped(
    starts: Sequence[Any], shape: Sequence[int], sizes: Sequence[int]
) -> tuple[slice, ...]:
    """Where a dynamic slice lies: JAX moves one that sticks out back inside."""
    found = []
    for start, whole, size in zip(starts, shape, sizes, strict=True):
        at = int(start) + (whole if int(start) < 0 else 0)
        at = min(max(at, 0), whole - size)
        found.append(slice(at, at + size))
    return tuple(found)


def _pull_dynamic(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    rest = [None] * (len(operands) - 1)
    zeros = zeros_like(operands[0])
    return [dynamic_update_slice(zeros, cotangent, *operands[1:]), *rest]


def zeros_like(array: Array) -> Array:
    return broadcast_in_dim(
        number(0.0, array), shape=array.dims, broadcast_dimensions=()
    )


dynamic_slice: Primitive = declare(
    "dynamic_slice",
    letters=_dynamic_letters,
    shape=lambda operands, params, letters: [tuple(params["slice_sizes"])],
    values=_dynamic_values,
    typed_by=by_first,
    evaluate=lambda x, *starts, slice_sizes: x[clamped(starts, x.shape, slice_sizes)],
    pull=_pull_dynamic,
)


def _update_letters(operands: Sequence[Array], params: Params) -> Letters:
    own = list(plain("d", operands[0]))
    update = list(own)
    moved: set[str] = set()
    for k, (whole, size) in enumerate(
        zip(operands[0].dims, operands[1].dims, strict=True)
    ):
        if whole != size:
            update[k] = () if size == 1 else (f"u{k}",)
            moved.update(own[k], update[k])
    return Letters(
        (tuple(own), tuple(update), *((),) * (len(operands) - 2)),
        (tuple(own),),
        window=frozenset(moved),
    )


def _updated(x: Any, update: Any, *starts: Any) -> Any:
    out = np.array(x)
    out[clamped(starts, x.shape, update.shape)] = update
    return out


def _pull_update(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    rest = [None] * (len(operands) - 2)
    update, starts = operands[1], operands[2:]
    kept = dynamic_update_slice(cotangent, zeros_like(update), *starts)
    return [kept, dynamic_slice(cotangent, *starts, slice_sizes=update.dims), *rest]


dynamic_update_slice: Primitive = declare(
    "dynamic_update_slice",
    letters=_update_letters,
    shape=lambda operands, params, letters: [operands[0].dims],
    values=Values(jointly=frozenset({0, 1}), monotone=(1, 1), moves=True),
    evaluate=_updated,
    typed_by=by_none,
    pull=_pull_update,
)
