"""Ways to read a program on one device, any of which will do: what depends on the mesh on purpose is in none of them.

Devices draw random numbers for rows of their own, and cut their own rows into micro-batches. One device can do it as
they did, and has to come to the same results then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

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
from shardtypes.proving.row_order import Orders, orders
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


class Readings:
    """What one device may compute just as well: as it would, but for random numbers that it takes from the devices;
    with rows in the order of the devices; with random numbers that are all alike.

    ``numbers`` are those of the devices, ``arguments`` those of one. ``counts`` say how many devices there are along
    each axis for one; with None it takes nothing from them."""

    def __init__(
        self,
        many: Program,
        one: Program,
        numbers: Numbers,
        arguments: Draws,
        counts: Sizes | None,
    ) -> None:
        self.many = many
        self.one = one
        #: what devices draw at random, each a part of what one device draws in its place
        self.drawn: dict[Name, Name] = {}
        self._values: list[dict[Name, Held]] = [{} for _ in arguments]
        if counts is None:
            return
        self.drawn = not_drawn_by_one(sources(many, one), numbers, one, arguments)
        if self.drawn:
            count = len(arguments)
            self._values = taken(self.drawn, numbers, many, one, counts, count)

    @property
    def first(self) -> Reading:
        """As it is, but for random numbers."""
        return Reading(one=[Instead(values) for values in self._values])

    @cached_property
    def _orders(self) -> Orders:
        return orders(self.many, self.one)

    @cached_property
    def in_order(self) -> Reading:
        """One device computes what it would with rows in the order of the devices, if that is another."""
        found = self._orders
        if not found:
            return self.first
        changed = [found.instead(values) for values in self._values]
        return Reading(_REGROUPED, one=changed)

    def others(self) -> Iterator[Reading]:
        """Those that excuse more than the first."""
        if self._orders:
            yield self.in_order
        own = [name for name in self.drawn if self.drawn[name] in self._values[0]]
        if own:
            mine = [Instead(same) for same in alike(self.many, own)]
            partners = [self.drawn[name] for name in own]
            his = [self._orders.instead(same) for same in alike(self.one, partners)]
            yield Reading(_ALIKE, mine, his)
