"""``chex``'s comparisons of trees: each array with the one at the same place in the first tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

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
