"""Calls with arguments that are not known: what these may be, and what is common to all that they give."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from math import prod

from shardlint.ops.registry import Call, OpError, constant
from shardlint.values import (
    ArrayValue,
    Dimension,
    ExternalValue,
    IntValue,
    Literal,
    ScalarValue,
    SequenceValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size, dtypes

_NONE = Literal(None)
_SOME_ARRAY = ArrayValue(None)
LEFT_OUT = Unknown("the default of a parameter")
"""What stands for an argument that is not given, whose default is no constant."""
#: A typed key, and one of the older kind.
_KEYS = [ArrayValue((), dtypes.KEY), ArrayValue((Dimension(Size.const(2)),), "uint32")]
#: Functions whose results depend on which a key is: what is drawn does not.
_GIVE_KEYS = frozenset(f"jax.random.{name}" for name in "clone fold_in split".split())
AXES = frozenset({"axis", "axes", "dimension", "dimensions"})
"""Parameters that name dimensions."""
#: Parameters on which values depend, but no shape and no dtype.
_OF_VALUES = frozenset({"ddof", "decimals", "side"})
#: Places where a part begins, which is of the same shape wherever that is.
_PLACES = frozenset({"start_indices", "start_index", "index"})
_IN_PLACES = frozenset(
    f"jax.lax.{name}"
    for name in """dynamic_slice dynamic_slice_in_dim dynamic_index_in_dim dynamic_update_slice
    dynamic_update_slice_in_dim dynamic_update_index_in_dim""".split()
)
#: Functions of the same shape whichever dimension they are told, and those of one dimension or of all at once.
_KEEPING = frozenset({"jax.nn.softmax", "jax.nn.log_softmax", "jax.numpy.flip"})
_OF_ONE_OR_ALL = frozenset(
    f"jax.numpy.{name}"
    for name in """argmax argmin nanargmax nanargmin cumsum cumprod nancumsum nancumprod sort argsort""".split()
)
#: Arguments that are arrays where they are given at all.
_ARRAYS = frozenset(
    {
        ("jax.numpy.where", "x"),
        ("jax.numpy.where", "y"),
        ("einops.rearrange", "tensor"),
        ("einops.reduce", "tensor"),
        ("einops.repeat", "tensor"),
        ("einops.unpack", "tensor"),
    }
)
#: Arguments that do not widen the shape that is asked for.
_BOUNDS = {
    ("jax.random.randint", "minval"),
    ("jax.random.randint", "maxval"),
    ("jax.random.bernoulli", "p"),
}
#: Arguments that say how entries are put together: whatever does it, the result has the same shape.
_REDUCTIONS = {("einops.reduce", "reduction")}
_NAMED = (Literal, ExternalValue)
_MOST = 12
"""More calls than these are not tried."""


def of_call(qualname: str, call: Call, signature: inspect.Signature) -> list[Call]:
    """The calls that one may be, none where too little is known; the call itself where all its arguments are."""
    choices: dict[str, Sequence[Value]] = {}
    for name, value in call.args.items():
        if value is LEFT_OUT or name not in signature.parameters:
            continue
        if (qualname, name) in _REDUCTIONS and not isinstance(value, _NAMED):
            choices[name] = [Literal("mean"), Literal("max")]
        elif qualname in _IN_PLACES and name in _PLACES:
            choices[name] = [_known_place(call, value, name == "start_indices")]
        elif _is_not_known(name, value):
            parameter = signature.parameters[name]
            choices[name] = _choices(qualname, call, parameter)
    count = prod(map(len, choices.values()))
    if count > _MOST:
        return []
    if count == 1:
        args = {name: chosen for name, (chosen,) in choices.items()}
        return [Call(call.qualname, {**call.args, **args}, call.ctx)]
    found = []
    for chosen in product(*choices.values()):
        args = {**call.args, **dict(zip(choices, chosen, strict=True))}
        found.append(Call(call.qualname, args, replace(call.ctx)))
    return found


def _is_not_known(name: str, value: Value) -> bool:
    if isinstance(value, IntValue):
        return name in AXES and value.size is None
    return isinstance(value, Unknown) or (name == "key" and value == _SOME_ARRAY)


def _choices(
    qualname: str, call: Call, parameter: inspect.Parameter
) -> Sequence[Value]:
    """What an argument may be that is not known: itself where nothing is known of that."""
    name = parameter.name
    default = parameter.default
    if name == "key" and qualname.startswith("jax.random."):
        return _KEYS if qualname in _GIVE_KEYS else _KEYS[:1]
    if (qualname, name) in _BOUNDS and call.args.get("shape") != _NONE:
        return [ScalarValue("float")]
    if parameter.annotation == "ArrayLike" or (qualname, name) in _ARRAYS:
        return [_SOME_ARRAY]
    if parameter.annotation == "ArrayLike | None":
        return [_NONE, _SOME_ARRAY]
    if isinstance(default, bool):
        return [Literal(False), Literal(True)]
    if name in _OF_VALUES and default is not parameter.empty:
        return [constant(default)]
    if name in AXES and default is not parameter.empty:
        return _axes(qualname, call, default) or [call.args[name]]
    return [call.args[name]]


_START = IntValue(Size.const(0))


def _known_place(call: Call, value: Value, is_of_each: bool) -> Value:
    """One place, or one in each dimension of the array: the first in the place of what is not known."""
    if isinstance(value, SequenceValue):
        items = tuple(_known_place(call, item, False) for item in value.items)
        return replace(value, items=items)
    if not isinstance(value, Unknown):
        return value
    if not is_of_each:
        return _START
    operand = call.args["operand"]
    if isinstance(operand, ArrayValue) and operand.dims is not None:
        return SequenceValue((_START,) * len(operand.dims))
    return value


def _axes(qualname: str, call: Call, default: object) -> list[Value]:
    """Each dimension of the array, all at once, and none; nothing where it is not known how many there are."""
    if qualname == "jax.numpy.stack":
        return _new_axes(call)
    arrays = [value for value in call.args.values() if isinstance(value, ArrayValue)]
    if len(arrays) != 1 or arrays[0].dims is None:
        return []
    axes: list[Value] = [IntValue(Size.const(k)) for k in range(len(arrays[0].dims))]
    if qualname in _KEEPING:
        return axes
    is_one = isinstance(call.args.get("axis"), IntValue)
    if qualname in _OF_ONE_OR_ALL and is_one:
        return axes
    if qualname in _OF_ONE_OR_ALL:
        return [_NONE, *axes]
    if default is None and is_one:
        return axes
    if default is None:
        return [_NONE, SequenceValue(()), *axes]
    return []


def _new_axes(call: Call) -> list[Value]:
    """Each place for a new dimension of several arrays."""
    ranks = set()
    arrays = call.args["arrays"]
    if isinstance(arrays, SequenceValue):
        ranks = {
            None if item.dims is None else len(item.dims)
            for item in arrays.items
            if isinstance(item, ArrayValue)
        }
    known = ranks - {None}
    if len(known) != 1:
        return []
    (rank,) = known
    return [IntValue(Size.const(k)) for k in range((rank or 0) + 1)]


def in_common(tried: Sequence[Value | OpError]) -> Value | OpError:
    """What is known of a value that is one of several; an error where JAX refuses all these calls alike."""
    found = [one for one in tried if not isinstance(one, OpError)]
    if found:
        return reduce(_common, found)
    errors = [one for one in tried if isinstance(one, OpError)]
    if len({(error.code, error.message) for error in errors}) == 1:
        return errors[0]
    return Unknown("arguments that are not known")


def _common(a: Value, b: Value) -> Value:
    match a, b:
        case ArrayValue(), ArrayValue():
            return _common_array(a, b)
        case SequenceValue(items=first, kind=kind), SequenceValue(items=second):
            if len(first) != len(second):
                return Unknown("several arrays")
            return SequenceValue(tuple(map(_common, first, second)), kind)
    return a if a == b else Unknown("a value that depends on what is not known")


def _common_array(a: ArrayValue, b: ArrayValue) -> ArrayValue:
    dims: tuple[Dimension, ...] | None = None
    if a.dims is not None and b.dims is not None and len(a.dims) == len(b.dims):
        pairs = zip(a.dims, b.dims, strict=True)
        dims = tuple(one if one == two else Dimension(None) for one, two in pairs)
    same = a.dtype == b.dtype and a.weak == b.weak
    pending = a.pending if a.pending == b.pending else None
    if not same:
        return ArrayValue(dims, pending=pending)
    return ArrayValue(dims, a.dtype, a.weak, pending)


def without_dtype(value: Value) -> Value:
    """The value, of a dtype that is not known."""
    match value:
        case ArrayValue():
            return replace(value, dtype=None, weak=False)
        case SequenceValue(items=items):
            return replace(value, items=tuple(map(without_dtype, items)))
    return value


def without_dims(value: Value) -> Value:
    """The value, of a rank that is not known."""
    match value:
        case ArrayValue():
            return replace(value, dims=None)
        case SequenceValue(items=items):
            return replace(value, items=tuple(map(without_dims, items)))
    return Unknown("a value that depends on a rank")
