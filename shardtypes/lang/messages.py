"""The wording that all tools share: one function a message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shardtypes.lang.format import format_witness


def expected_got(what: str, want: str, got: str) -> str:
    """``the result of f: expected f32['B M'], got f32['B F']``."""
    return f"{what}: expected {want}, got {got}"


def wrong_size(dim: int, want: str, got: str) -> str:
    """``dimension 1 is F, expected M``."""
    return f"dimension {dim} is {got}, expected {want}"


def wrong_rank(want: str, got: str) -> str:
    """``expected 2 dimensions, 'B M', got 3, 'B L M'``."""
    return f"expected {want}, got {got}"


def fails_for(witness: Mapping[str, int]) -> str:
    """``fails for B=2, L=3``, or nothing when it fails for all sizes."""
    return f"fails for {format_witness(witness)}" if witness else "fails for all sizes"


def invalid_shape(text: str, problem: str, column: int, hint: str | None) -> str:
    """``invalid shape string 'B//': a size was expected at column 4``; ``column`` counts from 0."""
    return f"invalid shape string {text!r}: {problem} at column {column + 1}" + (f"; {hint}" if hint else "")


def repeated_axis(axis: str, text: str) -> str:
    """``mesh axis 'd' is used twice in 'B/d M/d'``."""
    return f"mesh axis {axis!r} is used twice in {text!r}"


def unknown_axis(axis: str, mesh: Iterable[str]) -> str:
    """``no mesh has an axis 'dd' (axes: d, t)``."""
    return f"no mesh has an axis {axis!r} (axes: {', '.join(sorted(mesh))})"


def indivisible(size: int, count: int, axes: Iterable[str]) -> str:
    """``10 is not divisible by 4, the size of t``."""
    return f"{size} is not divisible by {count}, the size of {'/'.join(axes)}"
