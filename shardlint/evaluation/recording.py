"""What each expression gave, and from which others it was computed: a run's values, to be compared with another
run's."""

from __future__ import annotations

import dis
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any, TypeAlias

from shardtypes.lang.dtypes import KEY
from shardtypes.semantics.array import Array
from shardtypes.semantics.local_sizes import axes_of, is_counted
from shardtypes.semantics.trees import flatten, map_leaves, unflatten

Place: TypeAlias = tuple[int, int, int, int]
"""Line, column, end line and end column of an expression, as ``ast`` counts them."""

MOST = 1000  # arrays in one value; those of a larger one are not recorded


@dataclass(frozen=True, slots=True)
class Where:
    """An expression in a file, or, with ``backward``, the cotangent of what it gave."""

    path: str
    place: Place
    backward: bool = False

    @classmethod
    def of_definition(cls, code: CodeType, backward: bool = False) -> Where:
        """Where a function of the program is defined: its line, and no expression in it."""
        line = code.co_firstlineno
        return cls(code.co_filename, (line, 0, line, 0), backward)

    @classmethod
    def of_return(cls, code: CodeType, backward: bool = False) -> Where:
        """The statement in which a function of the program returns; where it is defined if there are several, or Python
        does not know the place, as before 3.11."""
        place = _place_of_return(code)
        if place is None:
            return cls.of_definition(code, backward)
        return cls(code.co_filename, place, backward)


@functools.cache
def _place_of_return(code: CodeType) -> Place | None:
    """Kept, as a program runs its backward rules over and over."""
    places = {
        getattr(one, "positions", None)
        for one in dis.get_instructions(code)
        if one.opname.startswith("RETURN_VALUE")
    }
    place = places.pop() if len(places) == 1 else None
    if place is None or None in place:
        return None
    line, end_line, start, end = place
    return line, start, end_line, end


#: Keys of ``jax.random.PRNGKey``, and typed ones.
KEYS = frozenset(("uint32", KEY))

Key: TypeAlias = tuple[Where, int, int]
"""An expression, how often it was met before, and which array of its value this is."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function of the program."""

    code: CodeType
    name: str


@dataclass(frozen=True, slots=True)
class Given:
    """What an expression was given besides arrays: numbers that are ``counted`` from the devices, ``local`` sizes of
    dimensions that are sharded over some axes, and ``names``."""

    counted: bool = False
    local: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    @classmethod
    def among(cls, *values: Any) -> Given:
        return cls(is_counted(*values), axes_of(*values), frozenset(_names(values)))


