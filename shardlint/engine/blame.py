"""Where a part of a function's result is written."""

from __future__ import annotations

from collections.abc import Sequence

from shardlint import ir
from shardlint.engine.frames import Frame
from shardlint.engine.plain import innermost
from shardlint.values import FunctionValue, Value


def result_place(
    func: Value, frame: Frame, path: Sequence[int] = (), private: bool = False
) -> int | None:
    """The node of one part of what a local function or lambda returns; None where it is not one place.

    A function defined elsewhere may be right for its other callers: then the call is to blame, unless the function is
    ``private`` to it.
    """
    func = innermost(func)
    if not isinstance(func, FunctionValue) or func.module != frame.module:
        return None
    if not private and (func.closure is not frame or frame.parent is None):
        return None
    if isinstance(func.node, ir.Lambda):
        values = [func.node.body]
    else:
        returns = [
            node
            for node in ir.statements(func.node.body)
            if isinstance(node, ir.Return)
        ]
        values = [node.value for node in returns if node.value is not None]
    if len(values) != 1:
        return None
    expr = values[0]
    for index in path:
        if not isinstance(expr, ir.Sequence) or index >= len(expr.items):
            break
        expr = expr.items[index]
    return expr.at
