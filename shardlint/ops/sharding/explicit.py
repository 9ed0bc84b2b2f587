"""The global view on a mesh with explicit axes, where JAX keeps an array's sharding in its type.

There every function has one answer: how its result is split, or that it refuses its operands. Models say it here
beside those of shapes; a function without one gives a result whose axes are not known, which never reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from shardlint.ops.registry import Call, ModelFunction, OpError, is_none
from shardlint.ops.sharding.origins import Operands, Origin, calls_back, each
from shardlint.ops.sharding.state import Axes
from shardlint.values import (
    ArrayValue,
    Dimension,
    MeshValue,
    Value,
)
from shardtypes.lang import format_shape
from shardtypes.lang.messages import sharded_twice

Split: TypeAlias = "list[Axes] | None"
"""The axes of every dimension of a result; None where nothing is known."""


def explicit_axes(mesh: MeshValue | None) -> dict[str, int | None] | None:
    """The explicit axes of a mesh with their sizes; None where it has none, or not all types are known."""
    if mesh is None or mesh.axes is None or mesh.types is None or None in mesh.types:
        return None
    pairs = zip(mesh.axes, mesh.types, strict=True)
    return {axis: size for (axis, size), kind in pairs if kind == "Explicit"} or None


def configured(mesh: Mapping[str, int | None], explicit: Sequence[str] | bool) -> MeshValue | None:
    """The mesh that the settings declare, if some of its axes are explicit (``True``: all of them)."""
    names = tuple(mesh) if explicit is True else tuple(explicit or ())
    types = tuple("Explicit" if axis in names else "Auto" for axis in mesh)
    return MeshValue(tuple(mesh.items()), types) if "Explicit" in types else None


@dataclass(frozen=True, slots=True)
class GlobalOp:
    """One call on a mesh with explicit axes. ``operands`` are the arrays among its arguments, numbers not included,
    and ``positions`` which argument each of them is."""

    call: Call
    mesh: MeshValue
    operands: tuple[ArrayValue, ...]
    positions: tuple[int, ...]

    @property
    def name(self) -> str:
        """What the user calls the function."""
        return "indexing" if self.call.qualname == "index" else self.call.name

    @property
    def last(self) -> str:
        return self.call.last

    @property
    def ignores_out_sharding(self) -> bool:
        """An einsum of one operand: JAX heeds ``out_sharding`` where it contracts two."""
        return self.call.qualname == "jax.numpy.einsum" and len(self.operands) == 1

    @property
    def sizes(self) -> dict[str, int | None]:
        return explicit_axes(self.mesh) or {}

    def shards(self, axes: Axes) -> int | None:
        """Into how many parts these axes split a dimension; None where that is not known."""
        known = [self.sizes.get(axis) for axis in axes or ()]
        return prod(n for n in known if n is not None) if axes is not None and None not in known else None

    def text(self, value: ArrayValue) -> str:
        """An array's shape with its axes, quoted."""
        dims = value.dims or ()
        return repr(format_shape([dim.size for dim in dims], [dim.axes or () for dim in dims]))

    def refused(self, why: str, operand: int | None = None, code: str = "ST313") -> OpError:
        """What JAX raises, in the user's names; ``operand`` counts the arrays."""
        place = self.positions[operand] if operand is not None and operand < len(self.positions) else None
        return OpError(code, f"{self.name}: {why}", {}, place)


UNPLACED = ("", "unplaced")
"""The mark of an array that is not split, and may be on no mesh: JAX takes it for split like the others."""


def placed(value: ArrayValue) -> bool:
    """Whether the array's type certainly says how it lies on the mesh. In manual code no type says that of the axes."""
    return value.mesh is not None and not value.manual and UNPLACED not in value.marks


#: The parameters that say how a result is to lie.
_ASKED = ("out_sharding", "device", "sharding")

Rule: TypeAlias = Callable[[GlobalOp, ArrayValue, "list[Origin]"], Split]

EXPLICIT: dict[str, Rule] = {}
#: The code of a result that would be split twice over one axis, where it is not ST313.
_TWICE: dict[str, str] = {}


