"""A spec against its mesh and against the array that it is given for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Literal as Choice

from shardlint import ir
from shardlint.engine.sharding import meshes
from shardlint.engine.sharding.site import NONE, Site
from shardlint.engine.sharding.specs import axes_named, shown, spec_of
from shardlint.engine.trees import children
from shardlint.ops.sharding.explicit import explicit_axes, placed_by
from shardlint.values import (
    ArrayValue,
    DictValue,
    Dimension,
    InstanceValue,
    MeshValue,
    SequenceValue,
    ShardingValue,
    SpecValue,
    Value,
)
from shardtypes.lang import format_shape, messages

#: What JAX does where the axes do not divide a dimension: refuse, or pad and, where too small, drop.
Indivisible = Choice["refused", "dropped", "ignored"]


def mesh_axes(
    site: Site, sharding: Value, explicit: MeshValue | None = None
) -> dict[str, int | None] | None:
    """The axes of the mesh that a sharding is about: its own, the one given beside it, the one in force, else the
    configured one. None where none of them is known."""
    own = sharding.mesh if isinstance(sharding, ShardingValue) else None
    if isinstance(sharding, ShardingValue):
        return meshes.sizes(own)
    for mesh in (explicit, site.frame.mesh):
        if mesh is not None:
            return meshes.sizes(mesh)
    return dict(site.it.mesh) or None


def made_axes(site: Site, spec: SpecValue) -> dict[str, int | None] | None:
    """The axes of all meshes that the project makes, for a spec that names some of them where no mesh is in force."""
    made = (
        site.it.made_axes.only
        if site.frame.mesh is None and not site.it.mesh
        else frozenset()
    )
    named = set(axes_named(spec))
    return dict.fromkeys(sorted(made)) if named & made else None


def check_axes(
    site: Site,
    spec: SpecValue,
    axes: dict[str, int | None] | None,
    operand: ir.Expr | None,
) -> bool:
    """Axes that occur twice, and axes that the mesh does not have. False after a report."""
    wrong = wrong_axis(spec, axes)
    if wrong is None:
        return True
    at = site.place(spec, operand)
    site.report(wrong[0], at, wrong[1], site.origin(spec, at))
    return False


def wrong_axis(
    spec: SpecValue, axes: dict[str, int | None] | None
) -> tuple[str, str] | None:
    """The code and the message about the first axis that occurs twice, or that the mesh does not have."""
    seen: set[str] = set()
    for axis in axes_named(spec):
        if axis in seen:
            return "ST102", messages.repeated_axis(axis, shown(spec))
        seen.add(axis)
        if axes is not None and axis not in axes:
            return "ST103", messages.unknown_axis(axis, axes)
    return None


def shardings_in(tree: Value) -> Iterator[SpecValue | ShardingValue]:
    """The specs and shardings of a tree."""
    if isinstance(tree, (SpecValue, ShardingValue)):
        yield tree
        return
    for _, part in children(tree) or ():
        yield from shardings_in(part)


def check_array(
    site: Site,
    value: ArrayValue,
    spec: SpecValue,
    axes: dict[str, int | None] | None,
    operand: ir.Expr | None,
    what: str,
    indivisible: Indivisible,
    lenient: bool = False,
) -> bool:
    """Rank and divisibility. False after a report. ``lenient``: some releases of JAX accept further entries of None."""
    if value.dims is None or spec.entries is None:
        return True
    at = site.place(spec, operand)
    if len(spec.entries) > len(value.dims) and not (
        lenient and not any(spec.entries[len(value.dims) :])
    ):
        shape = format_shape([dim.size for dim in value.dims])
        text = f"{what} {messages.spec_too_long(len(value.dims), shown(spec), len(spec.entries), shape)}"
        site.report("ST306", at, text, site.origin(spec, at))
        return False
    if axes is None or value.manual or indivisible == "ignored":
        return True
    for one in uneven(value, spec, axes):
        if indivisible == "refused":
            site.report(
                "ST104",
                at,
                f"dimension {one.index} of {what}: {one.text()}",
                site.origin(spec, at),
            )
            return False
        if one.size < one.count:
            idle = f"{one.count - one.size} of {one.count} devices hold nothing but padding"
            text = f"dimension {one.index} of {what}: {one.text()}; under jit {idle}"
            site.report("ST312", at, text, site.origin(spec, at))
            return False
    return True


@dataclass(frozen=True, slots=True)
class Uneven:
    """A dimension whose axes do not divide it: its index and size, into how many parts it is split, and by what."""

    index: int
    size: int
    count: int
    axes: tuple[str, ...]

    def text(self) -> str:
        padded = -(-self.size // self.count) * self.count
        return f"{messages.indivisible(self.size, self.count, self.axes)}; pad it to {padded}, or do not shard it"


def uneven(
    value: ArrayValue, spec: SpecValue, axes: dict[str, int | None] | None
) -> Iterator[Uneven]:
    """The dimensions of known size that a spec splits into parts of different sizes."""
    for index, (entry, dim) in enumerate(
        zip(spec.entries or (), value.dims or (), strict=False)
    ):
        count = None if axes is None else shards(entry, axes)
        size = None if dim.size is None else dim.size.constant
        if (
            entry is not None
            and count is not None
            and size is not None
            and size % count
        ):
            yield Uneven(index, size, count, entry)


def dropped_result(one: Uneven) -> str:
    """What ``jit`` does to such a constraint on one of its results."""
    return f"dimension {one.index} of the value: {one.text()}; on a result of jit JAX silently drops the constraint"


def same_axes(
    a: tuple[str, ...], b: tuple[str, ...], axes: dict[str, int | None] | None
) -> bool:
    """Whether two entries split a dimension in the same way, on a mesh of these axes (None: not known). Axes of size 1
    split nothing; neither does one that the mesh does not have."""
    splitting = (
        tuple(x for x in names if axes is None or axes.get(x, 1) != 1)
        for names in (a, b)
    )
    return next(splitting) == next(splitting)


def shards(entry: tuple[str, ...] | None, axes: dict[str, int | None]) -> int | None:
    """Into how many parts an entry splits its dimension; None where not known."""
    known = [
        size for size in (axes.get(axis) for axis in entry or ()) if size is not None
    ]
    return prod(known) if entry is not None and len(known) == len(entry) else None


def pairs(
    value: Value, shardings: Value, what: str
) -> Iterator[tuple[ArrayValue, Value, str]]:
    """The arrays of a tree with the sharding that a prefix tree gives each, and what to call them."""
    if isinstance(shardings, (SpecValue, ShardingValue)):
        for array, name in arrays(value, what):
            yield array, shardings, name
    elif isinstance(shardings, SequenceValue) and isinstance(value, SequenceValue):
        if len(shardings.items) == len(value.items):
            for index, (item, one) in enumerate(
                zip(value.items, shardings.items, strict=True)
            ):
                yield from pairs(item, one, f"{what}[{index}]")
    elif isinstance(shardings, DictValue) and isinstance(value, DictValue):
        given = dict(value.items)
        for key, one in shardings.items:
            if key in given:
                yield from pairs(given[key], one, f"{what}[{key!r}]")
    elif (
        isinstance(shardings, InstanceValue)
        and isinstance(value, InstanceValue)
        and shardings.cls is value.cls
    ):
        held = dict(value.fields)
        for field, one in shardings.fields:
            yield from pairs(held.get(field, NONE), one, f"{what}.{field}")


def arrays(value: Value, what: str) -> Iterator[tuple[ArrayValue, str]]:
    """The arrays of a tree, and what to call them."""
    match value:
        case ArrayValue():
            yield value, what
        case SequenceValue(items=items):
            for index, item in enumerate(items):
                yield from arrays(item, f"{what}[{index}]")
        case DictValue(items=entries):
            for key, item in entries:
                yield from arrays(item, f"{what}[{key!r}]")
        case InstanceValue(fields=fields):
            for field, item in fields:
                yield from arrays(item, f"{what}.{field}")
        case _:
            pass


def placed(value: Value, sharding: Value, mesh: MeshValue | None = None) -> Value:
    """The value as it lies after it was placed: every array takes the axes of its spec. ``mesh`` is in force."""
    match value, sharding:
        case ArrayValue(manual=True), SpecValue() | ShardingValue():
            # one device's part lies over the axes that are left to the compiler, of which it says nothing
            return value
        case ArrayValue(dims=dims), SpecValue() | ShardingValue() if dims is not None:
            spec = spec_of(sharding)
            if spec is None or spec.entries is None or len(spec.entries) > len(dims):
                return unplaced(value)
            entries = (*spec.entries, *[()] * (len(dims) - len(spec.entries)))
            new = tuple(
                Dimension(dim.size, axes)
                for dim, axes in zip(dims, entries, strict=True)
            )
            own = sharding.mesh if isinstance(sharding, ShardingValue) else mesh
            if not explicit_axes(own) or spec.unreduced is None:
                return _with(value, new)
            return replace(
                _with(value, new, own), pending=spec.unreduced, notes=placed_by(spec)
            )
        case SequenceValue(items=items), SequenceValue(items=ones) if len(items) == len(
            ones
        ):
            each = tuple(
                placed(item, one, mesh) for item, one in zip(items, ones, strict=True)
            )
            return SequenceValue(each, value.kind, value.names)
        case SequenceValue(items=items), SpecValue() | ShardingValue():
            return SequenceValue(
                tuple(placed(item, sharding, mesh) for item in items),
                value.kind,
                value.names,
            )
        case DictValue(items=entries_), SpecValue() | ShardingValue():
            return DictValue(
                tuple((key, placed(item, sharding, mesh)) for key, item in entries_)
            )
        case InstanceValue(fields=fields), SpecValue() | ShardingValue():
            fields = tuple(
                (name, placed(item, sharding, mesh)) for name, item in fields
            )
            return InstanceValue(value.cls, fields, value.prefix)
        case InstanceValue(fields=fields), InstanceValue(fields=ones) if (
            value.cls is sharding.cls
        ):
            by_name = dict(ones)
            fields = tuple(
                (name, placed(item, by_name.get(name, NONE), mesh))
                for name, item in fields
            )
            return InstanceValue(value.cls, fields, value.prefix)
        case DictValue(items=entries_), DictValue(items=ones_):
            by_key = dict(ones_)
            return DictValue(
                tuple(
                    (key, placed(item, by_key.get(key, NONE), mesh))
                    for key, item in entries_
                )
            )
        case _:
            return unplaced(value)


def unplaced(value: Value) -> Value:
    """The value, where it lies not known."""
    match value:
        case ArrayValue(dims=dims) if dims is not None:
            return _with(value, tuple(Dimension(dim.size) for dim in dims))
        case SequenceValue(items=items):
            return SequenceValue(tuple(map(unplaced, items)), value.kind, value.names)
        case DictValue(items=entries):
            return DictValue(tuple((key, unplaced(item)) for key, item in entries))
        case InstanceValue(fields=fields):
            return InstanceValue(
                value.cls,
                tuple((name, unplaced(item)) for name, item in fields),
                value.prefix,
            )
        case _:
            return value


def _with(
    value: ArrayValue, dims: tuple[Dimension, ...], mesh: MeshValue | None = None
) -> ArrayValue:
    return ArrayValue(
        dims, value.dtype, value.weak, value.pending, value.manual, mesh=mesh
    )
