"""``match`` statements: which case certainly matches, and what its pattern binds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.frames import Frame
from shardlint.engine.joining import join_variables
from shardlint.engine.narrowing import expand_shape, of_type
from shardlint.engine.plain import truth
from shardlint.engine.trees import named_items
from shardlint.values import (
    DictValue,
    EitherValue,
    InstanceValue,
    Literal,
    MaybeValue,
    SequenceValue,
    Unknown,
    Value,
    number_in,
)
from shardlint.verdicts import all_hold, any_holds

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_UNKNOWN = Unknown("bound by a pattern")


def _is_assumed(value: Value, subject: Value) -> bool:
    """Whether the rank of what is matched was taken from the pattern."""
    return value is not subject and not isinstance(subject, SequenceValue)


def execute(it: Interpreter, frame: Frame, node: ir.Match) -> bool:
    """Run the cases that may match; True if control does not reach the end."""
    subject = it.evaluate(frame, node.subject)
    name = node.subject.id if isinstance(node.subject, ir.Name) else ""
    before, facts = dict(frame.variables), frame.facts
    paths: list[dict[str, Value]] = []
    certain, ended = False, 0
    for case in node.cases:
        frame.variables, frame.facts = dict(before), facts
        value = subject
        if isinstance(case.pattern, ir.SequencePattern) and not any(
            _is_star(item) for item in case.pattern.items
        ):
            names = [
                item.name if isinstance(item, ir.CapturePattern) else ""
                for item in case.pattern.items
            ]
            value = expand_shape(it, frame, node.subject, value, names)
        verdict = matches(it, frame, value, case.pattern)
        if verdict and _is_assumed(value, subject):
            verdict = None
        if verdict is False:
            continue
        if name:
            frame.variables[name] = _narrowed(it, frame, value, case.pattern)
        if case.guard is not None:
            decided = truth(it.evaluate(frame, case.guard))
            if decided is False:
                continue
            verdict = verdict if decided else None
        certain = verdict is True
        silent = frame.in_place and not (certain and not paths and not ended)
        frame.silent += silent
        if it.block(frame, case.body):
            ended += 1
        else:
            paths.append(frame.variables)
        frame.silent -= silent
        if certain:
            break
        subject = _without(subject, case)
        if name:
            before[name] = subject
    if not certain:
        paths.append(before)
    frame.variables, frame.facts = before, facts
    if not paths:
        return True
    if ended:  # what follows is a branch too
        frame.silent += frame.in_place
    frame.variables = paths[0]
    for path in paths[1:]:
        frame.variables = join_variables(frame.variables, path)
    return False


def matches(
    it: Interpreter, frame: Frame, value: Value, pattern: ir.Pattern
) -> bool | None:
    """Whether a value matches, None where that is open; the names of the pattern are bound."""
    match pattern:
        case ir.ValuePattern(value=expr):
            return _equal(value, it.evaluate(frame, expr))
        case ir.CapturePattern(name=name, pattern=inner):
            verdict = True if inner is None else matches(it, frame, value, inner)
            if name:
                frame.variables[name] = (
                    value if inner is None else _narrowed(it, frame, value, inner)
                )
            return verdict
        case ir.OrPattern(options=options):
            verdicts = [matches(it, frame, value, option) for option in options]
            return any_holds(verdicts)
        case ir.SequencePattern():
            return _sequence(it, frame, value, pattern)
        case ir.MappingPattern():
            return _mapping(it, frame, value, pattern)
        case ir.ClassPattern(cls=cls, positional=positional, named=named):
            return _class(it, frame, value, cls, positional, named)


def _mapping(
    it: Interpreter, frame: Frame, value: Value, pattern: ir.MappingPattern
) -> bool | None:
    """``{key: pattern, **rest}``."""
    held = dict(value.items) if isinstance(value, DictValue) else {}
    keys = [
        key.value if isinstance(key, ir.Const) else None for key, _ in pattern.items
    ]
    constant = all(isinstance(key, ir.Const) for key, _ in pattern.items)
    known = constant and isinstance(value, DictValue)
    verdicts: list[bool | None] = []
    if known:
        verdicts.append(all(key in held for key in keys))
    else:
        is_open = isinstance(value, (Unknown, DictValue, InstanceValue))
        verdicts.append(None if is_open else False)
    for key, (_, inner) in zip(keys, pattern.items, strict=True):
        verdicts.append(matches(it, frame, held.get(key, _UNKNOWN), inner))
    if pattern.rest:
        others = tuple(pair for pair in held.items() if pair[0] not in keys)
        frame.variables[pattern.rest] = DictValue(others) if known else _UNKNOWN
    return all_hold(verdicts)


def _sequence(
    it: Interpreter, frame: Frame, value: Value, pattern: ir.SequencePattern
) -> bool | None:
    value, items = named_items(value), pattern.items
    star = next((i for i, item in enumerate(items) if _is_star(item)), None)
    if not isinstance(value, SequenceValue):
        for item in items:
            matches(it, frame, _UNKNOWN, item)
        return (
            None if isinstance(value, (Unknown, MaybeValue, InstanceValue)) else False
        )
    values = list(value.items)
    if len(values) != len(items) if star is None else len(values) < len(items) - 1:
        return False
    if star is not None:
        extra = len(values) - len(items) + 1
        values[star : star + extra] = [
            SequenceValue(tuple(values[star : star + extra]), "list")
        ]
    verdicts = [
        matches(it, frame, one, item) for one, item in zip(values, items, strict=True)
    ]
    return all_hold(verdicts)


def _class(
    it: Interpreter,
    frame: Frame,
    value: Value,
    cls: ir.Expr,
    positional: tuple[ir.Pattern, ...],
    named: tuple[tuple[str, ir.Pattern], ...],
) -> bool | None:
    verdicts = [of_type(value, it.evaluate(frame, cls))[0]]
    fields = dict(value.fields) if isinstance(value, InstanceValue) else {}
    order = (
        list(it.fields(value.cls))
        if isinstance(value, InstanceValue) and value.cls.is_dataclass
        else []
    )
    for index, inner in enumerate(positional):
        held = fields.get(order[index], _UNKNOWN) if index < len(order) else _UNKNOWN
        verdicts.append(matches(it, frame, held, inner))
    verdicts += [
        matches(it, frame, fields.get(name, _UNKNOWN), inner) for name, inner in named
    ]
    return all_hold(verdicts)


def _equal(value: Value, wanted: Value) -> bool | None:
    if isinstance(value, Literal) and isinstance(wanted, Literal):
        return value.value == wanted.value
    if wanted == Literal(None) and not isinstance(
        value, (Unknown, MaybeValue, EitherValue)
    ):
        return False
    number, other = number_in(value), number_in(wanted)
    return None if None in (number, other) else number == other


def _narrowed(
    it: Interpreter, frame: Frame, value: Value, pattern: ir.Pattern
) -> Value:
    """What is known of a value that matches."""
    match pattern:
        case ir.ValuePattern(value=ir.Const(value=None)):
            return Literal(None)
        case ir.ClassPattern(cls=cls):
            return of_type(value, it.evaluate(frame, cls))[1]
        case ir.CapturePattern(pattern=inner) if inner is not None:
            return _narrowed(it, frame, value, inner)
        case _:
            return value


def _without(value: Value, case: ir.Case) -> Value:
    """What is known of a value that a case did not match."""
    none = isinstance(case.pattern, ir.ValuePattern) and case.pattern.value == ir.Const(
        case.pattern.value.at, None
    )
    return (
        value.value
        if none and case.guard is None and isinstance(value, MaybeValue)
        else value
    )


def _is_star(pattern: ir.Pattern) -> bool:
    return isinstance(pattern, ir.CapturePattern) and pattern.star
