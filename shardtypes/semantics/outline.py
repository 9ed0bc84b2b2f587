"""What is known of the results of a primitive before their numbers: it follows from what is known of the operands, so
that it is worked out once for operands of the same shapes, however often a program computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from shardtypes.lang.frozen import frozen
from shardtypes.semantics.array import Array, Arrays, Params, Shape
from shardtypes.semantics.letters import Letters
from shardtypes.semantics.relation import Relations


@frozen
class Outline:
    """What is known of each result. ``is_large`` tells that one has too many entries to be computed; ``products`` is
    how many numbers a contraction or a convolution multiplies on one device."""

    letters: Letters | None
    shapes: Sequence[Shape | None]
    dtypes: Sequence[str | None]
    weak: Sequence[bool]
    relations: Sequence[Relations | None]
    is_large: bool
    products: int


MOST = 20_000
"""Outlines that are kept."""


class _NotExact(Exception):
    """Raised for what may be equal to something else that it is not the same as."""


class Outlines:
    """The outlines of what was computed so far."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Outline] = {}
        self._relations: dict[int, tuple[Relations, int]] = {}
        self._numbered: dict[Hashable, int] = {}

    def of(
        self,
        primitive: str,
        operands: Arrays,
        params: Params,
        outlined: Callable[[], Outline],
    ) -> Outline:
        """The one of a primitive, by its name, of these operands and parameters; ``outlined`` if it was not yet."""
        try:
            key = (
                primitive,
                tuple([self._of_array(one) for one in operands]),
                tuple([(name, _exactly(value)) for name, value in params.items()]),
            )
            found = self._known.get(key)
        except _NotExact:
            return outlined()
        if found is None:
            found = outlined()
            if len(self._known) < MOST:
                self._known[key] = found
        return found

    def _of_array(self, array: Array) -> Hashable:
        """What an outline follows from."""
        return (
            _exact_shape(array.shape),
            array.dtype,
            array.weak,
            self._number(array.relations),
        )

    def _number(self, relations: Relations | None) -> int:
        """A number that equal relations have in common. Those that were met are kept, so that no others take their
        place."""
        if relations is None:
            return -1
        known = self._relations.get(id(relations))
        if known is not None:
            return known[1]
        exact = (
            relations,
            tuple([relation.breach for _, relation in relations.over]),
            relations.otherwise.breach,
        )
        number = self._numbered.setdefault(exact, len(self._numbered))
        if len(self._relations) < MOST:
            self._relations[id(relations)] = (relations, number)
        return number


def _exact_shape(shape: Shape | None) -> Hashable:
    """A shape, in which sizes differ that depend on different devices."""
    if shape is None:
        return None
    for size in shape:
        if type(size) is not int:
            return tuple(map(_exactly, shape))
    return shape


def _exactly(value: object) -> Hashable:
    """A parameter or a size as part of a key: to Python, numbers of different types are equal, and local sizes are
    equal to others. Raises _NotExact."""
    kind = type(value)
    if kind is str or value is None:
        return value
    if kind in _NUMBERS:
        return (kind, value)
    if kind is tuple and isinstance(value, tuple):
        return tuple([_exactly(one) for one in value])
    if isinstance(value, slice):
        parts = (value.start, value.stop, value.step)
        return (kind, *map(_exactly, parts))
    if isinstance(value, (int, float)):
        return _knowing(value)
    raise _NotExact


def _knowing(value: int | float) -> Hashable:
    """A number that knows where it comes from, with what it knows. Raises _NotExact."""
    known = getattr(value, "__dict__", None)
    if known is None:
        raise _NotExact
    if isinstance(value, int):
        plain: float = int.__int__(value)
    else:
        plain = float.__float__(value)
    exact: Hashable = (type(value), plain, *known.values())
    return exact


_NUMBERS = frozenset({bool, int, float, complex})
