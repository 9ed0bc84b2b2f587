"""Evaluation of a function's body for one call: remembered, bounded in depth, in recursion and in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import (
    containers,
    learned_ranks,
    matching,
    mutation,
    objects,
)
from shardlint.engine.annotations import resolve
from shardlint.engine.class_index import CONSTRUCTORS
from shardlint.engine.frames import HELD, Frame
from shardlint.engine.interpreter import StepLimit
from shardlint.engine.joining import join_all
from shardlint.engine.plain import constant
from shardlint.engine.sharding import sends
from shardlint.engine.types import says_something
from shardlint.values import (
    ClassValue,
    CollectionValue,
    DictValue,
    DTypeValue,
    ExternalValue,
    FunctionValue,
    Literal,
    ModuleValue,
    ScalarValue,
    SequenceValue,
    StringValue,
    Unknown,
    Value,
    is_unranked,
    number_in,
)
from shardlint.walking import nodes_of
from shardtypes.lang import Bindings, Facts

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

MAX_DEPTH = 10
_MAX_RECURSION = 8
_FEWEST_STEPS = 40  # of a call: less is not worth the beginning
_OWN_STEPS = 8000  # of the function under analysis, besides those of what it calls
_MANY_STEPS = 1000  # what takes more than these is not tried again
_SIZELESS = (
    Literal,
    StringValue,
    ExternalValue,
    FunctionValue,
    ClassValue,
    DTypeValue,
    ModuleValue,
    ScalarValue,
)


def in_place(
    it: Interpreter, frame: Frame, func: FunctionValue, bound: dict[str, Value], at: int
) -> Value:
    """The result of the body with these arguments; ``it.left`` is what it leaves of its first one, if an instance."""
    node = func.node
    reason = _refusal(it, node, bound)
    if reason:
        sends.leave(it, frame, at, f"{func.name} is not followed: {reason}")
        mutation.not_followed(it, frame, func, bound)
        return Unknown(reason)
    closure = (
        func.closure
        if isinstance(func.closure, Frame)
        else it.module_frame(func.module)
    )
    top = closure.parent is None
    facts = Facts() if top and all(map(_has_no_size, bound.values())) else frame.facts
    apart = None if it.apart is None else frozenset(it.apart)
    around = (
        facts,
        frame.mesh,
        frame.rules,
        it.target,
        it.view,
        apart,
        it.parameters,
        bool(frame.silent),
    )
    target = it.modules.get(it.target)
    held_by_modules = (closure.state, None if target is None else target.state)
    key = (
        (id(node), func.module, tuple(bound.items()), around, held_by_modules)
        if top
        else None
    )
    if not _is_remembered(it, key):
        key = None
    held = tuple(value for value in bound.values() if objects.can_change(value))
    if key in it.memo:
        return _remembered(it, key, bound)
    count, by_hand = len(it.events), it.by_hand
    certain, it.traced = not it.traced, False
    # those of the function around it are its own
    names = Bindings() if top else Bindings(closure.bindings.sizes)
    inner = Frame(
        func.module,
        dict(bound),
        names,
        facts,
        closure,
        func,
        silent=frame.silent,
        in_place=True,
    )
    inner.mesh, inner.rules, inner.inside = frame.mesh, frame.rules, it.view is not None
    if held:
        inner.variables[HELD] = SequenceValue(held)
    share = (
        (
            it.left_steps()
            - (_OWN_STEPS if len(it.stack) < it.base + 2 else _FEWEST_STEPS)
        )
        * 3
        // 4
    )
    found = None
    if share >= _FEWEST_STEPS:
        with it.at_most(share), it.entered((frame.module, at, node)):
            calls = it.active.setdefault(id(node), [])
            calls.append(bound)
            it.callers.append(frame)
            found = _bounded(it, inner, func, closure)
            it.callers.pop()
            calls.pop()
            if not calls:
                del it.active[id(node)]
    it.left = None
    if found is None:
        it.unfinished[func.name] = it.unfinished.get(func.name, 0) + 1
        sends.leave(it, frame, at, f"{func.name} is too long to follow")
        result: Value = Unknown("too long to follow")
        mutation.not_followed(it, frame, func, bound)
        pure = True
    else:
        result, after = _with_left(inner, found, held)
        first = next(iter(bound.values()), None)
        it.left = after[0] if after and held[0] is first else None
        new = func.name in CONSTRUCTORS and it.left is not None
        pure = all(
            now is before for before, now in zip(held[new:], after[new:], strict=True)
        )
        pure &= not objects.share(
            SequenceValue((result, it.left or result)), list(held[new:])
        )
        mutation.settled(it, frame, held, after, certain)
    it.traced = not certain
    if (
        pure
        and key is not None
        and len(it.events) == count
        and (found is not None or share >= _MANY_STEPS)
    ):
        it.memo[key] = (result, it.left, it.by_hand - by_hand)
    return result


def _remembered(it: Interpreter, key: object, bound: dict[str, Value]) -> Value:
    """The result of a call that was followed before, as new objects."""
    result, left, by_hand = it.memo[key]
    it.by_hand += by_hand
    copies: dict[int, Value] = {}
    if left is None:
        it.left = next(iter(bound.values()), None)
    else:
        it.left = containers.copied(left, copies)
    return containers.copied(result, copies)


def _refusal(
    it: Interpreter, node: ir.Function | ir.Lambda, bound: dict[str, Value]
) -> str:
    """Why a body is not evaluated, if it is not."""
    if isinstance(node, ir.Function) and _is_stub(node):
        return "a function without a body"
    if len(it.stack) >= MAX_DEPTH:
        return "calls nested too deep"
    if any(active is node for _, _, active in it.stack) and not _comes_closer(
        it.active.get(id(node), []), bound
    ):
        return "a recursive call"
    return ""


def _with_left(
    inner: Frame, found: Value, held: tuple[Value, ...]
) -> tuple[Value, tuple[Value, ...]]:
    """The result, and what a body leaves of the arguments that it could change; they may share objects."""
    if (
        not held
        or not inner.left
        or (isinstance(found, SequenceValue) and found.kind == "iterator")
    ):
        return found, held
    both = join_all(inner.left)
    assert isinstance(both, SequenceValue)  # tuples of one length
    return both.items[0], both.items[1:]


def _bounded(
    it: Interpreter, inner: Frame, func: FunctionValue, closure: Frame
) -> Value | None:
    """The result; None where it takes more steps than it may."""

    node, view, explicit, callers = func.node, it.view, it.explicit, len(it.callers)
    depth, active = len(it.stack), {key: len(calls) for key, calls in it.active.items()}
    try:
        for param in node.params:
            if param.name not in inner.variables and param.default is not None:
                held = func.defaults.get(param.name)
                inner.variables[param.name] = (
                    it.evaluate(closure, param.default) if held is None else held
                )
        if isinstance(node, ir.Lambda):
            result = it.evaluate(inner, node.body)
            inner.leave(result)
            return result
        for param in node.params:
            type_ = resolve(it, param.annotation, func.module)
            if says_something(type_):
                mark = inner.bindings.mark()
                given = inner.variables.get(param.name, Unknown())
                if matching.check(it, type_, given, inner.bindings, inner.facts, ""):
                    inner.bindings.rollback(mark)
        if any(map(is_unranked, inner.variables.values())):
            learned_ranks.tell(it, inner, func)
        ended = it.block(inner, node.body)
        results = inner.returned if ended else [*inner.returned, constant(None)]
        if not ended:
            inner.leave(results[-1])
        if node.is_generator:
            return _generated(node, inner.yielded)
        return join_all(results) if results else Unknown("it always raises")
    except StepLimit:
        del it.stack[depth:]
        for key, calls in it.active.items():
            del calls[active.get(key, 0) :]
        del it.callers[callers:]
        it.view, it.explicit = view, explicit
        return None


def _is_stub(node: ir.Function) -> bool:
    """Whether a body is but a docstring or ``...``, as those of protocols are."""
    return all(
        isinstance(one, ir.ExprStmt) and isinstance(one.value, ir.Const)
        for one in node.body
    )


def _has_no_size(value: Value) -> bool:
    """Whether nothing that is known of sizes matters to a value."""
    return isinstance(value, _SIZELESS) or (
        isinstance(value, Unknown) and value.size is None
    )


def _comes_closer(active: list[dict[str, Value]], bound: dict[str, Value]) -> bool:
    """Whether a recursive call has a smaller number, or a shorter list, than the one that makes it: it may come to an
    end."""
    if not 0 < len(active) < _MAX_RECURSION:
        return False
    measures = [
        (_measure(active[-1].get(name)), _measure(value))
        for name, value in bound.items()
    ]
    return any(
        before is not None and now is not None and now < before
        for before, now in measures
    )


def _measure(value: Value | None) -> int | None:
    if isinstance(value, (SequenceValue, DictValue)):
        return len(value.items)
    return number_in(value)


def _generated(node: ir.Function, items: list[Value]) -> Value:
    """What iterating over a generator gives: all of it where each ``yield`` is run once."""
    plain = [
        s
        for s in node.body
        if isinstance(s, ir.ExprStmt) and isinstance(s.value, ir.Opaque)
    ]
    yields = [n for n in nodes_of(node.body, ir.Opaque) if n.what.startswith("Yield")]
    if any(one.what == "YieldFrom" for one in yields) or not items:
        return Unknown("a generator")
    if len(plain) == len(yields) == len(items):
        return SequenceValue(tuple(items), "iterator")
    return CollectionValue(join_all(items))


def _is_remembered(it: Interpreter, key: object) -> bool:
    """Whether a call is evaluated once for all that are like it. Who counts what is sent has to see each."""
    return it.sends is None and key is not None and _hashable(key)


def _hashable(key: object) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True
