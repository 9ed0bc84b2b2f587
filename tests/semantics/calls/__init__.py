"""A call, or a few, for every public function that is a lowering."""

from __future__ import annotations

from tests.semantics.calls import (
    arrays,
    distributions,
    entries,
    linalg,
    losses,
    numpy,
    special,
    transforms,
)
from tests.semantics.calls.uncompared import UNCOMPARED as UNCOMPARED

ROOMS = (entries, arrays, numpy, special, linalg, distributions, transforms, losses)
CALLS = [call for room in ROOMS for call in room.CALLS]
