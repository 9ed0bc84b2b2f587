"""Attributes and methods of arrays, dtypes, sequences and strings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from shardlint import messages
from shardlint.ops.application import apply, find_model
from shardlint.ops.arrays import entries_in, with_dims
from shardlint.ops.indexing import AT, index_array
from shardlint.ops.registry import (
    MODELS,
    OpContext,
    OpError,
    static_int,
)
from shardlint.values import (
    ArrayValue,
    DictValue,
    DTypeValue,
    ExternalValue,
    IntValue,
    Literal,
    MethodValue,
    PartialValue,
    ScalarValue,
    SequenceValue,
    SliceValue,
    StringValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size, dtypes

# Methods that are the function of that name with the array as first argument.
FUNCTION_METHODS = frozenset(
    """all any argmax argmin argsort astype clip conj conjugate cumprod cumsum dot max mean min prod ptp repeat round
    sort squeeze std sum swapaxes take var diagonal trace nonzero searchsorted compress choose argpartition""".split()
)
ARRAY_MEMBERS = frozenset(
    f"shape ndim size dtype T mT at reshape transpose flatten ravel {' '.join(FUNCTION_METHODS)}".split()
)
"""What a program asks of arrays, and seldom of anything else."""
_KEEPING = frozenset(
    {
        "block_until_ready",
        "copy",
        "__array__",
        "to_device",
        "copy_to_host_async",
        "addressable_data",
    }
)

_OPAQUE = frozenset(
    """tobytes tofile dump dumps fill itemset put setflags delete devices unsafe_buffer_pointer is_deleted is_ready
    on_device_size_in_bytes __array_namespace__ __dlpack__ newbyteorder byteswap getfield""".split()
)


def attribute(receiver: Value, name: str, ctx: OpContext) -> Value:
    """``receiver.name``. Methods come back as MethodValue; ``x.at`` as a PartialValue that ``index`` completes."""
    if isinstance(receiver, ArrayValue):
        return _array_attribute(receiver, name, ctx)
    if isinstance(receiver, PartialValue) and receiver.func == ExternalValue(AT):
        return PartialValue(ExternalValue(f"{AT}.{name}"), receiver.args)
    if (
        isinstance(receiver, SequenceValue)
        and receiver.names is not None
        and name in receiver.names
    ):
        return receiver.items[receiver.names.index(name)]
    if isinstance(receiver, DTypeValue):
        return _dtype_attribute(receiver, name)
    if isinstance(receiver, SliceValue) and name in ("start", "stop", "step"):
        return {"start": receiver.lower, "stop": receiver.upper, "step": receiver.step}[
            name
        ]
    if isinstance(receiver, SequenceValue) and receiver.kind == "keys":
        return Unknown(f".{name} of random keys")
    if isinstance(receiver, (SequenceValue, DictValue, StringValue)):
        return MethodValue(receiver, name)
    if isinstance(receiver, Literal) and isinstance(receiver.value, (str, bytes)):
        return MethodValue(receiver, name)
    if isinstance(receiver, ExternalValue):
        return ExternalValue(f"{receiver.qualname}.{name}")
    return Unknown(f".{name} of something unknown")


def _array_attribute(value: ArrayValue, name: str, ctx: OpContext) -> Value:
    if name == "shape":
        if value.dims is None:
            return Unknown("the shape of an array of unknown rank")
        return SequenceValue(tuple(IntValue(dim.size) for dim in value.dims))
    if name == "ndim":
        return IntValue(None if value.dims is None else Size.const(len(value.dims)))
    if name == "size":
        return IntValue(entries_in(value))
    if name == "dtype":
        return DTypeValue(value.dtype)
    if name == "T":
        return with_dims(value, None if value.dims is None else value.dims[::-1])
    if name == "mT":
        return apply("jax.numpy.matrix_transpose", [value], {}, ctx)
    if name in ("real", "imag"):
        return apply(f"jax.numpy.{name}", [value], {}, ctx)
    if name == "at":
        return PartialValue(ExternalValue(AT), (value,))
    if name in ("itemsize", "nbytes"):
        return IntValue(None)
    if name in (
        "sharding",
        "aval",
        "weak_type",
        "device",
        "flat",
        "addressable_shards",
        "global_shards",
        "is_deleted",
    ):
        return Unknown(f".{name} of an array")
    return MethodValue(value, name)


def _dtype_attribute(value: DTypeValue, name: str) -> Value:
    if name == "name":
        return Literal(value.name) if value.name in dtypes.CONCRETE else StringValue()
    if name in ("type", "dtype"):
        return value
    return IntValue(None) if name == "itemsize" else Unknown(f".{name} of a dtype")


def method(
    receiver: Value,
    name: str,
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    ctx: OpContext,
) -> Value:
    """``receiver.name(*args, **kwargs)``. Raises OpError for a certain mismatch."""
    if isinstance(receiver, ArrayValue):
        return _array_method(receiver, name, args, kwargs, ctx)
    if isinstance(receiver, PartialValue) and receiver.func == ExternalValue(AT):
        return apply(f"{AT}.{name}", [*receiver.args, *args], kwargs, ctx)
    if isinstance(receiver, DictValue):
        return _dict_method(receiver, name, args)
    if isinstance(receiver, SequenceValue):
        return _sequence_method(receiver, name, args)
    if isinstance(receiver, StringValue):
        return (
            StringValue()
            if name in _STRING_TO_STRING
            else Unknown(f".{name}() of a string")
        )
    if isinstance(receiver, Literal) and isinstance(receiver.value, str):
        return _string_method(receiver.value, name, args)
    return Unknown(f".{name}() of something unknown")


def _array_method(
    value: ArrayValue,
    name: str,
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    ctx: OpContext,
) -> Value:
    prefix = "numpy." if value.numpy else "jax.numpy."
    if name in _KEEPING:
        return value
    if name == "__getitem__" and len(args) == 1:
        return index_array(value, args[0], ctx)
    if name in ("item", "tolist"):
        if name == "item" and not args:
            kind = dtypes.KIND_OF.get(value.dtype or "")
            if kind in ("signed", "unsigned"):
                return IntValue(None)
            if kind is not None:
                return ScalarValue(
                    {"bool": "bool", "complex": "complex"}.get(kind, "float")
                )
        return Unknown(f".{name}() of an array")
    if name in _OPAQUE:
        return Unknown(f".{name}() of an array")
    if name == "compress" and args:  # the function takes the condition first
        args = [args[0], value, *args[1:]]
        return apply(prefix + name, args, kwargs, ctx)
    qualname = _function_of(name, prefix)
    if qualname is None:
        return Unknown(f"no model for the array method .{name}()")
    inner = replace(ctx, numpy=value.numpy)
    try:
        result = apply(qualname, [value, *args], kwargs, inner)
    except OpError as error:
        for short in ("jnp", "np"):
            if re.match(rf"{short}\.{name}\b", error.message):
                error.message = error.message.removeprefix(short)
        # the array itself is none of the arguments
        error.operand = error.operand - 1 if error.operand else None
        raise
    ctx.facts = inner.facts
    if value.numpy and isinstance(result, ArrayValue):
        return ArrayValue(
            result.dims, None if name != "astype" else result.dtype, numpy=True
        )
    return result


def _function_of(method: str, prefix: str) -> str | None:
    """What stands for a method: a model of its own, else the function of that name. Lowerings, which take their time to
    import, are asked last."""
    own = f"jax.Array.{method}"
    if method in FUNCTION_METHODS and own not in MODELS:
        return prefix + method
    if find_model(own) is not None:
        return own
    return None


_STRING_TO_STRING = frozenset(
    "lower upper strip lstrip rstrip format join replace title removeprefix removesuffix".split()
)


def _string_method(text: str, name: str, args: Sequence[Value]) -> Value:
    known = [
        arg.value
        for arg in args
        if isinstance(arg, Literal) and isinstance(arg.value, str)
    ]
    if len(known) == len(args):
        if name in ("lower", "upper", "strip") and len(known) <= 1:
            return Literal(str(getattr(text, name)(*known)))
        if name in ("startswith", "endswith") and len(known) == 1:
            return Literal(bool(getattr(text, name)(*known)))
        if (name, len(known)) in (
            ("removeprefix", 1),
            ("removesuffix", 1),
            ("replace", 2),
        ):
            return Literal(str(getattr(text, name)(*known)))
        if name == "split" and len(known) <= 1 and known != [""]:
            words = text.split(known[0]) if known else text.split()
            return SequenceValue(tuple(Literal(word) for word in words), "list")
    if name == "join" and len(args) == 1 and isinstance(args[0], SequenceValue):
        parts = [
            item.value
            for item in args[0].items
            if isinstance(item, Literal) and isinstance(item.value, str)
        ]
        if len(parts) == len(args[0].items):
            return Literal(text.join(parts))
    return (
        StringValue()
        if name in _STRING_TO_STRING
        else Unknown(f".{name}() of a string")
    )


def _sequence_method(value: SequenceValue, name: str, args: Sequence[Value]) -> Value:
    if name == "index" and len(args) == 1:
        return _position(value, args[0])
    if name == "copy":
        return replace(value)
    if name == "_asdict" and value.names is not None:
        return DictValue(tuple(zip(value.names, value.items, strict=True)))
    return Unknown(f".{name}() of a {value.kind}")


def _position(value: SequenceValue, item: Value) -> Value:
    """``sequence.index(item)``."""
    if item in value.items:
        return IntValue(Size.const(value.items.index(item)))
    text = item.value if isinstance(item, Literal) else None
    if value.of_mesh and isinstance(text, str):
        names = [str(axis.value) for axis in value.items if isinstance(axis, Literal)]
        raise OpError("ST103", messages.no_axis_in_shape(text, names))
    return Unknown(f".index() of a {value.kind}")


def _dict_method(value: DictValue, name: str, args: Sequence[Value]) -> Value:
    view = _VIEWS.get(name)
    if view is not None:
        return SequenceValue(
            tuple(view(key, item) for key, item in value.items), "list"
        )
    if name == "copy":
        return replace(value)  # another object: a change of one is none of the other
    if name == "get" and args:
        key = args[0].value if isinstance(args[0], Literal) else static_int(args[0])
        if key is not None:
            default: Value = args[1] if len(args) > 1 else Literal(None)
            return next((item for known, item in value.items if known == key), default)
    return Unknown(f".{name}() of a dict")


def _key(key: object) -> Value:
    if isinstance(key, int) and not isinstance(key, bool):
        return IntValue(Size.const(key))
    return Literal(key)


def _entry(key: object, item: Value) -> Value:
    return SequenceValue((_key(key), item))


#: What the views of a dict give of each entry.
_VIEWS: dict[str, Callable[[object, Value], Value]] = {
    "items": _entry,
    "keys": lambda key, _: _key(key),
    "values": lambda _, item: item,
}
