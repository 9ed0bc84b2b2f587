"""Methods that tell of something unknown that it is an array, and of which rank their result is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shardlint import ir, ops
from shardlint.engine.frames import Frame
from shardlint.engine.other_arrays import is_about_jax
from shardlint.ops import OpError
from shardlint.values import ArrayValue, Unknown, Value

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_TELLING = frozenset({"reshape"})


def of_unknown(
    it: Interpreter, frame: Frame, expr: ir.Call, args: Sequence[Value]
) -> ArrayValue | None:
    """The result of ``x.reshape(n, -1)``, of which the arguments tell the rank; None for any other call.

    ``x`` is a name of which nothing is known, in a module whose arrays are all JAX's.
    """
    called = expr.func
    if not isinstance(called, ir.Attr) or called.name not in _TELLING:
        return None
    if not isinstance(called.obj, ir.Name):
        return None
    receiver = frame.find(called.obj.id)
    if not isinstance(receiver, Unknown) or receiver.either:
        return None
    if receiver.leaf is not None or not is_about_jax(it, frame.module):
        return None
    try:
        found = ops.method(
            ArrayValue(None), called.name, args, {}, it.context(frame, expr.at)
        )
    except OpError:
        return None
    if not isinstance(found, ArrayValue) or found.dims is None:
        return None
    return found
