"""``custom_vjp`` and ``custom_jvp``: whether the rules given for a function fit the function.

The function is called as it is written; its rules are followed once, where ``defvjp`` or ``defjvp`` is given them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import expected_errors
from shardlint.engine.agreement import Site, agree
from shardlint.engine.annotations import resolve
from shardlint.engine.arguments import parameter_value
from shardlint.engine.frames import Frame
from shardlint.engine.libraries import knows
from shardlint.engine.sharding.collectives import COLLECTIVES
from shardlint.engine.sharding.site import Site as Called
from shardlint.engine.trees import bare, children, leaf_pairs, map_leaves, traced
from shardlint.engine.types import AnyType
from shardlint.ops.registry import is_none, static_int
from shardlint.values import (
    ArrayValue,
    ExternalValue,
    FunctionValue,
    PartialValue,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
)
from shardlint.walking import nodes_of
from shardtypes.lang import Bindings, dtypes

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

VJP, JVP = "jax.custom_vjp", "jax.custom_jvp"
#: The transformations, with their positional parameters after the function.
CUSTOM = {VJP: ("nondiff_argnums",), JVP: ("nondiff_argnums",)}
_DEFINING = {(VJP, "defvjp"), (JVP, "defjvp")}
#: What gives a function its rules.
RULES = frozenset(f"{kind}.{name}" for kind, name in _DEFINING)


def attribute(value: WrappedValue, name: str) -> Value | None:
    """``f.defvjp``; None for any other attribute."""
    if (value.kind, name) in _DEFINING:
        return PartialValue(ExternalValue(f"{value.kind}.{name}"), (value,))
    return None


@knows(RULES)
def define(called: Called) -> Value:
    """``f.defvjp(forward, backward)`` or ``f.defjvp(rule)``."""
    it, frame, at = called.it, called.frame, called.at
    args, kwargs = called.args, called.kwargs
    given = [
        *args[1:],
        *(kwargs[name] for name in ("fwd", "bwd", "jvp") if name in kwargs),
    ]
    wrapped = args[0]
    if isinstance(wrapped, WrappedValue) and given:
        primal, rules = _function(wrapped.func), [_function(rule) for rule in given]
        fixed = _fixed(wrapped)
        if primal is not None and all(
            rule is not None and _stays(it, rule) for rule in rules
        ):
            it.local_rules.add(id(primal.node))
        if primal is not None and fixed is not None and None not in rules:
            known = [rule for rule in rules if rule is not None]
            site = Site(
                it,
                frame,
                f"{wrapped.kind.rpartition('.')[2]} {primal.name}",
                at,
                code="ST218",
                private=True,
            )
            around = _around(it, frame)
            expects_error = expected_errors.expects_any(
                around
            ) and expected_errors.is_tried(primal.name, around)
            frame.silent += expects_error
            if wrapped.kind == JVP:
                _forward_mode(site, primal, known[0], fixed)
            elif len(known) == 2:
                _reverse_mode(site, primal, known[0], known[1], fixed)
            frame.silent -= expects_error
    return given[0] if given else Unknown("no rule")


def _around(it: Interpreter, frame: Frame) -> tuple[ir.Stmt, ...]:
    """The body in which the rules are given."""
    node = frame.function.node if frame.function is not None else None
    if isinstance(node, ir.Function):
        return node.body
    return it.project.modules[frame.module].body


def is_local(it: Interpreter, wrapped: WrappedValue) -> bool:
    """Whether the rules that give the gradients of a function are known, and certainly reduce nothing over a mesh."""
    primal = _function(wrapped.func)
    return primal is not None and id(primal.node) in it.local_rules


def _stays(it: Interpreter, rule: FunctionValue) -> bool:
    """Whether all that a rule calls are functions of libraries, and no collectives."""
    calls = (node for node in nodes_of(rule.node.body, ir.Call))
    found = (it.resolve_static(call.func, rule.module) for call in calls)
    return all(
        isinstance(one, ExternalValue) and one.qualname not in COLLECTIVES
        for one in found
    )


def _function(value: Value) -> FunctionValue | None:
    """A function whose parameters are all positional."""
    while isinstance(value, WrappedValue) and value.kind == "jax.jit":
        value = value.func
    if isinstance(value, FunctionValue) and all(
        p.kind.startswith("positional") for p in value.node.params
    ):
        return value
    return None


def _fixed(wrapped: WrappedValue) -> frozenset[int] | None:
    """The positions of the arguments that are not differentiated by."""
    options = dict(wrapped.options)
    if "nondiff_argnames" in options:
        return None
    given = options.get("nondiff_argnums", SequenceValue(()))
    numbers = [
        static_int(item)
        for item in (given.items if isinstance(given, SequenceValue) else (given,))
    ]
    known = [n for n in numbers if n is not None and n >= 0]
    return frozenset(known) if len(known) == len(numbers) else None


def _arguments(
    site: Site, primal: FunctionValue, rule: FunctionValue | None
) -> list[Value]:
    """What the function may be given, as its annotations, or those of its forward rule, say."""
    it, bindings = site.it, Bindings()
    frame = Frame(primal.module, bindings=bindings)
    values: list[Value] = []
    others = rule.node.params if rule is not None else ()
    for index, param in enumerate(primal.node.params):
        type_ = resolve(it, param.annotation, primal.module)
        if isinstance(type_, AnyType) and rule is not None and index < len(others):
            type_ = resolve(it, others[index].annotation, rule.module)
        values.append(parameter_value(it, frame, param, type_))
    return values


def _reverse_mode(
    site: Site,
    primal: FunctionValue,
    forward: FunctionValue,
    backward: FunctionValue,
    fixed: frozenset[int],
) -> None:
    args = _arguments(site, primal, forward)
    if len(forward.node.params) != len(args):
        return
    pair = site.call(forward, args)
    if isinstance(pair, ArrayValue) or (
        isinstance(pair, SequenceValue) and len(pair.items) != 2
    ):
        got = (
            "one array" if isinstance(pair, ArrayValue) else f"{len(pair.items)} values"
        )
        site.report(
            f"the forward rule must return a pair (result, residuals), it returns {got}",
            func=forward,
        )
        return
    if not isinstance(pair, SequenceValue):
        return
    result, residuals = pair.items
    wanted = site.call(primal, args)
    agree(
        site,
        wanted,
        result,
        ("the function returns", "but its forward rule returns"),
        forward,
        (0,),
    )
    static = [value for index, value in enumerate(args) if index in fixed]
    varied = [(index, value) for index, value in enumerate(args) if index not in fixed]
    if len(backward.node.params) != len(static) + 2:
        return
    cotangents = site.call(
        backward, [*static, residuals, bare(map_leaves(result, traced), weak=True)]
    )
    _cotangents(site, primal, varied, cotangents, backward)


def _cotangents(
    site: Site,
    primal: FunctionValue,
    varied: list[tuple[int, Value]],
    given: Value,
    backward: FunctionValue,
) -> None:
    """One for each argument, of its shape; None stands for zeros."""
    if isinstance(given, ArrayValue):
        site.report(
            "the backward rule must return a tuple, it returns one array", func=backward
        )
    if not isinstance(given, SequenceValue):
        return
    if len(given.items) != len(varied):
        if given.kind == "tuple":
            counts = f"{_count(len(given.items), 'cotangent')} for {_count(len(varied), 'argument')}"
            site.report(f"the backward rule returns {counts}", func=backward)
        return
    for place, ((index, value), cotangent) in enumerate(
        zip(varied, given.items, strict=True)
    ):
        name = primal.node.params[index].name
        if is_none(cotangent) or any(
            _is_discrete(leaf) for _, leaf, _ in leaf_pairs(value, value) or ()
        ):
            continue
        if children(value) is not None and _has_gaps(cotangent):
            continue
        sides = (f"argument {name} is", "but its cotangent is")
        agree(
            site,
            map_leaves(value, _shape),
            map_leaves(cotangent, _shape),
            sides,
            backward,
            (place,),
        )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _shape(leaf: Value) -> Value:
    """Without its dtype: a cotangent may be of another."""
    leaf = traced(leaf)
    return ArrayValue(leaf.dims) if isinstance(leaf, ArrayValue) else leaf


def _is_discrete(value: Value) -> bool:
    """What has no derivative: its cotangent is of a type of its own."""
    value = traced(value)
    return isinstance(value, ArrayValue) and dtypes.KIND_OF.get(value.dtype or "") in (
        "signed",
        "unsigned",
        "bool",
    )


def _has_gaps(value: Value) -> bool:
    parts = children(value)
    return is_none(value) or any(_has_gaps(item) for _, item in parts or ())


def _forward_mode(
    site: Site, primal: FunctionValue, rule: FunctionValue, fixed: frozenset[int]
) -> None:
    args = _arguments(site, primal, None)
    static = [value for index, value in enumerate(args) if index in fixed]
    varied = tuple(value for index, value in enumerate(args) if index not in fixed)
    if len(rule.node.params) != len(static) + 2:
        return
    tangents = tuple(bare(map_leaves(value, traced), weak=True) for value in varied)
    pair = site.call(rule, [*static, SequenceValue(varied), SequenceValue(tangents)])
    if isinstance(pair, ArrayValue) or (
        isinstance(pair, SequenceValue) and len(pair.items) != 2
    ):
        got = (
            "one array" if isinstance(pair, ArrayValue) else f"{len(pair.items)} values"
        )
        site.report(
            f"the rule must return a pair (result, tangent), it returns {got}",
            func=rule,
        )
        return
    if isinstance(pair, SequenceValue):
        result, tangent = pair.items
        agree(
            site,
            site.call(primal, args),
            result,
            ("the function returns", "but its rule returns"),
            rule,
            (0,),
        )
        shapes = map_leaves(result, _shape), map_leaves(tangent, _shape)
        agree(
            site,
            *shapes,
            ("the result of its rule is", "but the tangent is"),
            rule,
            (1,),
        )
