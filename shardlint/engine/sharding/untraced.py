"""Code that nothing traces: that of a module, what this calls, and functions with which a program starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.frames import Frame
from shardlint.walking import below, walk

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


def runs_now(it: Interpreter, frame: Frame) -> bool:
    """Whether a call of the library is made by code that nothing traces."""
    outermost = it.callers[0] if it.callers else frame
    if it.tracing != 1:  # that call is the one
        return False
    return outermost.function is None or _is_start(it, outermost)


def _is_start(it: Interpreter, frame: Frame) -> bool:
    """Whether a program starts with this function, as with ``main``: it takes nothing, and nothing in the project can
    hand it to a transformation."""
    node = None if frame.function is None else frame.function.node
    source = it.project.module(frame.module)
    if not isinstance(node, ir.Function) or source is None or node not in source.body:
        return False
    if node.params or node.decorators or node.is_async:
        return False
    return _is_only_called(source.body, node) and not _is_imported(it, source)


def _is_only_called(body: tuple[ir.Stmt, ...], function: ir.Function) -> bool:
    """Whether a module speaks of a function nowhere but in calls at its top."""
    waiting: list[ir.Node] = [one for one in body if one is not function]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ir.Function, ir.Lambda, ir.Class)):
            inner = walk(node, frozenset({ir.Name}))
            if any(isinstance(n, ir.Name) and n.id == function.name for n in inner):
                return False
            continue
        if isinstance(node, ir.Name) and node.id == function.name:
            return False
        if isinstance(node, ir.Call) and isinstance(node.func, ir.Name):
            waiting += [part for part in below(node) if part is not node.func]
        else:
            waiting += below(node)
    return True


def _is_imported(it: Interpreter, module: ir.Module) -> bool:
    last = module.name.rpartition(".")[2]
    return any(
        name.rpartition(".")[2] == last
        for outline in it.project.own_outlines()
        for name in outline.imports
    )
