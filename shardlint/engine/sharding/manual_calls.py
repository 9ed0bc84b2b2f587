"""Calls across the border of the manual view, and calls of annotated helpers inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.frames import Frame
from shardlint.engine.plain import innermost
from shardlint.engine.regions import Region
from shardlint.engine.sharding import checks, manual_exit, outside, prefixes
from shardlint.engine.sharding.collectives import axis_names, called_names
from shardlint.engine.sharding.manual import signature_view, tracked
from shardlint.engine.sharding.manual_entry import at_border, by_spec
from shardlint.engine.sharding.manual_trees import parts_of
from shardlint.engine.sharding.specs import axes_named, shown, spec_of
from shardlint.engine.trees import children, map_leaves, rebuilt
from shardlint.jax_version import Version
from shardlint.ops.registry import NONE, is_none
from shardlint.ops.sharding.state import sharded, split_marks, state, without
from shardlint.ops.sharding.view import View
from shardlint.values import (
    ArrayValue,
    Dimension,
    FunctionValue,
    MeshValue,
    PartialValue,
    SequenceValue,
    SpecValue,
    Unknown,
    Value,
    WrappedValue,
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

SHARD_MAP, PMAP = "jax.shard_map", "jax.pmap"
_SPECS = ("in_specs", "out_specs")
#: Since this release ``shard_map`` compares types with ``in_specs``, and since the second one also where some axes of
#: the mesh stay explicit.
_REQUIRES_TYPES: Version = (0, 10, 2)
_REQUIRES_PARTS: Version = (0, 12, 0)
#: Parameters after the function: of ``jax.experimental.shard_map`` by position, of ``jax.shard_map`` by name only.
PARAMETERS = {SHARD_MAP: ("mesh", "in_specs", "out_specs", "check_vma")}


def region_of(
    it: Interpreter, kind: str, options: dict[str, Value], mesh: MeshValue | None
) -> Region:
    """What ``shard_map`` or ``pmap`` with these options makes of a function."""
    outer = it.view.axes if it.view is not None else ()
    nested = it.view is not None and not it.view.complete
    if kind == PMAP:
        return _pmap_region(it, options, outer, nested)
    given = options.get("mesh", mesh)
    known = given if isinstance(given, MeshValue) else None
    axes = _mesh_axes(it, options, known)
    whole = bool(axes)
    called = not whole and not outer and _is_called(options)
    if called:
        specs = {name: _as_called(options[name]) for name in _SPECS if name in options}
        options = {**options, **specs}
    if not whole:  # of a mesh that is not known at least what the specs name
        axes = tuple((name, None) for name in _spelled_in_specs(options))
    inside = _manual_axes(options, axes)
    bound_outside = {name for name, _ in outer}
    own = tuple(pair for pair in inside or () if pair[0] not in bound_outside)
    # what makes but some axes manual may be called where others are, unless it brings its mesh
    brings_mesh = "mesh" in options and known is not None and known.axes is not None
    alone = brings_mesh or not _is_partly_manual(options)
    view = View(
        (*outer, *own),
        whole and bool(inside) and alone and not nested,
        "shard_map",
        tracked(options),
        bordered=_bordered(it),
        called=called,
        known={**it.mesh, **dict(axes)},
    )
    new = frozenset(name for name, _ in own) if it.view is not None else None
    return Region(
        view, False, options.get("in_specs"), options.get("out_specs"), own=new
    )


def _pmap_region(
    it: Interpreter,
    options: dict[str, Value],
    outer: tuple[tuple[str, int | None], ...],
    nested: bool,
) -> Region:
    names = axis_names(options.get("axis_name"))
    complete = "axis_name" not in options or names is not None
    called = None
    if names is None and not outer:
        called = called_names(options.get("axis_name"))
    names = names or called or ()
    view = View(
        (*outer, *((name, None) for name in names)),
        complete and not nested,
        "pmap",
        False,
        bordered=_bordered(it),
        called=called is not None,
        known=it.mesh,
    )
    return Region(
        view,
        False,
        options.get("in_axes"),
        options.get("out_axes"),
        names[0] if names else None,
    )


def _mesh_axes(
    it: Interpreter, options: dict[str, Value], mesh: MeshValue | None
) -> tuple[tuple[str, int | None], ...]:
    """The axes of the mesh that ``shard_map`` is given or finds; none where it is not known."""
    if mesh is not None and mesh.axes is not None:
        return mesh.axes
    if is_none(options.get("mesh", NONE)):
        return tuple(it.mesh.items())
    return ()


def _spelled_in_specs(options: dict[str, Value]) -> list[str]:
    spelled = {axis for name in _SPECS for axis in spelled_axes(options.get(name))}
    return sorted(spelled)


def _is_partly_manual(options: dict[str, Value]) -> bool:
    """Whether options say which axes become manual."""
    given = [options.get(name, NONE) for name in ("axis_names", "auto")]
    return not all(map(is_none, given))


def _is_called(options: dict[str, Value]) -> bool:
    """Whether the specs name some axis that is not spelled out, and none that is."""
    if _spelled_in_specs(options):
        return False
    specs = (spec for name in _SPECS for spec in _specs(options.get(name)))
    return any(spec.called is not None for spec in specs)


def _specs(tree: Value | None) -> Iterator[SpecValue]:
    spec = None if tree is None else spec_of(tree)
    if spec is not None:
        yield spec
    elif tree is not None:
        for _, part in children(tree) or ():
            yield from _specs(part)


def _as_called(tree: Value) -> Value:
    """A tree of specs with the program's names for their axes."""
    return map_leaves(
        tree, lambda leaf: _named(leaf) if isinstance(leaf, SpecValue) else leaf
    )


