"""How often Python looks for garbage while a program is read."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEW = 50_000
"""Objects. What is traced and read lives until the verdict: to look through it again and again takes a sixth of the
time."""


@contextmanager
def rarely_collected() -> Iterator[None]:
    """In the block garbage in circles is looked for when there are many new objects."""
    before = gc.get_threshold()
    if before[0]:  # zero switches it off
        first, *others = before
        gc.set_threshold(max(first, _NEW), *others)
    try:
        yield
    finally:
        gc.set_threshold(*before)
