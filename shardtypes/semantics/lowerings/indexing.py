"""``x[…]``, ``x.at[…]`` and the functions that read entries by position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array, Dim
from shardtypes.semantics.comparison import common_shape, of_common_rank
from shardtypes.semantics.lazy import np
from shardtypes.semantics.local_sizes import capacity_axes
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    axis_of,
    below_zero,
    cast,
    known_dtype,
    like,
    not_read,
    number_of,
    promoted,
    sizes_of,
    with_sizes,
)
from shardtypes.semantics.lowerings.elementwise import clip
from shardtypes.semantics.lowerings.operators import remainder
from shardtypes.semantics.lowerings.shapes import (
    along,
    broadcast_to,
)
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives import indexing as p
from shardtypes.semantics.primitives.structure import pad, reshape, slice_
from shardtypes.semantics.registry import Refused, Unsupported, lowering
from shardtypes.semantics.sizes import is_number, sliced

_JNP = "jax.numpy"


@dataclass(frozen=True, slots=True)
class _Parsed:
    """An index, as the primitive takes it: its entries, the arrays of positions in it, the result's shape, and where
    the
    dimensions of the positions go."""

    entries: tuple[Any, ...]
    arrays: tuple[Array, ...]
    shape: tuple[Dim, ...]
    at: int


def _parts(index: Any, rank: int) -> list[Any]:
    """The entries of an index, the ellipsis written out, masks as positions."""
    if isinstance(index, tuple):
        given = list(index)
    else:
        given = [index]
    items: list[Any] = []
    for one in given:
        items.extend(_of_mask(one) if _is_mask(one) else [one])
    taken = sum(1 for one in items if one is not None and one is not Ellipsis)
    if taken > rank:
        raise IndexError("too many indices")
    dots = [slice(None)] * (rank - taken)
    if any(one is Ellipsis for one in items):
        at = next(k for k, one in enumerate(items) if one is Ellipsis)
        return list(with_sizes(items, at, *dots))
    return [*items, *dots]


def _is_mask(one: Any) -> bool:
    if isinstance(one, bool):
        raise Unsupported("a bool as an index")
    if isinstance(one, Array):
        return one.dtype == "bool"
    if _is_numbers(one):
        return isinstance(one, (list, np.ndarray)) and np.asarray(one).dtype == bool
    return False


def _is_numbers(one: Any) -> bool:
    if isinstance(one, list):
        return not any(isinstance(item, Array) for item in one)
    return type(one).__module__ == "numpy"


def _of_mask(mask: Any) -> list[Any]:
    """The positions where a mask is true, which is the same on all devices."""
    if isinstance(mask, Array):
        if mask.value is None or mask.value.axes:
            raise Unsupported("a mask that is not the same on all devices, as an index")
        mask = np.asarray(mask.value.parts[0])
    return list(np.nonzero(np.asarray(mask)))


def _in_range(positions: Array, size: int) -> Array:
    """Positions as JAX reads them: negative ones from the end, those beyond it at the end."""
    return clip(_from_start(positions, size), 0, size - 1)


def _clipped(positions: Array, size: int) -> Array:
    """Positions none of which counts from the end."""
    return clip(_whole(positions), 0, size - 1)


def _wrapped(positions: Array, size: int) -> Array:
    """Positions that begin again at either end."""
    return remainder(_whole(positions), size)


def _behind(positions: Array, size: int) -> Array:
    """Positions as JAX writes them: those out of range write nothing, so they are put behind the last one."""
    whole = _from_start(positions, size)
    return e.select_n(_is_inside(whole, size), like(size, whole), whole, cases=2)


def _is_inside(positions: Array, size: int) -> Array:
    return e.and_(
        e.ge(positions, like(0, positions)), e.lt(positions, like(size, positions))
    )


def _any_outside(positions: Array, size: int) -> bool:
    """Whether numbers show a position that is out of range."""
    if positions.value is None:
        return False
    parts = [np.asarray(part) for part in positions.value.parts]
    return any(bool(np.any((part < -size) | (part >= size))) for part in parts)


def _whole(positions: Array) -> Array:
    if dtypes.is_kind(positions.dtype, "signed", "unsigned") is False:
        raise TypeError(f"an array of {positions.dtype} is no index")
    return cast(positions, "int32")


def _unwrapped(positions: Array, size: int) -> Array:
    return _whole(positions)


def _from_start(positions: Array, size: int) -> Array:
    whole = _whole(positions)
    return e.select_n(
        below_zero(whole), whole, e.add(whole, like(size, whole)), cases=2
    )


def _parse(
    array: Array, index: Any, place: Callable[[Array, int], Array] = _in_range
) -> _Parsed:
    """An index of an array; ``place`` says where positions that are out of range are."""
    entries: list[Any] = []
    arrays: list[Array] = []
    k = 0
    for one in _parts(index, array.rank):
        if one is None:
            entries.append(None)
            continue
        size = sizes_of(array)[k]
        k += 1
        if isinstance(one, slice):
            entries.append(
                slice(
                    *(
                        None if part is None else number_of(part)
                        for part in (one.start, one.stop, one.step)
                    )
                )
            )
        elif _is_number(one) and not is_number(size):
            entries.append(int(one))
        elif _is_number(one) and -size <= int(one) < size:
            entries.append(axis_of(one, size))
        else:
            entries.append((len(arrays),))
            arrays.append(place(asarray(one), size))
    return _laid_out(array, entries, arrays)


def _is_number(index: Any) -> bool:
    """Whether an entry of an index is one position that is known."""
    return isinstance(index, int) or (
        not isinstance(index, (Array, list)) and np.ndim(index) == 0
    )


def _laid_out(array: Array, entries: Sequence[Any], arrays: Sequence[Array]) -> _Parsed:
    """NumPy's rule: positions side by side leave their dimensions in place, those apart move them to the front. A
    number
    beside positions counts as a position."""
    advanced = [
        isinstance(one, tuple) or (bool(arrays) and isinstance(one, int))
        for one in entries
    ]
    entries = [
        np.intp(one) if isinstance(one, int) and arrays else one for one in entries
    ]
    spread = common_shape([one.dims for one in arrays])
    dims: list[Dim] = []
    at: int | None = None
    closed = apart = False
    k = 0
    for one, is_position in zip(entries, advanced, strict=True):
        if is_position:
            apart = apart or closed
            if at is None:
                at = len(dims)
            k += 1
            continue
        closed = at is not None
        if one is None:
            dims.append(1)
            continue
        size = sizes_of(array)[k]
        k += 1
        if isinstance(one, slice):
            kept = sliced(one, size)
            # it still is the size of a sharded dimension, or another one
            dims.append(size if kept == size else kept)
    if apart or at is None:
        place = 0
    else:
        place = at
    dims[place:place] = spread
    return _Parsed(tuple(entries), tuple(arrays), tuple(dims), place)


@lowering("jax.Array.__getitem__")
def indexed(array: Array, index: Any) -> Array:
    """``array[index]``."""
    parsed = _parse(array, index)
    found = p.indexed(
        array, *parsed.arrays, index=parsed.entries, at=parsed.at, shape=parsed.shape
    )
    axes = _capacities(index)
    if axes:
        return replace(found, own=found.own | axes)
    return found


def _capacities(index: Any) -> frozenset[str]:
    """The mesh axes on which those capacities depend that slices end at."""
    if isinstance(index, tuple):
        parts = index
    else:
        parts = (index,)
    slices = [part for part in parts if isinstance(part, slice)]
    return capacity_axes(*(bound for one in slices for bound in (one.start, one.stop)))


def _filled(
    array: Array, index: Any, fill_value: Any, place: Callable[[Array, int], Array]
) -> Array:
    """``array[index]`` with another value where positions, as ``place`` counts them, are out of range."""
    inside: list[Array] = []

    def noted(positions: Array, size: int) -> Array:
        placed = place(positions, size)
        inside.append(_is_inside(placed, size))
        return clip(placed, 0, size - 1)

    parsed = _parse(array, index, noted)
    found = p.indexed(
        array, *parsed.arrays, index=parsed.entries, at=parsed.at, shape=parsed.shape
    )
    if all(map(_holds, inside)):
        return found
    spread = common_shape([one.dims for one in inside])
    is_there = reduce(e.and_, [broadcast_to(one, spread) for one in inside])
    behind = found.rank - parsed.at - len(spread)
    mask = broadcast_to(
        reshape(is_there, new_sizes=(*spread, *[1] * behind)), found.dims
    )
    return e.select_n(
        mask,
        broadcast_to(like(fill_of(array, fill_value), found), found.dims),
        found,
        cases=2,
    )


def _holds(mask: Array) -> bool:
    """Whether a mask is true throughout, as far as its numbers are known."""
    return mask.value is None or all(bool(np.all(part)) for part in mask.value.parts)


def fill_of(array: Array, fill_value: Any) -> Any:
    """What JAX reads out of range: what is asked for, else no number, or the one farthest off."""
    if fill_value is not None:
        return fill_value
    dtype = known_dtype(array)
    if dtypes.is_kind(dtype, "signed"):
        return int(np.iinfo(dtype).min)
    if dtypes.is_kind(dtype, "unsigned"):
        return int(np.iinfo(dtype).max)
    if dtype == "bool":
        return True
    return float("nan")


def mode_name(mode: Any) -> str:
    """How positions out of range are read: a name, or a member of ``jax.lax.GatherScatterMode``."""
    if isinstance(mode, str):
        text = mode
    else:
        text = str(getattr(mode, "qualname", mode)).rpartition(".")[2]
    return _MODES.get(text.lower(), text.lower())


_MODES = {"fill_or_drop": "fill", "drop": "fill"}


def _noted(positions: Array, size: int, outside: list[bool]) -> Array:
    """Positions in range, and a note of whether all were."""
    outside.append(_any_outside(positions, size))
    return _in_range(positions, size)


@dataclass(frozen=True, slots=True)
class At:
    """``x.at``, and with an index ``x.at[index]``."""

    array: Array
    index: Any = None
    given: bool = False

    def __getitem__(self, index: Any) -> At:
        return At(self.array, index, True)

    def get(
        self,
        *,
        mode: Any = None,
        fill_value: Any = None,
        wrap_negative_indices: bool = True,
        **options: Any,
    ) -> Array:
        place = _from_start if wrap_negative_indices else _unwrapped
        if mode_name(mode) == "fill":
            return _filled(self.array, self.index, fill_value, place)
        parsed = _parse(
            self.array,
            self.index,
            lambda positions, size: clip(place(positions, size), 0, size - 1),
        )
        return p.indexed(
            self.array,
            *parsed.arrays,
            index=parsed.entries,
            at=parsed.at,
            shape=parsed.shape,
        )

    def _updated(self, values: ArrayLike, kind: str) -> Array:
        outside: list[bool] = []
        parsed = _parse(
            self.array, self.index, lambda x, size: _noted(x, size, outside)
        )
        new = cast(asarray(values), self.array.dtype)
        if any(outside):
            return self._dropping(new, kind)
        return self._written(self.array, parsed, new, kind)

    def _dropping(self, new: Array, kind: str) -> Array:
        """The update of an array that is longer by one where positions are: what is out of range goes there."""
        parsed = _parse(self.array, self.index, _behind)
        dims = [part for part in parsed.entries if part is not None]
        more = [(0, int(isinstance(part, tuple)), 0) for part in dims]
        more += [(0, 0, 0)] * (self.array.rank - len(more))
        wide = pad(self.array, like(0, self.array), padding_config=tuple(more))
        made = self._written(wide, parsed, new, kind)
        return slice_(
            made,
            start_indices=(0,) * made.rank,
            limit_indices=self.array.dims,
            strides=None,
        )

    def _written(self, array: Array, parsed: _Parsed, new: Array, kind: str) -> Array:
        return p.update(
            array,
            broadcast_to(new, parsed.shape),
            *parsed.arrays,
            index=parsed.entries,
            at=parsed.at,
            shape=parsed.shape,
            kind=kind,
        )

    def set(self, values: ArrayLike, **options: Any) -> Array:
        return self._updated(values, "set")

    def add(self, values: ArrayLike, **options: Any) -> Array:
        return self._updated(values, "add")

    def subtract(self, values: ArrayLike, **options: Any) -> Array:
        return self._updated(e.neg(asarray(values)), "add")

    def multiply(self, values: ArrayLike, **options: Any) -> Array:
        return self._updated(values, "mul")

    mul = multiply

    def divide(self, values: ArrayLike, **options: Any) -> Array:
        return self.set(indexed(self.array, self.index) / values)

    def power(self, values: ArrayLike, **options: Any) -> Array:
        return self.set(indexed(self.array, self.index) ** values)

    def min(self, values: ArrayLike, **options: Any) -> Array:
        return self._updated(values, "min")

    def max(self, values: ArrayLike, **options: Any) -> Array:
        return self._updated(values, "max")

    def apply(self, func: Callable[[Array], Array], **options: Any) -> Array:
        return self.set(func(indexed(self.array, self.index)))


def _integers(indices: ArrayLike, takes_bool: bool) -> ArrayLike:
    """Indices along a dimension. Raises Refused for other dtypes, but for booleans that are taken for numbers."""
    array = asarray(indices)
    if array.dtype == "bool" and takes_bool:
        return cast(array, "int32")
    if dtypes.is_kind(array.dtype, "signed", "unsigned") is False:
        raise Refused(f"indices are integers, got {array.dtype}", "dtypes", 1)
    return indices


@lowering(f"{_JNP}.take")
def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Array:
    indices = _integers(indices, mode != "clip")
    array, at = along(a, axis)
    before = (slice(None),) * at
    size = sizes_of(array)[at]
    if size == 0 and _has_entries(indices):
        raise Refused("takes entries along a dimension that has none", "sizes")
    if isinstance(indices, int) and (not is_number(size) or -size <= indices < size):
        return indexed(array, (*before, indices))
    index = (*before, asarray(indices))
    if mode not in _PLACES:
        return _filled(array, index, fill_value, _from_start)
    parsed = _parse(array, index, _PLACES[mode])
    return p.indexed(
        array, *parsed.arrays, index=parsed.entries, at=parsed.at, shape=parsed.shape
    )


def _has_entries(indices: Any) -> bool:
    """Whether some certainly are taken."""
    return all(isinstance(n, int) and n > 0 for n in asarray(indices).dims)


_PLACES = {"clip": _clipped, "wrap": _wrapped}


@lowering(f"{_JNP}.take_along_axis", unread="wrap_negative_indices")
def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: Any = "fill",
    fill_value: Any = None,
) -> Array:
    _integers(indices, False)
    if axis is None:
        array, at = along(arr, axis)
        places = asarray(indices)
    else:
        array, places = _of_one_rank(arr, indices)
        at = axis_of(axis, array.rank)
    size = sizes_of(array)[at]
    found = _taken_along(array, _in_range(places, size), at)
    is_inside = _is_inside(_from_start(places, size), size)
    if mode_name(mode or "fill") != "fill" or _holds(is_inside):
        return found
    mask = broadcast_to(is_inside, found.dims)
    return e.select_n(
        mask,
        broadcast_to(like(fill_of(array, fill_value), found), found.dims),
        found,
        cases=2,
    )


def _taken_along(array: Array, places: Array, at: int) -> Array:
    """The entries at positions that are in range."""
    why = Refused("array and indices do not broadcast", "indices")
    others = [with_sizes(one.dims, at, 1) for one in (array, places)]
    shape = common_shape(others, why)
    whole = with_sizes(shape, at, array.dims[at])
    sizes = with_sizes(shape, at, places.dims[at])
    return p.take_along(
        broadcast_to(array, whole), broadcast_to(places, sizes), axis=at
    )


def _of_one_rank(arr: ArrayLike, indices: ArrayLike) -> list[Array]:
    """An array and indices along one of its dimensions. Raises Refused where they differ in rank."""
    array, places = of_common_rank([asarray(arr), asarray(indices)])
    if array.rank != places.rank:
        raise Refused("array and indices differ in rank", "indices")
    return [array, places]


@lowering(f"{_JNP}.put_along_axis", unread="inplace")
def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    *,
    mode: Any = None,
) -> Array:
    not_read(mode=mode)
    if axis is None:
        raise Unsupported("put_along_axis without an axis")
    array, places = _of_one_rank(arr, indices)
    at = axis_of(axis, array.rank)
    places = _in_range(places, sizes_of(array)[at])
    new = broadcast_to(cast(asarray(values), array.dtype), places.dims)
    return p.put_along(array, places, new, axis=at)


def sorted_vector(a: ArrayLike) -> Array:
    """What is searched in."""
    array = asarray(a)
    if array.rank != 1:
        raise Refused("the sorted array is no vector", "ranks")
    return array


@lowering(f"{_JNP}.searchsorted", unread="method")
def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: Any = None
) -> Array:
    from shardtypes.semantics.lowerings.reductions import sum_
    from shardtypes.semantics.primitives.structure import expand_dims

    not_read(sorter=sorter)
    sorted_, values = promoted(sorted_vector(a), asarray(v))
    wide = expand_dims(values, axes=(values.rank,))
    if side == "left":
        below = e.lt(sorted_, wide)
    else:
        below = e.le(sorted_, wide)
    return cast(sum_(below, axis=-1), "int32")
