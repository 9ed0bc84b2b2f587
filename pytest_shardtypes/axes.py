"""The axes of a mesh as the user writes them, before any mesh exists. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

AxisKind = Literal["auto", "explicit"]
AXIS_KINDS: tuple[AxisKind, ...] = ("auto", "explicit")


class BadMesh(ValueError):
    """Text or arguments that describe no mesh; the message says what was found and what to write."""


@dataclass(frozen=True)
class MeshAxes:
    """Names and sizes of a mesh's axes, major to minor, as in ``d=2,t=4``."""

    axes: tuple[tuple[str, int], ...]
    kind: AxisKind = "auto"

    @classmethod
    def parse(cls, text: str, kind: object = "auto") -> MeshAxes:
        """Read ``d=2,t=4``. Raises ``BadMesh``."""
        axes: dict[str, object] = {}
        for part in text.split(","):
            name, equals, size = (piece.strip() for piece in part.partition("="))
            if not equals or not name.isidentifier():
                raise BadMesh(
                    f"{part.strip()!r} in {text!r} is not an axis; write axes like d=2,t=4"
                )
            if name in axes:
                raise BadMesh(f"axis {name!r} occurs twice in {text!r}")
            if not size.isdecimal():
                raise BadMesh(
                    f"axis {name!r} in {text!r} has no size; write axes like d=2,t=4"
                )
            axes[name] = int(size)
        return cls.of(axes, kind)

    @classmethod
    def of(cls, axes: Mapping[str, object], kind: object = "auto") -> MeshAxes:
        """Check names and sizes given as keyword arguments. Raises ``BadMesh``."""
        if kind not in AXIS_KINDS:
            raise BadMesh(
                f"axis_types={kind!r} is unknown; use {' or '.join(map(repr, AXIS_KINDS))}"
            )
        if not axes:
            raise BadMesh("a mesh has at least one axis; write one like d=8")
        checked = []
        for name, size in axes.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise BadMesh(
                    f"axis {name!r} has size {size!r}; a size is a whole number of at least 1"
                )
            checked.append((name, size))
        return cls(tuple(checked), "explicit" if kind == "explicit" else "auto")

    @property
    def names(self) -> tuple[str, ...]:
        """The axis names, major to minor."""
        return tuple(name for name, _ in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The axis sizes, major to minor."""
        return tuple(size for _, size in self.axes)

    @property
    def size(self) -> int:
        """How many devices the mesh takes."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        return ",".join(f"{name}={size}" for name, size in self.axes)
