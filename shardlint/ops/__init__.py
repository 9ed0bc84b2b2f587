"""Op models, shared by the linter and the mypy plugin: what functions, operators and methods do to shapes.

``apply``, ``binary``, ``unary``, ``compare``, ``method``, ``attribute`` and ``index`` take and return abstract values
and raise ``OpError`` for a certain mismatch. Whatever is not known gives something unknown, never an error.
"""

from __future__ import annotations

from shardlint.ops import (  # noqa: F401 - each registers its models
    creation,
    gathering,
    images,
    indexing,
    initializers,
    lax,
    linalg,
    numpy_random,
    ordering,
    placement,
    queries,
    random,
    trees,
    windows,
)
from shardlint.ops.application import apply as apply
from shardlint.ops.application import is_modelled as is_modelled
from shardlint.ops.members import ARRAY_MEMBERS as ARRAY_MEMBERS
from shardlint.ops.members import attribute as attribute
from shardlint.ops.members import method as method
from shardlint.ops.operators import binary as binary
from shardlint.ops.operators import compare as compare
from shardlint.ops.operators import unary as unary
from shardlint.ops.registry import MODELS as MODELS
from shardlint.ops.registry import Model as Model
from shardlint.ops.registry import OpContext as OpContext
from shardlint.ops.registry import OpError as OpError
from shardlint.ops.subscripts import index as index
