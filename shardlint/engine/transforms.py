"""Wrappers and transformations: ``jit``, ``vmap``, ``grad``, ``scan`` and their relatives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import sharding
from shardlint.engine.frames import Frame
from shardlint.engine.joining import join
from shardlint.values import (
    ArrayValue,
    DictValue,
    Dimension,
    ExternalValue,
    FunctionValue,
    InstanceValue,
    IntValue,
    Literal,
    PartialValue,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

#: Wrappers that leave the signature and the meaning of sizes as they are, by the last part of their name.
_TRANSPARENT = frozenset(
    """jax.jit jax.checkpoint jax.named_call jax.named_scope equinox.filter_jit functools.lru_cache functools.cache
    functools.wraps shardtypes.typechecked typeguard.typechecked jaxtyping.jaxtyped beartype.beartype shardtypes.scope
    shardtypes.typed_shard_map equinox.filter_checkpoint jax.custom_jvp jax.custom_vjp flax.linen.compact
    flax.linen.nowrap typing.no_type_check typing.override typing_extensions.override abc.abstractmethod
    builtins.staticmethod jax.experimental.checkify.checkify shardtypes.checked.typechecked flax.nnx.jit
    flax.linen.jit flax.linen.remat""".split()
)
_REDUCING = frozenset({"jax.lax.psum", "jax.lax.pmean", "jax.lax.pmax", "jax.lax.pmin"})
_GRADS = {"jax.grad": False, "jax.value_and_grad": True, "equinox.filter_grad": False,
          "equinox.filter_value_and_grad": True}  # fmt: skip


def make(it: Interpreter, qualname: str, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """What calling a transformation gives; None if the name is none."""
    if qualname == "functools.partial" and args:
        return PartialValue(args[0], tuple(args[1:]), tuple(kwargs.items()))
    if transparent(qualname):
        if args and _callable(args[0]):
            return args[0]
        return PartialValue(ExternalValue(qualname), (), tuple(kwargs.items()))
    if qualname in _GRADS or qualname == "jax.vmap":
        if args and _callable(args[0]):
            options = dict(kwargs)
            options.update(
                zip(("in_axes", "out_axes") if qualname == "jax.vmap" else ("argnums",), args[1:], strict=False)
            )
            return WrappedValue(qualname, args[0], tuple(options.items()))
        return Unknown("a transformation of something unknown")
    return None


def transparent(qualname: str) -> bool:
    head, _, last = qualname.rpartition(".")
    return (
        qualname in _TRANSPARENT
        or (last == "typed_shard_map")
        or (head.startswith("shardlib") and last in ("typechecked", "scope"))
    )


def _callable(value: Value) -> bool:
    return isinstance(value, (FunctionValue, PartialValue, WrappedValue, InstanceValue, ExternalValue))


def decorate(it: Interpreter, frame: Frame, wrapper: Value, func: Value, expr: ir.Expr) -> Value:
    """``@wrapper`` on a function; ``expr`` is the decorator."""
    bounded = sharding.decorate(it, frame, wrapper, func, expr)
    if bounded is not None:
        return bounded
    match wrapper:
        case ExternalValue(qualname=qualname):
            made = make(it, qualname, [func], {})
            return made if made is not None else Unknown(f"decorated with {qualname}")
        case PartialValue(func=ExternalValue(qualname=qualname)):
            made = make(it, qualname, [*wrapper.args, func], dict(wrapper.kwargs))
            return made if made is not None else Unknown(f"decorated with {qualname}")
        case _:
            return Unknown("a decorator that is not understood")


def call_wrapped(
    it: Interpreter, frame: Frame, func: WrappedValue, args: list[Value], kwargs: dict[str, Value], at: int,
    places: tuple[int, ...], operands: tuple[ir.Expr, ...] = (),
) -> Value:  # fmt: skip
    from shardlint.engine.calls import call

    options = dict(func.options)
    if func.kind == sharding.JIT:
        sharding.check_arguments(it, frame, func, args, kwargs, at, operands)
        return sharding.result(func, call(it, frame, func.func, args, kwargs, at, places, operands))
    if func.kind in _GRADS:
        result = call(it, frame, func.func, args, kwargs, at, places)
        argnums = options.get("argnums", IntValue(None) if "argnums" in options else None)
        gradient: Value = Unknown("gradient")
        if argnums is None and args:
            gradient = args[0]
        elif isinstance(argnums, IntValue) and argnums.size is not None and argnums.size.constant is not None:
            number = argnums.size.constant
            gradient = args[number] if 0 <= number < len(args) else gradient
        has_aux = isinstance(options.get("has_aux"), Literal) and options["has_aux"] == Literal(True)
        if "has_aux" in options and not isinstance(options["has_aux"], Literal):
            return Unknown("has_aux is not known")
        if _GRADS[func.kind]:
            return SequenceValue((result, _unsharded(gradient)))
        if has_aux:
            aux = result.items[1] if isinstance(result, SequenceValue) and len(result.items) == 2 else Unknown("aux")
            return SequenceValue((_unsharded(gradient), aux))
        return _unsharded(gradient)
    return _vmap(it, frame, func, options, args, kwargs, at)


def _unsharded(value: Value) -> Value:
    """A gradient has its argument's shape; how it lies on the mesh is another matter."""
    if isinstance(value, ArrayValue):
        dims = None if value.dims is None else tuple(Dimension(d.size) for d in value.dims)
        return replace(value, dims=dims, pending=None, weak=False)
    return value