def _named(spec: SpecValue) -> SpecValue:
    return (
        spec if spec.called is None else replace(spec, entries=spec.called, called=None)
    )


def _bordered(it: Interpreter) -> bool:
    return it.view is None or it.view.bordered


def spelled_axes(specs: Value | None) -> Iterator[str]:
    """The mesh axes that a tree of specs names."""
    for spec in _specs(specs):
        yield from axes_named(spec)


def _manual_axes(
    options: dict[str, Value], axes: tuple[tuple[str, int | None], ...]
) -> tuple[tuple[str, int | None], ...] | None:
    """The axes that ``shard_map`` makes manual, of those of the mesh: all but what ``axis_names`` or, in older releases
    of JAX, ``auto`` leave to the compiler. None where they are not known."""
    named, auto = (options.get(name, NONE) for name in ("axis_names", "auto"))
    if not is_none(named):
        names = axis_names(named)
        return (
            None
            if names is None
            else tuple((name, dict(axes).get(name)) for name in names) or axes
        )
    left = () if is_none(auto) else axis_names(auto)
    return None if left is None else tuple(pair for pair in axes if pair[0] not in left)


def wrapped(it: Interpreter, value: Value, mesh: MeshValue | None = None) -> None:
    """A function was given to ``shard_map`` or ``pmap``: if it is annotated, it is checked in that view."""
    if not isinstance(value, WrappedValue) or value.kind not in (SHARD_MAP, PMAP):
        return
    func = value.func
    given: list[Value] = []
    named: dict[str, Value] = {}
    while isinstance(func, PartialValue):
        given = [*func.args, *given]
        named = {**dict(func.kwargs), **named}
        func = func.func
    if isinstance(func, FunctionValue):
        region = region_of(it, value.kind, dict(value.options), mesh)
        rest = [param.name for param in func.node.params if param.name not in named]
        fixed = {**dict(zip(rest, given, strict=False)), **named}
        region = replace(
            region, names=tuple(rest[len(given) :]), given=tuple(fixed.items())
        )
        it.regions.add(
            func, signature_view(it, region.view, func.node, func.module), region
        )


