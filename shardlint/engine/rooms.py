"""The rooms that know functions of libraries and of Python: each enters its names when it is imported."""

from __future__ import annotations

from shardlint.engine import (
    callables,
    classes,
    custom_rules,
    derivatives,
    library,
    loops,
    optimizers,
    promotion,
    python_math,
    static_positions,
    training,
    transforms,
    tree_functions,
)
from shardlint.engine.sharding import (
    boundaries,
    collectives,
    collectives_spec,
    constraints,
    copies,
    labels,
    logical,
    manual_trees,
    meshes,
    metadata,
)

ROOMS = (
    boundaries,
    callables,
    classes,
    collectives,
    collectives_spec,
    constraints,
    copies,
    custom_rules,
    derivatives,
    labels,
    library,
    logical,
    loops,
    manual_trees,
    meshes,
    metadata,
    optimizers,
    promotion,
    python_math,
    static_positions,
    training,
    transforms,
    tree_functions,
)
