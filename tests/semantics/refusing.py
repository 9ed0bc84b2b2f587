"""Whether a lowering says that JAX refuses a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shardtypes.semantics.array import Dim, SizesDiffer
from shardtypes.semantics.comparison import Numbers, Why, comparing
from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.lowerings.convert import AxisGivenTwice, AxisOutOfRange
from shardtypes.semantics.registry import Refused


def refuses(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Of arguments as the lowering takes them. Whatever else it raises is a fault."""
    try:
        with comparing(_Names()):
            LOWERINGS[name](*args, **kwargs)
    except (AxisGivenTwice, AxisOutOfRange, Refused, SizesDiffer):
        return True
    return False


class _Names(Numbers):
    """Names differ, too."""

    def require_equal(self, a: Dim, b: Dim, why: Why) -> None:
        if a != b:
            raise SizesDiffer(f"{a} is not {b}")
