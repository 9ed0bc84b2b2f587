"""``lax.gather`` and the functions of ``lax.scatter`` in guarded code: windows of an array, at positions that are
values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shardlint.evaluation.guards import MARK
from shardlint.evaluation.lowered import jnp
from shardlint.evaluation.outside import provide
from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, cast, counting, sizes_of
from shardtypes.semantics.lowerings.indexing import At, fill_of, indexed, mode_name
from shardtypes.semantics.registry import Unsupported
from shardtypes.semantics.simulated import Simulated
from shardtypes.semantics.special import held

Axes = tuple[int, ...]


@dataclass(frozen=True)
class GatherNumbers:
    """``lax.GatherDimensionNumbers``."""

    offset_dims: Axes
    collapsed_slice_dims: Axes
    start_index_map: Axes
    operand_batching_dims: Axes = ()
    start_indices_batching_dims: Axes = ()


@dataclass(frozen=True)
class ScatterNumbers:
    """``lax.ScatterDimensionNumbers``."""

    update_window_dims: Axes
    inserted_window_dims: Axes
    scatter_dims_to_operand_dims: Axes
    operand_batching_dims: Axes = ()
    scatter_indices_batching_dims: Axes = ()


for _cls in (GatherNumbers, ScatterNumbers):
    setattr(_cls, MARK, True)
provide("jax.lax.GatherDimensionNumbers")(GatherNumbers)
provide("jax.lax.ScatterDimensionNumbers")(ScatterNumbers)


@dataclass(frozen=True)
class _Windows:
    """Where windows of an array are: the position in each of its dimensions for each entry of all windows, and, if
    windows that are not whole are left out, which entries are there."""

    positions: tuple[Array, ...]
    is_there: Array | None


def _windows(
    operand: Array,
    indices: Array,
    numbers: GatherNumbers,
    window: Sequence[int],
    rank: int,
    mode: str,
) -> _Windows:
    """The windows, of sizes ``window``, that start where the last dimension of the indices says. Of ``rank`` dimensions
    those named by the numbers are of the windows, the others of the indices."""
    sizes = sizes_of(operand)
    across = [k for k in range(rank) if k not in numbers.offset_dims]
    batching = numbers.operand_batching_dims
    collapsed = (*numbers.collapsed_slice_dims, *batching)
    kept = [k for k in range(operand.rank) if k not in collapsed]
    is_there: Array | None = None
    positions = []
    for dimension, size in enumerate(sizes):
        place = asarray(0)
        if dimension in numbers.start_index_map:
            column = numbers.start_index_map.index(dimension)
            place = _spread(cast(indices[..., column], "int32"), across, rank)
            last = size - window[dimension]
            if mode == "fill":
                is_whole = (place >= 0) & (place <= last)
                is_there = is_whole if is_there is None else is_there & is_whole
            if mode == "promise_in_bounds" and _any_outside(place, last):
                raise Unsupported("windows out of bounds that are said to be in")
            place = jnp.clip(place, 0, last)
        if dimension in batching:
            at = numbers.start_indices_batching_dims[batching.index(dimension)]
            place = place + _spread(counting(size), [across[at]], rank)
        if dimension in kept:
            at = numbers.offset_dims[kept.index(dimension)]
            place = place + _spread(counting(window[dimension]), [at], rank)
        positions.append(place)
    return _Windows(tuple(positions), is_there)


def _any_outside(place: Array, last: int) -> bool:
    """Whether a window starts out of bounds, as far as the numbers are known."""
    parts: Any = () if place.value is None else place.value.parts
    return any(bool(np.any((part < 0) | (part > last))) for part in parts)


def _spread(array: Array, dimensions: Sequence[int], rank: int) -> Array:
    """An array along these of so many dimensions."""
    sizes: list[Any] = [1] * rank
    for dimension, size in zip(dimensions, array.dims, strict=True):
        sizes[dimension] = size
    found: Array = jnp.reshape(array, sizes)
    return found


def _mode(mode: Any) -> str:
    """What becomes of windows that are not whole."""
    name = mode_name(mode)
    if name not in ("fill", "clip", "promise_in_bounds"):
        raise ValueError(f"Unknown gather mode {mode!r}")
    return name


@provide("jax.lax.gather")
def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherNumbers,
    slice_sizes: Sequence[int],
    *,
    mode: Any = None,
    fill_value: Any = None,
    **options: Any,
) -> Array:
    array, indices = asarray(operand), asarray(start_indices)
    rank = indices.rank - 1 + len(dimension_numbers.offset_dims)
    sizes = [int(size) for size in slice_sizes]
    windows = _windows(
        array,
        indices,
        dimension_numbers,
        sizes,
        rank,
        _mode(mode or "promise_in_bounds"),
    )
    wanted = _shape(indices, dimension_numbers, sizes, rank)
    found: Array = indexed(array, windows.positions)
    found = jnp.broadcast_to(found, wanted)
    if windows.is_there is None:
        return found
    fill = cast(asarray(fill_of(array, fill_value)), array.dtype or "float32")
    filled: Array = jnp.where(windows.is_there, found, fill)
    return filled


def _shape(
    indices: Array, numbers: GatherNumbers, window: Sequence[int], rank: int
) -> list[int]:
    collapsed = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    of_windows = iter(size for k, size in enumerate(window) if k not in collapsed)
    of_indices = iter(sizes_of(indices)[:-1])
    return [
        next(of_windows if k in numbers.offset_dims else of_indices)
        for k in range(rank)
    ]


def _scattered(
    operand: Any,
    scatter_indices: Any,
    rank_of: Array,
    numbers: ScatterNumbers,
    mode: Any,
) -> At:
    """The entries of an array that updates are for. Those of windows that are left out are behind its end."""
    array, indices = asarray(operand), asarray(scatter_indices)
    as_gather = GatherNumbers(
        numbers.update_window_dims,
        numbers.inserted_window_dims,
        numbers.scatter_dims_to_operand_dims,
        numbers.operand_batching_dims,
        numbers.scatter_indices_batching_dims,
    )
    gone = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    sizes = iter([sizes_of(rank_of)[k] for k in numbers.update_window_dims])
    window = [1 if k in gone else next(sizes) for k in range(array.rank)]
    windows = _windows(
        array, indices, as_gather, window, rank_of.rank, _mode(mode or "fill")
    )
    positions = list(windows.positions)
    if windows.is_there is not None:
        behind = sizes_of(array)[0]
        positions[0] = jnp.where(windows.is_there, positions[0], behind)
    positions = [jnp.broadcast_to(one, rank_of.dims) for one in positions]
    return At(array, tuple(positions), True)


def _scatter(kind: str) -> Callable[..., Array]:
    def scatter(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterNumbers,
        *,
        mode: Any = None,
        **options: Any,
    ) -> Array:
        new = asarray(updates)
        at = _scattered(operand, scatter_indices, new, dimension_numbers, mode)
        made: Array = getattr(at, kind)(new)
        return made

    return scatter


for _name, _kind in {
    "scatter": "set",
    "scatter_add": "add",
    "scatter_sub": "subtract",
    "scatter_mul": "multiply",
    "scatter_min": "min",
    "scatter_max": "max",
}.items():
    provide(f"jax.lax.{_name}")(_scatter(_kind))


@provide("jax.lax.scatter_apply")
def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterNumbers,
    *,
    update_shape: Sequence[int] = (),
    mode: Any = None,
    **options: Any,
) -> Array:
    """A function of the entries of windows, none of which is in two."""
    like = jnp.zeros([int(size) for size in update_shape])
    at = _scattered(operand, scatter_indices, like, dimension_numbers, mode)
    if _meets_twice(at.index, sizes_of(at.array)):
        raise Unsupported("entries that are in several windows")
    return at.apply(func)


def _meets_twice(positions: Sequence[Array], sizes: Sequence[int]) -> bool:
    """Whether some entry is named twice, or that is not known."""
    if any(one.value is None or one.value.axes for one in positions):
        return True
    flat = np.ravel_multi_index(
        [np.ravel(one.numbers()) for one in positions], tuple(sizes), mode="clip"
    )
    return len(np.unique(flat)) < len(flat)


@provide("jax.lax.bitcast_convert_type")
def bitcast_convert_type(operand: Any, new_dtype: Any) -> Array:
    """The bits of numbers, read as another dtype of as many."""
    array = asarray(operand)
    before = array.dtype or "float32"
    after = asarray(0, new_dtype).dtype or "float32"
    names = before, after
    if dtypes.bits(before) != dtypes.bits(after) or any(
        not hasattr(np, name) or name == "bool" for name in names
    ):
        raise Unsupported(f"the bits of {before} as {after}")
    if array.value is None:
        raise Unsupported("bits of an array of which the numbers are not known")
    given = array.value.parts
    if isinstance(given, tuple):
        parts: Any = tuple(_read(part, before, after) for part in given)
    else:
        parts = _read(given, before, after)
    value = Simulated(array.value.axes, parts)
    return replace(array, dtype=after, weak=False, value=value, node=None)


def _read(part: Any, before: str, after: str) -> Any:
    return held(np.asarray(part).astype(before).view(after), after)
