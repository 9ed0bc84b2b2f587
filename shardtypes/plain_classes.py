"""Classes that are known to hold no arrays, for as long as they exist: typeguard asks about them at each value."""

from __future__ import annotations

from weakref import ref

# By their numbers, for a dictionary of weak references takes ten times as long to look into.
known: dict[int, ref[type]] = {}


def remember(base: type) -> None:
    """Note that a class never holds arrays."""
    number = id(base)
    known[number] = ref(base, lambda _: known.pop(number, None))
