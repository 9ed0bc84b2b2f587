"""Calls: by signature where the callee is annotated, in place where it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint import ir, ops
from shardlint.engine import (
    array_methods,
    classes,
    learned_ranks,
    libraries,
    lists,
    matching,
    mutation,
    sharding,
    traced_sizes,
    transforms,
)
from shardlint.engine.annotations import resolve
from shardlint.engine.arguments import bound_arguments, refined
from shardlint.engine.expected_errors import is_expecting_call
from shardlint.engine.frames import Frame
from shardlint.engine.inline import in_place
from shardlint.engine.joining import join
from shardlint.engine.meeting import meet
from shardlint.engine.overloads import overload_called
from shardlint.engine.own_findings import told_elsewhere
from shardlint.engine.permutes import permuted
from shardlint.engine.plain import known, operand
from shardlint.engine.sharding import (
    manual_calls,
    manual_operands,
    outside,
    placements,
    sends,
)
from shardlint.engine.sharding.collectives_spec import by_spec
from shardlint.engine.sharding.constraints import LAYING_OUT, lay_out
from shardlint.engine.sharding.manual import leave_mapped
from shardlint.engine.types import (
    ArrayType,
    ScalarType,
    SequenceType,
    Type,
    says_something,
)
from shardlint.ops import OpError
from shardlint.ops.placement import IDENTITIES
from shardlint.values import (
    ArrayValue,
    ClassValue,
    CollectionValue,
    DictValue,
    DTypeValue,
    EnumMember,
    ExternalValue,
    FunctionValue,
    InstanceValue,
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
_ARRAYS = (
    "jax.numpy.",
    "jax.lax.",
    "jax.nn.",
    "jax.random.",
    "jax.scipy.",
    "jax.Array.",
    "jax.image.",
    "einops.",
    "optax.",
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


def call_expression(it: Interpreter, frame: Frame, expr: ir.Call) -> Value:
    """Evaluate the function and its arguments, then call."""
    expects_error = is_expecting_call(expr)
    frame.silent += expects_error
    result = _call_expression(it, frame, expr)
    frame.silent -= expects_error
    return result


def _call_expression(it: Interpreter, frame: Frame, expr: ir.Call) -> Value:
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
            if isinstance(value, DictValue) and all(
                isinstance(key, str) for key, _ in value.items
            ):
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
    if isinstance(func, Unknown) and not kwargs:
        told = array_methods.of_unknown(it, frame, expr, args)
        if told is not None:
            return told
    operands += named
    it.left = None
    name = _called(func)
    if name in traced_sizes.SIZED:
        traced_sizes.check(it, frame, expr, name)
    places = tuple(one.at for one in operands)
    result = call(it, frame, func, args, kwargs, expr.at, places, tuple(operands))
    if isinstance(func, FunctionValue):
        learned_ranks.tell_caller(it, frame, func, (args, kwargs), operands)
    return result


def _called(func: Value) -> str:
    """The qualified name of a function of a library, or of a method of an array; '' for any other."""
    if isinstance(func, ExternalValue):
        return func.qualname
    if isinstance(func, MethodValue) and isinstance(func.receiver, ArrayValue):
        return f"jax.Array.{func.name}"
    return ""


def call(
    it: Interpreter,
    frame: Frame,
    func: Value,
    args: list[Value],
    kwargs: dict[str, Value],
    at: int,
    places: tuple[int, ...] = (),
    operands: tuple[ir.Expr, ...] = (),
) -> Value:
    """The result of calling an abstract function value. ``operands`` are the expressions of the arguments, those by
    keyword last, and ``places`` their nodes."""
    it.step()
    match func:
        case FunctionValue():
            spec = by_spec(
                it, frame, f"{func.module}.{func.name}", args, at, operands, kwargs
            )
            if spec is not None:
                return spec
            it.tracing += bool(func.tracing)
            try:
                with manual_calls.signature(it, func):
                    return call_function(it, frame, func, args, kwargs, at, places)
            finally:
                it.tracing -= bool(func.tracing)
        case PartialValue():
            if isinstance(func.func, ExternalValue) and func.func.qualname.startswith(
                "jax.Array.at"
            ):
                taken = [*func.args, *args]
                options = {**dict(func.kwargs), **kwargs}
                name = func.func.qualname
                return _external(sharding.Site(it, frame, name, taken, options, at))
            merged = {**dict(func.kwargs), **kwargs}
            named = dict(zip(kwargs, places[len(args) :], strict=False))
            shifted = (
                *[at] * len(func.args),
                *places[: len(args)],
                *(named.get(name, at) for name in merged),
            )
            result = call(
                it, frame, func.func, [*func.args, *args], merged, at, shifted
            )
            return (
                replace(result, origin=func.origin)
                if isinstance(result, WrappedValue) and func.origin
                else result
            )
        case WrappedValue():
            traced, it.traced = it.traced, True
            it.tracing += 1
            try:
                return transforms.call_wrapped(
                    it, frame, func, args, kwargs, at, places, operands
                )
            finally:
                it.traced = traced
                it.tracing -= 1
        case ClassValue():
            return classes.construct(it, frame, func, args, kwargs, at, places)
        case StackedValue(cls=cls, prefix=prefix):
            return classes.construct(it, frame, cls, args, kwargs, at, places, prefix)
        case InstanceValue():
            method = classes.attribute(it, frame, func, "__call__")
            return call(it, frame, method, args, kwargs, at, places)
        case Literal(value=EnumMember() as member):
            method = classes.of_member(it, frame, member, "__call__")
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
            it.tracing += 1
            try:
                site = sharding.Site(it, frame, qualname, args, kwargs, at, operands)
                return _external(site)
            finally:
                it.traced = traced
                it.tracing -= 1
        case Unknown():
            sends.not_followed(it, frame, at, "")
            return Unknown(func.reason)
        case _:
            sends.not_followed(it, frame, at, "")
            return Unknown("a call that is not understood")


def _method(
    it: Interpreter,
    frame: Frame,
    func: MethodValue,
    args: list[Value],
    kwargs: dict[str, Value],
    at: int,
    operands: tuple[ir.Expr, ...],
) -> Value:
    if isinstance(func.receiver, CollectionValue):
        return lists.method(func.receiver, func.name, args)
    if func.name == "dot" and len(args) == 1:
        sharding.matmul(it, frame, func.receiver, args[0], at)
    plain = {name: operand(value) for name, value in kwargs.items()}
    given = [operand(a) for a in args]
    try:
        ctx = it.context(frame, at)
        result = ops.method(func.receiver, func.name, given, plain, ctx)
        if func.name == "reshape" and not kwargs:
            _check_order(it, frame, func.receiver, result, at)
        it.keep_facts(frame, ctx)
        it.note_unmodelled(result)
        if kwargs.keys().isdisjoint(LAYING_OUT):
            return result
        name = f"jax.Array.{func.name}"
        site = sharding.Site(it, frame, name, args, kwargs, at, operands)
        return lay_out(site, result)
    except OpError as error:

        def again(values: list[Value]) -> Value:
            return ops.method(
                values[0], func.name, values[1:], plain, it.context(frame, at)
            )

        return it.op_error(
            frame, error, at, operands, func.name, [func.receiver, *given], again
        )


def _external(site: sharding.Site) -> Value:
    """A function of a library, or of Python itself."""
    found = libraries.call(site)
    if found is None:
        found = _of_arrays(_of_jax(site))
    if isinstance(found, Unknown):
        sends.not_followed(site.it, site.frame, site.at, site.qualname)
    return found


#: Python's functions that ask an array for what it gives.
_ASKING = {
    "builtins.abs": "abs",
    "builtins.divmod": "divmod",
    "builtins.pow": "power",
    "builtins.round": "round",
}


def _of_jax(site: sharding.Site) -> sharding.Site:
    """A call of Python's own function with an array as one of JAX's, or of NumPy's."""
    name = _ASKING.get(site.qualname)
    first = site.args[0] if site.args else None
    if name is None or not isinstance(first, ArrayValue):
        return site
    package = "numpy" if first.numpy else "jax.numpy"
    return replace(site, qualname=f"{package}.{name}")


