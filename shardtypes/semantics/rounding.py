"""Rounding, which programs may do without.

A sum of parts that are quantised before it is taken depends on how many parts there are, by as much as they are rounded
and no more. Whether that is all can be seen where nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_left_out: ContextVar[bool] = ContextVar("shardtypes_without_rounding", default=False)


@contextmanager
def without_rounding(holds: bool) -> Iterator[None]:
    """In the block, numbers that are rounded or cast to integers stay as they are, if this ``holds``."""
    token = _left_out.set(holds)
    try:
        yield
    finally:
        _left_out.reset(token)


def is_left_out() -> bool:
    return _left_out.get()
