"""The rooms that know functions of libraries: each enters its names when it is imported."""

from __future__ import annotations

from shardlint.engine import (
    custom_rules,
    derivatives,
    loops,
    optimizers,
    promotion,
    training,
    transforms,
    tree_functions,
)
from shardlint.engine.sharding import copies, manual_trees

ROOMS = (
    copies,
    custom_rules,
    derivatives,
    loops,
    manual_trees,
    optimizers,
    promotion,
    training,
    transforms,
    tree_functions,
)
