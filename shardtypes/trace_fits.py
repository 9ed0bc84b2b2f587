"""Sizes that must be equal to what a configuration says, or to a product of others: read off the errors.

Where ``(11, 512)`` does not go with ``(11, 17)``, a size of 17 may have to be 512. That is right where a configuration
says 512; where it is ``H*D`` the annotations leave it out, which is no certain failure. Two names of one signature are
never taken for one size, but a field of a dataclass may have another name than the same size in a signature.
"""

from __future__ import annotations

import itertools
import math
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shardtypes.errors import ShardTypeError
from shardtypes.trace_own_names import owner_of
from shardtypes.trace_sizes import Sizes

# Numbers of a configuration, beyond which their products are not looked at.
_MOST_NUMBERS = 24
_LARGEST = 2**31
# Numbers that small stand in every program: that one fits means little.
_FEW = 4
# How much of an error is read.
_LONGEST_ERROR = 1000
# A reshape to another number of elements; of how many names sizes are looked for then, and how many of these are tried.
_RESHAPE = re.compile(
    r"cannot reshape array of shape (\([\d, ]+\)) \(size \d+\) into shape (\([\d, ]+\)) \(size (\d+)\)"
)
_MOST_AT_ONCE, _MOST_RESHAPES = 3, 8
# So small are the sizes of dimensions that ``vmap`` maps, or that ``...`` stands for.
_CHANCE = 8


@dataclass(frozen=True)
class Fit:
    """Sizes of which some are fixed, and which of these are equal to what no annotation says: ``M = H*D``."""

    sizes: Sizes
    fixed: Mapping[str, int] = field(default_factory=dict)
    equal: tuple[str, ...] = ()

    def numbers(self, series: Sequence[int]) -> dict[str, int]:
        """A size for each name."""
        return {**self.sizes.numbers(series), **self.fixed}


@dataclass(frozen=True)
class Known:
    """Numbers that a size may have to equal: ``pool``, those of configurations; ``constants``, those that have a name
    of their own, as ``LAYERS`` has; ``called``, those that a configuration has by the name of a size; ``given``, the
    sizes of arrays that are given as examples."""

    pool: frozenset[int]
    constants: frozenset[int] = frozenset()
    called: Mapping[str, int] = field(default_factory=dict)
    given: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Fitter:
    """``direct`` and ``fields``: the names that only annotations of the signature have, and those that only fields of
    dataclasses have; ``starts``: the sizes to begin with, the best last."""

    known: Known
    direct: frozenset[str]
    fields: frozenset[str]
    starts: list[Sizes]

    def fitted(self, fit: Fit, trial: Any) -> Iterator[Fit]:
        """The sizes with one fixed to what the error of a trial suggests, those of configurations first."""
        suggested = list(self._suggested(fit, trial))
        yield from (made for made in suggested if made.equal == fit.equal)
        yield from (made for made in suggested if made.equal != fit.equal)

    def _suggested(self, fit: Fit, trial: Any) -> Iterator[Fit]:
        mentioned = _numbers_in(trial.error)
        configured = closed(self.known.pool)
        for sizes in self._of_reshape(fit, trial, configured):
            yield replace(fit, fixed={**fit.fixed, **sizes})
        for name, value in trial.sizes.items():
            if not self._is_free(fit, name):
                continue
            factor = fit.sizes.factor(name)
            for number in _in_place_of(value, mentioned):
                if number % factor:
                    continue
                fixed = {**fit.fixed, name: number}
                if number == self.known.called.get(name):
                    yield replace(fit, fixed=fixed)
                    continue
                if (
                    number in configured
                    and number > _FEW
                    and number not in trial.sizes.values()
                ):
                    yield replace(fit, fixed=fixed)
                    continue
                words = self._why_equal(name, number, trial)
                if words is not None:
                    yield replace(fit, fixed=fixed, equal=(*fit.equal, words))

    def _why_equal(self, name: str, number: int, trial: Any) -> str | None:
        """What a size may be equal to, in words; None for a number that nothing explains."""
        equal = f"{name} = {number}"
        if number in self.known.given:
            return equal
        if number % trial.sizes[name]:
            words = self._words(name, number, trial)
            if words is not None:
                return words
        if number in self.known.constants and number <= _FEW:
            return equal
        # what a class leaves open the program may know
        is_left_open = name in self.fields and number not in trial.sizes.values()
        if is_left_open and 1 < number <= _CHANCE:
            return equal
        return None

    def _of_reshape(
        self, fit: Fit, trial: Any, configured: frozenset[int]
    ) -> list[dict[str, int]]:
        """What sizes must be for a reshape into numbers of configurations: those whose product is as large, the numbers
        that configurations have themselves first."""
        found = _RESHAPE.match(str(trial.error))
        if found is None:
            return []
        shape, wanted = (
            [int(number) for number in re.findall(r"\d+", text)]
            for text in found.groups()[:2]
        )
        count = int(found[3])
        free = [
            name
            for name, size in trial.sizes.items()
            if size in shape and self._is_free(fit, name)
        ]
        if len(free) > _MOST_AT_ONCE:  # dimensions that stay fit as they are
            free = [name for name in free if trial.sizes[name] not in wanted]
        count, rest = divmod(
            count, math.prod(shape) // math.prod(trial.sizes[name] for name in free)
        )
        numbers = sorted(
            (n for n in configured if count % n == 0),
            key=lambda n: (n not in self.known.pool, n),
        )
        if rest or not 0 < len(free) <= _MOST_AT_ONCE or len(numbers) > _MOST_NUMBERS:
            return []
        chosen = itertools.product(numbers, repeat=len(free))
        fitting = [sizes for sizes in chosen if math.prod(sizes) == count]
        fitting.sort(
            key=lambda sizes: sum(size not in self.known.pool for size in sizes)
        )
        return [
            dict(zip(free, sizes, strict=True)) for sizes in fitting[:_MOST_RESHAPES]
        ]

    def _is_free(self, fit: Fit, name: str) -> bool:
        return name not in fit.fixed and fit.sizes.named[name].constant is None

    def _are_independent(self, name: str, other: str) -> bool:
        """Whether two names may stand for one size: those of a field and of a signature, or of two objects."""
        kinds = {name, other}
        one_of_each = bool(kinds & self.fields) and bool(kinds & self.direct)
        owners = {owner_of(one) for one in kinds}
        return one_of_each or len(owners - {""}) > 1

    def _words(self, name: str, number: int, trial: Any) -> str | None:
        """What a size is equal to; None for what is wrong: one of two names, or a number that an annotation lacks."""
        others = {other: size for other, size in trial.sizes.items() if other != name}
        same = [other for other, size in others.items() if size == number]
        if same:
            free = [other for other in same if self._are_independent(name, other)]
            if free and trial.outcome == "refused":
                return f"{name} = {free[0]}"
            return None
        product = _product(number, others)
        if product is None and trial.outcome == "refused":
            product = next(
                (
                    f"{number // size}*{other}"
                    for other, size in others.items()
                    if number % size == 0
                ),
                None,
            )
        if product is not None:
            return f"{name} = {product}"
        # Sizes of one shard are parts of sizes, and what is 1 broadcasts.
        by_chance = number < _CHANCE or any(
            size % number == 0 for size in others.values()
        )
        return (
            f"{name} = {number}"
            if trial.outcome == "refused" and not by_chance
            else None
        )


