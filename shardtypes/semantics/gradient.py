"""Gradients: the cotangents of a result, taken back through what it was computed from.

The cotangents are arrays like others, made with the same primitives; so their shapes, their numbers and their relations
to what one device computes are readings too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from shardtypes.semantics.array import Array, NoGradient, Node
from shardtypes.semantics.primitives.collectives import psum
from shardtypes.semantics.primitives.elementwise import add
from shardtypes.semantics.primitives.structure import zeros_like

__all__ = ["NoGradient", "pulled_back", "watched"]


def watched(array: Array) -> Array:
    """An input by which a derivative will be taken."""
    return replace(array, node=Node((), lambda cotangents: ()), output=0)


Held = dict[tuple[int, int], Array]
"""Cotangents by node and output."""


def pulled_back(
    results: Sequence[Array], cotangents: Sequence[Array], inputs: Sequence[Array], sizes: Mapping[str, int]
) -> list[Array]:
    """The cotangents of the inputs, zeros where no result depends on one. ``sizes`` are those of the mesh axes.

    Raises NoGradient.
    """
    held: Held = {}
    for result, cotangent in zip(results, cotangents, strict=True):
        _add_to(held, result, cotangent, sizes)
    for node in _in_order(results):
        given = [held.get((id(node), output)) for output in range(node.count)]
        if all(cotangent is None for cotangent in given) or not node.operands:
            continue
        for operand, taken in zip(node.operands, node.pull(given), strict=True):
            if taken is not None:
                _add_to(held, operand, taken, sizes)
    return [held.get((id(array.node), array.output)) or zeros_like(array) for array in inputs]


def _add_to(held: Held, array: Array, cotangent: Array, sizes: Mapping[str, int]) -> None:
    """Add a cotangent. One that varies over more mesh axes than the value did is added up over these: the value was
    cast to vary where it met others (``pvary``), and that is what a cast's gradient is."""
    if array.node is None:
        return
    if array.varying is not None and cotangent.varying is not None:
        more = sorted(cotangent.varying - array.varying)
        if more:
            cotangent = psum(cotangent, axes=tuple((axis, sizes[axis]) for axis in more), groups=None)
    key = id(array.node), array.output
    before = held.get(key)
    held[key] = cotangent if before is None else add(before, cotangent)


def _in_order(results: Sequence[Array]) -> list[Node]:
    """All nodes that the results depend on, those that depend on others first."""
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(result.node, False) for result in results if result.node is not None]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((o.node, False) for o in node.operands if o.node is not None)
    return order[::-1]
