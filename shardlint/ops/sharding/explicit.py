"""The global view on a mesh with explicit axes, where JAX keeps an array's sharding in its type.

There every function has one answer: how its result is split, or that it refuses its operands. Models say it here
beside those of shapes; a function without one gives a result whose axes are not known, which never reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from shardlint.ops.registry import Call, OpError
from shardlint.ops.sharding.origins import Origins
from shardlint.ops.sharding.state import Axes
from shardlint.values import (
    ArrayValue,
    Dimension,
    MeshValue,
    Note,
    SpecValue,
)
from shardtypes.lang import format_shape

Split: TypeAlias = "list[Axes] | None"
"""The axes of every dimension of a result; None where nothing is known."""


def explicit_axes(mesh: MeshValue | None) -> dict[str, int | None] | None:
    """The explicit axes of a mesh with their sizes; None where it has none, or not all types are known."""
    if mesh is None or mesh.axes is None or mesh.types is None or None in mesh.types:
        return None
    pairs = zip(mesh.axes, mesh.types, strict=True)
    return {axis: size for (axis, size), kind in pairs if kind == "Explicit"} or None


def configured(
    mesh: Mapping[str, int | None], explicit: Sequence[str] | bool
) -> MeshValue | None:
    """The mesh that the settings declare, if some of its axes are explicit (``True``: all of them)."""
    if explicit is True:
        names = tuple(mesh)
    else:
        names = tuple(explicit or ())
    types = tuple("Explicit" if axis in names else "Auto" for axis in mesh)
    if "Explicit" in types:
        return MeshValue(tuple(mesh.items()), types)
    return None


_BY_SPEC = "sharded by this spec"
_SPECS = 4
"""So many related places at most have a message."""


def placed_by(spec: SpecValue) -> tuple[Note, ...]:
    """What an array on explicit axes is noted with where a spec has placed it."""
    if spec.place is None:
        return ()
    module, at = spec.place
    return (Note("", _BY_SPEC, module, at),)


def specs_of(*values: ArrayValue) -> list[tuple[str, int, str]]:
    """The places of the specs that say how the arrays lie, as related places of a finding."""
    notes = [note for value in values for note in value.notes if note.text == _BY_SPEC]
    return [(note.module, note.at, note.text) for note in dict.fromkeys(notes)][:_SPECS]


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
        if self.call.qualname == "index":
            return "indexing"
        return self.call.name

    @property
    def last(self) -> str:
        return self.call.last

    @property
    def dims(self) -> tuple[Dimension, ...] | None:
        """The dimensions of the first operand; None where there is none, or its rank is not known."""
        if self.operands:
            return self.operands[0].dims
        return None

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
        if axes is not None and None not in known:
            return prod(n for n in known if n is not None)
        return None

    def text(self, value: ArrayValue) -> str:
        """An array's shape with its axes, quoted."""
        dims = value.dims or ()
        return repr(
            format_shape([dim.size for dim in dims], [dim.axes or () for dim in dims])
        )

    def refused(
        self, why: str, operand: int | None = None, code: str = "ST313"
    ) -> OpError:
        """What JAX raises, in the user's names; ``operand`` counts the arrays."""
        if operand is not None and operand < len(self.positions):
            place = self.positions[operand]
        else:
            place = None
        return OpError(code, f"{self.name}: {why}", {}, place, specs_of(*self.operands))


UNPLACED = ("", "unplaced")
"""The mark of an array that is not split, and may be on no mesh: JAX takes it for split like the others."""


def placed(value: ArrayValue) -> bool:
    """Whether the array's type certainly says how it lies on the mesh. In manual code no type says that of the axes."""
    return value.mesh is not None and not value.manual and UNPLACED not in value.marks


Rule: TypeAlias = Callable[[GlobalOp, ArrayValue, Origins], Split]

EXPLICIT: dict[str, Rule] = {}
#: The code of a result that would be split twice over one axis, where it is not ST313.
TWICE: dict[str, str] = {}


def rule(names: Sequence[str], found: Rule, twice: str = "ST313") -> None:
    """Register the model of functions by qualified name."""
    for name in names:
        if name in EXPLICIT:
            raise ValueError(f"two models of explicit axes for {name}")
        EXPLICIT[name] = found
        TWICE[name] = twice
