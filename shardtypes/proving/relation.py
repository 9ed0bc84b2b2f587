"""How what the devices hold is related to what one device computes, over all axes of a mesh at once.

The kinds are those of ``shardtypes.semantics.relation``. The ``factor`` is that of the whole value: a value that is
``part(sum)`` over one axis with factor 4 adds up to four times what one device computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from shardtypes.lang.messages import axes_text, device_mean, partial_sum
from shardtypes.semantics.relation import SAME, VARYING, Monoid, Relation, part, split

Axes: TypeAlias = tuple[str, ...]
"""Mesh axes by name; of those that shard one dimension the major one comes first."""

Sizes: TypeAlias = Mapping[str, int]
"""How many devices there are along each mesh axis."""

_MONOIDS = {
    "max": "a per-device maximum",
    "min": "a per-device minimum",
    "prod": "a per-device product",
    "or": "a per-device disjunction",
    "and": "a per-device conjunction",
}


@dataclass(frozen=True)
class Related:
    """``over`` are the axes along which devices do not hold the same; of those that shard one dimension the major one
    comes first. ``holder`` is the device along ``held_on`` that alone has the value, where one has."""

    over: tuple[tuple[str, Relation], ...] = ()
    factor: Fraction | float = 1
    zero: bool = False
    held_on: Axes = ()

    def __getitem__(self, axis: str) -> Relation:
        return dict(self.over).get(axis, SAME)

    def sharding(self, dim: int) -> Axes:
        """The mesh axes that shard one dimension, major to minor."""
        return tuple(
            axis
            for axis, found in self.over
            if found.kind == "split" and found.dim == dim
        )

    @property
    def split(self) -> dict[int, Axes]:
        """The mesh axes of each dimension that is sharded."""
        dims = dict.fromkeys(
            found.dim
            for _, found in self.over
            if found.kind == "split" and found.dim is not None
        )
        return {dim: self.sharding(dim) for dim in dims}

    @property
    def parts(self) -> Axes:
        """The axes over which devices' values have to be combined."""
        return tuple(axis for axis, found in self.over if found.kind == "part")

    @property
    def numbered(self) -> Axes:
        """The axes along which the value is made of the devices' numbers: there is nothing to combine."""
        over = self.over
        return tuple(axis for axis, found in over if found.kind == "varying")

    @property
    def monoid(self) -> Monoid | None:
        return next(
            (found.monoid for _, found in self.over if found.kind == "part"), None
        )

    @property
    def complete(self) -> bool:
        """Whether every device holds the value itself or a shard of it, up to the factor."""
        return not self.parts and not self.held_on

    @property
    def right(self) -> bool:
        """Whether every device holds just what it should."""
        complete = self.complete and not self.numbered
        return self.zero or (complete and self.factor == 1)

    def times(self, factor: Fraction | float) -> Related:
        if self.zero:
            return self
        return replace(self, factor=self.factor * factor)

    def by_number(self) -> Related:
        """With the parts as what depends on the devices' numbers."""
        over = dict(self.over)
        for axis in self.parts:
            over[axis] = VARYING
        return replace(self, over=tuple(over.items()), factor=1)

    def of_one_round(self) -> Related | None:
        """How what a loop takes in one round is related, where this is of all rounds in front; None where the rounds
        themselves are sharded."""
        if self.sharding(0):
            return None
        over = [
            (axis, found if found.dim is None else replace(found, dim=found.dim - 1))
            for axis, found in self.over
        ]
        return replace(self, over=tuple(over))

    def without(self, axes: Iterable[str]) -> Related:
        gone = set(axes)
        return replace(
            self, over=tuple(pair for pair in self.over if pair[0] not in gone)
        )

    def words(self, sizes: Sizes) -> str:
        """``sharded over 't' along dimension 1``, ``a partial sum over 't'``, ``replicated, 4 times too large``."""
        if self.zero:
            return "zero"
        texts = []
        for dim, axes in sorted(self.split.items()):
            texts.append(f"sharded over {axes_text(axes)} along dimension {dim}")
        if self.parts:
            texts.append(_combined(self, sizes))
        if self.numbered:
            texts.append(f"different on each device along {axes_text(self.numbered)}")
        if self.held_on:
            texts.append(f"held by one device along {axes_text(self.held_on)} alone")
        text = " and ".join(texts) or "replicated"
        off = scale_words(self.factor)
        if off and not (self.parts and _is_mean(self, sizes)):
            return f"{text}, {off}"
        return text


REPLICATED = Related()
ZERO = Related(zero=True)


def related(
    split_dims: Mapping[int, Iterable[str]] | None = None,
    parts: Mapping[str, Monoid] | None = None,
    factor: Fraction | float = 1,
) -> Related:
    """From the axes of each sharded dimension and the monoid of each axis that is a part."""
    over: list[tuple[str, Relation]] = []
    for dim, axes in sorted((split_dims or {}).items()):
        over += [(axis, split(dim)) for axis in axes]
    for axis, monoid in sorted((parts or {}).items()):
        over.append((axis, part(monoid)))
    return Related(tuple(over), factor)


def scale_words(factor: Fraction | float) -> str:
    """``4 times too large``; empty for the right size."""
    if factor == 1:
        return ""
    if factor < 0:
        return f"{float(factor):g} times what one device computes"
    if factor < 1:
        return f"{float(1 / factor):g} times too small"
    return f"{float(factor):g} times too large"


def _is_mean(value: Related, sizes: Sizes) -> bool:
    count = 1
    for axis in value.parts:
        count *= sizes.get(axis, 1)
    return value.factor == count and value.monoid == "sum"


def _combined(value: Related, sizes: Sizes) -> str:
    if value.monoid != "sum":
        combined = _MONOIDS[str(value.monoid)]
        return f"{combined} along {axes_text(value.parts)}"
    if _is_mean(value, sizes):
        return device_mean(value.parts)
    return partial_sum(value.parts)
