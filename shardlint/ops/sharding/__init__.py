"""What functions do to values in the manual view, inside ``shard_map`` and ``pmap``.

``view`` says how local and global sizes go together, ``state`` what a value is over one mesh axis, ``combining`` what
operands make of each other; the other modules hold the models of families of functions, registered in ``base``.
"""

from __future__ import annotations

from shardlint.ops.sharding import combining, contraction, elementwise, indexing, reductions, structure
from shardlint.ops.sharding.base import ShardingError as ShardingError
from shardlint.ops.sharding.base import apply as apply
from shardlint.ops.sharding.view import View as View

# importing a family registers its models
_FAMILIES = (combining, contraction, elementwise, indexing, reductions, structure)
