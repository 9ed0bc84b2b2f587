"""Ranks of parameters, as what is kept of a function says them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Rank:
    """How many dimensions a parameter has; ``of_arrays``: if it is an array, for it may be a list of some as well."""

    count: int
    of_arrays: bool = False


Constants: TypeAlias = tuple[tuple[str, str], ...]
"""Parameters that are given strings, and these."""
