"""What functions do to values on the mesh: in the manual view, inside ``shard_map`` and ``pmap``, and on explicit axes.

``view`` says how local and global sizes go together, ``state`` what a value is over one mesh axis, ``combining`` what
operands make of each other; the other modules hold the models of families of functions, registered in ``base``.
``explicit`` and the modules named after it are about the global view on meshes with explicit axes.
"""

from __future__ import annotations

from shardlint.ops.sharding import (  # noqa: F401 - each registers its models
    combining,
    contraction,
    elementwise,
    explicit,
    explicit_models,
    explicit_parts,
    indexing,
    matrices,
    reductions,
    structure,
    updating,
)
from shardlint.ops.sharding.base import ShardingError as ShardingError
from shardlint.ops.sharding.calls import apply as apply
from shardlint.ops.sharding.calls import is_modelled as is_modelled
from shardlint.ops.sharding.view import View as View
