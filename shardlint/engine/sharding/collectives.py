"""Calls of ``jax.lax`` collectives in manual code: on whole trees, with what is certainly wrong reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.axis_set import EVERY_AXIS
from shardlint.engine.frames import Frame
from shardlint.engine.libraries import knows
from shardlint.engine.sharding import divergence, sends
from shardlint.engine.sharding.scaling import scaled_later
from shardlint.engine.sharding.site import Site
from shardlint.engine.sharding.specs import axes_of
from shardlint.engine.trees import children, map_leaves, rebuilt
from shardlint.ops import OpError
from shardlint.ops.arrays import as_array
from shardlint.ops.registry import is_none, parse_signature, static_bool, static_int
from shardlint.ops.sharding import collectives as models
from shardlint.ops.sharding.base import ShardingError, adopted, constant
from shardlint.ops.sharding.collectives import Collective
from shardlint.ops.sharding.view import View
from shardlint.values import (
    ArrayValue,
    CollectionValue,
    Dimension,
    IntValue,
    Literal,
    ScalarValue,
    SequenceValue,
    Unknown,
    Value,
)
from shardtypes.lang import dtypes
from shardtypes.lang.messages import axes_text, unbound_axis

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_SIGNATURES = {
    **dict.fromkeys(
        ("psum", "pmean", "pmax", "pmin"), "x, axis_name, *, axis_index_groups=None"
    ),
    "all_gather": "x, axis_name, *, axis_index_groups=None, axis=0, tiled=False, to='varying'",
    "psum_scatter": "x, axis_name, *, scatter_dimension=0, axis_index_groups=None, tiled=False",
    "all_to_all": "x, axis_name, split_axis, concat_axis, *, axis_index_groups=None, tiled=False",
    "ppermute": "x, axis_name, perm",
    "pshuffle": "x, axis_name, perm",
    "pbroadcast": "x, axis_name, source",
    "axis_index": "axis_name",
    "axis_size": "axis_name",
    "pcast": "x, axis_name=None, *, to=None",
    "pvary": "x, axis_name",
}
#: Those whose result is shaped as their operand.
_KEEPING = frozenset({"psum", "pmean", "pmax", "pmin", "ppermute", "pshuffle"})
#: Those whose result has another shape, by the number of devices.
_RESHAPING = frozenset({"all_gather", "psum_scatter", "all_to_all"})
_UNMAPPED = Unknown("a collective in code that nothing says is mapped over devices")
COLLECTIVES = frozenset(f"jax.lax.{name}" for name in _SIGNATURES)


def axis_names(value: Value | None) -> tuple[str, ...] | None:
    """One axis name or several; None where they are not known."""
    if isinstance(value, Literal) and isinstance(value.value, str):
        return (value.value,)
    if isinstance(value, SequenceValue):
        names = [
            item.value
            for item in value.items
            if isinstance(item, Literal) and isinstance(item.value, str)
        ]
        return tuple(names) if len(names) == len(value.items) else None
    return None


def called_names(value: Value | None) -> tuple[str, ...] | None:
    """The same, where nothing spells them out: what the program calls them."""
    return None if value is None else axes_of(value, called=True) or None


def _axes(view: View, value: Value | None) -> tuple[str, ...] | None:
    """The axes of a collective; None where they are not known, which may be any."""
    if not view.called:
        return axis_names(value)
    axes = called_names(value)
    return (
        axes
        if axes is not None
        and axis_names(value) is None
        and set(axes) <= dict(view.axes).keys()
        else None
    )


@knows(COLLECTIVES, first=True)
def call(site: Site) -> Value | None:
    """The result of a collective; None outside of manual code."""
    it, frame, name, at = site.it, site.frame, site.name, site.at
    view, operands = it.view, site.operands
    if view is None:
        return _UNMAPPED if name in _RESHAPING else None
    given = parse_signature(_SIGNATURES[name]).bind(site.args, site.kwargs)
    if given is None:
        return Unknown(f"arguments of lax.{name} not understood")
    axes = _axes(view, given.get("axis_name"))
    if axes is None:
        return (
            _lost(given.get("x", Literal(None)))
            if "x" in given
            else Unknown("a mesh axis that is not known")
        )
    nested = view.kind == "pmap"
    if any(
        view.binds(axis) is not True
        and it.regions.names_axis(axis, frame.module, nested)
        for axis in axes
    ):
        return (
            _lost(given["x"], name in _KEEPING)
            if "x" in given
            else Unknown("an axis that vmap names")
        )
    for axis in axes:
        if view.binds(axis) is False:
            bound = sorted(name for name, _ in view.axes)
            place = next(
                (o.at for o in operands if isinstance(o, ir.Const) and o.value == axis),
                at,
            )
            it.report(frame, "ST305", place, f"lax.{name}: {unbound_axis(axis, bound)}")
            return Unknown("an error was reported here")
    divergence.check(it, frame, name, axes, at)
    grouped = not is_none(given.get("axis_index_groups", Literal(None)))
    among = children(given.get("x", Literal(None))) is not None
    one = Collective(f"lax.{name}", axes, view, (frame.module, at), grouped, among)
    if name == "axis_index":
        return models.index(one)
    if name == "axis_size":
        return IntValue(models.count(one), frozenset(axes))
    if "x" in given:
        sends.note(it, frame, one, given["x"])
    change = _change(name, given, one)
    if change is None:
        return _lost(given["x"])
    try:
        if name == "ppermute":
            _refuse_counted(given["perm"], one)
        return _among_examples(_on_leaves(given["x"], one, change, it, frame, at), one)
    except OpError as error:
        return it.op_error(frame, error, at, operands)


def _change(
    name: str, given: Mapping[str, Value], one: Collective
) -> Callable[[ArrayValue], ArrayValue] | None:
    tiled = static_bool(given["tiled"]) if "tiled" in given else None
    if name in ("psum", "pmean", "pmax", "pmin"):
        return lambda value: models.summed(value, one)
    if name in ("pvary", "pcast"):
        to = given.get("to", Literal("varying"))
        return (
            (lambda value: value)
            if name == "pvary" or to == Literal("varying")
            else None
        )
    if name in ("ppermute", "pshuffle"):
        pairs = _pairs(given["perm"]) if name == "ppermute" else ()
        return lambda value: models.permuted(value, one, pairs)
    if name == "all_gather":
        axis = static_int(given["axis"])
        if axis is None or tiled is None:
            return None
        return lambda value: models.gathered(value, one, axis, tiled)
    if name == "psum_scatter":
        dim = static_int(given["scatter_dimension"])
        if dim is None or tiled is None:
            return None
        return lambda value: models.scattered(value, one, dim, tiled)
    if name == "all_to_all":
        split, joined = (
            static_int(given["split_axis"]),
            static_int(given["concat_axis"]),
        )
        if split is None or joined is None or tiled is None:
            return None
        return lambda value: models.exchanged(value, one, split, joined, tiled)
    return None


def _pairs(perm: Value) -> tuple[tuple[int, int], ...]:
    """The (source, destination) pairs of a ``ppermute``; none where not all are known."""
    found: list[tuple[int, int]] = []
    for pair in perm.items if isinstance(perm, SequenceValue) else ():
        numbers = (
            [static_int(item) for item in pair.items]
            if isinstance(pair, SequenceValue)
            else []
        )
        if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
            return ()
        found.append((numbers[0], numbers[1]))
    return tuple(found)


def _refuse_counted(perm: Value, one: Collective) -> None:
    """Raises ShardingError for pairs that were counted by the devices along another axis than this one."""
    numbers = [
        item
        for pair in (perm.items if isinstance(perm, SequenceValue) else ())
        for item in (pair.items if isinstance(pair, SequenceValue) else ())
        if isinstance(item, IntValue)
    ]
    devices = frozenset[str]().union(*(number.devices for number in numbers))
    if not devices or devices & frozenset(one.axes):
        return
    counted, wanted = one.view.count(sorted(devices)), models.count(one)
    if (
        counted.constant is not None
        and wanted.constant is not None
        and counted != wanted
    ):
        text = (
            f"{one.name} over {axes_text(one.axes)} has {wanted} devices, but its pairs are for the {counted} along "
            f"{axes_text(sorted(devices))}"
        )
        raise ShardingError("ST304", text)


def _among_examples(value: Value, one: Collective) -> Value:
    """What came of the examples of a ``vmap``: over the axes that split these nothing is known any more."""
    own = [one.view.mapped[axis][1] for axis in one.axes if axis in one.view.mapped]
    split = {axis for axes in own for axis in axes or ()}

    def change(leaf: Value) -> Value:
        if not isinstance(leaf, ArrayValue) or not (split or None in own):
            return leaf
        kept = frozenset(mark for mark in leaf.marks if mark[1] != "mapped")
        return replace(
            leaf,
            unclear=EVERY_AXIS if None in own else leaf.unclear.plus(split),
            marks=kept,
        )

    return map_leaves(value, change)


def _on_leaves(
    value: Value,
    one: Collective,
    change: Callable[[ArrayValue], ArrayValue],
    it: Interpreter,
    frame: Frame,
    at: int,
) -> Value:
    parts = children(value)
    if parts is not None:
        return rebuilt(
            value,
            [
                (key, _on_leaves(item, one, change, it, frame, at))
                for key, item in parts
            ],
        )
    if isinstance(value, CollectionValue):
        return replace(
            value,
            item=_on_leaves(
                value.item, replace(one, among=True), change, it, frame, at
            ),
        )
    if isinstance(value, Unknown) and value.leaf is not None:
        changed = _on_leaves(
            value.leaf, replace(one, among=True), change, it, frame, at
        )
        return (
            replace(value, leaf=changed) if isinstance(changed, ArrayValue) else changed
        )
    if isinstance(value, (IntValue, ScalarValue, Literal)):
        return _on_number(value, one, change)
    if not isinstance(value, ArrayValue):
        return Unknown("a part of a tree")
    array = adopted(value)
    if one.name in ("lax.psum", "lax.psum_scatter"):
        try:
            models.refuse_replicated(array, one)
        except models.ReplicatedSum:
            if not scaled_later(frame, at):
                raise
    return _cast(change(array), one.name)


def _on_number(
    value: Value, one: Collective, change: Callable[[ArrayValue], ArrayValue]
) -> Value:
    """``psum(1, axis)`` is the number of devices."""
    if isinstance(value, IntValue) and one.name == "lax.psum":
        return IntValue(
            None
            if value.size is None or one.grouped
            else value.size * models.count(one)
        )
    number = as_array(value)
    return Unknown("a part of a tree") if number is None else change(constant(number))


def _cast(value: ArrayValue, name: str) -> ArrayValue:
    """Sums of bools are ints, averages of ints floats: their dtype is left open."""
    sums = name in ("lax.psum", "lax.pmean", "lax.psum_scatter")
    exact = dtypes.is_kind(value.dtype, "floating", "complex") or (
        name == "lax.psum" and value.dtype != "bool"
    )
    return value if not sums or exact else replace(value, dtype=None)


def _lost(value: Value, shaped: bool = False) -> Value:
    """The tree, of which nothing is known but its structure, and its shapes where it is still ``shaped`` like that."""
    parts = children(value)
    if parts is not None:
        return rebuilt(value, [(key, _lost(item, shaped)) for key, item in parts])
    if not isinstance(value, ArrayValue):
        return Unknown("a collective")
    dims = (
        tuple(Dimension(dim.size) for dim in value.dims)
        if shaped and value.dims is not None
        else None
    )
    return ArrayValue(dims, value.dtype, manual=True)
