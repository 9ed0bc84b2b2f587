"""Other meshes and other sizes that a question is asked for as well."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from shardtypes.proving.relation import Sizes

Shapes: TypeAlias = tuple[tuple[int, ...], ...]

PRIME = 3
"""By which sizes grow: no power of two, as sizes in programs are."""
_MOST = 8
"""Sizes that are tried one by one."""


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
    sizes = {size for shape in shapes for size in shape if size > 1}
    together = _grown(shapes, sizes, factor)
    if not sizes or can_be(together):
        return together if sizes else None
    free: set[int] = set()
    for size in sorted(sizes, reverse=True)[:_MOST]:
        if can_be(_grown(shapes, free | {size}, factor)):
            free.add(size)
    if free:
        return _grown(shapes, free, factor)
    return None


def _grown(
    shapes: Sequence[Sequence[int]], chosen: Collection[int], factor: int
) -> Shapes:
    return tuple(
        tuple(size * factor if size in chosen else size for size in shape)
        for shape in shapes
    )
