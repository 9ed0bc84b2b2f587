"""What does not fit, where a reading can say more of it than two sizes: which dimensions of which shapes meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from shardtypes.lang.frozen import frozen
from shardtypes.semantics.array import Shape


@frozen
class Contraction:
    """Dimension ``i`` of the left operand is summed with dimension ``k`` of the right one."""

    left: Shape
    i: int
    right: Shape
    k: int


@frozen
class Equation:
    """A letter of an einsum, or a name in one of einops, stands for a dimension of the ``first`` operand and for one of
    the ``second``."""

    text: str
    letter: str
    terms: tuple[Sequence[str], ...]
    shapes: tuple[Shape, ...]
    first: int
    second: int


@frozen
class Join:
    """Dimension ``k`` of two arrays that are joined along another one, ``axis``, or stacked along a new one."""

    shapes: tuple[Shape, ...]
    axis: int | None
    k: int
    first: int
    second: int


@frozen
class Reshape:
    """The numbers of entries of a shape and of the one that an array is to have."""

    shape: Shape
    wanted: Shape


Mismatch: TypeAlias = Contraction | Equation | Join | Reshape
