"""``gather`` and ``scatter`` of ``jax.lax``: batches of slices, by numbers that say which dimension is which.

The last dimension of the indices holds one place each; the dimensions before it are the batch. Every slice keeps some
dimensions of the operand, drops others (which are of size 1), and may share batch dimensions with the indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shardlint.ops.arrays import (
    array,
    cleared,
    different,
    seen_size,
    shown,
    shown_size,
    sizes_argument,
    with_dims,
    with_dtype,
)
from shardlint.ops.registry import (
    Call,
    OpError,
    UnknownArgument,
    model,
    names,
    static_int,
)
from shardlint.values import ArrayValue, Dimension, SequenceValue, Value
from shardtypes.lang import Size, dtypes
from shardtypes.semantics.sizes import is_surely_less

_GATHER = (
    "offset_dims",
    "collapsed_slice_dims",
    "start_index_map",
    "operand_batching_dims",
    "start_indices_batching_dims",
)
_SCATTER = (
    "update_window_dims",
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "operand_batching_dims",
    "scatter_indices_batching_dims",
)


@model(
    f"{', '.join(_GATHER[:3])}, operand_batching_dims=(), start_indices_batching_dims=()",
    "jax.lax.GatherDimensionNumbers",
)
@model(
    f"{', '.join(_SCATTER[:3])}, operand_batching_dims=(), scatter_indices_batching_dims=()",
    "jax.lax.ScatterDimensionNumbers",
)
def dimension_numbers(call: Call) -> Value:
    fields = _GATHER if call.last.startswith("Gather") else _SCATTER
    return SequenceValue(tuple(call[field] for field in fields), "tuple", fields)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """``kept`` are dimensions of the result of a gather, or of the updates of a scatter; ``dropped``, ``started`` and
    ``batch`` of the operand; ``indices_batch`` of the indices."""

    kept: list[int]
    dropped: list[int]
    started: list[int]
    batch: list[int]
    indices_batch: list[int]


def _read(
    call: Call, fields: Sequence[str], operand: ArrayValue, indices: ArrayValue
) -> _Numbers | None:
    """The numbers, held against the ranks; None where something is not known."""
    value = call["dimension_numbers"]
    if not isinstance(value, SequenceValue) or value.names != tuple(fields):
        return None
    groups: list[list[int]] = []
    for item in value.items:
        if not isinstance(item, SequenceValue) or item.kind != "tuple":
            return None
        known = [number for number in map(static_int, item.items) if number is not None]
        if len(known) < len(item.items):
            return None
        groups.append(known)
    if operand.dims is None or indices.dims is None:
        return None
    rank = len(operand.dims)
    if not indices.dims:
        raise OpError(
            "ST214",
            f"{call.name}: the indices are a scalar, but need a last dimension of coordinates",
        )
    found = _Numbers(*groups)
    limits = (
        len(found.kept) + len(indices.dims) - 1,
        rank,
        rank,
        rank,
        len(indices.dims) - 1,
    )
    for field, group, limit in zip(fields, groups, limits, strict=True):
        if len(set(group)) < len(group):
            raise OpError(
                "ST208",
                f"{call.name}: {field} {_written(group)} names a dimension twice",
            )
        if any(not 0 <= number < limit for number in group):
            raise OpError(
                "ST208",
                f"{call.name}: {field} {_written(group)} is out of range for {limit} dimensions",
            )
    for field, group in zip(fields, groups, strict=True):
        if field not in (fields[2], fields[4]) and group != sorted(group):
            raise OpError(
                "ST208", f"{call.name}: {field} {_written(group)} is not sorted"
            )
    _hold(call, fields, found, operand, indices)
    return found


def _hold(
    call: Call,
    fields: Sequence[str],
    found: _Numbers,
    operand: ArrayValue,
    indices: ArrayValue,
) -> None:
    rank = len(operand.dims or ())
    if set(found.batch) & {*found.dropped, *found.started}:
        raise OpError(
            "ST208",
            f"{call.name}: {fields[3]} {_written(found.batch)} are collapsed or indexed as well",
        )
    if len(found.batch) != len(found.indices_batch):
        raise OpError(
            "ST208", f"{call.name}: {fields[3]} and {fields[4]} differ in number"
        )
    if len(found.kept) + len(found.dropped) + len(found.batch) != rank:
        what = f"{fields[0]}, {fields[1]} and {fields[3]} are {len(found.kept) + len(found.dropped) + len(found.batch)}"
        raise OpError(
            "ST214", f"{call.name}: {what} dimensions for shape {shown(operand)}"
        )
    last = seen_size(indices, len(indices.dims or ()) - 1)
    _equal(
        call,
        last,
        Size.const(len(found.started)),
        f"the last dimension of the indices against {fields[2]}",
    )
    for ours, theirs in zip(found.batch, found.indices_batch, strict=True):
        what = (
            f"dimension {ours} of the operand against dimension {theirs} of the indices"
        )
        _equal(call, seen_size(operand, ours), seen_size(indices, theirs), what)
    if dtypes.is_kind(indices.dtype, "signed", "unsigned") is False:
        raise OpError(
            "ST212", f"{call.name}: the indices are {dtypes.written(indices.dtype)}"
        )


def _written(numbers: Sequence[int]) -> str:
    return f"({', '.join(map(str, numbers))})"


def _equal(call: Call, a: Size | None, b: Size | None, what: str) -> None:
    if a is not None and b is not None:
        witness = different(call.ctx, a, b)
        if witness is not None:
            raise OpError(
                "ST214",
                f"{call.name}: sizes {shown_size(a)} and {shown_size(b)}: {what}",
                witness,
            )


_OPTIONS = "*, unique_indices=False, indices_are_sorted=False, mode=None"


@model(
    f"operand, start_indices, dimension_numbers, slice_sizes, {_OPTIONS}, fill_value=None",
    "jax.lax.gather",
)
def gather(call: Call) -> Value:
    """The batch of the indices, with the dimensions that slices keep put in where ``offset_dims`` says."""
    value, indices = array(call, "operand"), array(call, "start_indices")
    sizes = None
    if isinstance(call["slice_sizes"], SequenceValue):
        sizes = sizes_argument(call["slice_sizes"])
    if value.dims is not None and sizes is not None and len(sizes) != len(value.dims):
        raise OpError(
            "ST214", f"{call.name}: {len(sizes)} slice sizes for shape {shown(value)}"
        )
    numbers = _read(call, _GATHER, value, indices)
    if numbers is None or value.dims is None or indices.dims is None:
        return with_dims(value, None)
    if sizes is None:
        sizes = [None] * len(value.dims)
    _check_slices(call, value, indices, numbers, sizes)
    gone = (*numbers.dropped, *numbers.batch)
    kept = iter([Dimension(size) for i, size in enumerate(sizes) if i not in gone])
    batch = iter([Dimension(dim.size) for dim in indices.dims[:-1]])
    rank = len(numbers.kept) + len(indices.dims) - 1
    return with_dims(
        value, tuple(next(kept if i in numbers.kept else batch) for i in range(rank))
    )


def _check_slices(
    call: Call,
    value: ArrayValue,
    indices: ArrayValue,
    numbers: _Numbers,
    sizes: Sequence[Size | None],
) -> None:
    """Raises OpError where a slice is larger than its dimension, or is not of 1 where it is collapsed."""
    some = all(
        dim.size is not None and (dim.size - 1).is_nonnegative
        for dim in indices.dims or ()
    )
    for i, part in enumerate(sizes):
        if some and part is not None and _is_outside(part, seen_size(value, i)):
            raise OpError(
                "ST214",
                f"{call.name}: a slice of {shown_size(part)} in dimension {i} of {shown(value)}",
            )
        one = part is None or part == 1 or (i in numbers.batch and part == 0)
        if i in (*numbers.dropped, *numbers.batch) and not one:
            if part is None or part.constant is None:
                raise UnknownArgument
            what = f"a slice of {shown_size(part)} in dimension {i}, which is collapsed: it must be 1"
            raise OpError("ST214", f"{call.name}: {what}")


def _is_outside(part: Size, size: Size | None) -> bool:
    """Whether a slice of that size is certainly none of a dimension."""
    if part.constant is not None and part.constant < 0:
        return True
    return is_surely_less(size, part)


@model(
    f"operand, scatter_indices, updates, dimension_numbers, {_OPTIONS}",
    *names(
        "jax.lax", "scatter scatter_add scatter_sub scatter_mul scatter_min scatter_max"
    ),
    alike="operand updates",
)
def scatter(call: Call) -> Value:
    """The operand with some of its elements replaced, or put together with the updates."""
    value, indices, updates = (
        array(call, "operand"),
        array(call, "scatter_indices"),
        array(call, "updates"),
    )
    numbers = _read(call, _SCATTER, value, indices)
    if numbers is not None and updates.dims is not None and indices.dims is not None:
        rank = len(numbers.kept) + len(indices.dims) - 1
        if len(updates.dims) != rank:
            what = f"updates of shape {shown(updates)}, where windows and indices make {rank} dimensions"
            raise OpError("ST214", f"{call.name}: {what}")
        _check_updates(call, numbers, value, indices, updates)
    out = cleared(value)
    same = value.dtype == updates.dtype
    real = call.last == "scatter" or dtypes.is_kind(
        value.dtype, "signed", "unsigned", "floating"
    )
    return with_dtype(
        out,
        value.dtype if same and real and value.dtype in dtypes.CONCRETE else None,
        value.weak,
    )


def _check_updates(
    call: Call,
    numbers: _Numbers,
    value: ArrayValue,
    indices: ArrayValue,
    updates: ArrayValue,
) -> None:
    windows = [
        i
        for i in range(len(value.dims or ()))
        if i not in (*numbers.dropped, *numbers.batch)
    ]
    batch = [i for i in range(len(updates.dims or ())) if i not in numbers.kept]
    for i, window in zip(numbers.kept, windows, strict=True):
        size, part = seen_size(value, window), seen_size(updates, i)
        if is_surely_less(size, part):
            raise OpError(
                "ST214",
                f"{call.name}: updates of shape {shown(updates)} do not fit in {shown(value)}",
            )
    for i, index in zip(batch, range(len(indices.dims or ()) - 1), strict=True):
        what = f"dimension {i} of the updates against dimension {index} of the indices"
        _equal(call, seen_size(updates, i), seen_size(indices, index), what)
