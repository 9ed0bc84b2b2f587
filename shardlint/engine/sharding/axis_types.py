"""``auto_axes`` and ``explicit_axes``: functions that run with other axis types than the code around them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.engine.frames import Frame
from shardlint.engine.trees import map_leaves
from shardlint.ops.sharding.explicit import explicit_axes
from shardlint.values import (
    ArrayValue,
    ExternalValue,
    Literal,
    MeshValue,
    SequenceValue,
    ShardingValue,
    Value,
    WrappedValue,
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_AUTO = "jax.sharding.auto_axes"
_EXPLICIT = "jax.sharding.explicit_axes"
#: The option that tells how the result of the one, or the arguments of the other, are sharded.
_SHARDING = {_AUTO: "out_sharding", _EXPLICIT: "in_sharding"}
_NONE = Literal(None)
#: What ``transforms.make`` knows; all parameters after the function are given by name.
PARAMETERS: dict[str, tuple[str, ...]] = {_AUTO: (), _EXPLICIT: ()}


def call(
    it: Interpreter,
    frame: Frame,
    func: WrappedValue,
    args: list[Value],
    kwargs: dict[str, Value],
    at: int,
    places: tuple[int, ...],
) -> Value:
    """The result of calling such a function. On no mesh, and in manual code, it is the function itself."""
    options = dict(func.options)
    given = dict(kwargs)
    option = _SHARDING[func.kind]
    sharding = options.get(option, _NONE)
    if sharding == _NONE:
        sharding = given.pop(option, _NONE)
    before, explicit = frame.mesh, it.explicit
    mesh = _mesh_of(sharding) or before
    if it.view is not None:
        return it.call(frame, func.func, args, given, at, places)
    args = [_on_automatic_axes(arg) for arg in args]
    frame.mesh = _of_types(mesh, options.get("axes", _NONE), func.kind)
    it.explicit = frame.mesh if explicit_axes(frame.mesh) else None
    try:
        if func.kind == _EXPLICIT and sharding != _NONE:
            args = _resharded_each(it, frame, args, sharding, at)
        result = it.call(frame, func.func, args, given, at, places)
    finally:
        frame.mesh, it.explicit = before, explicit
    if func.kind == _AUTO and sharding != _NONE and _reshards(mesh):
        return _reshard(it, frame, result, sharding, at)
    return _on_automatic_axes(result)


def _mesh_of(sharding: Value) -> MeshValue | None:
    """The mesh of the first sharding that has one."""
    if isinstance(sharding, ShardingValue):
        return sharding.mesh
    if not isinstance(sharding, SequenceValue):
        return None
    found = (_mesh_of(item) for item in sharding.items)
    return next((mesh for mesh in found if mesh is not None), None)


def _reshards(mesh: MeshValue | None) -> bool:
    """Whether a result may be resharded: not on a mesh whose axes all are automatic already."""
    return mesh is None or mesh.types is None or explicit_axes(mesh) is not None


def _reshard(
    it: Interpreter, frame: Frame, value: Value, sharding: Value, at: int
) -> Value:
    function = ExternalValue("jax.sharding.reshard")
    return it.call(frame, function, [value, sharding], {}, at)


def _resharded_each(
    it: Interpreter, frame: Frame, args: list[Value], sharding: Value, at: int
) -> list[Value]:
    """The arguments, of which ``sharding`` has one each, or is one for all."""
    if not isinstance(sharding, SequenceValue):
        return [_reshard(it, frame, arg, sharding, at) for arg in args]
    if len(sharding.items) != len(args):
        return args
    return [
        _reshard(it, frame, arg, one, at)
        for arg, one in zip(args, sharding.items, strict=True)
    ]


def _of_types(mesh: MeshValue | None, axes: Value, kind: str) -> MeshValue | None:
    """The mesh, the types of these axes changed; of all where none are named."""
    if mesh is None or mesh.axes is None or mesh.types is None:
        return mesh
    new = "Auto" if kind == _AUTO else "Explicit"
    named = _names(axes)
    if named is None:
        return MeshValue(None)
    types = tuple(
        new if axes == _NONE or name in named else old
        for (name, _), old in zip(mesh.axes, mesh.types, strict=True)
    )
    return replace(mesh, types=types)


def _names(axes: Value) -> frozenset[str] | None:
    """The axes that are named; None where they are not known."""
    items = axes.items if isinstance(axes, SequenceValue) else (axes,)
    names = [item.value for item in items if isinstance(item, Literal)]
    if len(names) != len(items):
        return None
    return frozenset(name for name in names if isinstance(name, str))


def _on_automatic_axes(value: Value) -> Value:
    """Arrays whose types say nothing of the mesh."""
    return map_leaves(value, _forget)


def _forget(leaf: Value) -> Value:
    if not isinstance(leaf, ArrayValue) or leaf.mesh is None:
        return leaf
    dims = leaf.dims
    if dims is not None:
        dims = tuple(replace(dim, axes=None) for dim in dims)
    return replace(leaf, dims=dims, mesh=None)
