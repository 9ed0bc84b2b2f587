"""What an array annotation declares: its dtype, its dimensions as steps of a check, and its mesh axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from shardtypes.accepted_dtypes import DTypeClass, numpy_dtype
from shardtypes.lang import Dim, Shape

T = TypeVar("T")

NAME, CONSTANT, ANYTHING, EXPRESSION, BROADCAST = range(5)


def _plan(dims: tuple[Dim, ...]) -> tuple[tuple[int, Any, Dim], ...]:
    steps: list[tuple[int, Any, Dim]] = []
    for dim in dims:
        if dim.kind == "anonymous":
            steps.append((ANYTHING, None, dim))
        elif dim.kind == "broadcast":
            steps.append((BROADCAST, dim.size, dim))
        elif dim.size is None:
            steps.append((ANYTHING, None, dim))
        elif dim.size.symbol_name is not None:
            steps.append((NAME, dim.size.symbol_name, dim))
        elif dim.size.constant is not None:
            steps.append((CONSTANT, dim.size.constant, dim))
        else:
            steps.append((EXPRESSION, dim.size, dim))
    return tuple(steps)


def _names(dim: Dim) -> list[str]:
    if dim.kind == "variadic":
        return [f"*{dim.name}"] if dim.name is not None else []
    return sorted(dim.size.symbols) if dim.size is not None else []


class DeclaredArray:
    """What an array annotation declares, taken apart for comparison."""

    __slots__ = (
        "axes",
        "dtype",
        "names",
        "plan",
        "rank",
        "shape",
        "sharded",
        "simple",
        "text",
        "variadic",
        "verdicts",
        "wanted_dtype",
    )

    def __init__(self, dtype: DTypeClass, shape: Shape, text: str) -> None:
        self.dtype = dtype
        self.shape = shape
        self.text = text
        self.rank = len(shape.dims)
        self.variadic = shape.variadic
        self.plan = _plan(shape.dims)
        # Binds plain names only: they are then all that a failed check has to undo.
        self.simple = self.variadic is None and all(
            kind in (NAME, CONSTANT, ANYTHING) for kind, _, _ in self.plan
        )
        # All names in it, as tables have them, for messages.
        self.names = tuple(
            dict.fromkeys(name for dim in shape.dims for name in _names(dim))
        )
        self.axes = tuple(dim.axes for dim in shape.dims)
        self.sharded = bool(shape.axes)
        self.wanted_dtype: np.dtype[Any] | None = numpy_dtype(dtype)
        # Outcomes of sharding comparisons by (sharding, mesh, …); see sharding_check.
        self.verdicts: dict[Any, Any] = {}

    def aligned(self, written: Sequence[T], rank: int) -> tuple[T, ...] | None:
        """Of something for each dimension that is written, that for each dimension of a value; None for a rank that
        does not fit."""
        at = self.variadic
        if at is None:
            return tuple(written) if rank == self.rank else None
        extra = rank - self.rank + 1
        if extra < 0:
            return None
        return (*written[:at], *[written[at]] * extra, *written[at + 1 :])
