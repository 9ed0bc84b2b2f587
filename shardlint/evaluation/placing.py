"""Where the program says that arrays are to lie, outside of mapped code."""

from __future__ import annotations

from typing import Any

from shardlint.evaluation.meshes import Sharding, Spec
from shardlint.evaluation.outside import provide
from shardlint.evaluation.refusals import is_longer
from shardtypes.semantics.array import Array
from shardtypes.semantics.trees import flatten


def _placed(x: Any, placement: Any = None, *args: Any, **options: Any) -> Any:
    """Where a value lies changes nothing of its numbers; but JAX refuses a spec of more entries than dimensions."""
    spec = placement.spec if isinstance(placement, Sharding) else placement
    if isinstance(spec, Spec):
        for leaf in flatten(x)[0]:
            if isinstance(leaf, Array) and len(spec) > leaf.rank:
                raise is_longer("", len(spec), leaf.rank, spec.where)
    return x


for _name in (
    "lax.with_sharding_constraint",
    "device_put",
    "reshard",
    "sharding.reshard",
):
    provide(f"jax.{_name}")(_placed)
