"""How a value lies that a program has placed itself, and which constraint on it is dropped."""

from __future__ import annotations

from dataclasses import dataclass

from shardlint.values import ArrayValue, SpecValue


@dataclass(frozen=True, slots=True)
class Dropped:
    """A constraint that ``jit`` drops where its value is a result: why, and where it stands."""

    why: str
    module: str
    at: int


@dataclass(frozen=True, slots=True)
class Placement:
    """A value as a call left it; every operation on it makes another value."""

    value: ArrayValue
    spec: SpecValue
    axes: dict[str, int | None] | None
    dropped: Dropped | None = None
