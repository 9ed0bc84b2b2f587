"""Orthogonal initializers: their columns, or rows, are orthonormal as JAX's are."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.primitive import evaluation

SHAPES = [(3, 5), (5, 3), (4, 4), (2, 3, 4), (3, 0)]
KERNELS = [(3, 2, 4), (4, 3, 2, 2), (2, 3, 4, 1, 5)]


def made(name: str, shape: tuple[int, ...], **options: Any) -> Any:
    with evaluation():
        key = LOWERINGS["jax.random.key"](0)
        init = LOWERINGS[f"jax.nn.initializers.{name}"](**options)
        found = init(key, shape)
    assert found.dtype == "float32"
    return found.value.at({})


def in_jax(name: str, shape: tuple[int, ...], **options: Any) -> Any:
    init = getattr(jax.nn.initializers, name)(**options)
    return np.asarray(init(jax.random.key(0), shape))


def products(matrix: Any, axis: int) -> Any:
    """Of the columns along an axis with each other, or of the rows if there are fewer."""
    rows = np.moveaxis(matrix, axis, -1).reshape(-1, matrix.shape[axis])
    short = rows if rows.shape[0] < rows.shape[1] else rows.T
    return short @ short.T


@pytest.mark.parametrize("axis", [-1, 0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_matrices(shape: tuple[int, ...], axis: int) -> None:
    options = {"scale": 2.0, "column_axis": axis}
    ours, theirs = (of("orthogonal", shape, **options) for of in (made, in_jax))
    assert ours.shape == theirs.shape == shape
    if ours.size:
        wanted = products(theirs, axis)
        np.testing.assert_allclose(products(ours, axis), wanted, atol=1e-5)


@pytest.mark.parametrize("shape", KERNELS, ids=str)
def test_kernels(shape: tuple[int, ...]) -> None:
    ours, theirs = (of("delta_orthogonal", shape) for of in (made, in_jax))
    np.testing.assert_array_equal(ours == 0, theirs == 0)
    wanted = products(theirs.sum(tuple(range(len(shape) - 2))), -1)
    found = products(ours.sum(tuple(range(len(shape) - 2))), -1)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
