"""How what the devices of a mesh axis hold is related to what one device would have computed.

One device is the same program on axes of size one, with the global arguments. Over each mesh axis a value is

==============  ========================================================================================
``zero``        all entries are zero, so it is any of the next three
``same``        every device holds the global value
``split(k)``    device *i* holds the *i*-th part of it along dimension ``k``
``part(sum)``   the devices' values added up give it; likewise ``max``, ``min``, ``prod``, ``and``, ``or``
``alike``       every device holds the same, which is not the global value or not known to be
``varying``     the devices differ, and the value has no global meaning (``axis_index``, a key of each device's own)
``unknown``     nothing is known
==============  ========================================================================================

and the first four are so up to a *power* of the number of devices along the axis: a value of power 1 is that many times
too large. An average of each device's own examples, before ``pmean``, is a ``part(sum)`` of power 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from fractions import Fraction
from typing import Literal, TypeAlias

from shardtypes.lang.frozen import frozen

Kind: TypeAlias = Literal[
    "zero", "same", "split", "part", "alike", "varying", "unknown"
]
Monoid: TypeAlias = Literal["sum", "max", "min", "prod", "and", "or"]
Fault: TypeAlias = Literal[
    "partial",  # a partial result is used as if it were complete
    "mixed",  # a partial result and a complete one are added
    "whole",  # a sharded dimension is needed whole
    "clash",  # different dimensions of the operands are sharded over one axis
    "inner",  # a reshape takes the sharded dimension apart or makes it a minor factor
    "repeated",  # a reduction over an axis along which the value is already complete
    # a reduction over an axis that shards a dimension: different rows are added
    "rows",
    # a value that is off by a number of devices enters a function in which no factor can be taken out
    "factor",
]


@frozen
class Breach:
    """Where a relation came to an end: what was done, over which axis, with which of the operands."""

    axis: str
    fault: Fault
    operand: int
    relation: Relation


@frozen
class Relation:
    """The relation over one mesh axis.

    ``dim`` is the dimension of a ``split``, None if it is not known which, or of a ``varying`` that was made of the
    parts of a ``split``; ``monoid`` what the values of a ``part`` are
    combined with. ``breach`` tells of an ``unknown`` or ``alike`` what made it so, if that was no lack of knowledge.
    """

    kind: Kind
    dim: int | None = None
    monoid: Monoid | None = None
    power: Fraction | int = 0
    breach: Breach | None = field(default=None, compare=False)

    def __str__(self) -> str:
        inside = {"split": f"({self.dim})", "part": f"({self.monoid})"}.get(
            self.kind, ""
        )
        text = f"{self.kind}{inside}"
        if self.power:
            text += f"·n^{self.power}"
        return text

    @property
    def has_meaning(self) -> bool:
        """Whether it says how to make the global value."""
        return self.kind in ("zero", "same", "split", "part")

    def times(self, power: Fraction | int) -> Relation:
        """The relation of a value that is by this power of the number of devices larger."""
        if self.kind in ("same", "split", "part"):
            return replace(self, power=self.power + power)
        return self


ZERO = Relation("zero")
SAME = Relation("same")
ALIKE = Relation("alike")
VARYING = Relation("varying")
UNKNOWN = Relation("unknown")


def split(dim: int | None, power: Fraction | int = 0) -> Relation:
    return Relation("split", dim, power=power)


def part(monoid: Monoid = "sum", power: Fraction | int = 0) -> Relation:
    return Relation("part", monoid=monoid, power=power)


def join(a: Relation, b: Relation) -> Relation:
    """What holds of a value that is one of two."""
    if a == b:
        return a
    if a.kind == b.kind == "varying":
        return VARYING
    for one, other in ((a, b), (b, a)):
        if one.kind == "zero" and other.has_meaning and other.monoid in (None, "sum"):
            return other
    kinds = {a.kind, b.kind}
    if kinds <= {"zero", "same", "alike"}:
        return ALIKE
    return Relation("unknown", breach=a.breach or b.breach)


@frozen
class Relations:
    """The relations of one value, by mesh axis; ``otherwise`` holds of the axes that are not named.

    Of the axes that shard one dimension the major one comes first.
    """

    over: tuple[tuple[str, Relation], ...] = ()
    otherwise: Relation = SAME

    @staticmethod
    def of(over: Mapping[str, Relation], otherwise: Relation = SAME) -> Relations:
        return Relations(
            tuple((axis, found) for axis, found in over.items() if found != otherwise),
            otherwise,
        )

    def __getitem__(self, axis: str) -> Relation:
        for name, found in self.over:
            if name == axis:
                return found
        return self.otherwise

    def __iter__(self) -> Iterator[str]:
        return (axis for axis, _ in self.over)

    def sharding(self, dim: int) -> tuple[str, ...]:
        """The mesh axes that shard one dimension, major to minor."""
        return tuple(
            axis
            for axis, found in self.over
            if found.kind == "split" and found.dim == dim
        )

    def changed(self, over: Mapping[str, Relation]) -> Relations:
        """With other relations over some axes."""
        return Relations.of({**dict(self.over), **over}, self.otherwise)

    def __str__(self) -> str:
        named = ", ".join(f"{axis}: {found}" for axis, found in self.over)
        if self.otherwise == SAME:
            return f"{{{named}}}"
        return f"{{{named}, …: {self.otherwise}}}"


NOTHING_KNOWN = Relations(otherwise=UNKNOWN)


def axes_of(values: Iterable[Relations]) -> list[str]:
    """Every mesh axis that is named, in the order of the values."""
    return list(dict.fromkeys(axis for value in values for axis in value))


def joined(a: Relations, b: Relations) -> Relations:
    """What holds of a value that is one of two."""
    over = {}
    for axis in axes_of([a, b]):
        over[axis] = join(a[axis], b[axis])
    return Relations.of(over, join(a.otherwise, b.otherwise))
