"""Evaluation of expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint import ir, ops
from shardlint.engine import (
    boxes,
    callables,
    calls,
    classes,
    custom_rules,
    declared,
    iteration,
    lists,
    python_types,
    sharding,
    traced_sizes,
    training,
    tree_functions,
    tree_paths,
)
from shardlint.engine.annotations import resolve
from shardlint.engine.frames import Frame
from shardlint.engine.joining import join
from shardlint.engine.narrowing import narrow
from shardlint.engine.plain import (
    MAX_ITEMS,
    constant,
    is_vast,
    known,
    operand,
    plain_key,
    truth,
)
from shardlint.engine.sharding import outside
from shardlint.engine.sharding.meshes import report_missing_axis
from shardlint.engine.shown import see, see_array, see_use
from shardlint.engine.trees import named_items
from shardlint.engine.types import ClassType
from shardlint.ops import OpError
from shardlint.values import (
    ArrayValue,
    ClassValue,
    CollectionValue,
    DictValue,
    EnumMember,
    ExternalValue,
    FunctionValue,
    InstanceValue,
    IntValue,
    Literal,
    MaybeValue,
    MeshValue,
    MethodValue,
    ModuleValue,
    PartialValue,
    ScalarValue,
    SequenceValue,
    ShardingValue,
    SliceValue,
    SpecValue,
    StackedValue,
    StringValue,
    SuperValue,
    Unknown,
    Value,
    WrappedValue,
)
from shardtypes.lang import Size

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_NOT_AWAITABLE = (
    ArrayValue,
    DictValue,
    Literal,
    MeshValue,
    ScalarValue,
    SequenceValue,
    StringValue,
)
_WHOLE = frozenset({"+", "-", "*", "//", "%"})
NUMBERS: Mapping[str, Value] = {
    **{
        f"{module}.{name}": ScalarValue("float")
        for module in ("jax.numpy", "numpy", "math")
        for name in ("pi", "e", "inf", "nan", "euler_gamma", "tau")
    },
    "jax.numpy.newaxis": Literal(None),
    "numpy.newaxis": Literal(None),
}


def evaluate(it: Interpreter, frame: Frame, expr: ir.Expr) -> Value:
    """The abstract value of an expression; findings are reported on the way."""
    it.step()
    match expr:
        case ir.Const(value=value):
            return constant(value)
        case ir.Name(id=name):
            return _seen(it, frame, expr, _name(it, frame, name))
        case ir.Attr():
            return _seen(it, frame, expr, _attribute(it, frame, expr))
        case ir.Call():
            return _seen(it, frame, expr, calls.call_expression(it, frame, expr))
        case ir.Subscript():
            return _seen(it, frame, expr, _subscript(it, frame, expr))
        case ir.Sequence(kind=kind, items=items):
            return _sequence(it, frame, kind, items)
        case ir.Slice(lower=lower, upper=upper, step=step):
            return SliceValue(
                _bound(it, frame, lower),
                _bound(it, frame, upper),
                _bound(it, frame, step),
            )
        case ir.Dict(items=items):
            return _dict(it, frame, items)
        case ir.Binary():
            left = evaluate(it, frame, expr.left)
            right = evaluate(it, frame, expr.right)
            value = binary(it, frame, expr.op, left, right, expr.at)
            return _seen(it, frame, expr, value)
        case ir.Unary():
            return _seen(it, frame, expr, _unary(it, frame, expr))
        case ir.Compare():
            return _seen(it, frame, expr, _compare(it, frame, expr))
        case ir.Bool(op=op, values=values):
            return _bool(it, frame, op, values)
        case ir.IfExp():
            return _seen(it, frame, expr, _ternary(it, frame, expr))
        case ir.Walrus():
            return _seen(it, frame, expr, _walrus(it, frame, expr))
        case ir.Lambda():
            own = defaults(it, frame, expr.params)
            return FunctionValue(expr, frame.module, frame, None, "lambda", own)
        case ir.Comprehension():
            return iteration.comprehension(it, frame, expr)
        case ir.Star(value=inner):
            evaluate(it, frame, inner)
            return Unknown("unpacked here")
        case ir.Format(parts=parts):
            return _format([evaluate(it, frame, part) for part in parts])
        case ir.Opaque(what="Await", parts=(awaited,)):
            return _seen(it, frame, expr, _awaited(it, frame, awaited))
        case ir.Opaque(parts=parts):
            inside = [evaluate(it, frame, part) for part in parts]
            return _without_value(it, frame, expr, inside)


def _seen(it: Interpreter, frame: Frame, expr: ir.Expr, value: Value) -> Value:
    """The value, kept as what the expression is for those who ask: editors for names and arrays, mypy for arrays."""
    if it.uses is not None:
        see_use(it, frame, expr, value)
    if it.arrays is not None:
        see_array(it, frame, expr, value)
    return value


def _attribute(it: Interpreter, frame: Frame, expr: ir.Attr) -> Value:
    holder = evaluate(it, frame, expr.obj)
    value = attribute(it, frame, holder, expr.name, expr.at)
    if isinstance(value, StringValue) and not value.name:
        return StringValue(_dotted(expr))
    return value


def _bound(it: Interpreter, frame: Frame, expr: ir.Expr | None) -> Value:
    """A bound or the step of a slice."""
    return Literal(None) if expr is None else evaluate(it, frame, expr)


def _unary(it: Interpreter, frame: Frame, expr: ir.Unary) -> Value:
    value = operand(evaluate(it, frame, expr.value))
    try:
        return ops.unary(expr.op, value, it.context(frame, expr.at))
    except OpError as error:
        return it.op_error(frame, error, expr.at)


def _walrus(it: Interpreter, frame: Frame, expr: ir.Walrus) -> Value:
    value = evaluate(it, frame, expr.value)
    if expr.target in frame.local_types:
        value = declared.assigned(it, frame, expr.target, value, expr.value.at)
    frame.bind(expr.target, value)
    see(it, frame, (expr.at, expr.target), value)
    return value


def _without_value(
    it: Interpreter, frame: Frame, expr: ir.Opaque, parts: list[Value]
) -> Value:
    if expr.what == "Yield" and len(parts) == 1:
        frame.yielded.append(parts[0])
        declared.yielded(it, frame, parts[0], expr.parts[0].at)
    elif expr.what == "Yield":
        frame.yielded.append(Unknown(expr.what))
    return Unknown(expr.what)


def _awaited(it: Interpreter, frame: Frame, expr: ir.Expr) -> Value:
    """What awaiting gives: where the value is known, a call of a coroutine function is held as what that returns, and
    none of these can be awaited itself."""
    with it.awaiting(expr):
        value = evaluate(it, frame, expr)
    return value if isinstance(value, _NOT_AWAITABLE) else Unknown("Await")


def _dotted(expr: ir.Expr) -> str:
    """``settings.axis``; empty where there is more than names."""
    if isinstance(expr, ir.Attr):
        owner = _dotted(expr.obj)
        return f"{owner}.{expr.name}" if owner else ""
    return expr.id if isinstance(expr, ir.Name) else ""


def _name(it: Interpreter, frame: Frame, name: str) -> Value:
    value = frame.find(name)
    if value is not None:
        return (
            value if it.view is None or frame.holds(name) else outside.taken(it, value)
        )
    found = it.static_name(frame.module, name)
    if isinstance(found, (ExternalValue, ClassValue, ModuleValue)):
        return found
    if isinstance(found, FunctionValue) and not _is_decorated(found):
        return found
    member = outside.taken(it, it.module_member(frame.module, name))
    has_reason = isinstance(found, FunctionValue) or frame.module != it.target
    if isinstance(member, Unknown) and (found is None or not has_reason):
        return Unknown(f"{name} is not known")
    return member


def _is_decorated(function: FunctionValue) -> bool:
    """Whether its decorators say what the name stands for."""
    return isinstance(function.node, ir.Function) and bool(function.node.decorators)


def attribute(it: Interpreter, frame: Frame, value: Value, name: str, at: int) -> Value:
    """``value.name``."""
    special = training.attribute(value, name)
    if special is None and name.startswith("__"):
        special = python_types.attribute(value, name)
    if special is not None:
        return special
    match value:
        case ModuleValue(name=module):
            return it.module_member(module, name)
        case ExternalValue(qualname=qualname):
            return NUMBERS.get(f"{qualname}.{name}") or it.external(
                f"{qualname}.{name}"
            )
        case InstanceValue() | ClassValue():
            return classes.attribute(it, frame, value, name)
        case StackedValue(cls=cls):
            return classes.attribute(it, frame, cls, name)
        case Literal(value=EnumMember() as member):
            return classes.of_member(it, frame, member, name)
        case IntValue() | Literal(value=str()) if name == "value":
            return value  # of a member of an enumeration of ints or strings
        case SuperValue():
            return classes.above(it, frame, value, name)
        case MaybeValue(value=inner):
            return attribute(it, frame, inner, name, at)
        case CollectionValue():
            return MethodValue(value, name)
        case MeshValue() | SpecValue() | ShardingValue():
            return sharding.attribute(value, name)
        case Unknown(leaf=ArrayValue() as leaf) if name in ops.ARRAY_MEMBERS:
            return ops.attribute(leaf, name, it.context(frame, at))
        case Unknown():
            return _part(value, name)
        case WrappedValue(kind="jax.tree.structure") if name == "unflatten":
            return PartialValue(ExternalValue("jax.tree.unflatten"), (value,))
        case WrappedValue() if (
            rule := custom_rules.attribute(value, name)
        ) is not None:
            return rule
        case WrappedValue() if (
            part := tree_functions.attribute(value, name)
        ) is not None:
            return part
        case WrappedValue() if (part := tree_paths.attribute(value, name)) is not None:
            return part
        case ArrayValue() if (held := boxes.attribute(value, name)) is not None:
            return held
        case _:
            try:
                return ops.attribute(value, name, it.context(frame, at))
            except OpError as error:
                return it.op_error(frame, error, at)


def _part(value: Unknown, name: str) -> Unknown:
    """An attribute or an item of something unknown: the same wherever it is asked for."""
    path = None if value.size is None else value.size.symbol_name
    return Unknown(
        value.reason,
        None if path is None else Size.symbol(f"{path}.{name}"),
        value.leaf,
        value.lead,
        None,
        value.outer,
    )


def _subscript(it: Interpreter, frame: Frame, expr: ir.Subscript) -> Value:
    receiver = evaluate(it, frame, expr.obj)
    if isinstance(receiver, CollectionValue):
        return lists.item(receiver, evaluate(it, frame, expr.index))
    receiver = named_items(known(receiver))
    if isinstance(receiver, ClassValue):
        return receiver
    if isinstance(receiver, ExternalValue):
        stacked = resolve(it, expr, frame.module)
        if isinstance(stacked, ClassType) and stacked.prefix:
            return StackedValue(stacked.cls, stacked.prefix)
        return Unknown("a type")
    index = operand(evaluate(it, frame, expr.index))
    if isinstance(receiver, ArrayValue) and not receiver.numpy and _slices(index):
        traced_sizes.check_slices(it, frame, expr.index)
    given = callables.method(it, frame, receiver, "__getitem__", [index], expr.at)
    if given is not None:
        return given
    if isinstance(receiver, Unknown) and not isinstance(index, (Literal, IntValue)):
        receiver = operand(receiver)
    if isinstance(receiver, Unknown):
        key = index.value if isinstance(index, Literal) else None
        if isinstance(key, str):
            return _part(receiver, key)
        return replace(receiver, leaf=_entry(it, receiver.leaf), lead=None, names=None)
    if isinstance(receiver, DictValue):
        report_missing_axis(it, frame, expr, receiver, index)
    if isinstance(receiver, DictValue) and isinstance(index, Literal):
        return dict(receiver.items).get(index.value, Unknown("no such key"))
    try:
        ctx = it.context(frame, expr.at)
        result = ops.index(receiver, index, ctx)
        it.keep_facts(frame, ctx)
        return result
    except OpError as error:
        if isinstance(receiver, SequenceValue) and not (
            isinstance(expr.obj, ir.Attr) and expr.obj.name == "shape"
        ):
            # of a list or tuple that is no shape: not our business
            return Unknown("an index out of range")
        return it.op_error(frame, error, expr.at, values=[receiver])


def _slices(index: Value) -> bool:
    """Whether a bound of a slice may be an array."""
    parts = index.items if isinstance(index, SequenceValue) else (index,)
    bounds = [
        bound
        for part in parts
        if isinstance(part, SliceValue)
        for bound in (part.lower, part.upper, part.step)
    ]
    return any(isinstance(bound, ArrayValue) for bound in bounds)


def _entry(it: Interpreter, leaf: ArrayValue | None) -> ArrayValue | None:
    """What holds of ``x[0]``, where x is a tree of such leaves or an array."""
    if leaf is None or it.view is None or it.view.transposes is not False:
        return leaf
    # Of an array that is split, devices may have been given copies, one after another.
    return replace(leaf, unclear=leaf.unclear.plus(leaf.varying))


def _sequence(
    it: Interpreter, frame: Frame, kind: str, items: tuple[ir.Expr, ...]
) -> Value:
    values: list[Value] = []
    certain = True
    for item in items:
        if isinstance(item, ir.Star):
            inner = evaluate(it, frame, item.value)
            if isinstance(inner, SequenceValue):
                values.extend(inner.items)
            else:
                certain = False
        else:
            values.append(evaluate(it, frame, item))
    if not certain or len(values) > MAX_ITEMS:
        return Unknown("unpacks something of unknown length")
    if is_vast(values):
        return Unknown("too much to follow")
    if kind in ("tuple", "list"):
        return SequenceValue(tuple(values), kind)
    names = {
        value.value
        for value in values
        if isinstance(value, Literal) and isinstance(value.value, str)
    }
    return (
        SequenceValue(tuple(values), "set")
        if len(names) == len(values)
        else Unknown("a set")
    )


def _dict(
    it: Interpreter, frame: Frame, items: tuple[tuple[ir.Expr | None, ir.Expr], ...]
) -> Value:
    pairs: dict[object, Value] = {}
    certain = True
    for key, inner in items:
        value = evaluate(it, frame, inner)
        if key is None:
            if isinstance(value, DictValue):
                pairs.update(value.items)
            else:
                certain = False
            continue
        found = plain_key(evaluate(it, frame, key))
        if found is None:
            certain = False
        else:
            pairs[found] = value
    return (
        DictValue(tuple(pairs.items()))
        if certain
        else Unknown("a dict with unknown keys")
    )


def binary(
    it: Interpreter, frame: Frame, op: str, left: Value, right: Value, at: int
) -> Value:
    """``left op right``, with a finding at the node ``at``."""
    if isinstance(left, InstanceValue) or isinstance(right, InstanceValue):
        return callables.operator(it, frame, op, left, right, at)
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        sizes = [
            value.size if isinstance(value, (IntValue, Unknown)) else None
            for value in (left, right)
        ]
        numbers = [IntValue(size) for size in sizes if size is not None]
        if op in _WHOLE and len(numbers) == 2:
            result = ops.binary(op, numbers[0], numbers[1], it.context(frame, at))
            return Unknown(
                "an operation on something unknown",
                result.size if isinstance(result, IntValue) else None,
            )
    if op == "*" and (many := lists.repeated(left, right)) is not None:
        return many
    if op == "@":
        sharding.matmul(it, frame, left, right, at)
    try:
        ctx = it.context(frame, at)
        left, right = operand(left), operand(right)
        if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
            left, right = (
                outside.operand(it.view, left),
                outside.operand(it.view, right),
            )
        result = ops.binary(op, left, right, ctx)
        it.keep_facts(frame, ctx)
        return result
    except OpError as error:

        def again(values: list[Value]) -> Value:
            return ops.binary(op, values[0], values[1], it.context(frame, at))

        return it.op_error(frame, error, at, (), op, [left, right], again)


def _compare(it: Interpreter, frame: Frame, expr: ir.Compare) -> Value:
    left = evaluate(it, frame, expr.left)
    result: Value = ScalarValue("bool")
    for op, part in expr.rest:
        right = evaluate(it, frame, part)
        types = python_types.compare(op, left, right)
        if types is not None:
            result = Literal(types)
        elif isinstance(left, MaybeValue) or isinstance(right, MaybeValue):
            held = [
                side.value if isinstance(side, MaybeValue) else side
                for side in (left, right)
            ]
            many = any(isinstance(side, (ArrayValue, Unknown)) for side in held)
            elementwise = many and op not in ("is", "is not", "in", "not in")
            result = Unknown("may be None") if elementwise else ScalarValue("bool")
        elif isinstance(left, InstanceValue) or isinstance(right, InstanceValue):
            result = Unknown("compares instances")
            if op in ("is", "is not") and Literal(None) in (left, right):
                result = Literal(op == "is not")
        else:
            try:
                result = ops.compare(
                    op, operand(left), operand(right), it.context(frame, expr.at)
                )
            except OpError as error:
                result = it.op_error(frame, error, expr.at)
        left = right
    return result if len(expr.rest) == 1 else ScalarValue("bool")


def _bool(it: Interpreter, frame: Frame, op: str, values: tuple[ir.Expr, ...]) -> Value:
    result: Value | None = None
    frame.silent += 1  # later operands run only under a condition
    try:
        for expr in values:
            value = evaluate(it, frame, expr)
            result = value if result is None else join(result, value)
            decided = truth(value)
            if decided is not None and decided == (op == "or"):
                return value if expr is values[0] else result
            if decided is not None and expr is values[0]:
                result = None
    finally:
        frame.silent -= 1
    return result if result is not None else Unknown("a condition")


def _ternary(it: Interpreter, frame: Frame, expr: ir.IfExp) -> Value:
    decided = truth(evaluate(it, frame, expr.test))
    if decided is not None:
        return evaluate(it, frame, expr.body if decided else expr.orelse)
    saved, facts = dict(frame.variables), frame.facts
    frame.silent += frame.in_place
    narrow(it, frame, expr.test, True)
    first = evaluate(it, frame, expr.body)
    frame.variables, frame.facts = dict(saved), facts
    narrow(it, frame, expr.test, False)
    second = evaluate(it, frame, expr.orelse)
    frame.variables, frame.facts = saved, facts
    frame.silent -= frame.in_place
    value = join(first, second)
    arms = (
        *it.arms_of(frame.module, expr.body.at, first),
        *it.arms_of(frame.module, expr.orelse.at, second),
    )
    it.arms[frame.module, expr.at] = value, arms
    return value


def defaults(
    it: Interpreter, frame: Frame, params: tuple[ir.Param, ...]
) -> dict[str, Value]:
    """The defaults of a function that is defined here, as they are now."""
    return {
        p.name: evaluate(it, frame, p.default) for p in params if p.default is not None
    }


def _format(parts: list[Value]) -> Value:
    texts = [_text(part) for part in parts]
    known = [text for text in texts if text is not None]
    return Literal("".join(known)) if len(known) == len(texts) else StringValue()


def _text(part: Value) -> str | None:
    """What an f-string shows of a value, where that is known."""
    key = plain_key(part)
    return str(key) if isinstance(key, (str, int)) else tree_paths.text(part)
