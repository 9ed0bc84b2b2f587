"""Updates of optimizers whose new state is thrown away, while the one from before goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from shardlint import ir
from shardlint.engine import training
from shardlint.engine.frames import Frame
from shardlint.values import ExternalValue, Unknown
from shardlint.walking import nodes_of, walk
from shardtypes.lang.frozen import frozen

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

Path: TypeAlias = tuple[str, ...]
"""A name and the attributes after it: ``state.opt_state``."""

_LOOPS: frozenset[type[ir.Node]] = frozenset({ir.For, ir.While})
_OTHERS: frozenset[type[ir.Node]] = frozenset({ir.Declare, ir.Delete})
_REPLACING = frozenset({"replace", "_replace"})


@frozen
class Update:
    """``updates, new = optimizer.update(grads, old)``: the names of both results, and where the old state is held."""

    updates: str
    new: ir.Name
    old: Path
    call: ir.Call


def check(it: Interpreter, frame: Frame, body: tuple[ir.Stmt, ...]) -> None:
    """Report the updates in a body that has been evaluated in ``frame``."""
    for update in _updates(body):
        if _count(body, update.new.id) > 1 or any(True for _ in walk(body, _OTHERS)):
            continue
        certain = _is_update(it, frame, update.call.func)
        if certain is False or (
            certain is None and not _is_applied(it, frame, body, update.updates)
        ):
            continue
        deliberate = update.new.id.startswith("_")
        goes_on = (
            _goes_on(body, update, loops=not deliberate)
            if certain or not deliberate
            else ""
        )
        if goes_on:
            old = ".".join(update.old)
            new = update.new.id
            text = f"`{new}`, the updated optimizer state, is never used: {goes_on} the old `{old}`; pass on `{new}`"
            it.report(frame, "ST216", update.new.at, text)


def _updates(body: tuple[ir.Stmt, ...]) -> Iterator[Update]:
    """The updates of a body, but for those of functions in it."""
    for node in ir.statements(body):
        if (
            not isinstance(node, ir.Assign)
            or not isinstance(node.value, ir.Call)
            or len(node.targets) != 1
        ):
            continue
        call, target = node.value, node.targets[0]
        if (
            not isinstance(call.func, ir.Attr)
            or call.func.name != "update"
            or not isinstance(target, ir.Sequence)
        ):
            continue
        old = _state_of(call)
        match target.items:
            case (ir.Name(id=updates), ir.Name() as new) if old is not None:
                yield Update(updates, new, old, call)
            case _:
                pass


def _state_of(call: ir.Call) -> Path | None:
    """Where the state is held that an update is given."""
    plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    named = {arg.keyword: arg.value for arg in call.args}
    state = plain[1] if len(plain) > 1 else named.get("state")
    return None if state is None else _path(state)


def _path(expr: ir.Expr) -> Path | None:
    if isinstance(expr, ir.Name):
        return (expr.id,)
    if isinstance(expr, ir.Attr):
        before = _path(expr.obj)
        return None if before is None else (*before, expr.name)
    return None


def _count(body: tuple[ir.Stmt, ...], name: str) -> int:
    return sum(node.id == name for node in nodes_of(body, ir.Name))


def _is_update(it: Interpreter, frame: Frame, func: ir.Expr) -> bool | None:
    """Whether a function is that of an optimizer that has a state; None where that is not known."""
    frame.silent += 1
    value = it.evaluate(frame, func)
    frame.silent -= 1
    if isinstance(value, ExternalValue):
        return value.qualname in training.STATEFUL_UPDATES
    return None if isinstance(value, Unknown) else False


def _is_applied(
    it: Interpreter, frame: Frame, body: tuple[ir.Stmt, ...], updates: str
) -> bool:
    """Whether these are what ``optax.apply_updates`` is given, so that an optimizer made them."""
    for call in nodes_of(body, ir.Call):
        if not any(_path(arg.value) == (updates,) for arg in call.args):
            continue
        function = it.resolve_static(call.func, frame.module)
        if function == ExternalValue("optax.apply_updates"):
            return True
    return False


def _goes_on(body: tuple[ir.Stmt, ...], update: Update, loops: bool) -> str:
    """How the old state goes on; empty where that is not certain."""
    written = [node for node in nodes_of(body, ir.Assign) if _writes(node, update.old)]
    for loop in walk(body, _LOOPS) if loops else ():
        if any(node is update.call for node in nodes_of(loop, ir.Call)):
            inside = {id(node) for node in nodes_of(loop, ir.Assign)}
            return (
                ""
                if any(id(node) in inside for node in written)
                else "the next iteration uses"
            )
    if any(node.at > update.call.at for node in written):
        return ""
    for node in ir.statements(body):
        if (
            isinstance(node, ir.Return)
            and node.value is not None
            and node.at > update.call.at
        ):
            if any(_hands_on(part, update.old) for part in _parts(node.value)):
                return "the function returns"
    return ""


def _writes(node: ir.Assign, path: Path) -> bool:
    """Whether an assignment may change what is held there."""
    targets = [_path(part) for target in node.targets for part in _parts(target)]
    return any(
        target is not None and target == path[: len(target)] for target in targets
    )


def _parts(expr: ir.Expr) -> Iterator[ir.Expr]:
    """An expression, or those of a tuple, a list, or a call's arguments."""
    yield expr
    if isinstance(expr, ir.Sequence):
        for item in expr.items:
            yield from _parts(item)
    elif isinstance(expr, ir.Call):
        for arg in expr.args:
            yield from _parts(arg.value)


def _hands_on(expr: ir.Expr, path: Path) -> bool:
    """Whether this is the state, or what holds it with other fields replaced."""
    if _path(expr) == path:
        return True
    if (
        len(path) == 1
        or not isinstance(expr, ir.Call)
        or not isinstance(expr.func, ir.Attr)
    ):
        return False
    if expr.func.name not in _REPLACING or any(arg.star for arg in expr.args):
        return False
    holder = _path(expr.func.obj)
    if holder == ("dataclasses",) and expr.args:
        holder = _path(expr.args[0].value)
    return holder == path[:-1] and path[-1] not in {arg.keyword for arg in expr.args}
