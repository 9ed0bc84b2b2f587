"""Entering the manual view: what a function in it gets, by annotations or by the specs of ``shard_map``."""

from __future__ import annotations

from dataclasses import replace

from shardlint.axis_set import EVERY_AXIS, NO_AXIS
from shardlint.engine.frames import Frame
from shardlint.engine.regions import Region
from shardlint.engine.sharding import outside
from shardlint.engine.sharding.manual_trees import parts_of
from shardlint.engine.sharding.specs import spec_of
from shardlint.engine.trees import children, rebuilt
from shardlint.ops.registry import is_none, static_int
from shardlint.ops.sharding.state import axes_met, sharded, split_marks
from shardlint.ops.sharding.view import View
from shardlint.values import (
    ArrayValue,
    DictValue,
    Dimension,
    SequenceValue,
    SpecValue,
    StringValue,
    Unknown,
    Value,
)


def entered(
    frame: Frame, view: View, value: Value, region: Region | None, name: str
) -> Value:
    """The value of a parameter, made from its annotation, at the start of a function; even divisions become facts.

    In a region an argument is what its annotation says and nothing else; a helper's may be pending besides.
    """
    if region is None or region.typed:
        return _entered(frame, view, value, region, None, False)
    if name not in region.names:
        open_ = isinstance(value, (Unknown, StringValue))
        return outside.seen(
            view, dict(region.given).get(name, value) if open_ else value
        )
    index = region.names.index(name)
    entry = region.entries
    if isinstance(entry, SequenceValue):
        entry = entry.items[index] if index < len(entry.items) else None
    return _entered(frame, view, value, region, entry, _is_mapped(region, entry))


def _entered(
    frame: Frame,
    view: View,
    value: Value,
    region: Region | None,
    entry: Value | None,
    mapped: bool | None,
) -> Value:
    parts = children(value)
    if parts is not None:
        below = parts_of(entry, value)
        made = [
            (
                key,
                _entered(
                    frame,
                    view,
                    item,
                    region,
                    entry if below is None else below.get(key),
                    mapped,
                ),
            )
            for key, item in parts
        ]
        return rebuilt(value, made)
    if region is not None and not region.typed and isinstance(value, Unknown):
        return at_border(region, value, entry)
    if not isinstance(value, ArrayValue) or not value.manual:
        return value
    if region is not None and not view.declares:
        return _by_entry(view, value, region, entry)
    for dim in value.dims or ():
        size = view.global_size(dim.size, dim.axes or ())
        if (
            dim.axes
            and size is not None
            and not size.is_opaque
            and size.constant is None
        ):
            frame.facts = frame.facts.divides(view.count(dim.axes), size)
    if region is None or (
        value.dims is not None and any(dim.axes is None for dim in value.dims)
    ):
        return value
    changed = replace(value, unclear=NO_AXIS)
    if (
        region.mapped is not None
        and mapped is not False
        and region.mapped not in sharded(changed)
    ):
        # mapped, though declared whole
        return replace(changed, unclear=NO_AXIS.plus([region.mapped]))
    return changed


def _by_entry(
    view: View, value: ArrayValue, region: Region, entry: Value | None
) -> Value:
    """An argument whose annotation speaks of shapes alone: its spec says how it is split. Its sizes are local ones."""
    spec = spec_of(entry) if entry is not None else None
    if value.dims is None:
        if value.dtype is None:
            return at_border(region, Unknown("an array of unknown rank"), entry)
        return by_spec(view, value, spec)
    alone = region.own is None  # else it lies on other axes besides, nobody says how
    inside = (
        by_spec(view, replace(value, manual=False), spec)
        if alone
        else by_spec(view, value, spec)
    )
    if inside.dims is None:
        return value
    dims = tuple(
        replace(dim, size=own.size)
        for dim, own in zip(inside.dims, value.dims, strict=True)
    )
    return replace(inside, dims=dims)


def displayed(view: View, value: Value) -> Value:
    """A value as it is shown: sizes are global ones."""
    parts = children(value) if isinstance(value, (SequenceValue, DictValue)) else None
    if parts is not None:
        return rebuilt(value, [(key, displayed(view, item)) for key, item in parts])
    return (
        replace(view.leave(value), manual=value.manual)
        if isinstance(value, ArrayValue)
        else value
    )


def _is_mapped(region: Region, entry: Value | None) -> bool | None:
    """Whether ``pmap`` maps over the parameter that has this entry; None where that is not known."""
    if region.mapped is None:
        return False
    if region.entries is None:
        return True
    if entry is None:
        return None
    return False if is_none(entry) else True if static_int(entry) is not None else None


