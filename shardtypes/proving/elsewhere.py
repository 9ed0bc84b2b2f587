"""Other meshes and other sizes that a question is asked for as well."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from shardtypes.proving.relation import Sizes

Shapes: TypeAlias = tuple[tuple[int, ...], ...]

PRIME = 3
"""By which sizes grow: no power of two, as sizes in programs are."""
_MOST = 8
"""Sizes that are tried one by one."""
_LEAST = 4
"""No size becomes smaller than this."""


def other_meshes(sizes: Sizes) -> list[dict[str, int]]:
    """Meshes of the same axes: one axis is twice or half as long, or two change places."""
    axes = list(sizes)
    found = []
    for axis, size in sizes.items():
        found.append({**sizes, axis: 2 * size})
    found += [
        {**sizes, axis: size // 2}
        for axis, size in sizes.items()
        if size > 2 and size % 2 == 0
    ]
    found += [
        {**sizes, a: sizes[b], b: sizes[a]}
        for a, b in zip(axes, axes[1:], strict=False)
    ]
    different: list[dict[str, int]] = []
    for mesh in found:
        if mesh != dict(sizes) and mesh not in different:
            different.append(mesh)
    return different


def larger(
    shapes: Shapes, factor: int, can_be: Callable[[Shapes], bool]
) -> Shapes | None:
    """Shapes in which as many sizes as the program bears are ``factor`` times as large, those that are equal together;
    None where it bears no other. ``can_be`` says whether the program takes arguments of some shapes."""
    grown = {size: [size * factor] for size in _sizes(shapes)}
    return _changed(shapes, grown, can_be)


def smaller(
    shapes: Shapes,
    kept: Kept,
    can_be: Callable[[Shapes], bool],
) -> Shapes | None:
    """Shapes in which as many sizes as the program bears are small, those that are equal together; None where it bears
    no other. ``can_be`` as above."""
    sizes = sorted(_sizes(shapes))
    options = {}
    few = _shrunk(sizes, kept, lambda size: kept.parts.get(size, 1))
    more = _shrunk(sizes, kept, lambda size: math.gcd(size, kept.unit))
    for size in sizes:
        both = []
        for shrunk in (more,) if kept.picks else (few, more):
            if size in shrunk:
                both.append(shrunk[size])
        if both:
            options[size] = both
    return _changed(shapes, options, can_be)


@dataclass(frozen=True)
class Kept:
    """What small sizes keep of larger ones.

    Args:
        parts: Into how many parts sizes are divided among devices.
        unit: The number of devices. Sizes stay multiples of what they share with it where a device ``picks`` by its
            number, or where the program bears nothing less.
        indices: The largest entries of arguments that may be indices, which must not leave a dimension.
        least: What each device has at least of a dimension.
    """

    parts: Mapping[int, int]
    unit: int
    picks: bool
    indices: Sequence[int]
    least: int


def _shrunk(
    sizes: Sequence[int], kept: Kept, step_of: Callable[[int], int]
) -> dict[int, int]:
    """Small sizes for larger ones, all of them different, and multiples of their steps."""
    found: dict[int, int] = {}
    taken: set[int] = set()
    for size in sizes:
        step = step_of(size)
        small = kept.least * step
        while small < _LEAST or small in taken:
            small += step
        cuts = any(small <= index < size for index in kept.indices)
        if small < size and not cuts:
            found[size] = small
        taken.add(found.get(size, size))
    return found


def _sizes(shapes: Shapes) -> set[int]:
    return {size for shape in shapes for size in shape if size > 1}


def _changed(
    shapes: Shapes,
    options: Mapping[int, Sequence[int]],
    can_be: Callable[[Shapes], bool],
) -> Shapes | None:
    """Shapes with as many other sizes as the program bears: the first options of all, or one after the other."""
    if not options:
        return None
    firsts = {size: others[0] for size, others in options.items()}
    together = _with_sizes(shapes, firsts)
    if can_be(together):
        return together
    chosen: dict[int, int] = {}
    for size in sorted(options, reverse=True)[:_MOST]:
        for other in options[size]:
            more = {**chosen, size: other}
            if can_be(_with_sizes(shapes, more)):
                chosen = more
                break
    if chosen:
        return _with_sizes(shapes, chosen)
    return None


def _with_sizes(shapes: Sequence[Sequence[int]], others: Mapping[int, int]) -> Shapes:
    return tuple(tuple(others.get(size, size) for size in shape) for shape in shapes)
