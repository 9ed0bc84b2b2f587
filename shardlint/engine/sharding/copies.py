"""Trees with one copy for every device: ``replicate``, what ``pmap`` makes of them, and ``unreplicate``.

Outside of manual code two marks tell of an array whose first dimension counts the devices: all parts of it are the same
(``COPIES``), or each device made its own of gradients that nobody reduced (``APART``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.engine.frames import Frame
from shardlint.engine.libraries import knows
from shardlint.engine.sharding.manual_exit import shown_path
from shardlint.engine.sharding.site import Site
from shardlint.engine.trees import children, map_leaves, rebuilt
from shardlint.ops.sharding.state import marks, state
from shardlint.values import ArrayValue, Dimension, Note, Unknown, Value
from shardtypes.lang.messages import reduce_first

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

COPIES = ("", "copies")
APART = ("", "apart")
_REPLICATING = frozenset(
    {"flax.jax_utils.replicate", "flax.training.common_utils.replicate"}
)
_PLACING = frozenset({"jax.device_put_replicated"})
_FIRST = frozenset({"flax.jax_utils.unreplicate"})


@knows(_REPLICATING | _PLACING | _FIRST)
def call(site: Site) -> Value | None:
    """The result of ``replicate`` and ``unreplicate``; None in manual code. Taking one device's part of what each
    made of its own gradients is reported."""
    it, frame, at, args = site.it, site.frame, site.at, site.args
    if it.view is not None or not args:
        return None
    if site.qualname in _FIRST:
        return _first(
            it, frame, frame.once.get(id(args[0]), (None, args[0]))[1], (), at
        )
    return map_leaves(args[0], _copied)


def _copied(leaf: Value) -> Value:
    if isinstance(leaf, ArrayValue) and leaf.dims is not None:
        return ArrayValue(
            (Dimension(None), *leaf.dims), leaf.dtype, marks=frozenset({COPIES})
        )
    if isinstance(leaf, (ArrayValue, Unknown)):
        return Unknown(
            "one copy for every device",
            leaf=ArrayValue(None, marks=frozenset({COPIES})),
        )
    return Unknown("one copy for every device")


def mark(value: Value) -> tuple[str, str] | None:
    """Which of the two marks an array, or a tree of which nothing else is known, has."""
    leaf = value.leaf if isinstance(value, Unknown) else value
    if not isinstance(leaf, ArrayValue) or leaf.manual:
        return None
    return next((one for one in (COPIES, APART) if one in leaf.marks), None)


def kept(value: Value, wanted: tuple[str, str] | None = None) -> ArrayValue | None:
    """What tells that a tree has a mark, the ``wanted`` one if there is one."""
    found = mark(value)
    if found is None or not isinstance(value, Unknown) or found != (wanted or found):
        return None
    return value.leaf


def remember(frame: Frame, first: Mapping[str, Value]) -> None:
    """After a loop: which variables its ``first`` step left apart. A loop of one step leaves them so."""
    for name, value in first.items():
        after = frame.variables.get(name)
        if after is not None and after is not value and _any(value, APART):
            frame.once[id(after)] = (after, value)


def marked(part: ArrayValue, whole: ArrayValue) -> ArrayValue:
    """One device's part of an array, with the mark that the whole has."""
    found = mark(whole)
    return (
        part
        if found is None
        else replace(part, marks=part.marks | {found}, notes=whole.notes)
    )


def any_copied(values: Sequence[Value]) -> bool:
    """Whether some part of the trees is one copy for every device, or was one before each device went its own way."""
    return any(_any(value, wanted) for value in values for wanted in (COPIES, APART))


def _any(value: Value, wanted: tuple[str, str]) -> bool:
    parts = children(value)
    return (
        mark(value) == wanted
        if parts is None
        else any(_any(item, wanted) for _, item in parts)
    )


def made(value: Value, axes: Sequence[str], before: Value) -> Value:
    """A result of ``pmap`` with its mark, by how it lay ``before`` it left the manual view."""
    leaf = before.leaf if isinstance(before, Unknown) else before
    if not isinstance(leaf, ArrayValue) or not leaf.manual or len(axes) != 1:
        return value
    found = state(leaf, axes[0])
    if found != "replicated" and not (
        found == "varying" and "derived" in marks(leaf, axes[0])
    ):
        return value
    one = COPIES if found == "replicated" else APART
    notes = tuple(note for note in leaf.notes if note.axis == axes[0])
    if isinstance(value, ArrayValue):
        return replace(value, marks=frozenset({one}), notes=notes)
    if isinstance(value, Unknown):
        return Unknown(
            value.reason, leaf=ArrayValue(None, marks=frozenset({one}), notes=notes)
        )
    return value


def _first(
    it: Interpreter, frame: Frame, value: Value, path: tuple[object, ...], at: int
) -> Value:
    parts = children(value)
    if parts is not None:
        return rebuilt(
            value,
            [(key, _first(it, frame, item, (*path, key), at)) for key, item in parts],
        )
    leaf = value.leaf if isinstance(value, Unknown) else value
    if mark(value) == APART and isinstance(leaf, ArrayValue) and leaf.notes:
        _report(it, frame, path, leaf.notes, at)
    if isinstance(value, ArrayValue) and value.dims:
        return ArrayValue(value.dims[1:], value.dtype)
    return Unknown("the part of one device")


def _report(
    it: Interpreter,
    frame: Frame,
    path: tuple[object, ...],
    notes: tuple[Note, ...],
    at: int,
) -> None:
    axis = notes[0].axis
    text = (
        f"unreplicate{shown_path(path)} takes the first device's copy of a value that varies along {axis!r}: "
        f"{reduce_first('pmean', axis)}"
    )
    it.report(
        frame,
        "ST301",
        at,
        text,
        None,
        tuple((note.module, note.at, note.text) for note in notes),
    )
