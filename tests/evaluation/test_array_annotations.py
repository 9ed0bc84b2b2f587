"""Array annotations in programs that are evaluated."""

from __future__ import annotations

import pytest

from shardlint.evaluation.array_annotations import ArrayType
from shardlint.evaluation.outside import Outside


@pytest.mark.parametrize("name", ["shardtypes.f32", "shardtypes.annotated.f32"])
def test_both_forms_are_the_same_type(name: str) -> None:
    dtype, array = Outside(name), Outside("jax.Array")
    wanted = ArrayType("B/d M", "float32")
    assert dtype["B/d M"] == wanted
    assert dtype[array, "B/d M"] == wanted
    assert dtype[array, b"B/d M"] == wanted