def _names(values: Sequence[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _names(value)


NOTHING = Given()


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """One array that an expression gave; ``what`` is the function or the operator that gave it, of what it was
    ``given``."""

    number: int
    key: Key
    what: Any
    array: Array
    sources: frozenset[int]
    given: Given
    caller: Where | None = None
    """The call of the function that it was computed in; None in the mapped function itself."""
    is_inside: bool = False
    """Whether it was computed in a mapped function."""
    is_of_rule: bool = False
    """Whether a backward rule of the program gave it."""
    gradient_of: int | None = None
    """The array that this is the cotangent of."""

    @property
    def where(self) -> Where:
        """The expression that gave it."""
        return self.key[0]

    @property
    def is_backward(self) -> bool:
        """Whether it was computed on the way back, for a gradient."""
        return self.where.backward

    @property
    def name(self) -> str:
        """The public name of the function that gave it, or the operator; empty for other functions."""
        if isinstance(self.what, str):
            return self.what
        return getattr(self.what, "qualname", "")

    @property
    def is_argument(self) -> bool:
        """Whether a mapped function was given it."""
        line, start, end_line, end = self.where.place
        return (line, start) == (end_line, end)


@dataclass(frozen=True, slots=True)
class Alike:
    """A draw with a key that is the same on all devices: along the axes of ``shards`` each device draws for its own, as
    the local sizes say that it draws for; along ``others`` nothing says so. Along ``mapped``, which are some of them,
    ``vmap`` draws with a key for each example."""

    shards: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    mapped: frozenset[str] = frozenset()

    def also(self, other: Alike) -> Alike:
        """Both draws, of one expression."""
        return Alike(
            self.shards | other.shards,
            self.others | other.others,
            self.mapped | other.mapped,
        )


@dataclass(slots=True)
class Recorder:
    """The arrays of one run, in order; of arguments of mapped functions, by number, where their ``specs`` are made and
    where the ``calls`` are; and the arrays, by number, that functions of the program were ``passed``, by parameter.
    ``alike`` are the draws that all devices made with the same key, by the number of the array that came of them, and
    ``drawn_in`` the calls in the mapped function that each was made in, the outermost first. ``idle`` tells of
    expressions that reduce over a mesh whether they never changed anything."""

    values: list[Recorded] = field(default_factory=list)
    specs: dict[int, Where] = field(default_factory=dict)
    calls: dict[int, Where] = field(default_factory=dict)
    passed: dict[Parameter, set[int]] = field(default_factory=dict)
    met: Counter[Where] = field(default_factory=Counter)
    callers: list[Where | None] = field(default_factory=list)
    alike: dict[int, Alike] = field(default_factory=dict)
    drawn_in: dict[int, tuple[Where, ...]] = field(default_factory=dict)
    idle: dict[Where, bool] = field(default_factory=dict)
    _told: Alike | None = None
    _is_idle: bool | None = None

    @contextmanager
    def called(self, where: Where | None) -> Iterator[None]:
        """In the block a function runs that is called there; None for a mapped function."""
        self.callers.append(where)
        try:
            yield
        finally:
            self.callers.pop()

    def note_parameters(
        self, code: CodeType, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Remember which arrays a function of the program is given."""
        for name, value in (
            *zip(code.co_varnames[: code.co_argcount], args, strict=False),
            *kwargs.items(),
        ):
            if isinstance(value, Array) and self._is_recorded(value):
                self.passed.setdefault(Parameter(code, name), set()).update(
                    value.sources
                )

    def note(
        self, path: str, place: Place, what: Any, value: Any, given: Sequence[Any] = ()
    ) -> Any:
        """Record the arrays of a value; gives the value, its arrays knowing that they are recorded. ``given`` is what
        it was computed from."""
        where = Where(path, place)
        noted = self._note_at(where, what, value, given)
        if self._is_idle is not None:
            self.idle[where] = self._is_idle and self.idle.get(where, True)
            self._is_idle = None
        if self._told is not None:
            self._note_draw(noted, self._told)
        return noted

    def tell_reduction(self, is_idle: bool) -> None:
        """An array is reduced over a mesh in the expression that is computed now, which may change nothing."""
        self._is_idle = is_idle and self._is_idle is not False

    def tell_draw(self, draw: Alike) -> None:
        """All devices draw with the same key in the expression that is computed now."""
        if self._told is not None:
            draw = self._told.also(draw)
        self._told = draw

    def _note_draw(self, noted: Any, draw: Alike) -> None:
        arrays = [leaf for leaf in flatten(noted)[0] if isinstance(leaf, Array)]
        calls = self._calls_inside()
        for array in arrays:
            self.alike.update(dict.fromkeys(array.sources, draw))
            self.drawn_in.update(dict.fromkeys(array.sources, calls))
        if arrays:
            self._told = None

    def _calls_inside(self) -> tuple[Where, ...]:
        """The calls in the mapped function that an expression is in, the outermost first."""
        calls: list[Where] = []
        for where in reversed(self.callers):
            if where is None:
                break
            calls.append(where)
        return tuple(reversed(calls))

    def note_rule(self, where: Where, rule: Any, cotangents: Any) -> Any:
        """Record what a backward rule gave, also where it gave what it was given."""
        return map_leaves(
            lambda leaf: (
                self._of_rule(where, rule, leaf) if isinstance(leaf, Array) else leaf
            ),
            cotangents,
        )

    def _of_rule(self, where: Where, rule: Any, cotangent: Array) -> Array:
        return self._one(
            (where, self._count(where), 0), rule, cotangent, is_of_rule=True
        )

    def _note_at(
        self, where: Where, what: Any, value: Any, given: Sequence[Any]
    ) -> Any:
        about = Given.among(*given)
        if isinstance(value, Array):
            if self._is_recorded(value):
                return value
            return self._one((where, self._count(where), 0), what, value, about)
        if not isinstance(value, (tuple, list, dict)) or not value:
            return value
        leaves, structure = flatten(value)
        fresh = [
            isinstance(leaf, Array) and not self._is_recorded(leaf) for leaf in leaves
        ]
        if not any(fresh) or len(leaves) > MOST:
            return value
        count = self._count(where)
        made = [
            self._one((where, count, i), what, leaf, about) if is_fresh else leaf
            for i, (leaf, is_fresh) in enumerate(zip(leaves, fresh, strict=True))
        ]
        return unflatten(structure, made)

    def note_cotangent(self, value: Array, cotangent: Array) -> Array:
        """Record the cotangent of an array, if that is recorded itself."""
        where = self.backward(value)
        if where is None:
            return cotangent
        (number,) = value.sources
        before = self.values[number]
        noted = self._one((where, self._count(where), 0), before.what, cotangent)
        self.values[-1] = replace(
            self.values[-1],
            caller=before.caller,
            is_inside=before.is_inside,
            gradient_of=before.number,
        )
        return noted

    def backward(self, value: Array) -> Where | None:
        """Where the cotangent of a recorded array is known under."""
        if not self._is_recorded(value):
            return None
        (number,) = value.sources
        return replace(self.values[number].where, backward=True)

    def led(
        self, sources: Iterable[int], follows: Callable[[Recorded], bool] | None = None
    ) -> set[int]:
        """The values with these numbers, and all that they were computed from; only what ``follows`` is true of is
        followed back further."""
        found: set[int] = set()
        waiting = list(sources)
        while waiting:
            number = waiting.pop()
            if number in found:
                continue
            found.add(number)
            if follows is None or follows(self.values[number]):
                waiting.extend(self.values[number].sources)
        return found

    def _count(self, where: Where) -> int:
        self.met[where] += 1
        return self.met[where] - 1

    def _is_recorded(self, array: Array) -> bool:
        """Whether an array is one that was recorded, such as what a function of the program gave. A cotangent is
        recorded again as what the derivative gave."""
        if len(array.sources) != 1:
            return False
        (before,) = array.sources
        return (
            self.values[before].array.value is array.value
            and not self.values[before].is_backward
        )

    def _one(
        self,
        key: Key,
        what: Any,
        array: Array,
        given: Given = NOTHING,
        is_of_rule: bool = False,
    ) -> Array:
        number = len(self.values)
        inside = None in self.callers
        caller = self.callers[-1] if inside and not is_of_rule else None
        kept = array
        if array.node is not None:
            # which would keep all that gradients were taken of
            kept = replace(array, node=None)
        self.values.append(
            Recorded(
                number,
                key,
                what,
                kept,
                array.sources,
                given,
                caller,
                inside,
                is_of_rule,
            )
        )
        return replace(array, sources=frozenset({number}))
