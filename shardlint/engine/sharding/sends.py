"""What the engine sees of collectives, for those who ask what a function sends."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.engine.frames import Frame
from shardlint.engine.trees import children
from shardlint.ops.sharding.collectives import Collective
from shardlint.sent import Left, Sent
from shardlint.values import ArrayValue, IntValue, Literal, ScalarValue, Value
from shardtypes.lang import Size

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

#: What talks to nobody.
CASTS = frozenset({"lax.pcast", "lax.pvary"})
_NUMBERS = (IntValue, Literal, ScalarValue)
#: The beginnings of names of functions that compute on one device, whether they are modelled or not.
_ALONE = (
    *(f"jax.{name}." for name in ("numpy", "nn", "random", "scipy", "tree", "Array")),
    *(f"{name}." for name in ("numpy", "einops", *sys.stdlib_module_names)),
)


def repeated(
    it: Interpreter, where: object, rounds: Size | None
) -> AbstractContextManager[None]:
    """In the block, what is evaluated runs so many times; ``where`` tells it from other rounds."""
    if it.sends is None:
        return nullcontext()
    return it.sends.repeated(where, rounds)


def note(it: Interpreter, frame: Frame, one: Collective, value: Value) -> None:
    """Keep what a collective sends of a tree of arrays."""
    if it.sends is None or not it.stack or one.name in CASTS:
        return
    if one.grouped:
        leave(it, frame, one.place[1], f"{one.name} in groups of devices")
    elif one.view.kind != "pmap" and set(one.axes) & set(one.view.mapped):
        leave(it, frame, one.place[1], f"{one.name} over the examples of vmap")
    else:
        for number, leaf in enumerate(_leaves(value)):
            _keep(it, frame, one, leaf, number)


def note_moved(
    it: Interpreter, frame: Frame, one: Collective, operand: ArrayValue
) -> None:
    """Keep what is sent to move axes of an operand, which has global sizes."""
    if it.sends is not None and it.stack:
        _record(it, one, operand, 0)


def not_followed(it: Interpreter, frame: Frame, at: int, qualname: str) -> None:
    """Keep that a call in manual code is not followed: who is called may talk to other devices."""
    if it.view is not None and not qualname.startswith(_ALONE):
        leave(it, frame, at, f"{qualname or 'a function'} is not followed")


def _leaves(value: Value) -> Iterator[Value]:
    parts = children(value)
    if parts is None:
        yield value
    for _, part in parts or ():
        yield from _leaves(part)


def _keep(
    it: Interpreter, frame: Frame, one: Collective, leaf: Value, number: int
) -> None:
    recorder = it.sends
    assert recorder is not None
    if isinstance(leaf, _NUMBERS):
        return  # the program knows it without asking anybody
    unknown = f"{one.name} of what is not known to be an array"
    if not isinstance(leaf, ArrayValue):
        leave(it, frame, one.place[1], unknown)
        return
    # of a loop, the first step may know less
    recorder.left.pop(Left(one.place, unknown, it.stack[0][2]), None)
    _record(it, one, one.view.leave(leaf), number)


def _record(it: Interpreter, one: Collective, operand: ArrayValue, number: int) -> None:
    recorder = it.sends
    assert recorder is not None
    calls = tuple((module, at) for module, at, _ in it.stack)
    where = tuple(around for around, _ in recorder.around)
    recorder.sent[calls, where, one.place, one.name, number] = Sent(
        one.name.removeprefix("lax."),
        one.axes,
        operand,
        tuple(rounds for _, rounds in recorder.around),
        one.place,
        it.stack[0][2],
        len(it.stack) == 1,
    )


def leave(it: Interpreter, frame: Frame, at: int, why: str) -> None:
    """Keep that it is not known what a place sends."""
    if it.sends is not None and it.stack:
        it.sends.left[_left(it, frame, at, why)] = None


def leave_gradient(it: Interpreter, frame: Frame, at: int, name: str) -> None:
    """Keep that it is not known what a gradient sends."""
    if it.sends is not None and it.stack:
        why = f"{name}: what gradients send"
        it.sends.left[replace(_left(it, frame, at, why), of_gradient=True)] = None


def leave_mapped(it: Interpreter, frame: Frame, at: int, why: str) -> None:
    """Keep that a call is of what maps itself over devices, which may be counted as a part of manual code, too."""
    if it.sends is not None and it.stack:
        it.sends.mapped[_left(it, frame, at, why)] = None


def _left(it: Interpreter, frame: Frame, at: int, why: str) -> Left:
    return Left((frame.module, at), why, it.stack[0][2])