def by_spec(view: View, value: ArrayValue, spec: SpecValue | None) -> ArrayValue:
    """A global array as ``shard_map`` passes it on."""
    if spec is None or spec.entries is None or None in spec.entries:
        return ArrayValue(None, value.dtype, manual=True)
    axes = [view.splitting(entry or ()) for entry in spec.entries]
    unclear = (
        NO_AXIS if view.complete else EVERY_AXIS.minus(axis for axis, _ in view.axes)
    )
    unclear = unclear if spec.unreduced is not None else EVERY_AXIS
    pending = spec.unreduced or frozenset()
    if value.dims is None or len(axes) > len(value.dims):
        if value.manual:
            return ArrayValue(None, value.dtype, manual=True)
        parts = frozenset(axis for one in axes for axis in one)
        return ArrayValue(
            None,
            value.dtype,
            pending=pending,
            manual=True,
            varying=parts,
            unclear=unclear,
        )
    axes += [()] * (len(value.dims) - len(axes))
    if value.manual:
        return _nested(view, value, axes)
    dims = tuple(
        replace(dim, size=view.local_size(dim.size, one), axes=one)
        for dim, one in zip(value.dims, axes, strict=True)
    )
    marks = split_marks(axis for one in axes for axis in one)
    return replace(
        value,
        dims=dims,
        manual=True,
        pending=pending,
        unclear=unclear,
        numpy=False,
        weak=False,
        marks=marks,
    )


def _nested(view: View, value: ArrayValue, axes: list[tuple[str, ...]]) -> ArrayValue:
    """A local array as a region inside another one gets it: over the outer axes nothing changes."""
    old = value.dims or ()
    sizes = [view.local_size(dim.size, one) for dim, one in zip(old, axes, strict=True)]
    both = [
        None if dim.axes is None else (*dim.axes, *one)
        for dim, one in zip(old, axes, strict=True)
    ]
    dims = tuple(
        Dimension(size, one, dim.label)
        for dim, size, one in zip(old, sizes, both, strict=True)
    )
    new = [axis for axis, _ in view.axes if axis not in axes_met([value])]
    marks = split_marks(axis for one in axes for axis in one)
    return replace(
        value, dims=dims, unclear=value.unclear.minus(new), marks=value.marks | marks
    )


def at_border(region: Region, value: Unknown, entry: Value | None) -> Value:
    """Something unknown that ``shard_map`` passes on: it has the structure of its specs, and below them every array is
    split alike. In a region inside another one nothing says how it lies over the outer axes."""
    if region.own is not None:
        return Unknown(value.reason)
    if region.mapped is not None:
        return replace(
            value, size=None, leaf=by_mapping(region, _is_mapped(region, entry))
        )
    view = region.view
    parts = None if entry is None else children(entry)
    if entry is not None and parts:
        return rebuilt(
            entry,
            [
                (key, at_border(region, Unknown(value.reason), one))
                for key, one in parts
            ],
        )
    spec = None if entry is None else spec_of(entry)
    leaf = by_spec(view, ArrayValue(None), spec)
    if spec is None or leaf.unclear == EVERY_AXIS:
        return value
    return replace(
        value,
        size=None,
        leaf=leaf,
        lead=tuple(view.splitting(one or ()) for one in spec.entries or ()),
    )


def by_mapping(region: Region, mapped: bool | None) -> ArrayValue | None:
    """Every array in an argument of ``pmap``: one that is not mapped is the same on all devices. A mapped one may be
    so, too, unless others are said to be; None where that is not known."""
    axis = region.mapped
    has_none = isinstance(region.entries, SequenceValue) and any(
        is_none(one) for one in region.entries.items
    )
    if axis is None or mapped is None or (mapped and not has_none):
        return None
    around = len(region.view.axes) > 1 or not region.view.complete
    return ArrayValue(
        None,
        manual=True,
        pending=frozenset(),
        varying=frozenset([axis] if mapped else ()),
        unclear=EVERY_AXIS.minus([axis]) if around else NO_AXIS,
    )


def unclear(value: Value, axes: frozenset[str], but_dimensions: bool = False) -> Value:
    """A value of the manual view of which nothing is known along these axes; ``but_dimensions``: but which dimensions
    they split."""
    parts = children(value)
    if parts is not None:
        return rebuilt(
            value, [(key, unclear(item, axes, but_dimensions)) for key, item in parts]
        )
    if isinstance(value, Unknown) and value.leaf is not None:
        leaf = unclear(value.leaf, axes, but_dimensions)
        lead = value.lead if but_dimensions else None
        return replace(
            value, leaf=leaf if isinstance(leaf, ArrayValue) else None, lead=lead
        )
    if not isinstance(value, ArrayValue):
        return value
    dims = value.dims
    if dims is not None and not but_dimensions:
        dims = tuple(
            replace(dim, axes=None) if axes.intersection(dim.axes or ()) else dim
            for dim in dims
        )
    return replace(
        value,
        dims=dims,
        pending=(value.pending or frozenset()) - axes,
        varying=value.varying - axes,
        unclear=value.unclear.plus(axes),
        marks=frozenset(mark for mark in value.marks if mark[0] not in axes),
    )


def ranked(value: Unknown, dims: tuple[Dimension, ...]) -> ArrayValue:
    """The array that something unknown turned out to be."""
    if value.leaf is None:
        return ArrayValue(dims)
    if value.lead is None or len(value.lead) > len(dims):
        return replace(value.leaf, dims=dims)
    axes = [*value.lead, *[()] * (len(dims) - len(value.lead))]
    found = tuple(replace(dim, axes=one) for dim, one in zip(dims, axes, strict=True))
    marks = split_marks(axis for one in axes for axis in one)
    return replace(
        value.leaf,
        dims=found,
        varying=value.leaf.varying - {axis for axis, _ in marks},
        marks=marks,
    )
