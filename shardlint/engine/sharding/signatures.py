"""What is known of a function that is about to be transformed: its parameters and its result, from annotations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import matching, stacked_trees
from shardlint.engine.annotations import resolve
from shardlint.engine.field_types import field_types
from shardlint.engine.types import (
    ArrayType,
    ClassType,
    SequenceType,
    Type,
    says_something,
)
from shardlint.values import (
    FunctionValue,
    InstanceValue,
    PartialValue,
    SequenceValue,
    SpecValue,
    Unknown,
    Value,
    WrappedValue,
)
from shardtypes.lang import Bindings
from shardtypes.lang.frozen import frozen

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_DEPTH = 4
#: Transformations that keep the parameters of a function; their results differ.
_SAME_PARAMETERS = frozenset({"jax.grad", "jax.value_and_grad"})


@frozen
class Parameter:
    """A parameter that may be passed by position. ``value`` is what its annotation promises."""

    name: str
    required: bool
    value: Value
    type: Type | None
    module: str


@frozen
class Signature:
    """``variadic`` tells that more may be passed; ``splits`` that some annotation says how its array is split."""

    name: str
    parameters: tuple[Parameter, ...]
    variadic: bool
    result: Value
    returns: Type | None
    module: str
    splits: bool


def signature(it: Interpreter, func: Value) -> Signature | None:
    """The signature of a function of the project, as its callers see it; None where it is not known."""
    match func:
        case FunctionValue():
            return _function(it, func)
        case PartialValue(func=inner, args=args, kwargs=kwargs):
            found = signature(it, inner)
            if found is None:
                return None
            bound = {name for name, _ in kwargs}
            rest = found.parameters[len(args) :]
            stop = next(
                (i for i, parameter in enumerate(rest) if parameter.name in bound),
                len(rest),
            )
            return replace(
                found,
                parameters=rest[:stop],
                variadic=found.variadic and stop == len(rest),
            )
        case WrappedValue(kind=kind, func=inner) if kind in _SAME_PARAMETERS:
            found = signature(it, inner)
            return (
                None
                if found is None
                else replace(found, result=Unknown("a gradient"), returns=None)
            )
        case _:
            return None


def _function(it: Interpreter, func: FunctionValue) -> Signature:
    node, module = func.node, func.module
    bindings = Bindings()
    parameters = []
    variadic = False
    types: list[Type] = []
    for param in node.params:
        variadic |= param.kind == "*"
        if param.kind not in ("positional", "positional-only"):
            continue
        type_ = (
            resolve(it, param.annotation, module)
            if param.annotation is not None
            else None
        )
        value: Value = Unknown(f"parameter {param.name} has no array annotation")
        if type_ is not None and says_something(type_):
            value = _promised(it, type_, bindings)
            types.append(type_)
        parameters.append(
            Parameter(param.name, param.default is None, value, type_, module)
        )
    returns = (
        resolve(it, node.returns, module)
        if isinstance(node, ir.Function) and node.returns
        else None
    )
    if isinstance(returns, ArrayType) and _returns_several(node):
        returns = None  # the annotation is wrong, which nobody enforces
    result: Value = Unknown("no array annotation")
    if returns is not None and says_something(returns):
        result = _promised(it, returns, bindings)
        types.append(returns)
    splits = any(map(says_axes, types))
    return Signature(
        func.name, tuple(parameters), variadic, result, returns, module, splits
    )


def _promised(it: Interpreter, type_: Type, bindings: Bindings) -> Value:
    """What an annotation promises of an argument or a result."""
    value = matching.instantiate(it, type_, bindings, matching.as_symbol)
    return stacked_trees.without_ranks(it, value)


def _returns_several(node: ir.Function | ir.Lambda) -> bool:
    """Whether a ``return`` of a function is written as a tuple."""
    body = node.body if isinstance(node, ir.Function) else ()
    returned = (one.value for one in ir.statements(body) if isinstance(one, ir.Return))
    return any(isinstance(value, ir.Sequence) for value in returned)


def laid_out(it: Interpreter, type_: Type, named: bool, depth: int = 0) -> Value:
    """``make_partition_specs(T)``: the specs that an annotation stands for, in its structure.

    ``named`` tells that rules may give axes to dimensions that are written without any.
    """
    match type_:
        case ArrayType(shape=shape) if shape is not None and shape.rank is not None:
            return SpecValue(
                tuple(
                    None if named and not dim.axes else dim.axes for dim in shape.dims
                )
            )
        case SequenceType(items=items):
            return SequenceValue(
                tuple(laid_out(it, item, named, depth + 1) for item in items)
            )
        case ClassType(cls=cls, prefix=prefix) if depth < _DEPTH:
            fields = field_types(it, cls, prefix).items()
            return InstanceValue(
                cls,
                tuple(
                    (name, laid_out(it, field, named, depth + 1))
                    for name, field in fields
                ),
            )
        case _:
            return Unknown("the specs of a type")


def says_axes(type_: Type) -> bool:
    """Whether an annotation says how some array is split."""
    match type_:
        case ArrayType(shape=shape):
            return shape is not None and any(dim.axes for dim in shape.dims)
        case SequenceType(items=items):
            return any(map(says_axes, items))
        case _:
            return False
