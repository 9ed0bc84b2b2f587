"""``optax.scale_by_factored_rms``, of which ``adafactor`` is made: squares of a matrix by its rows and its columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardlint.evaluation.optimizers import base
from shardlint.evaluation.optimizers.base import GradientTransformation, state
from shardlint.evaluation.optimizers.numerics import (
    as_number,
    cast_like,
    dtype_of,
    incremented,
)
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lazy import np
from shardtypes.semantics.lowerings.convert import asarray, int_of, sizes_of
from shardtypes.semantics.lowerings.creation import zeros, zeros_like
from shardtypes.semantics.lowerings.optax_trees import squared
from shardtypes.semantics.lowerings.reductions import mean, sum_
from shardtypes.semantics.lowerings.shapes import expand_dims
from shardtypes.semantics.trees import flatten, map_leaves, unflatten

FactoredState = state("FactoredState", "count v_row v_col v")


def _decay(step: Any, exponent: Any = 0.8) -> Any:
    return 1.0 - as_number(step + 1) ** (-exponent)


@provide("optax.scale_by_factored_rms")
def scale_by_factored_rms(
    factored: bool = True,
    decay_rate: Any = 0.8,
    step_offset: Any = 0,
    min_dim_size_to_factor: Any = 128,
    epsilon: Any = 1e-30,
    decay_rate_fn: Any = _decay,
) -> Any:
    def factors(param: Any) -> tuple[int, int] | None:
        """The dimensions that are averaged over: the second largest and the largest."""
        sizes = sizes_of(asarray(param))
        if not factored or len(sizes) < 2:
            return None
        order = [int(k) for k in np.argsort(sizes)]
        if sizes[order[-2]] < int_of(min_dim_size_to_factor):
            return None
        return order[-2], order[-1]

    def start(param: Any) -> list[Array]:
        dtype = dtype_of(param)
        found = factors(param)
        nothing = zeros((1,), dtype)
        if found is None:
            return [nothing, nothing, zeros_like(param)]
        rows = zeros_like(sum_(asarray(param), found[1]))
        return [rows, zeros_like(sum_(asarray(param), found[0])), nothing]

    def init(params: Any) -> Any:
        return FactoredState(base.zero(), *_columns(params, map_leaves(start, params)))

    def update(grads: Any, state: Any, params: Any) -> Any:
        base.require(params)
        decay = decay_rate_fn(state.count - step_offset, decay_rate)

        def averaged(old: Any, new: Any) -> Any:
            return decay * old + (1.0 - decay) * new

        def of_one(g: Any, row: Any, column: Any, whole: Any, param: Any) -> Any:
            square = squared(g) + epsilon
            nothing = zeros((1,), dtype_of(param))
            found = factors(param)
            if found is None:
                whole = cast_like(averaged(whole, square), param)
                return [g * whole ** (-0.5), nothing, nothing, whole]
            second, largest = found
            row = cast_like(averaged(row, mean(square, largest)), param)
            column = cast_like(averaged(column, mean(square, second)), param)
            over = second - 1 if second > largest else second
            of_rows = (row / mean(row, over, keepdims=True)) ** (-0.5)
            of_columns = column ** (-0.5)
            scaled = g * expand_dims(of_rows, largest)
            scaled = scaled * expand_dims(of_columns, second)
            return [scaled, row, column, nothing]

        made = map_leaves(of_one, grads, state.v_row, state.v_col, state.v, params)
        out, *moments = _columns(grads, made)
        return out, FactoredState(incremented(state.count), *moments)

    return GradientTransformation(init, update)


def _columns(like: Any, lists: Any) -> list[Any]:
    """From a tree with a list for each leaf, a list of trees."""
    count, structure = len(flatten(like)[0]), flatten(like)[1]
    leaves: Sequence[Any] = flatten(lists)[0]
    width = len(leaves) // max(count, 1)
    return [unflatten(structure, leaves[k::width]) for k in range(width)]
