"""What a call of a modelled function gives: its model, and on a mesh what is known of the sharding besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from shardlint.ops import open_ranks, same_dtypes, sharding
from shardlint.ops.misfits import refuse
from shardlint.ops.registry import (
    Call,
    Model,
    ModelFunction,
    OpContext,
    OpError,
    UnknownArgument,
    find_table,
    short_name,
)
from shardlint.ops.sharding import explicit_calls
from shardlint.ops.sharding.explicit import Rule, explicit_axes, placed
from shardlint.values import ArrayValue, MeshValue, SequenceValue, Unknown, Value
from shardtypes.lang import dtypes

#: NumPy functions that give arrays of other shapes than their twins do.
_OF_OTHER_SHAPES = frozenset(
    f"numpy.{name}" for name in "linalg.lstsq place put put_along_axis".split()
)
#: NumPy functions that take what their twins refuse. (All promote dtypes by rules of their own.)
_LENIENT = frozenset(
    f"numpy.{name}"
    for name in """tril triu diff convolve correlate squeeze argsort sort argpartition partition take
    quantile percentile nanquantile nanpercentile median meshgrid""".split()
)


def apply(
    qualname: str, args: Sequence[Value], kwargs: Mapping[str, Value], ctx: OpContext
) -> Value:
    """The result of calling a function outside the project, by its qualified name.

    Raises OpError for a certain mismatch. A function without a model gives ``Unknown('no model for …')``; so does a
    call that does not fit the function's signature.
    """
    if qualname in _OF_OTHER_SHAPES:
        return Unknown(f"{short_name(qualname)} has rules of its own")
    found = find_model(qualname)
    if found is None:
        return Unknown(f"no model for {qualname}")
    bound = found.bind(args, kwargs)
    if bound is None:
        refuse(found, qualname, args, kwargs)
        return Unknown(f"arguments of {short_name(qualname)} not understood")
    numpy_twin = qualname.startswith("numpy.") and found.qualname.startswith("jax.")
    if not numpy_twin:
        return _viewed(found, Call(qualname, bound, ctx))
    inner = OpContext(ctx.facts, ctx.call, True, ctx.mesh, numpy=True)
    try:
        result = _run(found, Call(qualname, bound, inner))
    except OpError as error:
        if (
            error.code == "ST212"
            or qualname.startswith("numpy.fft.")
            or qualname in _LENIENT
        ):
            return Unknown(f"{short_name(qualname)} has rules of its own")
        raise
    ctx.facts = inner.facts
    return as_numpy(result)


def is_modelled(qualname: str) -> bool:
    """Whether there is a model of a function, or a lowering."""
    return find_model(qualname) is not None


#: Libraries of which functions are lowered.
_LOWERED = ("jax.", "numpy.", "optax.", "einops.")


def find_model(qualname: str) -> Model | None:
    """The model of a function, or what its lowering says as one; a NumPy function falls back on its ``jax.numpy``
    twin."""
    found = find_table(qualname)
    if found is not None or not qualname.startswith(_LOWERED):
        return found
    from shardlint.ops.lowered import find_lowered  # takes its time to import

    return find_lowered(qualname)


def _viewed(found: Model, call: Call) -> Value:
    function = partial(_run, found)
    if not found.places:
        return viewed(call, function)
    if call.ctx.view is not None and not sharding.is_modelled(call):
        return found.function(call)
    from shardlint.ops.lowered import kept_axes

    return viewed(call, function, kept_axes)


def viewed(
    call: Call, function: ModelFunction, otherwise: Rule = explicit_calls.no_rule
) -> Value:
    """The result of a model; in manual code, and on explicit axes, the sharding model of the function runs besides.
    ``otherwise`` is the one on explicit axes of a function that has none."""
    if call.ctx.view is not None:
        return sharding.apply(call, call.ctx.view, function)
    mesh = call.ctx.explicit or _mesh_of_types(call)
    if mesh is None:
        return function(call)
    return explicit_calls.apply(call, mesh, function, otherwise)


def _mesh_of_types(call: Call) -> MeshValue | None:
    """The mesh whose explicit axes are in the type of an argument: no mesh need be in force for that."""
    for value in call.args.values():
        parts = value.items if isinstance(value, SequenceValue) else (value,)
        for part in parts:
            if isinstance(part, ArrayValue) and placed(part):
                if explicit_axes(part.mesh) is not None:
                    return part.mesh
    return None


#: Functions of JAX that leave NumPy arrays what they are.
_LEAVING = frozenset(
    {
        "jax.block_until_ready",
        "jax.device_get",
        "jax.experimental.multihost_utils.broadcast_one_to_all",
    }
)


# stay numbers of Python's, or of NumPy's
_AXES = frozenset({"axis", "axes", "source", "destination"})


def _run(found: Model, call: Call) -> Value:
    if call.qualname.startswith("jax.") and call.qualname not in _LEAVING:
        args = {
            n: value if n in _AXES else _entering(value, call.ctx.x64)
            for n, value in call.args.items()
        }
        call = Call(call.qualname, args, call.ctx)
    try:
        result = found.function(call)
    except UnknownArgument:
        result = open_ranks.of_call(call) or ArrayValue(None)
    if found.alike:
        same_dtypes.check(call, found.alike)
    return result


def _entering(value: Value, x64: bool) -> Value:
    """A NumPy array as JAX takes it: 64-bit dtypes become their 32-bit ones."""
    if isinstance(value, ArrayValue) and value.numpy:
        return replace(
            value,
            dtype=dtypes.canonical(value.dtype, x64) if value.dtype else None,
            numpy=False,
        )
    if isinstance(value, SequenceValue) and any(
        isinstance(i, (ArrayValue, SequenceValue)) for i in value.items
    ):
        return replace(value, items=tuple(_entering(item, x64) for item in value.items))
    return value


def as_numpy(value: Value) -> Value:
    """What a ``jax.numpy`` model computed, as the NumPy twin returns it: same shape, dtype by NumPy's own rules."""
    if isinstance(value, ArrayValue):
        return ArrayValue(value.dims, None, numpy=True)
    if isinstance(value, SequenceValue):
        return SequenceValue(
            tuple(as_numpy(item) for item in value.items), value.kind, value.names
        )
    return value
