"""The qualified names that the plugin knows."""

from __future__ import annotations

from typing import Final

from shardtypes.lang.array_names import SHARDTYPES_DTYPES

JAX_ARRAY: Final = "jax._src.basearray.Array"

STATIC: Final = "shardtypes._static"
DIMS: Final = f"{STATIC}.dims"
CALLED: Final = f"{STATIC}.called"
REVEALED: Final = f"{STATIC}.revealed"
ANNOTATION: Final = f"{STATIC}.annotation"
CONSTRUCTOR: Final = f"{STATIC}.constructor"
FAILED: Final = f"{STATIC}.failed"
FINDINGS: Final = f"{STATIC}.findings"
PREPARE: Final = f"{STATIC}.prepare"

DTYPES_MODULE: Final = "shardtypes.dtypes"
DTYPE_BASE: Final = "shardtypes.dtypes.ArrayDType"
TYPED_SHARD_MAP: Final = "shardtypes.mapped.typed_shard_map"
PYTREE_DATACLASS: Final = "shardtypes.pytrees.pytree_dataclass"
STACKED: Final = frozenset({"shardtypes.stacked.Array"})
ANNOTATED: Final = frozenset({"typing.Annotated", "typing_extensions.Annotated"})

CLASS_OF_DTYPE: Final = {dtype: name for name, dtype in SHARDTYPES_DTYPES.items()}
"""``float32`` → ``f32``; of any dtype ``anydtype``."""
