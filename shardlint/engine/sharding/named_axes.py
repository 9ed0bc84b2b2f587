"""The axis that ``vmap`` or ``pmap`` names: bound in manual code while the mapped function runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shardlint.engine.frames import Frame
from shardlint.engine.sharding import copies, manual_exit
from shardlint.engine.sharding.collectives import axis_names, called_names
from shardlint.engine.sharding.manual_calls import PMAP, judged_elsewhere, region_of
from shardlint.engine.trees import map_leaves
from shardlint.ops.sharding.base import adopted
from shardlint.ops.sharding.state import Axes
from shardlint.ops.sharding.view import replicated
from shardlint.values import ArrayValue, Unknown, Value, WrappedValue
from shardtypes.lang import Size

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


@dataclass(frozen=True, slots=True)
class Naming:
    """A call of a mapped function. ``own`` are the axes over which its mapped dimensions are split, None if unknown;
    ``copied`` tells that some of its arguments are one copy for every device, so that others are not."""

    func: WrappedValue
    size: Size | None
    own: Axes
    copied: bool = False

    @property
    def options(self) -> dict[str, Value]:
        return dict(self.func.options)

    def names(self) -> tuple[str, ...]:
        """The axis that is bound."""
        given = self.options.get("axis_name")
        return (
            axis_names(given)
            or (called_names(given) if self.func.kind == PMAP else None)
            or ()
        )


@contextmanager
def bound(it: Interpreter, frame: Frame, naming: Naming) -> Iterator[bool]:
    """While the mapped function runs. Gives whether manual code runs in it."""
    before, names = it.view, naming.names()
    sizes: Mapping[str, tuple[Size, Axes]] = {}
    if naming.func.kind == PMAP and (
        names or before is not None or "axis_name" not in naming.options
    ):
        view = region_of(it, PMAP, naming.options, frame.mesh).view
        it.view = replace(view, mapped=before.mapped if before is not None else {})
    if it.view is not None and len(names) == 1 and naming.size is not None:
        own = naming.own if before is not None else ()
        sizes = {**it.view.mapped, names[0]: (naming.size, own)}
        axes = tuple(pair for pair in it.view.axes if pair[0] != names[0])
        it.view = replace(it.view, axes=(*axes, (names[0], None)), mapped=sizes)
    try:
        yield it.view is not None
    finally:
        it.view = before


def entered(naming: Naming, value: Value, mapped: bool, inside: bool) -> Value:
    """An argument: over the axis the examples that are ``mapped`` may differ, anything else is the same. ``inside`` of
    manual code nothing is known of an array that is not of its view."""

    names = naming.names()

    def leaf(one: Value) -> Value:
        if naming.copied and not inside and isinstance(one, (ArrayValue, Unknown)):
            return _of_copies(naming, one, mapped)
        if not isinstance(one, ArrayValue):
            return one
        known = adopted(one) if one.manual or inside else replicated(one)
        return replace(
            known,
            unclear=known.unclear.plus(names) if mapped else known.unclear.minus(names),
        )

    return map_leaves(value, leaf)


def _of_copies(naming: Naming, value: ArrayValue | Unknown, mapped: bool) -> Value:
    """An argument of ``pmap`` beside others that are one copy for every device: it is such a copy, it is whole, or each
    device has its own."""
    leaf = value.leaf if isinstance(value, Unknown) else value
    mark = copies.mark(value)
    same = not mapped or mark == copies.COPIES
    known = replicated(
        ArrayValue(None) if leaf is None else replace(leaf, marks=frozenset())
    )
    own = replace(known, varying=frozenset(() if same else naming.names()))
    # one more step of what each device makes by itself
    if mark == copies.APART and not same and leaf is not None:
        derived = frozenset((axis, "derived") for axis in naming.names())
        own = replace(own, marks=derived, notes=leaf.notes)
    return own if isinstance(value, ArrayValue) else replace(value, size=None, leaf=own)


def left(it: Interpreter, frame: Frame, naming: Naming, value: Value, at: int) -> Value:
    """A result, of which nothing is said over the axis any more. Outside of manual code it is a plain array again."""
    region = (
        region_of(it, PMAP, naming.options, frame.mesh)
        if naming.func.kind == PMAP
        else None
    )
    if (
        region is not None
        and region.mapped is not None
        and not judged_elsewhere(it, naming.func)
    ):
        manual_exit.leave_call(it, frame, region, value, at)
    names = frozenset(naming.names())

    def leaf(one: Value) -> Value:
        if (
            isinstance(one, Unknown)
            and one.leaf is not None
            and it.view is None
            and region is not None
        ):
            return copies.made(Unknown(one.reason), naming.names(), one)
        if not isinstance(one, ArrayValue) or not one.manual:
            return one
        if it.view is None:
            plain = ArrayValue(
                None
                if one.dims is None
                else tuple(replace(d, axes=None) for d in one.dims),
                one.dtype,
            )
            return (
                copies.made(plain, naming.names(), one) if region is not None else plain
            )
        one = adopted(one)
        return replace(
            one,
            pending=(one.pending or frozenset()) - names,
            varying=one.varying - names,
            unclear=one.unclear.minus(names),
            marks=frozenset(m for m in one.marks if m[0] not in names),
            notes=tuple(n for n in one.notes if n.axis not in names),
        )

    return map_leaves(value, leaf)
