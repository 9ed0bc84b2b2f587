"""How much is computed, told to who bounds it: a call of one function may compute as much as a long program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Of one primitive on small arrays; a leaf of a tree that is taken apart is one.
OF_PRIMITIVE = 10

_told: ContextVar[Callable[[int], object] | None] = ContextVar(
    "shardtypes_work", default=None
)


@contextmanager
def telling(listener: Callable[[int], object]) -> Iterator[None]:
    """In the block, ``listener`` is told of all work, in units of about ten microseconds."""
    token = _told.set(listener)
    try:
        yield
    finally:
        _told.reset(token)


def tell(work: int) -> None:
    """So much is about to be computed."""
    listener = _told.get()
    if listener is not None:
        listener(work)
