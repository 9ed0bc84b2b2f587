"""Lookups in a sharded table: indices relative to a device's first row, a mask of those that fall into its rows, and
zeros for the others. The parts of all devices add up to the rows that one device looks up.

An integer is followed as the *root* that it was made of, which is the same on the devices that share the table, plus a
number of the device's own; a mask as the interval of the root in which it is true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from shardtypes.proving.relation import Axes, Sizes
from shardtypes.proving.state import Shape, State, Unknown, count

View: TypeAlias = tuple[int | None, ...]
"""Which dimension of the root each dimension is; None for one along which the value is repeated."""
Own: TypeAlias = Any
"""An integer for each device, in an array with one dimension for each mesh axis, in the order of the mesh."""

_FAR = 1 << 40


@dataclass(frozen=True, eq=False)
class Interval:
    """From ``low`` to below ``high``, on each device; and on one."""

    low: Own
    high: Own
    one: tuple[int, int]

    def within(self, other: Interval) -> bool:
        empty = self.low >= self.high
        from_below = self.low >= other.low
        from_above = self.high <= other.high
        within = empty | (from_below & from_above)
        return bool(np.all(within))

    def meet(self, other: Interval) -> Interval:
        low = np.maximum(self.low, other.low)
        high = np.minimum(self.high, other.high)
        (first, last), (other_first, other_last) = self.one, other.one
        return Interval(low, high, (max(first, other_first), min(last, other_last)))


@dataclass(frozen=True, eq=False)
class Symbol:
    """``root`` is the value that it is made of, with its state and shape on devices."""

    root: int
    state: State
    shape: Shape
    view: View


@dataclass(frozen=True, eq=False)
class Shifted(Symbol):
    """The root plus a number, wherever the root is within ``valid``; elsewhere some number from ``least`` on."""

    by: Own
    one: int
    valid: Interval
    least: int = -_FAR


@dataclass(frozen=True, eq=False)
class Mask(Symbol):
    """True where the root is within an interval."""

    where: Interval


@dataclass(frozen=True, eq=False)
class Never(Symbol):
    """A mask that is true nowhere."""


@dataclass(frozen=True, eq=False)
class Rows(Symbol):
    """Entries of a table that ``axes`` shard, right where the root is within ``valid``; ``result`` is what they are put
    together, of which the first dimensions of the view are the root's."""

    valid: Interval
    axes: Axes
    result: State


@dataclass(frozen=True, eq=False)
class Masked(Symbol):
    """What is ``value`` within an interval of the root and zero elsewhere."""

    where: Interval
    value: State


@dataclass(frozen=True)
class Operand:
    """Of an operand: its name, its state or symbol, and the integers that it is on each device and on one, if known."""

    name: int | None
    state: State | None
    symbol: Symbol | None
    own: Own | None
    one: int | None
    shape: Shape


@dataclass(frozen=True)
class Site:
    """An operation whose result has no state."""

    primitive: str
    params: Mapping[str, Any]
    single: Mapping[str, Any]
    operands: Sequence[Operand]
    shape: Shape
    whole: Shape
    sizes: Sizes


def follow(site: Site) -> Symbol | State:
    """What the result is. Raises ``Unknown``."""
    rule = _RULES.get(site.primitive)
    if rule is None:
        raise Unknown("no lookup")
    found: Symbol | State = rule(site)
    return found


def _everywhere(low: Own, high: Own) -> Interval:
    return Interval(low, high, (-_FAR, _FAR))


def _rooted(operand: Operand, like: Own) -> Shifted:
    """An integer as itself plus nothing."""
    if isinstance(operand.symbol, Shifted):
        return operand.symbol
    state = operand.state
    if operand.name is None or state is None or not state.exact or state.zero:
        raise Unknown("no lookup")
    zero = np.zeros_like(like)
    always = _everywhere(zero - _FAR, zero + _FAR)
    return Shifted(
        operand.name,
        state,
        operand.shape,
        tuple(range(len(operand.shape))),
        zero,
        0,
        always,
    )


def _pair(site: Site) -> tuple[Shifted, Own, int, bool]:
    """A shifted integer and a number; whether the number comes first."""
    left, right = site.operands
    if right.own is not None and right.one is not None:
        return _rooted(left, right.own), right.own, right.one, False
    if left.own is not None and left.one is not None:
        return _rooted(right, left.own), left.own, left.one, True
    raise Unknown("no lookup")


