"""``@overload``: what a call of a function gives that has several signatures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import matching
from shardlint.engine.annotations import resolve
from shardlint.engine.arguments import bind
from shardlint.engine.frames import Frame
from shardlint.engine.types import Type
from shardlint.outline import last_name
from shardlint.values import FunctionValue, Value
from shardtypes.lang import Bindings

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


def overload_called(
    it: Interpreter,
    frame: Frame,
    func: FunctionValue,
    args: list[Value],
    kwargs: dict[str, Value],
) -> tuple[Type, Bindings] | None:
    """What the only signature promises that takes these arguments, and what they bind; None where several may be
    meant, or the function has one signature."""
    found = []
    for node in _signatures(it, func):
        bindings = _bindings(it, frame, func.module, node, args, kwargs)
        if bindings is not None:
            found.append((resolve(it, node.returns, func.module), bindings))
    return found[0] if len(found) == 1 else None


def _bindings(
    it: Interpreter,
    frame: Frame,
    module: str,
    node: ir.Function,
    args: list[Value],
    kwargs: dict[str, Value],
) -> Bindings | None:
    """What the arguments bind in a signature; None where it does not take them."""
    fit = bind(node, args, kwargs)
    if fit is None:
        return None
    bound, _ = fit
    bindings = Bindings()
    for param in node.params:
        if param.name not in bound or param.kind in ("*", "**"):
            continue
        type_ = resolve(it, param.annotation, module)
        value = bound[param.name]
        if matching.check(it, type_, value, bindings, frame.facts, "") is not None:
            return None
    return bindings


def _signatures(it: Interpreter, func: FunctionValue) -> tuple[ir.Function, ...]:
    """The signatures with ``@overload`` above a function of a module or a class."""
    known = it.overloads.get(func.module)
    if known is None:
        body = it.project.modules[func.module].body
        known = it.overloads[func.module] = dict(_overloaded(body))
    return known.get(func.node.at, ())


def _overloaded(
    body: Iterable[ir.Stmt],
) -> Iterator[tuple[int, tuple[ir.Function, ...]]]:
    """The functions of a body that have such signatures, by their numbers."""
    above: dict[str, list[ir.Function]] = defaultdict(list)
    for node in body:
        if isinstance(node, ir.Class):
            yield from _overloaded(node.body)
        if not isinstance(node, ir.Function):
            continue
        if "overload" in map(last_name, node.decorators):
            above[node.name].append(node)
        elif node.name in above:
            yield node.at, tuple(above.pop(node.name))