def _vmap(
    it: Interpreter, frame: Frame, func: WrappedValue, options: dict[str, Value], args: list[Value],
    kwargs: dict[str, Value], at: int,
) -> Value:  # fmt: skip
    """Axis 0 in and out, for arrays and trees of arrays; anything else is unknown."""
    from shardlint.engine.calls import call

    axes = options.get("in_axes")
    wanted: list[int | None] = [0] * len(args)
    if isinstance(axes, IntValue):
        number = None if axes.size is None else axes.size.constant
        if number is None:
            return Unknown("in_axes is not known")
        wanted = [number] * len(args)
    elif isinstance(axes, SequenceValue):
        if len(axes.items) != len(args):
            return Unknown("in_axes do not fit")
        wanted = []
        for item in axes.items:
            if isinstance(item, IntValue) and item.size is not None and item.size.constant is not None:
                wanted.append(item.size.constant)
            elif item == Literal(None):
                wanted.append(None)
            else:
                return Unknown("in_axes is not known")
    elif axes is not None:
        return Unknown("in_axes is not known")
    if kwargs:
        return Unknown("vmap with keyword arguments")
    mapped: Dimension | None = None
    inner: list[Value] = []
    for value, axis in zip(args, wanted, strict=True):
        if axis is None:
            inner.append(value)
            continue
        taken = _take(value, axis)
        if taken is None:
            inner.append(Unknown("a mapped argument"))
            continue
        mapped = mapped or taken[0]
        inner.append(taken[1])
    result = call(it, frame, func.func, inner, {}, at)
    out = options.get("out_axes")
    if out is not None and not (isinstance(out, IntValue) and out.size is not None and out.size.constant == 0):
        return Unknown("out_axes is not zero")
    return stack(result, Dimension(mapped.size) if mapped else Dimension(None))


def _take(value: Value, axis: int) -> tuple[Dimension, Value] | None:
    """One example of a mapped array or tree, and the dimension that was mapped."""
    if isinstance(value, ArrayValue) and value.dims and -len(value.dims) <= axis < len(value.dims):
        axis %= len(value.dims)
        return value.dims[axis], replace(value, dims=value.dims[:axis] + value.dims[axis + 1 :])
    if isinstance(value, (SequenceValue, InstanceValue)):
        items = value.items if isinstance(value, SequenceValue) else tuple(v for _, v in value.fields)
        taken = [_take(item, axis) for item in items]
        if not taken or any(one is None for one in taken):
            return None
        parts = [one[1] for one in taken if one is not None]
        first = taken[0]
        assert first is not None
        if isinstance(value, SequenceValue):
            return first[0], replace(value, items=tuple(parts))
        fields = tuple((name, part) for (name, _), part in zip(value.fields, parts, strict=True))
        return first[0], replace(value, fields=fields, prefix=value.prefix[1:])
    return None


def stack(value: Value, dim: Dimension) -> Value:
    """Results of a mapped function: every array gets the dimension in front."""
    match value:
        case ArrayValue(dims=dims) if dims is not None:
            return replace(value, dims=(dim, *dims), weak=False)
        case SequenceValue(items=items):
            return replace(value, items=tuple(stack(item, dim) for item in items))
        case DictValue(items=pairs):
            return DictValue(tuple((key, stack(item, dim)) for key, item in pairs))
        case InstanceValue(fields=fields):
            return replace(value, fields=tuple((n, stack(v, dim)) for n, v in fields), prefix=(dim, *value.prefix))
        case Literal(value=None):
            return value
        case _:
            return Unknown("a stacked result")


