"""What is evaluated for all devices at once is what each device computes by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from shardlint.evaluation.judgements import judge
from shardtypes.semantics import primitive, simulated
from shardtypes.semantics.simulated import Simulated
from tests.evaluation.changes import source
from tests.evaluation.test_departures import AXES, DROPOUT, program

pytestmark = pytest.mark.once  # JAX has no part in it

PROGRAMS = {name: source(name) for name in AXES}
PROGRAMS["dropout"] = DROPOUT.replace("{gradients}", 'lax.psum(grads, "data")')


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_devices_at_once_and_one_by_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one = simulated.on_devices
    compared = Counter[bool]()

    def both(
        function: Callable[..., Sequence[Any]],
        operands: Sequence[Simulated],
        results: int,
        stacked: Callable[..., Any] | None = None,
    ) -> tuple[Simulated, ...]:
        found = one_by_one(function, operands, results, stacked)
        if stacked is None:
            return found
        for mine, theirs in zip(
            found, one_by_one(function, operands, results), strict=True
        ):
            assert mine.axes == theirs.axes
            assert len(mine.parts) == len(theirs.parts)
            for one, other in zip(mine.parts, theirs.parts, strict=True):
                assert np.asarray(one).dtype == np.asarray(other).dtype
                np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-12)
            compared[bool(mine.axes)] += 1
        return found

    monkeypatch.setattr(primitive, "on_devices", both)
    assert judge(program(PROGRAMS[name])).departures == ()
    assert compared[True] > 50
