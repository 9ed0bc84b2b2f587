"""Sizes that are not known, as lowerings compute with them: names of their own. (``?name`` is a number that a function
was given.)"""

from __future__ import annotations

from shardtypes.lang import Size
from shardtypes.semantics.array import Dim

_OPEN = "??"


def open_size(number: int) -> Size:
    """One that is not known, other than those of other numbers."""
    return Size.symbol(f"{_OPEN}{number}")


def is_open(size: Size) -> bool:
    """Whether a size is made of one that is not known."""
    return any(name.startswith(_OPEN) for name in size.symbols)


def known_size(size: Dim) -> Size | None:
    """The size; None where it is not known."""
    if not isinstance(size, (int, Size)):
        return None  # an array was given as a size, say
    found = Size.of(size)
    if is_open(found):
        return None
    return found
