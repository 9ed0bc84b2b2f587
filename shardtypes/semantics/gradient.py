"""Gradients: the cotangents of a result, taken back through what it was computed from.

The cotangents are arrays like others, made with the same primitives; so their shapes, their numbers and their relations
to what one device computes are readings too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import shardtypes.semantics.primitives.reductions  # noqa: F401 - gradients of broadcasts name them
from shardtypes.semantics.array import Array, Arrays, Node, NoGradient
from shardtypes.semantics.primitives.collectives import psum
from shardtypes.semantics.primitives.elementwise import add
from shardtypes.semantics.primitives.structure import zeros_like
from shardtypes.semantics.simulated import Axes, Axis, is_of_examples

__all__ = ["NoGradient", "closed_for", "levels_of", "pulled_back", "watched"]


def watched(array: Array, level: int = 0) -> Array:
    """An input by which a derivative will be taken. Derivatives around it go on to what it was computed from."""
    if array.node is None:
        node = Node((), lambda cotangents: (), level=level)
    else:
        node = Node((array,), lambda cotangents: cotangents, level=level)
    return replace(array, node=node, output=0)


def closed_for(array: Array, level: int) -> Array:
    """The array as the derivatives around one see it, which itself does not go back through it."""
    if array.node is None:
        return array
    node = Node((array,), lambda cotangents: cotangents, closed_for=level)
    return replace(array, node=node, output=0)


def levels_of(arrays: Arrays) -> set[int]:
    """The derivatives whose inputs any of these depend on."""
    found: set[int] = set()
    seen: set[tuple[int, frozenset[int]]] = set()
    none: frozenset[int] = frozenset()
    waiting = [(array.node, none) for array in arrays]
    while waiting:
        node, closed = waiting.pop()
        if node is None or (id(node), closed) in seen:
            continue
        seen.add((id(node), closed))
        if node.level and node.level not in closed:
            found.add(node.level)
        if node.closed_for:
            closed |= {node.closed_for}
        waiting.extend((operand.node, closed) for operand in node.operands)
    return found


def _is_open(node: Node, level: int) -> bool:
    """Whether a derivative goes back through a node."""
    if not level:
        return True
    return node.closed_for != level and node.only_for in (0, level)


Observe = Callable[[Array, Array], Array]
Held = dict[tuple[int, int], Array]
"""Cotangents by node and output."""


def pulled_back(
    results: Arrays,
    cotangents: Arrays,
    inputs: Arrays,
    observe: Observe | None = None,
    level: int = 0,
) -> list[Array]:
    """The cotangents of the inputs, zeros where no result depends on one, for the derivative of this ``level``.
    ``observe`` is shown each value with its cotangent, and gives the one to go on with. Raises NoGradient."""
    held: Held = {}
    values: dict[tuple[int, int], Array] = {}
    around = _examples_of([*results, *cotangents])
    for result, cotangent in zip(results, cotangents, strict=True):
        _add_to(held, result, cotangent, around)
        values[id(result.node), result.output] = result
    ends = {id(array.node) for array in inputs}
    for node in _in_order(results, ends):
        if observe is not None:
            for output in range(node.count):
                key = id(node), output
                if key in held:
                    held[key] = observe(values[key], held[key])
        given = [held.get((id(node), output)) for output in range(node.count)]
        if all(cotangent is None for cotangent in given):
            continue
        if id(node) in ends or not _is_open(node, level):
            continue
        for operand, taken in zip(node.operands, node.pull(given), strict=True):
            if taken is not None:
                _add_to(held, operand, taken, around)
                values[id(operand.node), operand.output] = operand
    return [_held_of(held, array) for array in inputs]


def _held_of(held: Held, array: Array) -> Array:
    cotangent = held.get((id(array.node), array.output))
    if cotangent is None:
        return zeros_like(array)
    return cotangent


def _add_to(
    held: Held, array: Array, cotangent: Array, around: Collection[Axis]
) -> None:
    """Add a cotangent. One that varies over more mesh axes than the value did is added up over these: the value was
    cast to vary where it met others (``pvary``), and that is what a cast's gradient is. The examples of a ``vmap`` that
    is derived, which are on one device, are added up before; those of a ``vmap`` ``around`` the derivative have each
    their own."""
    if array.node is None:
        return
    examples = tuple(
        axis for axis in _added_examples(array, cotangent) if axis not in around
    )
    for more in (examples, _added_axes(array, cotangent)):
        if more:
            cotangent = psum(cotangent, axes=more, groups=None)
    key = id(array.node), array.output
    before = held.get(key)
    held[key] = cotangent if before is None else add(before, cotangent)


def _examples_of(arrays: Arrays) -> frozenset[Axis]:
    """The axes of examples in which any of these differs."""
    axes = (
        axis for array in arrays if array.value is not None for axis in array.value.axes
    )
    return frozenset(filter(is_of_examples, axes))


def _added_axes(array: Array, cotangent: Array) -> Axes:
    """The mesh axes that a cotangent varies over by its type, and its value does not."""
    if array.varying is None or cotangent.varying is None:
        return ()
    return tuple(sorted(cotangent.varying - array.varying))


def _added_examples(array: Array, cotangent: Array) -> Axes:
    """The axes of examples in which a cotangent differs by its numbers, and its value does not."""
    if array.value is None or cotangent.value is None:
        return ()
    ours = array.value.axes
    more = {axis for axis in cotangent.value.axes if axis not in ours}
    return tuple(sorted(filter(is_of_examples, more)))


def _in_order(results: Arrays, ends: Collection[int]) -> list[Node]:
    """All nodes that the results depend on, up to the ``ends``, those that depend on others first."""
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [
        (result.node, False) for result in results if result.node is not None
    ]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            if id(node) in ends:
                continue
            for operand in node.operands:
                if operand.node is not None:
                    stack.append((operand.node, False))
    return order[::-1]
