"""How convolutions of sharded dimensions are related to those of one device."""

from __future__ import annotations

from typing import Any

import pytest

from shardtypes.lang import Size
from shardtypes.semantics.array import Array, Dim
from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.relation import Relation, Relations, part, split

pytestmark = pytest.mark.once  # JAX has no part in it

BATCH, HEIGHT, FEATURES = 0, 1, 3
H = Size.symbol("H")
REPLICATED = Relations()


def relation_of(
    dim: int,
    window: int,
    stride: int,
    height: Dim = 8,
    padding: Any = "VALID",
    kernel: Relations = REPLICATED,
) -> Relation:
    """Of images ``(4, height, 6, 2)`` that are sharded along one dimension, and a kernel."""
    images = Array(
        (4, height, 6, 2), "float32", relations=Relations.of({"t": split(dim)})
    )
    weights = Array((window, window, 2, 3), "float32", relations=kernel)
    found = LOWERINGS["jax.lax.conv_general_dilated"](
        images,
        weights,
        (stride, stride),
        padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    assert found.relations is not None
    relation: Relation = found.relations["t"]
    return relation


@pytest.mark.parametrize(
    ("window", "stride", "height"), [(1, 1, H), (2, 2, 8), (2, 2, 4 * H), (1, 2, 8)]
)
def test_windows_that_lie_apart_leave_a_dimension_sharded(
    window: int, stride: int, height: Dim
) -> None:
    assert relation_of(HEIGHT, window, stride, height) == split(HEIGHT)


@pytest.mark.parametrize(
    ("window", "stride", "padding"), [(3, 1, "SAME"), (3, 2, "VALID")]
)
def test_windows_that_overlap_need_a_dimension_whole(
    window: int, stride: int, padding: str
) -> None:
    for height in (8, H):
        found = relation_of(HEIGHT, window, stride, height, padding)
        assert (found.kind, found.dim) == ("varying", HEIGHT)
        assert found.breach is not None
        assert found.breach.fault == "whole"


def test_where_parts_may_end_within_a_window_nothing_more_is_known() -> None:
    for height in (9, H):
        found = relation_of(HEIGHT, 2, 2, height)
        assert (found.kind, found.breach) == ("varying", None)


def test_features_are_added_up_and_examples_stay() -> None:
    of_features = Relations.of({"t": split(2)})
    assert relation_of(FEATURES, 3, 1, kernel=of_features) == part("sum")
    assert relation_of(BATCH, 3, 1) == split(BATCH)