def _of_arrays(site: sharding.Site) -> Value:
    """Functions that have a model, and those that have none."""
    it, frame, qualname, at = site.it, site.frame, site.qualname, site.at
    args, kwargs, operands = site.args, site.kwargs, site.operands
    plain_of = operand if qualname.startswith(_ARRAYS) else known
    plain = {name: plain_of(value) for name, value in kwargs.items()}
    ranked: list[Value] = []
    try:
        if args and isinstance(args[0], CollectionValue) and qualname in lists.JOINING:
            rest = [known(a) for a in args[1:]]
            return lists.joined(
                args[0],
                lambda many: it.apply(frame, qualname, [many, *rest], plain, at),
            )
        ranked = outside.operands(
            it,
            qualname,
            [plain_of(a) for a in manual_operands.with_ranks(qualname, args)],
        )
        result = it.apply(frame, qualname, ranked, plain, at)
        if qualname in manual_operands.PATTERNS:
            manual_operands.learn(frame, qualname, args, operands)
        if (
            qualname in IDENTITIES
            and args
            and isinstance(args[0], Unknown)
            and isinstance(result, ArrayValue)
        ):
            return replace(args[0], leaf=result)
        if (
            qualname in ("jax.numpy.reshape", "numpy.reshape")
            and args
            and kwargs.keys() <= {"shape", "newshape"}
        ):
            _check_order(it, frame, args[0], result, at)
        return lay_out(site, result)
    except OpError as error:

        def again(values: list[Value]) -> Value:
            return ops.apply(qualname, values, plain, it.context(frame, at))

        return it.op_error(frame, error, at, operands, qualname, ranked, again)