def call_region(
    it: Interpreter,
    frame: Frame,
    func: WrappedValue,
    args: list[Value],
    kwargs: dict[str, Value],
    at: int,
    places: tuple[int, ...],
) -> Value:
    """The result of calling what ``shard_map`` made: arguments enter by their specs, results leave by theirs."""

    region = region_of(it, SHARD_MAP, dict(func.options), frame.mesh)
    if not frame.silent:
        it.regions.called(innermost(func.func))
    entries = [_entry(region.entries, i, len(args)) for i in range(len(args))]
    for i, (value, one) in enumerate(zip(args, entries, strict=True)):
        if one is None:
            continue
        place = places[i] if i < len(places) else at
        differs = prefixes.mismatch(value, one)
        if differs is not None:
            text = f"argument {i}{manual_exit.shown_path(differs[0])} {differs[1]}"
            it.report(frame, "ST307", place, text)
            return Unknown("an error was reported here")
        if not _divides(it, frame, region, value, one, i, place):
            return Unknown("an error was reported here")
        if not _is_of_type(it, frame, func, value, one, i, place):
            return Unknown("an error was reported here")
    inner = [
        _enter(region, value, one) for value, one in zip(args, entries, strict=True)
    ]
    if kwargs:
        return Unknown("shard_map with keyword arguments")

    def evaluated(change: manual_exit.Change) -> list[Value]:
        given = [change(value) for value in inner]
        before, it.view = it.view, region.view
        try:
            return [it.call(frame, outside.taken(it, func.func), given, {}, at, places)]
        finally:
            it.view = before

    (result,) = manual_exit.certain(
        it, region, func.func, evaluated, (frame.module, at)
    )
    if not judged_elsewhere(it, func):
        manual_exit.leave_call(it, frame, region, result, at)
    return _leave(region, result, _mesh_of_types(frame, dict(func.options)))


def _divides(
    it: Interpreter,
    frame: Frame,
    region: Region,
    value: Value,
    specs: Value,
    index: int,
    at: int,
) -> bool:
    """Whether the axes of the specs may divide an argument: ``shard_map`` refuses the others. False after a report."""
    axes = dict(region.view.axes)
    for array, one, what in checks.pairs(value, specs, f"argument {index}"):
        spec = spec_of(one)
        if spec is None or array.manual:
            continue
        wrong = next(checks.uneven(array, spec, axes), None)
        if wrong is not None:
            it.report(
                frame, "ST104", at, f"dimension {wrong.index} of {what}: {wrong.text()}"
            )
            return False
    return True


def _is_of_type(
    it: Interpreter,
    frame: Frame,
    func: WrappedValue,
    value: Value,
    specs: Value,
    index: int,
    at: int,
) -> bool:
    """Whether an argument is sharded as the specs say, which JAX requires where all axes that become manual are
    explicit: there ``in_specs`` shards nothing. False after a report."""
    options = dict(func.options)
    least = _REQUIRES_PARTS if _is_partly_manual(options) else _REQUIRES_TYPES
    if it.jax < least:
        return True
    for array, one, what in checks.pairs(value, specs, f"argument {index}"):
        spec = spec_of(one)
        manual = _explicit_axes(array.mesh, options)
        if spec is None or array.dims is None or manual is None:
            continue
        found = [_among(dim.axes, manual) for dim in array.dims]
        wanted = _normalized(spec, len(found))
        if wanted is None or None in found or found == wanted:
            continue
        types = shown(SpecValue(tuple(found)))
        text = f"{what} is sharded as {types}, but in_specs says {shown(SpecValue(tuple(wanted)))}"
        remedy = "on explicit axes call jax.reshard first, or leave in_specs out"
        it.report(frame, "ST313", at, f"{text}: {remedy}")
        return False
    return True


def _explicit_axes(
    mesh: MeshValue | None, options: dict[str, Value]
) -> frozenset[str] | None:
    """The axes that ``shard_map`` makes manual, if each of them is explicit and has several devices: JAX leaves others
    out of types. None where that is not so, or not known."""
    if mesh is None or mesh.axes is None or mesh.types is None:
        return None
    manual = _manual_axes(options, mesh.axes)
    if manual is None:
        return None
    explicit = {
        name
        for (name, size), kind in zip(mesh.axes, mesh.types, strict=True)
        if kind == "Explicit" and size is not None and size > 1
    }
    names = frozenset(name for name, _ in manual)
    return names if names <= explicit else None


def _among(
    axes: tuple[str, ...] | None, names: frozenset[str]
) -> tuple[str, ...] | None:
    """The axes of a dimension that are among the names."""
    if axes is None:
        return None
    return tuple(axis for axis in axes if axis in names)


def _normalized(spec: SpecValue, rank: int) -> list[tuple[str, ...] | None] | None:
    """The axes of each dimension, as a spec says; None where they are not known."""
    entries = spec.entries
    if entries is None or None in entries or len(entries) > rank:
        return None
    return [*entries, *((),) * (rank - len(entries))]


