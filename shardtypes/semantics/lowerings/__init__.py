"""Public functions of JAX, NumPy, einops and others, each a short function over primitives.

A function that stands here has every reading. Importing this package registers all of them.
"""

from __future__ import annotations

from shardtypes.semantics.lowerings import (
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
    random,
    reductions,
    samplers,
    segments,
    selection,
    shapes,
    special,
    statistics,
)
from shardtypes.semantics.lowerings.registry import LOWERINGS as LOWERINGS
from shardtypes.semantics.lowerings.registry import Unsupported as Unsupported

# importing a room registers its functions
_ROOMS = (
    calculus,
    floats,
    layout,
    selection,
    convolutions,
    distributions,
    fft,
    losses,
    samplers,
    segments,
    linalg,
    special,
    statistics,
    collectives,
    contractions,
    creation,
    einops,
    elementwise,
    indexing,
    joining,
    lax,
    nn,
    operators,
    random,
    reductions,
    shapes,
)
