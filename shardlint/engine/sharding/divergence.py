"""Branches and loops that devices take differently: a collective in one waits for devices that never come.

The condition is certain to differ where each device takes it from its own shard of a dimension, or from
its own index. Under ``vmap`` all branches are computed, so that nothing is certain.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shardlint.engine.frames import Frame
from shardlint.ops.sharding.state import marks
from shardlint.values import ArrayValue, Value

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_LOCAL = frozenset({"local", "chosen"})
#: Functions that ask, but move nothing between devices.
_ALONE = frozenset({"axis_index", "axis_size", "pcast", "pvary"})


@contextmanager
def taken(it: Interpreter, condition: Value, place: tuple[str, int]) -> Iterator[bool]:
    """What is evaluated here, only some devices run: those for which the condition holds. Yields whether it is so."""
    before = it.apart
    axes = _parting(it, condition)
    if axes and before is not None:
        it.apart = {**before, **dict.fromkeys(axes, place)}
    try:
        yield bool(axes)
    finally:
        it.apart = before


@contextmanager
def of_examples(it: Interpreter) -> Iterator[None]:
    """A function that ``vmap`` maps."""
    before, it.apart = it.apart, None
    try:
        yield
    finally:
        it.apart = before


def _parting(it: Interpreter, condition: Value) -> list[str]:
    if (
        it.view is None
        or it.apart is None
        or not isinstance(condition, ArrayValue)
        or condition.dims != ()
    ):
        return []
    return [
        a
        for a in sorted(condition.varying)
        if a not in condition.unclear and marks(condition, a) & _LOCAL
    ]


def check(
    it: Interpreter, frame: Frame, name: str, axes: tuple[str, ...], at: int
) -> None:
    """Report a collective over axes along which only some devices run it."""
    axis = next((one for one in axes if one in (it.apart or {})), None)
    if axis is None or not it.apart or name in _ALONE:
        return
    text = f"deadlock: only some devices along {axis!r} reach this {name}: call it on all of them"
    note = f"the condition differs between the devices along {axis!r}"
    it.report(frame, "ST304", at, text, None, ((*it.apart[axis], note),))
