"""Eight devices on the CPU; set before anything starts JAX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from shardlint.evaluation import repairs
from shardtypes.semantics import primitive, simulated
from shardtypes.semantics.simulated import Simulated
from tests.support import force_devices

force_devices()


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """In the test, what is evaluated for all devices at once is held against each device by itself: how often, by
    whether there are several."""
    one_by_one = simulated.on_devices
    count = Counter[bool]()

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
            count[bool(mine.axes)] += 1
        return found

    monkeypatch.setattr(primitive, "on_devices", both)
    return count


@pytest.fixture
def no_changes_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a program that takes too long to be run with changes: where one mends it, that is where the finding is."""
    monkeypatch.setattr(repairs, "STEPS", 1)