def _check_order(
    it: Interpreter, frame: Frame, before: Value, after: Value, at: int
) -> None:
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


def call_function(
    it: Interpreter,
    frame: Frame,
    func: FunctionValue,
    args: list[Value],
    kwargs: dict[str, Value],
    at: int,
    places: tuple[int, ...],
) -> Value:
    """Check the arguments against the signature; the result comes from the signature, or from the body."""
    if it.view is not None:
        it.regions.add(func, it.view)
    fits = bound_arguments(it, frame, func, args, kwargs, at, places)
    if fits is None:
        return Unknown("arguments do not fit the parameters")
    node, returns = (
        func.node,
        func.node.returns if isinstance(func.node, ir.Function) else None,
    )
    promise = resolve(it, returns, func.module)
    overload = overload_called(it, frame, func, args, kwargs)
    if overload is not None:
        promise = overload[0]
    says = says_something(promise) or (
        isinstance(promise, ScalarType) and promise.kind == "str"
    )
    # what does not fit tells no sizes
    bindings = Bindings() if fits.problems else fits.bindings
    if overload is not None and not fits.problems:
        bindings = overload[1]
    promised = (
        matching.instantiate(
            it,
            fits.still_promised(promise),
            bindings,
            matching.Opaque(it),
        )
        if says
        else None
    )
    if it.sends is not None and it.view is None:
        leave_mapped(it, frame, func, at)
    runs_later = isinstance(node, ir.Function) and node.is_async and it.awaited != at
    it.awaited = None
    if fits.problems or runs_later:
        mutation.not_followed(it, frame, func, fits.bound)
        return Unknown("not evaluated") if promised is None else promised
    with told_elsewhere(it, frame, func, at):
        found = in_place(it, frame, func, refined(it, func, fits), at)
    placements.leave_compiled(it, frame, func, found, at)
    if promised is None:
        return found
    # reported where it is returned
    fails = matching.check(it, promise, found, bindings, frame.facts, "")
    # The body may be right, and the annotation wrong: what both say is certain.
    result = join(promised, found) if fails else meet(it, promised, found)
    _remember_promise(it, promise, found, result)
    return result


def _remember_promise(
    it: Interpreter, promise: Type, found: Value, result: Value
) -> None:
    """Remember which annotation says the shape of a result where the body does not tell it."""
    match promise, result:
        case ArrayType(), ArrayValue() if not isinstance(found, ArrayValue):
            it.promises[id(result)] = result, promise
        case SequenceType(items=types), SequenceValue(items=items):
            parts: tuple[Value, ...] = (Unknown(),) * len(items)
            if isinstance(found, SequenceValue) and len(found.items) == len(items):
                parts = found.items
            for type_, part, item in zip(types, parts, items, strict=False):
                _remember_promise(it, type_, part, item)
        case _:
            pass