def _numbers_in(error: Exception | None) -> list[int]:
    text = str(error)
    if isinstance(error, ShardTypeError):
        text = text.partition("\n")[0]  # what follows says where names were bound
    found = (int(number) for number in re.findall(r"\d+", text[:_LONGEST_ERROR]))
    return list(dict.fromkeys(number for number in found if number > 0))


def _in_place_of(value: int, mentioned: Sequence[int]) -> list[int]:
    """What a size may have to be: as much larger as one number of a message is than another that it divides."""
    parts = [number for number in mentioned if number % value == 0]
    found = {
        value * whole // part
        for part in parts
        for whole in mentioned
        if value * whole % part == 0
    }
    return sorted(number for number in found if 0 < number < _LARGEST)


def _product(number: int, sizes: Mapping[str, int]) -> str | None:
    """The names of two or three sizes whose product it is, or such a product by a small number."""
    for count in (2, 3):
        for names in itertools.combinations(sizes, count):
            whole = math.prod(sizes[name] for name in names)
            if whole == number:
                return "*".join(names)
            if number % whole == 0 and number // whole < min(sizes.values()):
                return "*".join([str(number // whole), *names])
            if whole % number == 0 and whole // number < min(sizes.values()):
                return f"{'*'.join(names)}/{whole // number}"
    return None


# --- configurations -----------------------------------------------------------------------------------------------


def numbers_of(values: Sequence[Any]) -> frozenset[int]:
    """The integers in values, such as configurations: their attributes, and items of containers in them."""
    found: set[int] = set()
    waiting = [(value, 0) for value in values]
    seen: set[int] = set()
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, bool) or id(value) in seen or depth > 3:
            continue
        if isinstance(value, int):
            found.add(value)
            continue
        seen.add(id(value))
        waiting += [(part, depth + 1) for part in _parts(value)]
    return frozenset(number for number in found if 1 < number < _LARGEST)


def numbers_called(values: Sequence[Any]) -> dict[str, int]:
    """The integers that configurations have by name, as ``cfg.layers``; none of a name that stands for several."""
    found: dict[str, set[int]] = {}
    for value in values:
        for name, number in _named_parts(value):
            if isinstance(number, int) and not isinstance(number, bool):
                found.setdefault(name, set()).add(number)
    return {
        name: next(iter(numbers))
        for name, numbers in found.items()
        if len(numbers) == 1
    }


def _named_parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((key, part) for key, part in value.items() if isinstance(key, str))
    elif hasattr(value, "_fields"):
        yield from zip(value._fields, value, strict=True)
    elif not isinstance(value, (type, types.ModuleType, types.FunctionType)):
        yield from getattr(value, "__dict__", {}).items()


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from value
    elif not isinstance(
        value, (str, bytes, type, types.ModuleType, types.FunctionType)
    ):
        yield from getattr(value, "__dict__", {}).values()


def closed(pool: frozenset[int]) -> frozenset[int]:
    """The numbers, and what programs make of them: halves, quotients, and products of up to four."""
    if len(pool) > _MOST_NUMBERS:
        return pool
    products = set(pool)
    for _ in range(3):
        products |= {a * b for a in products for b in pool if a * b < _LARGEST}
    quotients = {a // b for a in products for b in pool | {2} if a % b == 0}
    return frozenset(number for number in products | quotients if number > 1)