def judged_elsewhere(it: Interpreter, func: WrappedValue) -> bool:
    """Whether what leaves is judged where the function returns, or in the module that mapped it."""
    inner = innermost(func.func)
    if not isinstance(inner, FunctionValue):
        return False
    if (func.module or inner.module) != it.target:
        return True
    return not isinstance(inner.node, ir.Lambda) and it.regions.seen(inner.node)


def _entry(specs: Value | None, index: int, count: int) -> Value | None:
    if isinstance(specs, SequenceValue):
        return specs.items[index] if len(specs.items) == count else None
    return specs


def _enter(region: Region, value: Value, spec: Value | None) -> Value:
    def one_leaf(leaf: ArrayValue | Unknown, one: Value | None) -> Value:
        if isinstance(leaf, Unknown):
            return at_border(region, Unknown(leaf.reason), one)
        return by_spec(region.view, leaf, spec_of(one) if one is not None else None)

    return _mapped(value, spec, one_leaf)


def _mesh_of_types(frame: Frame, options: dict[str, Value]) -> MeshValue | None:
    """The mesh that the types of the results name; None where they are none of its axes, or that is not known."""
    given = options.get("mesh")
    mesh = given if isinstance(given, MeshValue) else frame.mesh
    return None if _explicit_axes(mesh, options) is None else mesh


def _leave(region: Region, value: Value, mesh: MeshValue | None) -> Value:
    view = region.view

    def one_leaf(leaf: ArrayValue | Unknown, one: Value | None) -> Value:
        if isinstance(leaf, Unknown):
            return Unknown(leaf.reason)
        found = spec_of(one) if one is not None else None
        if leaf.dims is None or found is None:
            return ArrayValue(None, leaf.dtype)
        full = _normalized(found, len(leaf.dims))
        if full is None:
            return ArrayValue(None, leaf.dtype)
        sizes = [
            view.global_size(dim.size, axes or ())
            for dim, axes in zip(leaf.dims, full, strict=True)
        ]
        if region.own is None or not leaf.manual:
            return ArrayValue(
                tuple(map(Dimension, sizes, full)),
                leaf.dtype,
                pending=frozenset(),
                mesh=mesh,
            )
        kept = [
            None if d.axes is None else tuple(a for a in d.axes if a not in region.own)
            for d in leaf.dims
        ]
        return without(
            replace(leaf, dims=tuple(map(Dimension, sizes, kept))), region.own
        )

    return _mapped(value, region.results, one_leaf)


def _mapped(
    value: Value,
    spec: Value | None,
    change: Callable[[ArrayValue | Unknown, Value | None], Value],
) -> Value:
    """Every array of a tree with the spec that it falls under, in a tree of specs that may end above it."""
    if isinstance(value, (ArrayValue, Unknown)):
        return change(value, spec)
    parts = children(value)
    if parts is None:
        return value
    below = parts_of(spec, value)
    return rebuilt(
        value,
        [
            (key, _mapped(item, spec if below is None else below.get(key), change))
            for key, item in parts
        ],
    )


# --- helpers -------------------------------------------------------------------------------------------------------


@contextmanager
def signature(it: Interpreter, func: FunctionValue) -> Iterator[None]:
    """While a function is called, annotations speak of axes as its own do."""
    before = it.view
    if before is not None:
        it.view = signature_view(it, before, func.node, func.module)
    try:
        yield
    finally:
        it.view = before


def annotated(
    before: ArrayValue, value: ArrayValue, promised: ArrayValue
) -> ArrayValue:
    """A value that passed its annotation: split and pending as that says. What was the same on all devices ``before``
    is so in each part."""
    if not value.manual:
        return value
    declared = sharded(promised) | (promised.pending or frozenset())
    new = declared - {axis for axis, mark in value.marks if mark == "split"}
    pending = ((value.pending or frozenset()) - sharded(promised)) | (
        promised.pending or frozenset()
    )
    same = {
        axis
        for axis in sharded(value) - sharded(before)
        if state(before, axis) == "replicated"
    }
    marks = value.marks | split_marks(same) | {(axis, "alike") for axis in same}
    return replace(
        value,
        pending=pending,
        varying=value.varying - new,
        unclear=value.unclear.minus(new),
        marks=marks,
    )
