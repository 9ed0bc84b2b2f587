"""``optax`` in guarded code: the transformations that programs use, as its documentation defines them.

Importing this package registers all of them.
"""

from __future__ import annotations

from shardlint.evaluation.optimizers import (  # noqa: F401 - each registers its functions
    averaging,
    clipping,
    combining,
    conditions,
    factored,
    hyperparameters,
    losses,
    masking,
    named,
    named_values,
    parameters,
    scaling,
    schedules,
    trees,
)
