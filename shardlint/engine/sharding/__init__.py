"""How values lie on the mesh: specs, meshes and what programs do with them, in the global view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.frames import Frame
from shardlint.engine.sharding import constraints, meshes, specs
from shardlint.engine.sharding.site import Site
from shardlint.values import MeshValue, ShardingValue, SpecValue, Unknown, Value

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


def call(
    it: Interpreter, frame: Frame, qualname: str, args: list[Value], kwargs: dict[str, Value], at: int,
    operands: tuple[ir.Expr, ...] = (),
) -> Value | None:  # fmt: skip
    """The result of a call that is about sharding; None for any other."""
    spec = specs.make(qualname, args, kwargs, (frame.module, at))
    site = Site(it, frame, qualname, args, kwargs, at, operands)
    if spec is not None:
        if isinstance(spec, ShardingValue):
            constraints.check_sharding(site, spec)
        return spec
    mesh = meshes.make(qualname, args, kwargs, frame.mesh)
    if qualname in meshes.SETTERS and isinstance(mesh, MeshValue):
        frame.mesh = mesh  # from here on; after a ``with`` what was in force before it returns
    return mesh if mesh is not None else constraints.place(site)


def attribute(value: MeshValue | SpecValue | ShardingValue, name: str) -> Value:
    """``value.name`` of a mesh, a spec or a sharding."""
    return meshes.attribute(value, name) if isinstance(value, MeshValue) else specs.attribute(value, name)


def entered(context: Value, before: MeshValue | None) -> MeshValue | None:
    """The mesh in force inside ``with context:``; something unknown may put any mesh in force."""
    if isinstance(context, MeshValue):
        return context
    return None if isinstance(context, Unknown) else before


__all__ = ["attribute", "call", "entered", "meshes", "specs"]
