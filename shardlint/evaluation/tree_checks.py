"""``chex``'s checks of shapes and numbers, and its comparisons of trees: each array with the one at the same place in
the first tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.numpy_functions import read
from shardlint.evaluation.outside import provide
from shardtypes.semantics.trees import flatten, paths_of


def _compare(trees: tuple[Any, ...], compare: Callable[..., None]) -> None:
    first, structure = flatten(trees[0])
    for tree in trees[1:]:
        leaves, other = flatten(tree)
        if paths_of(structure) != paths_of(other):
            raise AssertionError("trees of different structure")
        for path, one, two in zip(paths_of(structure), first, leaves, strict=True):
            compare(read(one), read(two), err_msg=path)


@provide("chex.assert_trees_all_close")
def assert_trees_all_close(
    *trees: Any, rtol: float = 1e-6, atol: float = 0.0, **options: Any
) -> None:
    """All trees have numbers as close as ``numpy.testing.assert_allclose`` asks for."""

    def compare(one: Any, two: Any, err_msg: str) -> None:
        np.testing.assert_allclose(one, two, rtol=rtol, atol=atol, err_msg=err_msg)

    _compare(trees, compare)


@provide("chex.assert_trees_all_equal")
def assert_trees_all_equal(*trees: Any, **options: Any) -> None:
    """All trees have the same numbers."""
    _compare(trees, np.testing.assert_array_equal)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(np.shape(read(value)))


def _all(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


@provide("chex.assert_shape")
def assert_shape(inputs: Any, expected_shapes: Any) -> None:
    """Each array has its shape, in which None is any size."""
    arrays = _all(inputs)
    expected = list(expected_shapes)
    if any(size is Ellipsis for size in expected):
        raise NotEvaluable("chex.assert_shape with an ellipsis")
    is_each = bool(expected) and isinstance(expected[0], (list, tuple))
    shapes = expected if is_each else [expected] * len(arrays)
    for array, wanted in zip(arrays, shapes, strict=True):
        shape = _shape(array)
        _hold(len(shape) == len(wanted), "a shape of another rank")
        for size, one in zip(shape, wanted, strict=True):
            is_same = one is None or size == one
            _hold(is_same, f"the shape {shape}")


@provide("chex.assert_rank")
def assert_rank(inputs: Any, expected_ranks: Any) -> None:
    """Each array has its rank."""
    arrays = _all(inputs)
    is_each = isinstance(expected_ranks, (list, tuple))
    ranks = expected_ranks if is_each else [expected_ranks] * len(arrays)
    for array, rank in zip(arrays, ranks, strict=True):
        _hold(len(_shape(array)) == rank, f"the rank {len(_shape(array))}")


@provide("chex.assert_equal_shape")
def assert_equal_shape(inputs: Any, *, dims: Any = None) -> None:
    """All arrays have one shape."""
    if dims is not None:
        raise NotEvaluable("chex.assert_equal_shape with dims")
    shapes = {_shape(array) for array in inputs}
    _hold(len(shapes) <= 1, "several shapes")


@provide("chex.assert_tree_all_finite")
def assert_tree_all_finite(tree: Any, **options: Any) -> None:
    """No number is infinite or NaN."""
    for leaf in flatten(tree)[0]:
        _hold(bool(np.isfinite(read(leaf)).all()), "a number that is not finite")


def _hold(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)
