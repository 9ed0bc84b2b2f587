"""Products of rows with the matrix of their group, where groups have sizes that are only known as numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.outside import known, provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray


@provide("jax.lax.ragged_dot")
def ragged_dot(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
) -> Array:
    """Each row times the matrix of its group; rows behind the last group are zero."""
    if group_offset is not None:
        raise NotEvaluable("ragged_dot with group_offset")
    rows, matrices = asarray(lhs), asarray(rhs)
    ends = known("jax.numpy.cumsum")(asarray(group_sizes))
    count = int(rows.dims[0])  # type: ignore[arg-type]  # a number
    places = known("jax.numpy.arange")(count)
    is_behind = places[:, None] >= ends[None, :]
    group = known("jax.numpy.sum")(is_behind, axis=1)
    chosen = known("jax.nn.one_hot")(group, matrices.dims[0], dtype=rows.dtype)
    einsum = partial(
        known("jax.numpy.einsum"), preferred_element_type=preferred_element_type
    )
    each = einsum("mk,gkn->gmn", rows, matrices)
    found: Array = einsum("gmn,mg->mn", each, chosen)
    return found
