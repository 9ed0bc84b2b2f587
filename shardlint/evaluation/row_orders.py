"""The order of the examples that a program is given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings import LOWERINGS


@dataclass(frozen=True)
class RowOrder:
    """The rows of all arguments that have so many, sharded over an axis, in another order: ``order`` says which row
    comes in each place."""

    axis: str
    order: tuple[int, ...]

    def ordered(self, array: Array) -> Array:
        """The rows of an array in this order, if it has so many."""
        if not array.rank or array.dims[0] != len(self.order):
            return array
        taken: Array = LOWERINGS["jax.numpy.take"](array, np.array(self.order), axis=0)
        return taken

    def ordered_over_devices(self, array: Array) -> Array:
        """The same of rows that have the devices as a dimension in front."""
        if array.rank < 2:
            return array
        rows = LOWERINGS["jax.numpy.reshape"](array, (-1, *array.dims[2:]))
        stacked: Array = LOWERINGS["jax.numpy.reshape"](self.ordered(rows), array.dims)
        return stacked
