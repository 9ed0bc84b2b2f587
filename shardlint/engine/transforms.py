"""Wrappers and transformations: what calling them gives, and what calling their results does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import (
    boxes,
    custom_rules,
    layers,
    module_transforms,
    sharding,
    static_positions,
)
from shardlint.engine.custom_rules import CUSTOM
from shardlint.engine.decorators import passes_on
from shardlint.engine.derivatives import DERIVATIVES, call_derivative
from shardlint.engine.frames import Frame
from shardlint.engine.instances import replaced
from shardlint.engine.libraries import knows
from shardlint.engine.mapping import MAPPINGS, call_mapped
from shardlint.engine.sharding import (
    axis_types,
    layer_names,
    manual_calls,
    manual_layers,
)
from shardlint.engine.sharding.placements import COMPILING
from shardlint.engine.sharding.site import Site
from shardlint.engine.trees import bare, map_leaves, traced
from shardlint.values import (
    ArrayValue,
    ClassValue,
    DictValue,
    ExternalValue,
    FunctionValue,
    InstanceValue,
    PartialValue,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

#: Wrappers that leave the signature and the meaning of sizes as they are.
_TRANSPARENT = frozenset(
    """jax.jit jax.checkpoint jax.named_call jax.named_scope equinox.filter_jit functools.lru_cache functools.cache
    functools.wraps shardtypes.typechecked typeguard.typechecked jaxtyping.jaxtyped beartype.beartype shardtypes.scope
    shardtypes.typed_shard_map equinox.filter_checkpoint flax.linen.compact
    flax.linen.nowrap typing.no_type_check typing.override typing_extensions.override abc.abstractmethod
    builtins.staticmethod builtins.classmethod shardtypes.checked.typechecked flax.nnx.jit
    flax.linen.jit flax.linen.remat flax.nnx.remat flax.linen.checkpoint chex.assert_max_traces
    equinox.internal.noinline jax.custom_batching.custom_vmap typing.final
    haiku.transparent jax.profiler.annotate_function flax.linen.compact_name_scope atexit.register
    jax.experimental.custom_partitioning kauldron.typing.typechecked kauldron.ktyping.typechecked""".split()
)
#: Those of them that trace the function.
_TRACING = COMPILING | frozenset(
    """jax.checkpoint jax.experimental.custom_partitioning equinox.filter_checkpoint flax.linen.remat
    flax.nnx.remat flax.linen.checkpoint equinox.internal.noinline jax.custom_batching.custom_vmap
    shardtypes.typed_shard_map""".split()
)
#: So are those of these names, of libraries that there are several of.
_TRANSPARENT_BY_NAME = frozenset({"typed_shard_map", "typechecked", "scope"})
_PARTIAL = "functools.partial"
_WRAPS = "functools.wraps"
#: They make decorators that leave functions as they are.
_MAKING_DECORATORS = frozenset(
    {_WRAPS, "haiku.name_like", "warnings.deprecated", "typing_extensions.deprecated"}
)
_REDUCING = frozenset({"jax.lax.psum", "jax.lax.pmean", "jax.lax.pmax", "jax.lax.pmin"})
_PARAMETERS = {
    **DERIVATIVES,
    **MAPPINGS,
    **CUSTOM,
    **manual_calls.PARAMETERS,
    **axis_types.PARAMETERS,
    **module_transforms.PARAMETERS,
}
#: Options whose place in the program findings are about.
_PLACED = ("in_axes", "out_axes")


@knows(
    {
        *_TRANSPARENT,
        *_PARAMETERS,
        *layers.MADE,
        *_MAKING_DECORATORS,
        *boxes.VARIABLES,
        _PARTIAL,
    },
    last=_TRANSPARENT_BY_NAME,
)
def made(site: Site) -> Value | None:
    """What calling a transformation gives, or making a layer."""
    return make(
        site.it,
        site.qualname,
        site.args,
        site.kwargs,
        site.frame.module,
        site.operands,
    )


def make(
    it: Interpreter,
    qualname: str,
    args: list[Value],
    kwargs: dict[str, Value],
    module: str = "",
    operands: tuple[ir.Expr, ...] = (),
) -> Value | None:
    """What calling a transformation gives; None if the name is none."""
    origin = _origin(args, kwargs, module, operands, _PARAMETERS.get(qualname, ()))
    if qualname == _PARTIAL and args:
        return PartialValue(args[0], tuple(args[1:]), tuple(kwargs.items()), origin)
    if qualname in _MAKING_DECORATORS and module:
        return ExternalValue(_WRAPS)  # as a decorator it leaves the wrapper as it is
    if transparent(qualname):
        if args and isinstance(args[0], ClassValue) and qualname.startswith("flax."):
            return args[0]  # a module whose methods are transformed
        if args:
            unknown = Unknown("a transformation of something unknown")
            return _traced_by(it, args[0], qualname) if _callable(args[0]) else unknown
        return PartialValue(ExternalValue(qualname), (), tuple(kwargs.items()))
    if qualname in boxes.VARIABLES and args and isinstance(args[0], ArrayValue):
        return boxes.made(args[0])
    names = _PARAMETERS.get(qualname)
    if names is None:
        return layers.make(qualname, args, kwargs)
    if qualname in module_transforms.PARAMETERS:
        return module_transforms.make(qualname, args, kwargs, origin, module)
    if not args:
        return PartialValue(ExternalValue(qualname), (), tuple(kwargs.items()), origin)
    if not _callable(args[0]):
        return Unknown("a transformation of something unknown")
    options = {**dict(zip(names, args[1:], strict=False)), **kwargs}
    wrapped = WrappedValue(qualname, args[0], tuple(options.items()), origin, module)
    manual_calls.wrapped(it, wrapped)
    return wrapped


def _origin(
    args: list[Value],
    kwargs: dict[str, Value],
    module: str,
    operands: tuple[ir.Expr, ...],
    names: tuple[str, ...],
) -> tuple[str, int] | None:
    """Where the axes of a mapped function are written out."""
    given = [*("", *names)[: len(args)], *kwargs]
    for name, expr in zip(given, operands, strict=False):
        if name in _PLACED and not isinstance(expr, (ir.Name, ir.Attr)):
            return module, expr.at
    return None


def transparent(qualname: str) -> bool:
    head, _, last = qualname.rpartition(".")
    return (
        qualname in _TRANSPARENT
        or (last == "typed_shard_map")
        or (head.startswith("shardlib") and last in ("typechecked", "scope"))
    )


def _traced_by(it: Interpreter, value: Value, qualname: str) -> Value:
    """A function that remembers which transformation traces it; anything else as it is."""
    if isinstance(value, PartialValue):
        return replace(value, func=_traced_by(it, value.func, qualname))
    if (
        not isinstance(value, FunctionValue)
        or qualname not in _TRACING
        or value.tracing in COMPILING
    ):
        return value
    key = (value, qualname)
    if key not in it.tracers:
        it.tracers[key] = replace(value, tracing=qualname)
    return it.tracers[key]


def _callable(value: Value) -> bool:
    return isinstance(
        value, (FunctionValue, PartialValue, WrappedValue, InstanceValue, ExternalValue)
    )


def decorate(
    it: Interpreter, frame: Frame, wrapper: Value, func: Value, expr: ir.Expr
) -> Value:
    """``@wrapper`` on a function; ``expr`` is the decorator."""

    static_positions.decorated(it, frame, wrapper, func, expr.at)
    bounded = sharding.decorate(it, frame, wrapper, func, expr)
    if bounded is not None:
        return bounded
    match wrapper:
        case ExternalValue(qualname=qualname):
            made = make(it, qualname, [func], {})
            return made if made is not None else Unknown(f"decorated with {qualname}")
        case PartialValue(func=ExternalValue(qualname=qualname)):
            if qualname in custom_rules.RULES:
                given = [*wrapper.args, func]
                rules = Site(it, frame, qualname, given, {}, expr.at)
                return custom_rules.define(rules)
            made = make(it, qualname, [*wrapper.args, func], dict(wrapper.kwargs))
            if isinstance(made, WrappedValue):
                return replace(made, origin=wrapper.origin)
            return made if made is not None else Unknown(f"decorated with {qualname}")
        case FunctionValue() | PartialValue() | ClassValue():
            frame.silent += 1  # at its calls the function is checked
            result = it.call(frame, wrapper, [func], {}, expr.at)
            frame.silent -= 1
            if isinstance(result, FunctionValue) and passes_on(result.node):
                return func
            return (
                result
                if _callable(result)
                else Unknown("a decorator that is not understood")
            )
        case _:
            return Unknown("a decorator that is not understood")


def call_wrapped(
    it: Interpreter,
    frame: Frame,
    func: WrappedValue,
    args: list[Value],
    kwargs: dict[str, Value],
    at: int,
    places: tuple[int, ...],
    operands: tuple[ir.Expr, ...] = (),
) -> Value:
    """The result of calling a function that a transformation made."""

    if func.kind == sharding.JIT:
        return sharding.call_jitted(it, frame, func, args, kwargs, at, places, operands)
    if func.kind == manual_calls.SHARD_MAP:
        return manual_calls.call_region(it, frame, func, args, kwargs, at, places)
    if func.kind in layers.LAYERS:
        result = manual_layers.applied(
            it, func, args, layers.call(it, frame, func, args, at, places)
        )
        return layer_names.applied(it, frame, func, args, at, result)
    if func.kind in module_transforms.KINDS:
        return module_transforms.call(it, frame, func, args, kwargs, at, places)
    if func.kind in axis_types.PARAMETERS:
        return axis_types.call(it, frame, func, args, kwargs, at, places)
    if func.kind in CUSTOM:
        it.by_hand += not custom_rules.is_local(it, func)
        return it.call(frame, func.func, args, kwargs, at, places, operands)
    if func.kind in DERIVATIVES:
        return call_derivative(it, frame, func, args, kwargs, at, places)
    return call_mapped(it, frame, func, args, kwargs, at, places)


@knows(_REDUCING)
def reduced(site: Site) -> Value | None:
    """A reduction over mesh axes, where nothing is known of these."""
    mean = site.qualname == "jax.lax.pmean"
    return _reduced(site.args[0], mean) if site.args else None


@knows(("jax.eval_shape", "equinox.filter_eval_shape"))
def evaluated_abstractly(site: Site) -> Value | None:
    """``eval_shape``."""
    if not site.args:
        return None
    function, *given = site.args
    places = tuple(operand.at for operand in site.operands[1:])
    result = site.it.call(
        site.frame, function, [*map(traced, given)], {**site.kwargs}, site.at, places
    )
    return bare(map_leaves(result, traced), weak=True)


@knows(("dataclasses.replace",))
def changed(site: Site) -> Value | None:
    """A dataclass with other fields."""
    return replaced(site.args[0], {**site.kwargs}) if len(site.args) == 1 else None


def _reduced(value: Value, mean: bool) -> Value:
    """A reduction over mesh axes keeps the shape of every array in the tree; sums of bools are ints."""
    match value:
        case ArrayValue(dtype=dtype):
            keeps = (
                dtype is not None
                and dtype != "bool"
                and not (mean and dtype.startswith(("int", "uint")))
            )
            return replace(value, dtype=dtype if keeps else None, pending=None)
        case SequenceValue(items=items):
            return replace(value, items=tuple(_reduced(item, mean) for item in items))
        case DictValue(items=pairs):
            return DictValue(tuple((key, _reduced(item, mean)) for key, item in pairs))
        case InstanceValue(fields=fields):
            return replace(
                value,
                fields=tuple((name, _reduced(item, mean)) for name, item in fields),
            )
        case _:
            return Unknown("reduced over mesh axes")