def _moved(site: Site) -> Symbol:
    value, own, one, first = _pair(site)
    if site.primitive == "sub" and first:
        raise Unknown("a number minus an index")
    if site.primitive == "sub":
        own = -own
        one = -one
    least = value.least
    if least > -_FAR:
        least += min(int(np.min(own)), one)
    else:
        least = -_FAR
    return replace(value, by=value.by + own, one=value.one + one, least=least)


def _compared(site: Site) -> Symbol:
    value, own, one, first = _pair(site)
    if first:
        name = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}[site.primitive]
    else:
        name = site.primitive
    highest = max(int(np.max(own)), one)
    if name == "lt" and value.least >= highest:
        return Never(value.root, value.state, value.shape, value.view)
    far = np.zeros_like(own) + _FAR
    bound = own - value.by
    single = one - value.one
    if name in ("gt", "le"):
        bound = bound + 1
        single = single + 1
    if name in ("ge", "gt"):
        where = Interval(bound, far, (single, _FAR))
    else:
        where = Interval(-far, bound, (-_FAR, single))
    if not _is_always(value.valid):
        raise Unknown("an index that is masked already")
    return Mask(value.root, value.state, value.shape, value.view, where)


def _is_always(interval: Interval) -> bool:
    open_below = np.all(interval.low <= -_FAR)
    open_above = np.all(interval.high >= _FAR)
    return bool(open_below and open_above)


def _both(site: Site) -> Symbol:
    a, b = (operand.symbol for operand in site.operands)
    if (
        not isinstance(a, Mask)
        or not isinstance(b, Mask)
        or (a.root, a.view) != (b.root, b.view)
    ):
        raise Unknown("no lookup")
    return replace(a, where=a.where.meet(b.where))


def _extreme(site: Site) -> Symbol:
    value, own, one, _ = _pair(site)
    if site.primitive == "max":
        return _clipped(value, own, None, one, None)
    return _clipped(value, None, own, None, one)


def _clamped(site: Site) -> Symbol:
    low, value, high = site.operands
    ends = (low.own, high.own, low.one, high.one)
    if any(end is None for end in ends):
        raise Unknown("no lookup")
    root = _rooted(value, low.own)
    return _clipped(root, low.own, high.own, low.one, high.one)


def _clipped(
    value: Shifted,
    low: Own | None,
    high: Own | None,
    one_low: int | None = None,
    one_high: int | None = None,
) -> Symbol:
    valid = value.valid
    least = value.least
    if low is not None:
        if one_low is not None:
            single = one_low
        else:
            single = int(np.max(low))
        far = np.zeros_like(low) + _FAR
        above = Interval(low - value.by, far, (single - value.one, _FAR))
        valid = valid.meet(above)
        least = max(least, min(int(np.min(low)), single))
    if high is not None:
        if one_high is not None:
            single = one_high
        else:
            single = int(np.max(high))
        far = np.zeros_like(high) - _FAR
        valid = valid.meet(
            Interval(far, high - value.by + 1, (-_FAR, single - value.one + 1))
        )
        if min(int(np.min(high)), single) < least:
            least = -_FAR
    return replace(value, valid=valid, least=least)


def _selected(site: Site) -> Symbol | State:
    which, *cases = site.operands
    if len(cases) != 2:
        raise Unknown("no lookup")
    off, on = cases
    mask = which.symbol
    if isinstance(mask, Never):
        if off.symbol is None:
            raise Unknown("no lookup")
        return off.symbol
    if not isinstance(mask, Mask):
        raise Unknown("no lookup")
    if isinstance(on.symbol, Shifted) and off.own is not None and off.one is not None:
        return _masked_index(mask, on.symbol, off)
    if off.state is None or not off.state.zero:
        raise Unknown("what is masked out is not zero")
    if isinstance(on.symbol, Rows):
        return _complete(site, mask, on.symbol)
    if (
        on.state is not None
        and on.state.exact
        and mask.view == _leading(mask.view)
        and len(mask.view) == len(site.shape)
    ):
        return Masked(
            mask.root,
            mask.state,
            mask.shape,
            mask.view,
            mask.where,
            _beside(mask, on.state, site),
        )
    raise Unknown("no lookup")


