"""Rooms for libraries: another package can add one, also for functions that were asked about before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shardlint.engine import analyze, libraries
from shardlint.engine.libraries import knows
from shardlint.engine.sharding.site import Site
from shardlint.lower import lower
from shardlint.project import Project
from shardlint.values import Value

pytestmark = pytest.mark.once

PROGRAM = """
import elsewhere
from shardtypes import f32

def transposed(x: f32['B M']) -> f32['M B']:
    return elsewhere.layers.same(x)
"""


def codes() -> list[str]:
    module = lower(PROGRAM.encode(), "example", "example.py").module
    return [event.code for event in analyze(Project({"example": module}), module)]


def same(site: Site) -> Value:
    return site.args[0]


@pytest.fixture(autouse=True)
def _rooms_as_before() -> Iterator[None]:
    yield
    for rooms in (libraries._rooms, libraries._rooms_of_prefixes):
        for name in [name for name in rooms if name.startswith("elsewhere.")]:
            del rooms[name]
    libraries._rooms_of_last_names.pop("same", None)
    libraries._asked.cache_clear()


@pytest.mark.parametrize(
    ("names", "prefixes", "last"),
    [
        (("elsewhere.layers.same",), (), ()),
        ((), ("elsewhere.layers.",), ()),
        ((), (), ("same",)),
    ],
)
def test_a_room_that_is_added_is_asked(
    names: tuple[str, ...], prefixes: tuple[str, ...], last: tuple[str, ...]
) -> None:
    assert codes() == []
    knows(names, prefixes=prefixes, last=last)(same)
    assert codes() == ["ST201"]


def test_rooms_are_asked_until_one_knows() -> None:
    asked: list[str] = []

    @knows(("elsewhere.layers.same",), first=True)
    def first(site: Site) -> None:
        asked.append(site.name)

    knows(("elsewhere.layers.same",))(same)
    assert codes() == ["ST201"]
    assert asked[0] == "same"
