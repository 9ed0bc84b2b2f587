"""Every lowering with names for sizes, whatever it is given: what is not understood is unknown and never an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlint.ops import lowered
from shardlint.ops.registry import OpError
from shardlint.values import Value
from shardtypes.semantics.lowerings import LOWERINGS
from tests.ops.test_robust import ANYTHING, many
from tests.semantics.test_symbolic import asked

pytestmark = pytest.mark.once

NAMES = sorted(filter(lowered.is_lowered, LOWERINGS))


@many
@given(
    st.lists(st.sampled_from(range(len(ANYTHING))), min_size=4, max_size=4),
    st.integers(0, 4),
)
def test_lowerings_take_anything(chosen: list[int], count: int) -> None:
    values = [ANYTHING[i] for i in chosen[:count]]
    for name in NAMES:
        try:
            result = asked(name, values)
        except OpError:
            continue
        assert result is None or isinstance(result, Value), name
