"""How values are sharded: specs, meshes and what programs do with them, in the global view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.frames import Frame
from shardlint.engine.sharding import (
    boundaries,
    constraints,
    labels,
    logical,
    meshes,
    metadata,
    rules_in_force,
    specs,
)
from shardlint.engine.sharding.boundaries import JIT
from shardlint.engine.sharding.site import Site as Site
from shardlint.values import (
    ExternalValue,
    MeshValue,
    PartialValue,
    ShardingValue,
    SpecValue,
    Unknown,
    Value,
    WrappedValue,
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


def call(site: Site) -> Value | None:
    """The result of a call that is about sharding; None for any other."""
    frame, qualname, args, kwargs, at = (
        site.frame,
        site.qualname,
        site.args,
        site.kwargs,
        site.at,
    )
    spec = specs.make(qualname, args, kwargs, (frame.module, at))
    if spec is not None:
        if isinstance(spec, ShardingValue):
            constraints.check_sharding(site, spec)
        return spec
    mesh = meshes.make(qualname, args, kwargs, frame.mesh, site.it.jax)
    wrong = meshes.refused(qualname, args, kwargs)
    if wrong is not None:
        site.report("ST314", at, f"{site.name}: {wrong}")
        return MeshValue(None)
    if qualname in meshes.SETTERS and isinstance(mesh, MeshValue):
        # from here on; after a ``with`` what was in force before it returns
        frame.mesh = mesh
    labels.check_contraction(site)
    for family in (
        constraints.place,
        constraints.from_parts,
        constraints.of_type,
        metadata.call,
        logical.call,
    ):
        mesh = mesh if mesh is not None else family(site)
    return mesh


def transform(site: Site) -> Value | None:
    """A function that ``jit`` gave shardings; None for any other call. Specs of ``shard_map`` are judged, too."""
    metadata.check(site)
    return boundaries.transform(site)


def decorate(
    it: Interpreter, frame: Frame, wrapper: Value, func: Value, expr: ir.Expr
) -> Value | None:
    """The same for ``@partial(jax.jit, in_shardings=…)``; ``expr`` is the decorator."""
    if not (
        isinstance(wrapper, PartialValue) and isinstance(wrapper.func, ExternalValue)
    ):
        return None
    args = [*wrapper.args, func]
    operands: tuple[ir.Expr, ...] = ()
    if isinstance(expr, ir.Call):
        positions = [arg.value for arg in expr.args if arg.keyword is None]
        # without the function that is given to partial
        first = positions[len(positions) - len(wrapper.args) :]
        operands = (
            *first,
            expr,
            *(arg.value for arg in expr.args if arg.keyword is not None),
        )
    return boundaries.transform(
        Site(
            it,
            frame,
            wrapper.func.qualname,
            args,
            dict(wrapper.kwargs),
            expr.at,
            operands,
        )
    )


def matmul(it: Interpreter, frame: Frame, left: Value, right: Value, at: int) -> None:
    """``left @ right``, before it is evaluated."""
    labels.check_contraction(Site(it, frame, "@", [left, right], {}, at))


def call_jitted(
    it: Interpreter,
    frame: Frame,
    func: WrappedValue,
    args: list[Value],
    kwargs: dict[str, Value],
    at: int,
    places: tuple[int, ...],
    operands: tuple[ir.Expr, ...],
) -> Value:
    """A call of a function that ``jit`` gave shardings."""

    site = Site(it, frame, JIT, args, kwargs, at, operands)
    boundaries.check_arguments(site, func)
    return boundaries.result(
        site, func, it.call(frame, func.func, args, kwargs, at, places, operands)
    )


def attribute(value: MeshValue | SpecValue | ShardingValue, name: str) -> Value:
    """``value.name`` of a mesh, a spec or a sharding."""
    return (
        meshes.attribute(value, name)
        if isinstance(value, MeshValue)
        else specs.attribute(value, name)
    )


def enter(frame: Frame, context: Value) -> None:
    """``with context:`` may put a mesh or logical rules in force; something unknown any mesh."""
    if isinstance(context, (MeshValue, Unknown)):
        frame.mesh = (
            meshes.entered(context)
            if isinstance(context, MeshValue)
            else MeshValue(None)
        )
    frame.rules = rules_in_force.entered(context, frame.rules)


__all__ = [
    "JIT",
    "attribute",
    "call",
    "call_jitted",
    "decorate",
    "enter",
    "matmul",
    "meshes",
    "specs",
    "transform",
]
