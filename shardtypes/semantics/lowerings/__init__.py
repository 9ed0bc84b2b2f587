"""Public functions of JAX, NumPy, einops and others, each a short function over primitives.

A function that stands here has every reading. Importing this package registers all of them.
"""

from __future__ import annotations

from shardtypes.semantics.lowerings import (  # noqa: F401 - each registers its functions
    calculus,
    collectives,
    contractions,
    convolutions,
    creation,
    distributions,
    einops,
    elementwise,
    fft,
    floats,
    indexing,
    joining,
    lax,
    layout,
    linalg,
    losses,
    nn,
    operators,
    optax_trees,
    padding,
    ragged,
    random,
    reductions,
    samplers,
    segments,
    selection,
    shapes,
    special,
    statistics,
)
from shardtypes.semantics.registry import LOWERINGS as LOWERINGS
from shardtypes.semantics.registry import Unsupported as Unsupported
