"""The wording that all tools share: one function a message."""

from __future__ import annotations

from collections.abc import Mapping

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
