"""What is beneath the tracers of ``vmap`` and ``grad``: an array, or a traced value that the compiler knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Beneath:
    """``value`` is an array, or a tracer of ``jit``, ``scan`` and the like. ``mapped`` are the positions of the
    dimensions that ``vmap`` took away from it, in the order in which to take them away from its shape."""

    value: Any
    mapped: tuple[int, ...] = ()

    def example(self, dims: Sequence[T]) -> tuple[T, ...]:
        """What is left for one example of something that the value has for each of its dimensions."""
        left = list(dims)
        for position in self.mapped:
            del left[position]
        return tuple(left)


def layers(value: Any) -> Iterator[Beneath]:
    """A value, and what is under each of its tracers of ``vmap`` and ``grad``; ends early where JAX does not tell."""
    mapped: tuple[int, ...] = ()
    while True:
        yield Beneath(value, mapped)
        kind = type(value).__name__
        if kind in ("JVPTracer", "LinearizeTracer"):
            value = value.primal
        elif kind == "BatchTracer":
            position = value.batch_dim
            if type(position) is int:
                mapped = (position, *mapped)
            elif position is not None:
                return  # ragged
            value = value.val
        else:
            return


def beneath(value: Any) -> Beneath | None:
    """The value under the tracers of ``vmap`` and ``grad``; None where JAX does not tell."""
    *_, last = layers(value)
    return None if type(last.value).__name__ == "BatchTracer" else last
