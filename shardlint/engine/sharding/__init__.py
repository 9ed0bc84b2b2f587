"""How values are sharded: specs, meshes and what programs do with them, in the global view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.frames import Frame
from shardlint.engine.sharding import (
    boundaries,
    labels,
    meshes,
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
    "call_jitted",
    "decorate",
    "enter",
    "matmul",
    "meshes",
    "specs",
]
