"""The relation of a result from those of the operands, one rule a primitive. What is not certain is ``Unknown``."""

from __future__ import annotations

from shardtypes.proving.rules import (
    collectives,
    contractions,
    elementwise,
    indexing,
    reductions,
    structure,
)
from shardtypes.proving.rules.case import Case, Rule

RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **reductions.RULES,
    **structure.RULES,
    **contractions.RULES,
    **indexing.RULES,
    **collectives.RULES,
}

__all__ = ["RULES", "Case", "Rule"]