def _beside(mask: Mask, value: State, site: Site) -> State:
    """A value that is constant along a dimension is any shard of it: that of the mask."""
    if value.rank:
        dims: list[Axes] = list(value.dims)
    else:
        dims = [()] * len(site.shape)
    for dim, source in enumerate(mask.view):
        axes: Axes = ()
        if source is not None:
            axes = mask.state.dims[source]
        if (
            axes
            and not dims[dim]
            and (not value.rank or dim in value.uniform)
            and not set(axes) & (value.axes | value.over)
        ):
            dims[dim] = axes
    return State(site.whole, tuple(dims), value.parts, value.factor)


def _leading(view: View) -> View:
    """The view as it is if it begins with the root's dimensions in order."""
    kept = [dim for dim in view if dim is not None]
    if kept == list(range(len(kept))):
        return view
    return ()


def _masked_index(mask: Mask, value: Shifted, off: Operand) -> Symbol:
    if (mask.root, mask.view) != (value.root, value.view):
        raise Unknown("a mask of other indices")
    valid = mask.where.meet(value.valid)
    is_bounded = mask.where.low > -_FAR
    lowest = np.where(is_bounded, mask.where.low + value.by, -_FAR)
    inside = int(np.min(lowest))
    least = min(
        inside,
        mask.where.one[0] + value.one,
        int(np.min(np.asarray(off.own))),
        off.one or 0,
    )
    return replace(value, valid=valid, least=least)


def _complete(site: Site, mask: Mask, rows: Rows) -> State:
    """Masked rows of all devices add up to those of one."""
    if mask.root != rows.root or mask.view != rows.view:
        raise Unknown("a mask of other indices")
    _tiles(mask.where, rows.valid, rows.axes, site.sizes)
    result = rows.result
    if result.parts or result.factor != 1:
        raise Unknown("rows of a partial result")
    axes = sorted(rows.axes)
    return replace(result, parts=tuple((axis, "sum") for axis in axes))


def _tiles(where: Interval, valid: Interval, axes: Axes, sizes: Sizes) -> None:
    """Raises ``Unknown`` unless each index of one device falls to just one of the devices along the axes, where it is
    valid."""
    if (
        not where.within(valid)
        or where.one[0] < valid.one[0]
        or where.one[1] > valid.one[1]
    ):
        raise Unknown("a mask that lets indices of other devices through")
    order = list(sizes)
    places = [order.index(axis) for axis in axes]
    for bound in (where.low, where.high):
        for number in range(len(order)):
            if number not in places and np.any(
                bound != np.take(bound, [0], axis=number)
            ):
                raise Unknown("a mask that depends on other axes")
    pick = tuple(slice(None) if number in places else 0 for number in range(len(order)))
    pairs = sorted(
        zip(
            where.low[pick].ravel().tolist(),
            where.high[pick].ravel().tolist(),
            strict=True,
        )
    )
    at = where.one[0]
    for low, high in pairs:
        if low != at or high < low:
            raise Unknown("masks that leave out indices or take them twice")
        at = high
    if at != where.one[1]:
        raise Unknown("masks that leave out indices or take them twice")


def _viewed(site: Site) -> Symbol:
    """Dimensions of size one, and repetitions, come and go."""
    symbol = site.operands[0].symbol
    if symbol is None:
        raise Unknown("no lookup")
    sources = _sources(site)
    before = symbol.view
    view = tuple(None if source is None else before[source] for source in sources)
    if sum(dim is not None for dim in view) != sum(
        dim is not None for dim in symbol.view
    ):
        raise Unknown("indices are reshaped")
    for source, size in zip(view, site.whole, strict=True):
        if source is not None and symbol.state.whole[source] != size:
            raise Unknown("indices are reshaped")
    if isinstance(symbol, Rows):
        return replace(
            symbol, view=view, result=_rearranged(site, symbol.result, sources)
        )
    if isinstance(symbol, Masked):
        return replace(
            symbol, view=view, value=_rearranged(site, symbol.value, sources)
        )
    return replace(symbol, view=view)


