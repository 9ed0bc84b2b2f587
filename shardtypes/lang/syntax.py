"""The syntax tree of a shape string."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from shardtypes.lang.frozen import frozen
from shardtypes.lang.size import Size

Dialect: TypeAlias = Literal["shardtypes", "jaxtyping", "kauldron"]


@frozen
class Span:
    """Offsets in the text, 0-based, the end excluded."""

    start: int
    end: int


@frozen
class Dim:
    """One dimension of a shape string.

    ``kind`` is size (``'batch'``, ``'4'``, ``'d+1'``), anonymous (``'_'``), variadic (``'...'``, ``'*name'``) or
    broadcast (``'#n'``: n or 1). ``name`` is the plain name, where there is one. ``axes`` are the mesh axes that the
    dimension is split over, major to minor.
    """

    kind: Literal["size", "anonymous", "variadic", "broadcast"]
    size: Size | None
    name: str | None
    axes: tuple[str, ...]
    span: Span
    axis_spans: tuple[Span, ...]

    def __str__(self) -> str:
        if self.kind == "anonymous":
            text = self.name or "_"
        elif self.kind == "variadic":
            if self.name:
                text = f"*{self.name}"
            else:
                text = "..."
        else:
            text = ("#" if self.kind == "broadcast" else "") + str(self.size)
        return "/".join((text, *self.axes))


@dataclass(frozen=True)
class Shape:
    """A parsed shape string. ``pending`` are the mesh axes over which a sum is still to be taken."""

    dims: tuple[Dim, ...]
    pending: tuple[str, ...]
    text: str
    dialect: Dialect
    pending_spans: tuple[Span, ...] = ()

    @cached_property
    def variadic(self) -> int | None:
        """The index of the dimension that matches any number of dimensions."""
        return next(
            (i for i, dim in enumerate(self.dims) if dim.kind == "variadic"), None
        )

    @property
    def rank(self) -> int | None:
        """The number of dimensions, None if it is open."""
        if self.variadic is None:
            return len(self.dims)
        return None

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that sizes are made of."""
        return frozenset().union(
            *(dim.size.symbols for dim in self.dims if dim.size is not None)
        )

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """All mesh axes in order, those of the pending sums last."""
        return tuple(axis for dim in self.dims for axis in dim.axes) + self.pending

    def __str__(self) -> str:
        if self.pending:
            pending = ["{U:" + ",".join(self.pending) + "}"]
        else:
            pending = []
        return " ".join([str(dim) for dim in self.dims] + pending)