def rule(names: Sequence[str], found: Rule, twice: str = "ST313") -> None:
    """Register the model of functions by qualified name."""
    for name in names:
        if name in EXPLICIT:
            raise ValueError(f"two models of explicit axes for {name}")
        EXPLICIT[name] = found
        _TWICE[name] = twice


def _seen(value: ArrayValue, mesh: MeshValue) -> ArrayValue:
    """The operand as its type has it: explicit axes alone; nothing is known of one that is not of this mesh."""
    if value.dims is None:
        return value
    if value.numpy:
        dims = tuple(Dimension(dim.size, ()) for dim in value.dims)
        return replace(value, dims=dims, mesh=mesh, marks=frozenset({UNPLACED}))
    axes = explicit_axes(mesh) or {}
    known = value.mesh == mesh
    dims = tuple(
        Dimension(dim.size, tuple(a for a in dim.axes if a in axes) if known and dim.axes is not None else None)
        for dim in value.dims
    )
    return replace(value, dims=dims, mesh=mesh if known else None)


def apply(call: Call, mesh: MeshValue, model: ModelFunction) -> Value:
    """The result of a modelled function on a mesh with explicit axes.

    Raises OpError where the shapes are certainly wrong, or JAX refuses how they are split.
    """
    ctx = call.ctx
    inner = replace(ctx, explicit=None)
    if calls_back(call):
        return model(call)
    from shardlint.ops.sharding import explicit_sums  # it is about the calls that are defined here

    operands = Operands(lambda value: _seen(value, mesh), lambda value: replace(value, mesh=None))
    result = model(Call(call.qualname, operands.marked(call), inner))
    ctx.facts = inner.facts
    op = GlobalOp(call, mesh, tuple(operands.found), tuple(operands.positions))
    asked = any(name in call.args and not is_none(call.args[name]) for name in _ASKED)
    if asked and operands.complete:
        explicit_sums.check_asked(op)
    if not operands.complete or (asked and not op.ignores_out_sharding):
        return each(result, lambda value, origins: value)
    found = EXPLICIT.get(call.qualname, _no_rule)
    partial = explicit_sums.sums(op)
    if not partial:
        return each(result, lambda value, origins: _placed(op, value, origins, found))
    if not explicit_sums.kept(op):
        return each(result, lambda value, origins: replace(value, pending=None))
    return each(result, lambda value, origins: replace(_placed(op, value, origins, found), pending=partial))


def _no_rule(op: GlobalOp, out: ArrayValue, origins: list[Origin]) -> Split:
    return None


def _whole(op: GlobalOp, out: ArrayValue) -> Split:
    """What is made of arrays that are not split is not split, whatever the function."""
    whole = op.operands and all(o.dims is not None and not any(d.axes != () for d in o.dims) for o in op.operands)
    return [() for _ in out.dims or ()] if whole else None


def _placed(op: GlobalOp, bare: ArrayValue, origins: list[Origin], found: Rule) -> ArrayValue:
    split = found(op, bare, origins) if bare.dims is not None else None
    split = _whole(op, bare) if split is None and bare.dims is not None else split
    if split is None:
        return bare
    _check_twice(op, split)
    dims = tuple(Dimension(d.size, axes, d.label) for d, axes in zip(bare.dims or (), split, strict=True))
    on_mesh = not op.operands or any(o.mesh is not None for o in op.operands)
    certain = not op.operands or any(placed(o) for o in op.operands)
    marks = frozenset[tuple[str, str]]() if certain else frozenset({UNPLACED})
    return replace(bare, dims=dims, mesh=op.mesh if on_mesh else None, marks=marks)


def _check_twice(op: GlobalOp, split: list[Axes]) -> None:
    named = [axis for axes in split for axis in axes or ()]
    twice = next((axis for axis in named if named.count(axis) > 1), None)
    if twice is not None:
        why = sharded_twice(twice, [op.text(operand) for operand in op.operands])
        raise op.refused(why, code=_TWICE[op.call.qualname])