def control(
    it: Interpreter, frame: Frame, qualname: str, args: list[Value], kwargs: dict[str, Value], at: int
) -> Value | None:
    """``lax.scan`` and ``lax.cond``; None for any other function."""
    from shardlint.engine.calls import call

    if qualname in _REDUCING and args:
        return _reduced(args[0], mean=qualname == "jax.lax.pmean")
    if qualname == "jax.lax.scan":
        given = {**dict(zip(("f", "init", "xs", "length"), args, strict=False)), **kwargs}
        if "f" not in given or "init" not in given:
            return Unknown("scan without a body")
        xs = given.get("xs", Literal(None))
        dim, one = Dimension(None), xs
        if xs != Literal(None):
            taken = _take(xs, 0)
            dim, one = taken if taken is not None else (Dimension(None), Unknown("a slice of the scanned values"))
        elif isinstance(given.get("length"), IntValue):
            length = given["length"]
            dim = Dimension(length.size if isinstance(length, IntValue) else None)
        result = call(it, frame, given["f"], [given["init"], one], {}, at)
        if not (isinstance(result, SequenceValue) and len(result.items) == 2):
            return SequenceValue((Unknown("carry of a scan"), Unknown("outputs of a scan")))
        carry, outputs = result.items
        carried(it, frame, given["init"], carry, "scan", at)
        return SequenceValue((_settled(given["init"], carry), stack(outputs, Dimension(dim.size))))
    if qualname == "jax.lax.cond" and len(args) >= 3:
        first = call(it, frame, args[1], args[3:], {}, at)
        second = call(it, frame, args[2], args[3:], {}, at)
        carried(it, frame, first, second, "cond", at)
        return join(first, second)
    if qualname == "jax.lax.fori_loop" and len(args) == 4:
        result = call(it, frame, args[2], [IntValue(None), args[3]], {}, at)
        carried(it, frame, args[3], result, "fori_loop", at)
        return _settled(args[3], result)
    if qualname == "jax.lax.while_loop" and len(args) == 3:
        result = call(it, frame, args[1], [args[2]], {}, at)
        carried(it, frame, args[2], result, "while_loop", at)
        return _settled(args[2], result)
    return None


def _reduced(value: Value, mean: bool) -> Value:
    """A reduction over mesh axes keeps the shape of every array in the tree; sums of bools are ints."""
    match value:
        case ArrayValue(dtype=dtype):
            keeps = dtype is not None and dtype != "bool" and not (mean and dtype.startswith(("int", "uint")))
            return replace(value, dtype=dtype if keeps else None, pending=None)
        case SequenceValue(items=items):
            return replace(value, items=tuple(_reduced(item, mean) for item in items))
        case DictValue(items=pairs):
            return DictValue(tuple((key, _reduced(item, mean)) for key, item in pairs))
        case InstanceValue(fields=fields):
            return replace(value, fields=tuple((name, _reduced(item, mean)) for name, item in fields))
        case _:
            return Unknown("reduced over mesh axes")


def _settled(before: Value, after: Value) -> Value:
    return before if isinstance(before, ArrayValue) and isinstance(after, Unknown) else join(before, after)


def carried(it: Interpreter, frame: Frame, before: Value, after: Value, what: str, at: int, path: str = "") -> None:
    """The carry must keep its shape and dtype; both branches must agree."""
    from shardtypes.lang import Different, compare, format_shape

    if isinstance(before, SequenceValue) and isinstance(after, SequenceValue) and len(before.items) == len(after.items):
        for index, (a, b) in enumerate(zip(before.items, after.items, strict=True)):
            carried(it, frame, a, b, what, at, f"{path}[{index}]")
        return
    if not (isinstance(before, ArrayValue) and isinstance(after, ArrayValue)):
        return
    if before.dims is None or after.dims is None:
        return
    sides = ("its branches give", "and") if what == "cond" else ("its carry starts as", "and comes back as")
    shapes = [format_shape([d.size for d in value.dims or ()]) for value in (before, after)]
    text = f"{what}: {sides[0]} {shapes[0]!r} {sides[1]} {shapes[1]!r}" + (f" (item {path})" if path else "")
    if len(before.dims) != len(after.dims):
        it.report(frame, "ST210", at, text)
        return
    for old, new in zip(before.dims, after.dims, strict=True):
        if old.size is not None and new.size is not None:
            verdict = compare(old.size, new.size, frame.facts)
            if isinstance(verdict, Different):
                it.report(frame, "ST210", at, text, verdict.witness)
                return