def _rearranged(site: Site, state: State, sources: Sequence[int | None]) -> State:
    if any(
        source is None and size != 1
        for source, size in zip(sources, site.shape, strict=True)
    ):
        raise Unknown("rows are repeated")
    dims = tuple(() if source is None else state.dims[source] for source in sources)
    count = sum(map(len, dims))
    if count != sum(map(len, state.dims)):
        raise Unknown("rows are reshaped")
    return replace(state, whole=site.whole, dims=dims, uniform=frozenset())


def _sources(site: Site) -> list[int | None]:
    """Which dimension of the operand each dimension of the result is; None for one that is new. Raises ``Unknown``."""
    shape = site.shape
    before = site.operands[0].shape
    found: list[int | None] = [None] * len(shape)
    if site.primitive == "broadcast_in_dim":
        for dim, place in enumerate(site.params["broadcast_dimensions"]):
            if before[dim] == shape[place]:
                found[place] = dim
            elif before[dim] != 1:
                raise Unknown("indices are repeated")
        return found
    if site.primitive == "squeeze":
        gone = {dim % len(before) for dim in site.params["dimensions"]}
        return [dim for dim in range(len(before)) if dim not in gone]
    dim = 0
    for place, size in enumerate(shape):
        while dim < len(before) and before[dim] == 1 and size != 1:
            dim += 1
        if dim < len(before) and before[dim] == size:
            found[place] = dim
            dim += 1
        elif size != 1:
            raise Unknown("indices are reshaped")
    return found


def _kept(site: Site) -> Symbol:
    symbol = site.operands[0].symbol
    if not isinstance(symbol, Shifted) or "int" not in str(
        site.params.get("new_dtype")
    ):
        raise Unknown("no lookup")
    return symbol


def _looked_up(site: Site) -> Symbol:
    table, indices = site.operands
    state = table.state
    index = indices.symbol
    if state is None or not isinstance(index, Shifted) or not state.exact or state.zero:
        raise Unknown("no lookup")
    numbers = site.params["dimension_numbers"]
    if (
        str(numbers) != str(site.single["dimension_numbers"])
        or len(numbers.start_index_map) != 1
    ):
        raise Unknown("no lookup")
    (dim,) = numbers.start_index_map
    axes = state.dims[dim]
    here = tuple(site.params["slice_sizes"])
    there = tuple(site.single["slice_sizes"])
    batching = tuple(numbers.operand_batching_dims)
    if (
        dim not in numbers.collapsed_slice_dims
        or not axes
        or tuple(numbers.collapsed_slice_dims) != (dim,)
    ):
        raise Unknown("no lookup")
    valid = index.valid.meet(
        _within(index, axes, table.shape[dim], state.whole[dim], site.sizes)
    )
    rank = len(site.shape)
    batch = [d for d in range(rank) if d not in numbers.offset_dims]
    is_one_number = index.view[-1:] == (None,)
    if not is_one_number or len(batch) != len(index.view) - 1:
        raise Unknown("no lookup")
    view: list[int | None] = [None] * rank
    dims: list[Axes] = [()] * rank
    for place, source in zip(batch, index.view[:-1], strict=True):
        view[place] = source
        dims[place] = () if source is None else index.state.dims[source]
    window = [d for d in range(state.rank) if d != dim and d not in batching]
    for place, source in zip(numbers.offset_dims, window, strict=True):
        is_whole = here[source] == table.shape[source]
        is_whole_of_one = there[source] == state.whole[source]
        if not is_whole or not is_whole_of_one:
            raise Unknown("a slice of a row")
        dims[place] = state.dims[source]
    for mine, his in zip(batching, numbers.start_indices_batching_dims, strict=True):
        if state.dims[mine] != dims[batch[his]]:
            raise Unknown("operands are sharded differently")
    if set(axes) & (index.state.axes | index.state.over):
        raise Unknown("indices are sharded as the table is")
    return Rows(
        index.root,
        index.state,
        index.shape,
        tuple(view),
        valid,
        axes,
        State(site.whole, tuple(dims)),
    )


