"""What the engine found, before a rule words it and a renderer places it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from shardtypes.lang.frozen import frozen

_NOTHING: Mapping[str, int] = MappingProxyType({})


@frozen
class Event:
    """One certain finding.

    ``at`` is the number of the ``ir`` node it is about; ``span`` (0-based offsets) narrows it to a part of the
    string literal at that node. ``witness`` gives sizes for which the program fails. ``related`` are other places,
    each as (module name, node number, message). ``is_of_result`` tells that it is wrong what a called function gives,
    and that no place in the function is known for it.
    """

    code: str
    at: int
    message: str
    witness: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    related: tuple[tuple[str, int, str], ...] = ()
    span: tuple[int, int] | None = None
    is_of_result: bool = False

    @property
    def key(self) -> tuple[str, int, tuple[int, int] | None]:
        """Two events with one key are the same finding."""
        return (self.code, self.at, self.span)
