"""What is evaluated for all devices at once is what each device computes by itself."""

from __future__ import annotations

from collections import Counter

import pytest

from shardlint.evaluation.judgements import judge
from tests.evaluation.changes import source
from tests.evaluation.test_departures import AXES, DROPOUT, program

pytestmark = pytest.mark.once  # JAX has no part in it

PROGRAMS = {name: source(name) for name in AXES}
PROGRAMS["dropout"] = DROPOUT.replace("{gradients}", 'lax.psum(grads, "data")')


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_devices_at_once_and_one_by_one(name: str, compared: Counter[bool]) -> None:
    assert judge(program(PROGRAMS[name])).departures == ()
    assert compared[True] > 15
