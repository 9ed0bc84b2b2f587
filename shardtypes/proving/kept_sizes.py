"""Sizes of a mesh that a program has read before it runs, and keeps: ``n = mesh.shape["d"]`` in a module or an object.

On a mesh of other sizes such a number is another one. So for a block it is put in the place of the one that is kept.
"""

from __future__ import annotations

import enum
import functools
import itertools
import math
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from shardtypes.function_names import names_used
from shardtypes.proving.relation import Sizes
from shardtypes.proving.size_sources import Source, sources
from shardtypes.trace_forms import beneath
from shardtypes.user_lines import is_of_user

_MOST_VALUES = 5_000
_DEEPEST = 3
"""Of containers in containers."""


@dataclass(frozen=True)
class Kept:
    """A value with numbers that a program keeps under a name, and how another is put in its place."""

    name: str
    value: Any
    put: Callable[[Any], None]


@dataclass(frozen=True)
class Guess:
    """Numbers that may have been made of sizes of the mesh, by what they are on it, with what they would be: of all
    names, or of one."""

    numbers: Mapping[float, float]
    name: str | None = None


class KeptSizes:
    """What a function keeps that was read from a mesh, or may have been."""

    def __init__(self, f: Any) -> None:
        walk = _Walk()
        walk.follow(f)
        self.kept = walk.kept
        self.sources = sources(walk.files)

    def read(self, before: Sizes, after: Sizes) -> list[tuple[Kept, Any]]:
        """Those that certainly were read from a mesh of the one sizes, each as it is on one of the others."""
        changes = []
        for one in self.kept:
            source = self.sources.get(one.name)
            if source is None:
                continue
            other = _read_again(one.value, source, before, after)
            if other is not None and other != one.value:
                changes.append((one, other))
        return changes

    def guessed(self, guess: Guess) -> list[tuple[Kept, Any]]:
        """Those that a guess is about, each as it would be."""
        changes = []
        for one in self.kept:
            if one.name in self.sources:
                continue
            if guess.name is not None and one.name != guess.name:
                continue
            other = _with_others(one.value, guess.numbers, 0)
            if other != one.value:
                changes.append((one, other))
        return changes

    def guesses(
        self, before: Sizes, after: Sizes, shards: Mapping[float, float]
    ) -> Iterator[Guess]:
        """What numbers may be, the likeliest first. ``shards`` are the lengths of shards, with those of the whole."""
        of_sizes = _of_sizes(before, after)
        of_shards = dict(shards)
        both = {**of_shards, **of_sizes}
        seen = []
        for numbers in (of_sizes, both, of_shards):
            changes = self.guessed(Guess(numbers))
            changed = [kept.name for kept, _ in changes]
            if changed and changed not in seen:
                seen.append(changed)
                yield Guess(numbers)
        changes = self.guessed(Guess(both))
        names = dict.fromkeys(kept.name for kept, _ in changes)
        if len(names) > 1:
            for name in names:
                yield Guess(both, name)


@contextmanager
def in_place(changes: Sequence[tuple[Kept, Any]]) -> Iterator[None]:
    """In the block, other values are kept."""
    try:
        for kept, other in changes:
            kept.put(other)
        yield
    finally:
        for kept, _ in changes:
            kept.put(kept.value)


def _read_again(value: Any, source: Source, before: Sizes, after: Sizes) -> Any:
    """What a size that is kept is on another mesh; None where it is no size of the one before."""
    if source.axis is None:
        axes = list(before)
    else:
        axes = [source.axis]
    if not set(axes) <= set(before):
        return None
    is_number = isinstance(value, (int, float))
    if isinstance(value, bool) or not is_number:
        return None
    had = math.prod(before[axis] for axis in axes)
    has = math.prod(after[axis] for axis in axes)
    if source.divides and isinstance(value, int):
        return value * had // has
    if source.divides:
        return value * had / has
    if value == had:
        return has
    return None


def _of_sizes(before: Sizes, after: Sizes) -> dict[float, float]:
    """The sizes of axes, alone and together, and what divides by them. What may be one of two is neither."""
    found: dict[float, set[float]] = {}
    for count in range(1, len(before) + 1):
        for axes in itertools.combinations(before, count):
            had = math.prod(before[axis] for axis in axes)
            has = math.prod(after[axis] for axis in axes)
            sizes = found.setdefault(had, set())
            sizes.add(has)
            shares = found.setdefault(1 / had, set())
            shares.add(1 / has)
    clear = {}
    for number, others in found.items():
        if number != 1 and len(others) == 1:
            clear[number] = others.pop()
    return clear


def _with_others(value: Any, numbers: Mapping[float, float], depth: int) -> Any:
    """A number, or a container of such, with other numbers."""
    if isinstance(value, bool) or depth > _DEEPEST:
        return value
    if isinstance(value, (int, float)):
        return numbers.get(value, value)
    change = functools.partial(_with_others, numbers=numbers, depth=depth + 1)
    if isinstance(value, tuple):
        parts = [change(part) for part in value]
        if hasattr(value, "_make"):
            return type(value)._make(parts)
        if type(value) is tuple:
            return tuple(parts)
        return value
    if type(value) is list:
        return [change(part) for part in value]
    if type(value) is dict:
        return {key: change(part) for key, part in value.items()}
    return value


