"""What each expression gave, and from which others it was computed: a run's values, to be compared with another run's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from shardlint.evaluation.guards import Place
from shardtypes.semantics.array import Array
from shardtypes.semantics.trees import flatten, unflatten

Where: TypeAlias = tuple[str, Place]
"""A place in a file."""
Key: TypeAlias = tuple[Where, int, int]
"""A place, how often it was met before, and which array of its value this is."""


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """One array that an expression gave."""

    number: int
    key: Key
    array: Array
    sources: frozenset[int]


@dataclass(slots=True)
class Recorder:
    """The arrays of one run, in order."""

    values: list[Recorded] = field(default_factory=list)
    met: Counter[Where] = field(default_factory=Counter)

    def note(self, where: Where, value: Any) -> Any:
        """Record the arrays of a value; gives the value, its arrays knowing that they are recorded."""
        if isinstance(value, Array):
            return self._one((where, self._count(where), 0), value)
        if not isinstance(value, (tuple, list, dict)) or not value:
            return value
        leaves, structure = flatten(value)
        if not any(isinstance(leaf, Array) for leaf in leaves) or len(leaves) > 1000:
            return value
        count = self._count(where)
        made = [self._one((where, count, i), leaf) if isinstance(leaf, Array) else leaf for i, leaf in enumerate(leaves)]
        if all(new is old for new, old in zip(made, leaves, strict=True)):
            return value
        return unflatten(structure, made)

    def _count(self, where: Where) -> int:
        self.met[where] += 1
        return self.met[where] - 1

    def _one(self, key: Key, array: Array) -> Array:
        if len(array.sources) == 1:
            (before,) = array.sources
            if self.values[before].array.value is array.value:
                return array  # what a function of the program gave was recorded in it
        number = len(self.values)
        self.values.append(Recorded(number, key, array, array.sources))
        return replace(array, sources=frozenset({number}))
