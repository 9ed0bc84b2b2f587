"""What the gradients of a run send: each collective on the way back, with the line that it is of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from shardlint.evaluation.recording import Where
from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array, Node, Params
from shardtypes.semantics.primitive import Primitive, telling_nodes, telling_sent
from shardtypes.semantics.simulated import is_of_examples


@dataclass(frozen=True)
class Sent:
    """One collective: the mesh axes that it is over, and the shape and bytes of what a device has of its operand. None
    where the bytes, or who talks with whom, are not known."""

    collective: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    bytes: int | None
    where: Where | None


@dataclass
class Sending:
    """``sent`` is what was told on the way back, in order; ``again`` are the collectives of functions that JAX may run
    once more for a gradient (``jax.checkpoint``)."""

    sent: list[Sent] = field(default_factory=list)
    again: dict[Where, None] = field(default_factory=dict)
    _places: list[Where] = field(default_factory=list)
    _made: dict[int, tuple[Node, Where]] = field(default_factory=dict)
    """Where each step was made. The steps are held, so that no other one has the same ``id``."""
    _depth: int = 0
    _again: int = 0

    @contextmanager
    def heard(self) -> Iterator[None]:
        """In the block, this is told of all collectives."""
        with ExitStack() as stack:
            stack.enter_context(telling_sent(self._hear))
            stack.enter_context(telling_nodes(self._keep))
            yield

    @contextmanager
    def at(self, where: Where) -> Iterator[None]:
        """In the block, an expression of the program is computed."""
        self._places.append(where)
        try:
            yield
        finally:
            self._places.pop()

    @contextmanager
    def backward(self) -> Iterator[None]:
        """In the block, cotangents are taken back."""
        self._depth += 1
        if self._places:
            self._places.append(self._places[-1])
        else:
            self._places.append(Where("", (0, 0, 0, 0)))
        try:
            yield
        finally:
            self._places.pop()
            self._depth -= 1

    @contextmanager
    def run_again(self) -> Iterator[None]:
        """In the block, what is computed may be computed once more for a gradient."""
        self._again += 1
        try:
            yield
        finally:
            self._again -= 1

    def go_back(self, value: Array) -> None:
        """What follows takes the cotangent of a value back through what it was computed by."""
        made = self._made.get(id(value.node))
        if made is not None:
            self._places[-1] = made[1]

    def _keep(self, node: Node) -> None:
        if self._places:
            self._made[id(node)] = (node, self._places[-1])

    def _hear(self, primitive: Primitive, operand: Array, params: Params) -> None:
        axes = [axis for axis in params["axes"] if not is_of_examples(axis)]
        if not axes:
            return
        if not self._depth:
            if self._again and operand.node is not None:
                self.again[self._places[-1]] = None
            return
        self.sent.append(
            Sent(
                collective=primitive.name,
                axes=tuple(name for name, _ in axes),
                shape=_shape(operand),
                bytes=None if params.get("groups") else _bytes(operand),
                where=self._places[-1],
            )
        )


def _shape(array: Array) -> tuple[int, ...]:
    """The sizes of what one device has, with those of the examples that ``vmap`` maps over in front."""
    examples = [size for axis, size in _examples(array)]
    own = [int(size) for size in array.dims or () if isinstance(size, int)]
    return (*examples, *own)


def _examples(array: Array) -> Iterator[tuple[str, int]]:
    for axis in array.value.axes if array.value is not None else ():
        if is_of_examples(axis):
            yield axis


def _bytes(array: Array) -> int | None:
    """What one device has of an array."""
    if array.dtype is None or array.value is None:
        return None
    bits = max(8, dtypes.bits(array.dtype))
    return math.prod(_shape(array)) * bits // 8