def _within(
    index: Shifted,
    axes: Axes,
    rows: int,
    whole: int,
    sizes: Sizes,
) -> Interval:
    """Where the index is a row of the device's, and the very row of one device. Raises ``Unknown``."""
    if rows * count(axes, sizes) != whole or index.one != 0:
        raise Unknown("an index that is no row of one device")
    order = list(sizes)
    grid = np.indices(tuple(sizes.values()))
    number = np.zeros(tuple(sizes.values()), np.int64)
    for axis in axes:
        number = number * sizes[axis] + grid[order.index(axis)]
    if np.any(index.by != -number * rows):
        raise Unknown("an offset that is not of the device's first row")
    return Interval(number * rows, (number + 1) * rows, (0, whole))


def _added_at(site: Site) -> State:
    """Masked updates of the rows of a table: each device has those of its own."""
    table, indices, updates = site.operands
    state = table.state
    index = indices.symbol
    masked = updates.symbol
    if (
        state is None
        or not state.zero
        or not isinstance(index, Shifted)
        or not isinstance(masked, Masked)
    ):
        raise Unknown("no lookup")
    numbers = site.params["dimension_numbers"]
    if (
        str(numbers) != str(site.single["dimension_numbers"])
        or len(numbers.scatter_dims_to_operand_dims) != 1
    ):
        raise Unknown("no lookup")
    (dim,) = numbers.scatter_dims_to_operand_dims
    batching = tuple(numbers.operand_batching_dims)
    if (
        tuple(numbers.inserted_window_dims) != (dim,)
        or masked.root != index.root
        or masked.value.parts
    ):
        raise Unknown("no lookup")
    axes = _owners(index, site, dim)
    valid = index.valid.meet(
        _within(index, axes, table.shape[dim], site.whole[dim], site.sizes)
    )
    _tiles(masked.where, valid, axes, site.sizes)
    value = masked.value
    rows = [d for d in range(value.rank) if d not in numbers.update_window_dims]
    if tuple(masked.view[d] for d in rows) != index.view[:-1] or index.view[-1:] != (
        None,
    ):
        raise Unknown("updates of other indices")
    parts = _row_parts(index, value, rows, set(numbers.scatter_indices_batching_dims))
    dims: list[Axes] = [()] * len(site.shape)
    for mine, his in zip(batching, numbers.scatter_indices_batching_dims, strict=True):
        dims[mine] = value.dims[rows[his]]
    looked_up = {dim, *batching}
    window = [d for d in range(len(site.shape)) if d not in looked_up]
    for source, place in zip(window, numbers.update_window_dims, strict=True):
        if (
            updates.shape[place] != table.shape[source]
            or value.whole[place] != site.whole[source]
        ):
            raise Unknown("a part of a row")
        dims[source] = value.dims[place]
    dims[dim] = axes
    if set(axes) & (value.axes | set(parts)):
        raise Unknown("one axis in two places")
    summed = tuple(sorted(parts.items()))
    return State(site.whole, tuple(dims), summed, value.factor)


def _row_parts(
    index: Shifted, value: State, rows: Sequence[int], kept: set[int]
) -> dict[str, Any]:
    """The axes over which updates are added up: those that shard the updates, in places that the table has not."""
    parts: dict[str, Any] = {}
    for number, place in enumerate(rows):
        source = index.view[number]
        axes = () if source is None else index.state.dims[source]
        if value.dims[place] != axes:
            raise Unknown("updates are sharded differently")
        if number not in kept:
            parts |= dict.fromkeys(value.dims[place], "sum")
    return parts


def _owners(index: Shifted, site: Site, dim: int) -> Axes:
    """The axes that share the rows, by the offsets."""
    order = list(site.sizes)
    axes = tuple(
        axis
        for number, axis in enumerate(order)
        if np.any(index.by != np.take(index.by, [0], axis=number))
    )
    if not axes:
        raise Unknown("an offset that does not depend on the device")
    return axes


_RULES = {
    "add": _moved,
    "sub": _moved,
    **dict.fromkeys(("lt", "le", "gt", "ge"), _compared),
    "and": _both,
    "max": _extreme,
    "min": _extreme,
    "clamp": _clamped,
    "select_n": _selected,
    **dict.fromkeys(("broadcast_in_dim", "reshape", "squeeze", "expand_dims"), _viewed),
    "convert_element_type": _kept,
    "gather": _looked_up,
    "scatter-add": _added_at,
}
