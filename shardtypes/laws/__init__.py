"""Laws that a function should obey along a dimension: ``laws.causal(f, "L")``.

Each returns a ``Verdict``. Everything is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardtypes.laws.declarations import exempt as exempt
    from shardtypes.laws.declarations import roles as roles
    from shardtypes.laws.decoding import incremental as incremental
    from shardtypes.laws.draws import keys as keys
    from shardtypes.laws.masks import padding as padding
    from shardtypes.laws.microbatches import accumulates as accumulates
    from shardtypes.laws.permutations import equivariant as equivariant
    from shardtypes.laws.positions import causal as causal
    from shardtypes.laws.positions import independent as independent
    from shardtypes.laws.saving import restores as restores
    from shardtypes.laws.verdict import LawError as LawError
    from shardtypes.laws.verdict import Verdict as Verdict

_HOMES = {
    "independent": "positions",
    "causal": "positions",
    "equivariant": "permutations",
    "padding": "masks",
    "incremental": "decoding",
    "accumulates": "microbatches",
    "restores": "saving",
    "keys": "draws",
    "roles": "declarations",
    "exempt": "declarations",
    "LawError": "verdict",
    "Verdict": "verdict",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'shardtypes.laws' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"shardtypes.laws.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