def _has_numbers(value: Any, depth: int = 0) -> bool:
    if isinstance(value, bool) or depth > _DEEPEST:
        return False
    if isinstance(value, (int, float)):
        return True
    if type(value) is dict:
        value = tuple(value.values())
    if isinstance(value, tuple) or type(value) is list:
        return any(_has_numbers(part, depth + 1) for part in value)
    return False


class _Walk:
    """From a function to all that it keeps, as far as it was written by the user."""

    def __init__(self) -> None:
        self.kept: list[Kept] = []
        self.files: set[str] = set()
        self._seen: set[int] = set()
        self._places: set[tuple[int, str]] = set()
        self._waiting: list[Any] = []

    def follow(self, value: Any) -> None:
        """Walk from this value on."""
        self._waiting.append(value)
        while self._waiting and len(self._seen) < _MOST_VALUES:
            one = self._waiting.pop()
            if id(one) not in self._seen:
                self._seen.add(id(one))
                self._visit(one)

    def _visit(self, value: Any) -> None:
        below = beneath(value)
        if below is not None:
            self._waiting.append(below)
        match value:
            case types.FunctionType():
                self._function(value)
            case types.MethodType():
                self._waiting.append(value.__self__)
            case functools.partial():
                self._partial(value)
            case tuple() | list():
                self._waiting += value
            case dict():
                self._waiting += value.values()
            case type():
                self._class(value)
            case _:
                self._object(value)

    def _function(self, function: types.FunctionType) -> None:
        if not is_of_user(function.__code__.co_filename):
            return
        self.files.add(function.__code__.co_filename)
        names = function.__code__.co_freevars
        for name, cell in zip(names, function.__closure__ or (), strict=True):
            self._cell(name, cell)
        used = names_used(function.__code__)
        outside = function.__globals__
        for name in used & outside.keys():
            value = outside[name]
            if isinstance(value, types.ModuleType):
                self._module(value, used)
            else:
                self._keep(outside, name, value)
        defaults = function.__kwdefaults__ or {}
        for name, value in defaults.items():
            self._keep(defaults, name, value)
        self._defaults(function)

    def _defaults(self, function: types.FunctionType) -> None:
        given = function.__defaults__ or ()
        code = function.__code__
        positional = code.co_varnames[: code.co_argcount]
        first = len(positional) - len(given)
        for number, value in enumerate(given):
            name = positional[first + number]

            def put(other: Any, number: int = number) -> None:
                now = list(function.__defaults__ or ())
                now[number] = other
                function.__defaults__ = tuple(now)

            self._found(id(function), name, value, put)

    def _partial(self, bound: functools.partial[Any]) -> None:
        for name, value in bound.keywords.items():
            self._keep(bound.keywords, name, value)
        for number, value in enumerate(bound.args):
            name = f"argument {number + 1} of partial"

            def put(other: Any, number: int = number) -> None:
                args = list(bound.args)
                args[number] = other
                state = bound.func, tuple(args), bound.keywords, vars(bound)
                bound.__setstate__(state)  # type: ignore[attr-defined]  # how it is unpickled

            self._found(id(bound), name, value, put)

    def _cell(self, name: str, cell: types.CellType) -> None:
        try:
            value = cell.cell_contents
        except ValueError:  # of a name that is not assigned yet
            return

        def put(other: Any) -> None:
            cell.cell_contents = other

        self._found(id(cell), name, value, put)

    def _module(self, module: types.ModuleType, used: Iterable[str]) -> None:
        file = getattr(module, "__file__", None)
        if file is None or not is_of_user(file):
            return
        self.files.add(file)
        inside = vars(module)
        for name in used:
            if name in inside:
                self._keep(inside, name, inside[name])

    def _class(self, cls: type) -> None:
        if not self._is_of_user(cls):
            return
        for name, value in list(vars(cls).items()):
            if name.startswith("__") and name not in ("__call__", "__init__"):
                continue
            if _has_numbers(value) and not issubclass(cls, enum.Enum):
                put = functools.partial(setattr, cls, name)
                self._found(id(cls), name, value, put)
            else:
                self._waiting.append(value)
        self._waiting += cls.__bases__

    def _object(self, value: Any) -> None:
        is_plain = type(value).__name__ in ("SimpleNamespace", "Namespace")
        if not (is_plain or self._is_of_user(type(value))):
            return
        self._waiting.append(type(value))
        inside = getattr(value, "__dict__", {})
        for name, part in list(inside.items()):
            put = functools.partial(object.__setattr__, value, name)
            self._found(id(value), name, part, put)

    def _is_of_user(self, cls: type) -> bool:
        module = sys.modules.get(cls.__module__)
        file = getattr(module, "__file__", None)
        if file is None or not is_of_user(file):
            return False
        self.files.add(file)
        return True

    def _keep(self, holder: dict[str, Any], name: str, value: Any) -> None:
        put = functools.partial(holder.__setitem__, name)
        self._found(id(holder), name, value, put)

    def _found(
        self, holder: int, name: str, value: Any, put: Callable[[Any], None]
    ) -> None:
        if not _has_numbers(value):
            self._waiting.append(value)
            return
        if (holder, name) not in self._places:
            self._places.add((holder, name))
            self.kept.append(Kept(name, value, put))
