"""State that each device keeps flat: its order depends on the mesh, and means nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardlint.evaluation.comparison import Difference, Incomparable, compared
from shardlint.evaluation.mapping import Region

FLAT = np.arange(1.0, 9.0)
#: the blocks of two devices, each flattened by itself, and filled up
BLOCKS = np.concatenate([FLAT.reshape(2, 2, 2)[:, i].ravel() for i in range(2)])
FILLED = np.append(BLOCKS, [0.0, 0.0])


def call(state: Any, result: Any, loss: float = 1.0) -> Region:
    arguments = ({"moment": state}, np.ones(3))
    results = ({"moment": result}, np.array(loss))
    return Region(None, arguments, results, None, {})


def test_its_order_is_not_compared() -> None:
    for other in (BLOCKS, FILLED):
        one, two = call(FLAT * 0, FLAT), call(other * 0, other)
        assert compared([one], [two], 0) is None
        later = [one, call(FLAT, FLAT * 2)], [two, call(other, other * 2)]
        assert compared(*later, 1) is None


def test_its_numbers_are() -> None:
    one, two = call(FLAT * 0, FLAT), call(BLOCKS * 0, BLOCKS * 1.5)
    found = compared([one], [two], 0)
    assert isinstance(found, Difference)
    assert found.path == "0.moment"


def test_what_else_differs_is_reported_first() -> None:
    one, two = call(FLAT * 0, FLAT), call(BLOCKS * 0, BLOCKS, loss=2.0)
    found = compared([one], [two], 0)
    assert isinstance(found, Difference)
    assert found.path == "1"


def test_matrices_have_an_order() -> None:
    matrix = FLAT.reshape(4, 2)
    one, two = call(matrix * 0, matrix), call(matrix * 0, matrix[::-1])
    found = compared([one], [two], 0)
    assert isinstance(found, Difference)
    assert found.path == "0.moment"


def test_results_that_are_no_state_have_an_order() -> None:
    one = Region(None, (np.ones(3),), {"ids": FLAT}, None, {})
    two = Region(None, (np.ones(3),), {"ids": BLOCKS}, None, {})
    assert isinstance(compared([one], [two], 0), Difference)


def test_other_state_is_other_work() -> None:
    one, two = call(FLAT, FLAT), call(FLAT + 1, FLAT)
    assert isinstance(compared([one], [two], 0), Incomparable)
