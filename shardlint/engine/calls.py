"""Calls: by signature where the callee is annotated, in place where it is not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shardlint import ir, ops
from shardlint.engine import builtin, callables, classes, lists, matching, mutation, optimizers, sharding, transforms
from shardlint.engine.annotations import resolve
from shardlint.engine.frames import Frame
from shardlint.engine.inline import in_place
from shardlint.engine.permutes import permuted
from shardlint.engine.plain import known, listed, operand
from shardlint.engine.sharding import collectives, manual_calls, manual_operands, manual_trees, outside
from shardlint.engine.sharding.collectives_spec import by_spec
from shardlint.engine.types import AnyType, ArrayType, ClassType, ScalarType, Type, says_something
from shardlint.ops import OpError
from shardlint.values import (
    ArrayValue,
    ClassValue,
    CollectionValue,
    DictValue,
    DTypeValue,
    ExternalValue,
    FunctionValue,
    InstanceValue,
    IntValue,
    Literal,
    MethodValue,
    PartialValue,
    SequenceValue,
    SpecValue,
    StackedValue,
    Unknown,
    Value,
    WrappedValue,
)
from shardtypes.lang import Bindings

#: Functions of arrays, not of trees; but these take a tree as well.
_ARRAYS = ("jax.numpy.", "jax.lax.", "jax.nn.", "jax.random.", "jax.scipy.", "jax.Array.", "jax.image.", "einops.")
_KEEPING = frozenset({"jax.lax.stop_gradient", "jax.lax.optimization_barrier"})

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


def call_expression(it: Interpreter, frame: Frame, expr: ir.Call) -> Value:
    """Evaluate the function and its arguments, then call."""
    func = lists.of_tree(known(it.evaluate(frame, expr.func)), expr.func)
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    operands: list[ir.Expr] = []
    named: list[ir.Expr] = []
    certain = True
    for arg in expr.args:
        value = it.evaluate(frame, arg.value)
        if arg.star == "*":
            if isinstance(value, SpecValue):
                value = sharding.specs.items_of(value) or value
            if isinstance(value, SequenceValue):
                mutation.consumed(it, frame, value)
                args.extend(value.items)
                operands.extend([arg.value] * len(value.items))
            else:
                certain = False
        elif arg.star == "**":
            if isinstance(value, DictValue) and all(isinstance(key, str) for key, _ in value.items):
                kwargs.update((str(key), item) for key, item in value.items)
                named.extend([arg.value] * len(value.items))
            else:
                certain = False
        elif arg.keyword is not None:
            kwargs[arg.keyword] = value
            named.append(arg.value)
        else:
            args.append(value)
            operands.append(arg.value)
    if not certain:
        mutation.note_open(it, frame, expr, func, [*args, *kwargs.values()])
        return Unknown("called with arguments that are not known")
    given = mutation.note(it, frame, expr, func, args, kwargs)
    if given is not None:
        return given
    operands += named
    it.left = None
    return call(it, frame, func, args, kwargs, expr.at, tuple(o.at for o in operands), tuple(operands))


def call(
    it: Interpreter, frame: Frame, func: Value, args: list[Value], kwargs: dict[str, Value], at: int,
    places: tuple[int, ...] = (), operands: tuple[ir.Expr, ...] = (),
) -> Value:  # fmt: skip
    """The result of calling an abstract function value. ``operands`` are the expressions of the arguments, those by
    keyword last, and ``places`` their nodes."""
    it.step()
    match func:
        case FunctionValue():
            spec = by_spec(it, frame, f"{func.module}.{func.name}", args, at, operands, kwargs)
            if spec is not None:
                return spec
            with manual_calls.signature(it, func):
                return call_function(it, frame, func, args, kwargs, at, places)
        case PartialValue():
            if isinstance(func.func, ExternalValue) and func.func.qualname.startswith("jax.Array.at"):
                return _external(
                    it, frame, func.func.qualname, [*func.args, *args], {**dict(func.kwargs), **kwargs}, at, ()
                )
            merged = {**dict(func.kwargs), **kwargs}
            named = dict(zip(kwargs, places[len(args) :], strict=False))
            shifted = (*[at] * len(func.args), *places[: len(args)], *(named.get(name, at) for name in merged))
            result = call(it, frame, func.func, [*func.args, *args], merged, at, shifted)
            return replace(result, origin=func.origin) if isinstance(result, WrappedValue) and func.origin else result
        case WrappedValue():
            traced, it.traced = it.traced, True
            try:
                return transforms.call_wrapped(it, frame, func, args, kwargs, at, places, operands)
            finally:
                it.traced = traced
        case ClassValue():
            return classes.construct(it, frame, func, args, kwargs, at, places)
        case StackedValue(cls=cls, prefix=prefix):
            return classes.construct(it, frame, cls, args, kwargs, at, places, prefix)
        case InstanceValue():
            method = classes.attribute(it, frame, func, "__call__")
            return call(it, frame, method, args, kwargs, at, places)
        case MethodValue():
            return _method(it, frame, func, args, kwargs, at, operands)
        case DTypeValue():
            return (
                ops.method(args[0], "astype", [func], {}, it.context(frame))
                if args and isinstance(args[0], ArrayValue)
                else Unknown("a dtype call")
            )
        case ExternalValue(qualname=qualname):
            traced, it.traced = it.traced, True
            try:
                return _external(it, frame, qualname, args, kwargs, at, operands)
            finally:
                it.traced = traced
        case Unknown():
            return Unknown(func.reason)
        case _:
            return Unknown("a call that is not understood")


def _method(
    it: Interpreter, frame: Frame, func: MethodValue, args: list[Value], kwargs: dict[str, Value], at: int,
    operands: tuple[ir.Expr, ...],
) -> Value:  # fmt: skip
    if isinstance(func.receiver, CollectionValue):
        return lists.method(func.receiver, func.name, args)
    try:
        ctx = it.context(frame, at)
        plain = {name: operand(value) for name, value in kwargs.items()}
        result = ops.method(func.receiver, func.name, [operand(a) for a in args], plain, ctx)
        if func.name == "reshape" and not kwargs:
            _check_order(it, frame, func.receiver, result, at)
        it.keep_facts(frame, ctx)
        it.note_unmodelled(result)
        return result
    except OpError as error:
        return it.op_error(frame, error, at, operands)


def _external(
    it: Interpreter, frame: Frame, qualname: str, args: list[Value], kwargs: dict[str, Value], at: int,
    operands: tuple[ir.Expr, ...],
) -> Value:  # fmt: skip
    bounded = sharding.transform(it, frame, qualname, args, kwargs, at, operands)
    if bounded is not None:
        return bounded
    special = transforms.make(it, qualname, args, kwargs, frame.module, operands)
    if special is not None:
        return special
    placed = sharding.call(it, frame, qualname, args, kwargs, at, operands)
    if placed is not None:
        return placed
    collective = collectives.call(it, frame, qualname, args, kwargs, at, operands)
    if collective is not None:
        return collective
    optimized = optimizers.call(it, frame, qualname, args, kwargs, at)
    if optimized is not None:
        return optimized
    tree = manual_trees.call(it, frame, qualname, args, kwargs, at)
    if tree is not None:
        return tree
    control = transforms.control(it, frame, qualname, args, kwargs, at, operands)
    if control is not None:
        return control
    spec = by_spec(it, frame, qualname, args, at, operands, kwargs)
    if spec is not None:
        return spec
    if qualname == "builtins.super":
        return classes.super_of(frame, args)
    ran = classes.run_module(it, frame, qualname, args, kwargs, at)
    if ran is not None:
        return ran
    if qualname.startswith("builtins."):
        plain_result = builtin.call(qualname.removeprefix("builtins."), [listed(a) for a in args], kwargs)
        if plain_result is not None:
            return plain_result
    if qualname == "builtins.isinstance" and sharding.specs.is_other(args):
        return Literal(False)
    asked = callables.call(it, frame, qualname, args, kwargs, at)
    if asked is not None:
        return asked
    if qualname in ("builtins.isinstance", "builtins.hasattr", "builtins.callable"):
        return Unknown("a question about a type")
    try:
        of_arrays = qualname.startswith(_ARRAYS)
        plain_of = operand if of_arrays else known
        plain = {name: plain_of(value) for name, value in kwargs.items()}
        if args and isinstance(args[0], CollectionValue) and qualname in lists.JOINING:
            rest = [known(a) for a in args[1:]]
            return lists.joined(args[0], lambda many: it.apply(frame, qualname, [many, *rest], plain, at))
        ranked = outside.operands(it, qualname, [plain_of(a) for a in manual_operands.with_ranks(qualname, args)])
        result = it.apply(frame, qualname, ranked, plain, at)
        if qualname in _KEEPING and args and isinstance(args[0], Unknown) and isinstance(result, ArrayValue):
            return replace(args[0], leaf=result)
        if qualname in ("jax.numpy.reshape", "numpy.reshape") and args and kwargs.keys() <= {"shape", "newshape"}:
            _check_order(it, frame, args[0], result, at)
        if "out_sharding" in kwargs:
            result = sharding.lay_out(it, frame, qualname, args, kwargs, at, operands, result)
        return result
    except OpError as error:
        return it.op_error(frame, error, at, operands)


def _check_order(it: Interpreter, frame: Frame, before: Value, after: Value, at: int) -> None:
    message = permuted(before, after)
    if message is not None:
        it.report(frame, "ST207", at, message)


def decorated(it: Interpreter, frame: Frame, function: FunctionValue) -> Value:
    """The function as its decorators leave it; one that is not known makes it unknown."""
    node = function.node
    if not isinstance(node, ir.Function):
        return function
    result: Value = function
    for expr in reversed(node.decorators):
        frame.silent += 1
        wrapper = it.evaluate(frame, expr)
        frame.silent -= 1
        result = transforms.decorate(it, frame, wrapper, result, expr)
    return result


def bind(
    node: ir.Function | ir.Lambda, args: list[Value], kwargs: dict[str, Value]
) -> tuple[dict[str, Value], dict[str, int]] | None:
    """Arguments by parameter, and the index of each among all that were given; None if they do not fit."""
    bound: dict[str, Value] = {}
    index: dict[str, int] = {}
    rest = list(enumerate(args))
    named = dict(kwargs)
    order = {name: len(args) + i for i, name in enumerate(kwargs)}
    for param in node.params:
        if param.kind == "*":
            bound[param.name] = SequenceValue(tuple(value for _, value in rest))
            rest = []
        elif param.kind == "**":
            bound[param.name] = DictValue(tuple(named.items()))
            named = {}
        elif rest and param.kind in ("positional", "positional-only"):
            position, bound[param.name] = rest.pop(0)
            index[param.name] = position
        elif param.name in named:
            bound[param.name] = named.pop(param.name)
            index[param.name] = order[param.name]
        elif param.default is None:
            return None
    return None if rest or named else (bound, index)


def call_function(
    it: Interpreter, frame: Frame, func: FunctionValue, args: list[Value], kwargs: dict[str, Value], at: int,
    places: tuple[int, ...],
) -> Value:  # fmt: skip
    """Check the arguments against the signature; the result comes from the signature, or from the body."""
    fits = bound_arguments(it, frame, func, args, kwargs, at, places)
    if fits is None:
        return Unknown("arguments do not fit the parameters")
    node, bound, bindings, wrong = func.node, fits.bound, fits.bindings, fits.wrong
    returns = node.returns if isinstance(node, ir.Function) else None
    promise = resolve(it, returns, func.module)
    open_ = isinstance(promise, ScalarType) and promise.kind == "str"
    if says_something(promise) or open_ or wrong or (isinstance(node, ir.Function) and node.is_async):
        mutation.not_followed(it, frame, func, bound)
    if says_something(promise):
        if wrong:  # nothing that follows from it is another mistake
            return Unknown("an error was reported here")
        result = matching.instantiate(it, promise, bindings, matching.Opaque(it))
        return manual_calls.of_helper(it, frame, func, bound, bindings, at, result)
    if open_:
        return matching.instantiate(it, promise, bindings, matching.Opaque(it))
    if wrong or (isinstance(node, ir.Function) and node.is_async):
        return Unknown("not evaluated")
    return in_place(it, frame, func, bound, at)


@dataclass(frozen=True, slots=True)
class Fit:
    """Arguments that fit a signature: by parameter, what the names of its shapes are bound to, and whether one was
    reported."""

    bound: dict[str, Value]
    bindings: Bindings
    wrong: bool


def bound_arguments(
    it: Interpreter, frame: Frame, func: FunctionValue, args: list[Value], kwargs: dict[str, Value], at: int,
    places: tuple[int, ...],
) -> Fit | None:  # fmt: skip
    """Check arguments against a signature; None where they do not fit its parameters."""
    node = func.node
    found = bind(node, args, kwargs)
    if found is None:
        return None
    bound, index = found
    bindings = Bindings()
    if func.owner is not None and args and isinstance(args[0], InstanceValue) and node.params:
        self_type = ClassType(func.owner, own=True)
        if bound.get(node.params[0].name) is args[0] and args[0].cls is func.owner:
            matching.check(it, self_type, args[0], bindings, frame.facts, "self")
    wrong = False
    for param in node.params:
        if param.kind in ("*", "**") or param.name not in index:
            continue
        type_ = resolve(it, param.annotation, func.module)
        what = f"argument {param.name} of {func.name}"
        problem = matching.check(it, type_, bound[param.name], bindings, frame.facts, what)
        if problem is not None:
            position = index[param.name]
            place = places[position] if position < len(places) else at
            related: tuple[tuple[str, int, str], ...] = ()
            if problem.where is not None:
                related = ((problem.where.module, problem.where.at, f"declared {problem.where.text.strip()!r} here"),)
            earlier = {name: places[i] for name, i in index.items() if i < len(places)}
            related += _bound_by(it, frame, func, param, problem, bindings, earlier)
            other = None if wrong else _swapped_with(it, frame, func, bound, index, param.name)
            message = f"{problem.message}; are {param.name} and {other} swapped?" if other else problem.message
            it.report(frame, problem.code or "ST202", place, message, problem.witness, related)
            wrong = True
            if other is not None:
                break  # one mistake, one finding
    return Fit(bound, bindings, wrong)


def _swapped_with(
    it: Interpreter, frame: Frame, func: FunctionValue, bound: dict[str, Value], index: dict[str, int], name: str
) -> str | None:
    """The parameter whose argument would have to change places with this one for all to fit."""
    types = {p.name: resolve(it, p.annotation, func.module) for p in func.node.params if p.name in index}
    arrays = [other for other, type_ in types.items() if isinstance(type_, ArrayType) and type_.shape is not None]
    for other in arrays if name in arrays else ():
        if other == name or not isinstance(bound[other], ArrayValue):
            continue
        given = {**bound, name: bound[other], other: bound[name]}
        bindings = Bindings()
        if not any(matching.check(it, type_, given[p], bindings, frame.facts, "") for p, type_ in types.items()):
            return other
    return None


def _bound_by(
    it: Interpreter, frame: Frame, func: FunctionValue, wrong: ir.Param, problem: matching.Problem, bindings: Bindings,
    places: dict[str, int],
) -> tuple[tuple[str, int, str], ...]:  # fmt: skip
    """Which earlier argument gave a name of the dimension that does not fit its size."""
    shape = problem.where.shape if problem.where is not None else None
    if shape is None or problem.dim is None or shape.variadic is not None or problem.dim >= len(shape.dims):
        return ()
    size = shape.dims[problem.dim].size
    for param in func.node.params[: func.node.params.index(wrong)]:
        type_ = resolve(it, param.annotation, func.module)
        if size is None or param.name not in places or not isinstance(type_, ArrayType) or type_.shape is None:
            continue
        for name in sorted(size.symbols & type_.shape.names):
            bound = bindings.get(name)
            if bound is not None:
                return ((frame.module, places[param.name], f"{name!r} of {func.name} is {bound} by this argument"),)
    return ()


def parameter_value(it: Interpreter, frame: Frame, param: ir.Param, type_: Type) -> Value:
    """What a function may assume of a parameter."""
    if param.kind in ("*", "**"):
        return Unknown("takes any number of arguments")
    if isinstance(type_, ScalarType) and type_.kind == "int":
        negative = isinstance(param.default, ir.Unary)
        return IntValue(None if negative else it.named(param.name))
    if isinstance(type_, AnyType):
        return Unknown(f"parameter {param.name} has no array annotation", it.named(param.name))
    value = matching.instantiate(it, type_, frame.bindings, matching.as_symbol)
    none = isinstance(param.default, ir.Const) and param.default.value is None
    if none and isinstance(type_, (ArrayType, ClassType)):
        return Unknown("may be None")
    return value
