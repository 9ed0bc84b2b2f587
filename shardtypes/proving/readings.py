"""Ways to read a program on one device, any of which will do: what depends on the mesh on purpose is in none of them.

Devices draw random numbers for rows of their own, and cut their own rows into micro-batches. One device can do it as
they did, and has to come to the same results then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from shardtypes.proving.arguments import Draws
from shardtypes.proving.evaluation import Held, Instead
from shardtypes.proving.numbers import Numbers
from shardtypes.proving.program import Name, Program
from shardtypes.proving.random_draws import (
    alike,
    not_drawn_by_one,
    sources,
    taken,
)
from shardtypes.proving.relation import Sizes
from shardtypes.proving.row_order import orders
from shardtypes.proving.written_sizes import Written

_REGROUPED = ", if it takes the same rows together as the devices do"
_ALIKE = ", if random numbers are all alike: they may be drawn for other rows"


@dataclass(frozen=True)
class Reading:
    """What is taken in place of values on the devices and on one, for each draw of the arguments; nothing on the
    devices if that is None. ``condition``: what agreement takes for granted then."""

    condition: str = ""
    many: list[Instead] | None = None
    one: list[Instead] | None = None

    def with_sizes(self, numbers: list[Written]) -> Reading:
        """The same if numbers that are written in the program of one device are the number of devices."""
        changed = {number.name: number.without for number in numbers}
        others = []
        for one in self.one or []:
            results = {**one.results, **changed}
            others.append(replace(one, results=results))
        condition = f", if {numbers[0]} depends on the number of devices"
        return Reading(condition, self.many, others)


@dataclass(frozen=True)
class Readings:
    """What excuses least comes first. ``drawn``: what devices draw at random, each a part of what one device draws in
    its place."""

    found: list[Reading]
    drawn: Mapping[Name, Name]

    @property
    def in_order(self) -> Reading:
        """One device computes what it would with rows in the order of the devices, if that is another."""
        own = [one for one in self.found if one.many is None]
        return own[-1]


AS_IT_IS = Readings([Reading()], {})


def readings(
    many: Program,
    one: Program,
    numbers: Numbers,
    arguments: Draws,
    counts: Sizes | None,
) -> Readings:
    """What one device may compute just as well: as it would, but for random numbers that it takes from the devices;
    with rows in the order of the devices; with random numbers that are all alike.

    ``numbers`` are those of the devices, ``arguments`` those of one. ``counts`` say how many devices there are along
    each axis for one; with None it takes nothing from them."""
    drawn: dict[Name, Name] = {}
    values: list[dict[Name, Held]] = [{} for _ in arguments]
    if counts is not None:
        drawn = not_drawn_by_one(sources(many, one), numbers, one, arguments)
    if counts is not None and drawn:
        values = taken(drawn, numbers, many, one, counts, len(arguments))
    as_drawn = [Instead(of_draw) for of_draw in values]
    found = [Reading(one=as_drawn)]
    other = orders(many, one)
    results = {name: order.of for name, order in other.results.items()}
    operands = {name: order.of for name, order in other.operands.items()}
    if other:
        in_order = [Instead(of_draw, results, operands) for of_draw in values]
        reading = Reading(_REGROUPED, one=in_order)
        found.append(reading)
    own = [name for name in drawn if drawn[name] in values[0]]
    if own:
        mine = [Instead(same) for same in alike(many, own)]
        partners = [drawn[name] for name in own]
        his = [Instead(same, results, operands) for same in alike(one, partners)]
        found.append(Reading(_ALIKE, mine, his))
    return Readings(found, drawn)
