"""Which room of the engine knows a function of a library, or of Python: rooms enter the names that they know."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from shardlint.values import Value

if TYPE_CHECKING:
    from shardlint.engine.sharding.site import Site

#: Gives the result of a call; None leaves it to other rooms, and in the end to the models.
Room: TypeAlias = "Callable[[Site], Value | None]"
_RoomT = TypeVar("_RoomT", bound=Room)

_rooms: dict[str, list[Room]] = {}
_rooms_of_prefixes: dict[str, list[Room]] = {}
_rooms_of_last_names: dict[str, list[Room]] = {}


def knows(
    names: Iterable[str] = (),
    prefixes: Iterable[str] = (),
    last: Iterable[str] = (),
    first: bool = False,
) -> Callable[[_RoomT], _RoomT]:
    """Enter a function as the room of these qualified names, of those with one of the prefixes, and of all functions
    with one of the ``last`` names, whatever library they are of; ``first``: it is asked before the other room that
    knows them."""

    def enter(room: _RoomT) -> _RoomT:
        for name in names:
            _put(_rooms.setdefault(name, []), room, first)
        for prefix in prefixes:
            _put(_rooms_of_prefixes.setdefault(prefix, []), room, first)
        for name in last:
            _put(_rooms_of_last_names.setdefault(name, []), room, first)
        _asked.cache_clear()
        return room

    return enter


def _put(rooms: list[Room], room: Room, first: bool) -> None:
    rooms.insert(0 if first else len(rooms), room)


def call(site: Site) -> Value | None:
    """What the rooms say of a call; None where none of them knows the function."""
    for room in _asked(site.qualname):
        result = room(site)
        if result is not None:
            return result
    return None


@lru_cache(maxsize=4096)
def _asked(qualname: str) -> tuple[Room, ...]:
    """The rooms that know a function, in the order in which they are asked."""
    rooms = [*_rooms.get(qualname, ())]
    for prefix, others in _rooms_of_prefixes.items():
        if qualname.startswith(prefix):
            rooms.extend(others)
    rooms.extend(_rooms_of_last_names.get(qualname.rpartition(".")[2], ()))
    return tuple(rooms)
