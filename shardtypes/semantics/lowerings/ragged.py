"""Products of rows in groups, each group with a matrix of its own."""

from __future__ import annotations

from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.comparison import require_equal
from shardtypes.semantics.lowerings.contractions import einsum
from shardtypes.semantics.lowerings.convert import ArrayLike, asarray, strong, weak_as
from shardtypes.semantics.lowerings.creation import arange
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.operators import greater_equal
from shardtypes.semantics.lowerings.reductions import cumsum
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives import structure as s
from shardtypes.semantics.registry import Refused, Unsupported, lowering


@lowering("jax.lax.ragged_dot", unread="out_sharding")
def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
) -> Array:
    """``'m k', 'g k n', 'g' → 'm n'``. Rows after the last group give zeros."""
    if group_offset is not None:
        raise Unsupported("a ragged product with an offset")
    rows, matrices = (_firm(asarray(one)) for one in (lhs, rhs))
    counts = asarray(group_sizes)
    if dtypes.is_kind(counts.dtype, "floating", "complex", "bool"):
        raise Refused(f"sizes of groups are integers, got {counts.dtype}", "dtypes")
    if "bool" in (rows.dtype, matrices.dtype):
        raise Unsupported("a ragged product of booleans")
    if (rows.rank, matrices.rank, counts.rank) != (2, 3, 1):
        raise Unsupported("a ragged product of batches")
    require_equal(counts.dims[0], matrices.dims[0], "one matrix for each group")
    members = s.expand_dims(_members(counts, rows.dims[0]), axes=(2,))
    of_each = where(members, s.expand_dims(rows, axes=(1,)), 0)
    kept = weak_as(of_each, rows)
    return einsum(
        "mgk,gkn->mn", kept, matrices, preferred_element_type=preferred_element_type
    )


def _firm(array: Array) -> Array:
    """Here a weak float does not give way to a narrower one."""
    if dtypes.is_kind(array.dtype, "floating", "complex"):
        return strong(array)
    return array


def _members(counts: Array, row_count: Any) -> Array:
    """``'g' → 'm g'``: whether each row is of each group."""
    ends = cumsum(counts)
    starts = e.sub(ends, counts)
    places = s.expand_dims(arange(row_count), axes=(1,))
    is_behind = greater_equal(places, starts)
    is_over = greater_equal(places, ends)
    return e.and_(is_behind, e.not_(is_over))
