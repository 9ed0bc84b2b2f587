"""A call, or a few, for every public function that is a lowering."""

from __future__ import annotations

from tests.semantics.calls import arrays, distributions, entries, linalg, numpy, special, transforms
from tests.semantics.calls.uncompared import UNCOMPARED as UNCOMPARED

CALLS = [call for room in (entries, arrays, numpy, special, linalg, distributions, transforms) for call in room.CALLS]
