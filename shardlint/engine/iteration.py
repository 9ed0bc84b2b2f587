"""Loops and comprehensions: step by step where what they run over is known, else until nothing changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import mutation
from shardlint.engine.conditions import bound_in
from shardlint.engine.frames import Frame
from shardlint.engine.joining import join_all, join_variables
from shardlint.engine.narrowing import narrow
from shardlint.engine.plain import MAX_ITEMS, element, iterate, plain_key, truth
from shardlint.engine.sharding import copies, sends
from shardlint.values import (
    ArrayValue,
    CollectionValue,
    DictValue,
    ExternalValue,
    FunctionValue,
    InstanceValue,
    IntValue,
    MethodValue,
    PartialValue,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
)
from shardlint.walking import nodes_of, walk
from shardtypes.lang import Size

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_MAX_UNROLL = 8
# the same, where each round is to be counted
_MAX_COUNTED = 64
# steps of a longer loop that are taken one by one: what the first leaves, the second gets
_FIRST = 2


def run_for(it: Interpreter, frame: Frame, node: ir.For) -> bool:
    """A ``for`` loop; True if control does not reach its end."""
    source = it.evaluate(frame, node.iter)
    items = iterate(source)
    mutation.consumed(it, frame, source)
    if items is None:
        # of the leaves of a tree, which has some
        if it.view is not None and isinstance(source, CollectionValue):
            it.assign(frame, node.target, source.item)
            with sends.repeated(it, node.at, None):
                _step(it, frame, node.body)
        with sends.repeated(it, node.at, _items_in(source)):
            _repeat(it, frame, node.body, (node.target, _element(node.iter, source)))
        return it.block(frame, node.orelse)
    most = _MAX_UNROLL if it.sends is None else _MAX_COUNTED
    short = len(items) <= most or _differ(items)
    outer, frame.breaks = frame.breaks, []
    alive, stable, begun = True, False, it.steps
    done = 0
    seen: list[Value] = []  # items that have left everything as it was
    for index, item in enumerate(items if short else items[:_FIRST]):
        it.assign(frame, node.target, item)
        if stable and item in seen and it.sends is None:
            continue
        before, begun = dict(frame.variables), it.steps
        with sends.repeated(it, (node.at, index), Size.const(1)):
            alive = _step(it, frame, node.body)
        done = index + 1
        if not alive:
            break
        if short and not _affords(it, begun, len(items) - index - 1):
            short = False
            break
        stable = frame.variables == before
        seen = [*seen, item] if stable else []
    if alive and not short and not (stable and all(item in seen for item in items)):
        with sends.repeated(it, node.at, Size.const(len(items) - done)):
            _repeat(it, frame, node.body, (node.target, join_all(items)), begun)
    return _after(it, frame, node, alive, outer)


def _differ(items: list[Value]) -> bool:
    """Whether they are functions and layers of several kinds, as a model's own list of them: what one step leaves says
    nothing of the next."""
    kinds: set[str | int] = set()
    for item in items:
        if isinstance(item, InstanceValue):
            kinds.add(item.cls.name)
        elif isinstance(item, ExternalValue):
            kinds.add(item.qualname)
        elif isinstance(item, (FunctionValue, MethodValue, PartialValue, WrappedValue)):
            kinds.add(id(item))
        else:
            return False
    return len(kinds) > 1


def run_while(it: Interpreter, frame: Frame, node: ir.While) -> bool:
    """A ``while`` loop; True if control does not reach its end."""
    outer, frame.breaks = frame.breaks, []
    alive, steps = True, 0
    decided = truth(it.evaluate(frame, node.test))
    most = _FIRST if isinstance(node.test, ir.Const) else _MAX_UNROLL
    begun = it.steps
    while alive and decided is True and steps < most:
        begun = it.steps
        with sends.repeated(it, (node.at, steps), Size.const(1)):
            alive = _step(it, frame, node.body)
        decided = truth(it.evaluate(frame, node.test)) if alive else None
        steps += 1
        if not _affords(it, begun, most - steps):
            break
    if alive and decided is not False:
        with sends.repeated(it, node.at, None):
            _repeat(it, frame, node.body, None, begun)
        alive = truth(it.evaluate(frame, node.test)) is not True
    return _after(it, frame, node, alive, outer)


def _step(it: Interpreter, frame: Frame, body: tuple[ir.Stmt, ...]) -> bool:
    """Run a body once; whether another step may follow."""
    jumps, frame.jumps = frame.jumps, []
    ended = it.block(frame, body)
    paths = [*frame.jumps, *([] if ended else [frame.variables])]
    frame.jumps = jumps
    if paths:
        frame.variables = _joined(paths)
    return bool(paths)


def _affords(it: Interpreter, begun: int, more: int) -> bool:
    """Whether as many more rounds like the one since then leave half of the steps that there are, for what follows."""
    return more * (it.steps - begun) <= it.left_steps() // 2


def _given_up(it: Interpreter, frame: Frame, body: tuple[ir.Stmt, ...]) -> None:
    """What a loop leaves whose further rounds would take too long: of all that it may change, nothing is known."""
    function = frame.function.name if frame.function is not None else frame.module
    it.given_up[function] = it.given_up.get(function, 0) + 1
    names = {node.id for node in nodes_of(body, ir.Name)}
    mutation.open_to_change(
        it,
        frame,
        [held for name in sorted(names) if (held := frame.find(name)) is not None],
    )
    unknown = Unknown("changes in a loop that is too long to follow")
    for name in bound_in(body):
        frame.variables[name] = unknown
    if any(isinstance(node, ir.Return) for node in ir.statements(body)):
        frame.returned.append(unknown)
        frame.leave(unknown)
    if any(
        isinstance(node, ir.Opaque) and node.what.startswith("Yield")
        for node in walk(body)
    ):
        frame.yielded.append(unknown)


def _after(
    it: Interpreter,
    frame: Frame,
    node: ir.For | ir.While,
    alive: bool,
    outer: list[dict[str, Value]],
) -> bool:
    """What follows a loop: its ``else`` where it ran to its end, and the states of its breaks."""
    breaks, frame.breaks = frame.breaks, outer
    ended = not alive or it.block(frame, node.orelse)
    paths = [*breaks, *([] if ended else [frame.variables])]
    if paths:
        frame.variables = _joined(paths)
    return not paths


def _joined(paths: list[dict[str, Value]]) -> dict[str, Value]:
    result = paths[0]
    for path in paths[1:]:
        result = join_variables(result, path)
    return result


def _items_in(source: Value) -> Size | None:
    """How many items something gives that is not of a known, small length."""
    if isinstance(source, ArrayValue) and source.dims:
        return source.dims[0].size
    return None


def _element(expr: ir.Expr, source: Value) -> Value:
    name = (
        expr.func.id
        if isinstance(expr, ir.Call) and isinstance(expr.func, ir.Name)
        else ""
    )
    if name == "range":
        return IntValue(None)
    if name == "enumerate" and isinstance(source, Unknown):
        return SequenceValue((IntValue(None), source))
    return element(source)


def _repeat(
    it: Interpreter,
    frame: Frame,
    body: tuple[ir.Stmt, ...],
    target: tuple[ir.Expr, Value] | None,
    begun: int | None = None,
) -> None:
    """Run a body until the variables are stable; what is not stable after three rounds is unknown. ``begun`` is when
    the last round began, if there was one."""
    returned, facts = len(frame.returned), frame.facts
    breaks, frame.breaks = frame.breaks, []
    first: dict[str, Value] = {}
    for attempt in range(4):
        if begun is not None and not _affords(it, begun, 1):
            _given_up(it, frame, body)
            if target is not None:
                it.assign(frame, target[0], Unknown("an item"))
            break
        before, begun = dict(frame.variables), it.steps
        if target is not None:
            it.assign(frame, *target)
        jumps, frame.jumps = frame.jumps, []
        mark = frame.bindings.mark()
        ended = it.block(frame, body)
        frame.bindings.rollback(mark)
        first = first or frame.variables
        after = [*frame.jumps, *frame.breaks, *([] if ended else [frame.variables])]
        frame.jumps, frame.breaks, frame.facts = jumps, [], facts
        joined = before
        for variables in after:
            joined = dict(join_variables(joined, variables).items())
        frame.variables = joined
        if joined == before:
            break
        if attempt == 2:
            frame.variables = {
                name: value
                if before.get(name) == value
                else Unknown("changes in a loop")
                for name, value in joined.items()
            }
    frame.breaks = breaks
    copies.remember(frame, first)
    del frame.returned[returned + 8 :]


def _length(source: CollectionValue | ArrayValue) -> Size | None:
    if isinstance(source, CollectionValue):
        return source.length
    return source.dims[0].size if source.dims else None


def comprehension(it: Interpreter, frame: Frame, expr: ir.Comprehension) -> Value:
    """The list, dict or generator; of known items where what it runs over, and its conditions, are known."""
    inner = Frame(
        frame.module,
        {},
        frame.bindings,
        frame.facts,
        frame,
        frame.function,
        silent=frame.silent,
    )
    inner.mesh, inner.rules, inner.in_place, inner.inside = (
        frame.mesh,
        frame.rules,
        frame.in_place,
        frame.inside,
    )
    first = it.evaluate(inner, expr.generators[0].iter)
    mutation.consumed(it, inner, first)
    found = _items(it, inner, expr, 0, first)
    if found is not None:
        if expr.key is not None:
            return (
                DictValue(tuple(dict(found).items()))
                if all(k is not None for k, _ in found)
                else Unknown("keys")
            )
        kind = "iterator" if expr.kind == "generator" else "list"
        return (
            SequenceValue(tuple(v for _, v in found), kind)
            if expr.kind != "set"
            else Unknown("a set")
        )
    generator = expr.generators[0]
    it.assign(inner, generator.target, element(first))
    simple = len(expr.generators) == 1 and not generator.conditions
    if simple and isinstance(first, (CollectionValue, ArrayValue)):
        if expr.key is not None:
            it.evaluate(inner, expr.key)
            return CollectionValue(it.evaluate(inner, expr.element), "dict")
        return CollectionValue(it.evaluate(inner, expr.element), "list", _length(first))
    inner.silent += 1
    for more in expr.generators[1:]:
        it.assign(inner, more.target, element(it.evaluate(inner, more.iter)))
    for one in expr.generators:
        for condition in one.conditions:
            narrow(it, inner, condition, True)
    item = it.evaluate(inner, expr.element)
    if (
        expr.key is None
        and expr.kind in ("list", "generator")
        and not isinstance(item, Unknown)
    ):
        return CollectionValue(item)
    return Unknown("a comprehension of unknown length")


def _items(
    it: Interpreter, frame: Frame, expr: ir.Comprehension, depth: int, source: Value
) -> list[tuple[object, Value]] | None:
    """Keys and items; None where one of the loops, or a condition, is not decided."""
    generator = expr.generators[depth]
    items = iterate(source)
    if items is None:
        return None
    found: list[tuple[object, Value]] = []
    for index, item in enumerate(items):
        begun = it.steps
        it.assign(frame, generator.target, item)
        verdicts = []
        for condition in generator.conditions:
            verdicts.append(truth(it.evaluate(frame, condition)))
            if verdicts[-1] is not True:
                break
            narrow(it, frame, condition, True)
        if None in verdicts:
            return None
        if False in verdicts:
            continue
        if depth + 1 < len(expr.generators):
            inner = _items(
                it,
                frame,
                expr,
                depth + 1,
                it.evaluate(frame, expr.generators[depth + 1].iter),
            )
            if inner is None or len(found) + len(inner) > MAX_ITEMS:
                return None
            found += inner
        else:
            key = (
                plain_key(it.evaluate(frame, expr.key))
                if expr.key is not None
                else None
            )
            found.append((key, it.evaluate(frame, expr.element)))
        if not _affords(it, begun, len(items) - index - 1):
            return None
    return found
