"""Python numbers that are as large on one device as on many, though they were computed from local sizes."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import prod

from shardlint.ops.sharding.view import View, parted
from shardlint.values import IntValue, Literal, Value
from shardtypes.lang import Size
from shardtypes.lang.size import Atom


def is_whole(number: Value, view: View) -> bool:
    """Whether a number is a product of sizes in which every local one is multiplied by the devices that share it, as
    ``x.shape[0] * axis_size('d')`` is: then no number of devices is a factor of it.

    So is the number one. False where that is not known: for sizes that need not be local, and for other literals.
    """
    if number == Literal(1.0):
        return True
    if isinstance(number, IntValue):
        size = number.size
    else:
        size = None
    if size is None or len(size.terms) != 1:
        return False
    monomial, coefficient = size.terms[0]
    counts: Counter[str] = Counter()
    shared = 1
    for atom in monomial:
        division = _division(atom)
        if division is None:
            if atom.op or atom.name.startswith("?"):
                return False
            counts[atom.name] += atom.name.startswith("|")
            continue
        whole, devices = division
        if not _plain(whole) or len(devices.terms) != 1:
            return False
        names, number_of = devices.terms[0]
        counts.subtract(one.name for one in names)
        shared *= number_of
    local = any(atom.op or atom.name.startswith("?") for atom in monomial)
    return (
        local
        and coefficient == shared
        and not any(counts.values())
        and (shared == 1 or _distinct(view))
    )


def _division(atom: Atom) -> tuple[Size, Size] | None:
    """The whole and the number of parts where an atom is one device's part of a size; None of any other."""
    if atom.op == "//":
        return atom.args[0], atom.args[1]
    if atom.op:
        return None
    return parted(atom.name)


def parts_over(size: Size | None, view: View) -> set[str] | None:
    """The axes over which the whole was split of which the size is one device's part: of ``B//(|d|*|t|)`` d and t. None
    where that is not known."""
    if size is None or len(size.terms) != 1:
        return None
    atoms, coefficient = size.terms[0]
    if coefficient != 1 or len(atoms) != 1:
        return None
    division = _division(atoms[0])
    if division is None or not _plain(division[0]):
        return None
    parts = division[1]
    if len(parts.terms) == 1:
        names, number = parts.terms[0]
        if number == 1 and all(one.name.startswith("|") for one in names):
            return {one.name.strip("|") for one in names}
    found = [set(axes) for axes in _choices(view) if view.count(axes) == parts]
    if len(found) == 1:
        return found[0]
    return None


def _choices(view: View) -> list[tuple[str, ...]]:
    """Every choice of axes that split anything."""
    names = [axis for axis, size in view.axes if size != 1]
    return [some for k in range(1, len(names) + 1) for some in combinations(names, k)]


def _plain(size: Size) -> bool:
    """Whether a size is one of a whole dimension."""
    return size.constant is not None or not set("/|?") & set(str(size))


def _distinct(view: View) -> bool:
    """Whether each number of devices tells along which axes they are counted."""
    sizes = [size for _, size in view.axes if size is not None and size != 1]
    products = [
        prod(some) for k in range(1, len(sizes) + 1) for some in combinations(sizes, k)
    ]
    return len(products) == len(set(products))
