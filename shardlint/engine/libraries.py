"""Which room of the engine knows a function of a library: rooms enter the names that they know."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from shardlint.engine.sharding.site import Site
from shardlint.values import Value

#: Gives the result of a call; None leaves it to other rooms, and in the end to the models.
Room: TypeAlias = "Callable[[Site], Value | None]"
_RoomT = TypeVar("_RoomT", bound=Room)

_rooms: dict[str, list[Room]] = {}
_rooms_of_prefixes: dict[str, list[Room]] = {}


def knows(
    names: Iterable[str] = (), prefixes: Iterable[str] = (), first: bool = False
) -> Callable[[_RoomT], _RoomT]:
    """Enter a function as the room of these qualified names, and of those with one of the prefixes; ``first``: it is
    asked before the other room that knows them."""

    def enter(room: _RoomT) -> _RoomT:
        for name in names:
            _put(_rooms.setdefault(name, []), room, first)
        for prefix in prefixes:
            _put(_rooms_of_prefixes.setdefault(prefix, []), room, first)
        return room

    return enter


def _put(rooms: list[Room], room: Room, first: bool) -> None:
    rooms.insert(0 if first else len(rooms), room)


def call(site: Site) -> Value | None:
    """What the rooms say of a call; None where none of them knows the function."""
    rooms = _rooms.get(site.qualname, [])
    for prefix, others in _rooms_of_prefixes.items():
        if site.qualname.startswith(prefix):
            rooms = [*rooms, *others]
    for room in rooms:
        result = room(site)
        if result is not None:
            return result
    return None
