"""Shardings that only the compiler knows: values inside ``jit`` on Auto mesh axes.

The trace says nothing about them. While compile-time inspection is on, the compiler is asked at every compile; what
differs is collected and raised at the border. The question stays in the executable and makes each of its calls dearer,
so it is off unless asked for, and then every value that was not compared is counted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import jax

from shardtypes import _stats, messages
from shardtypes.errors import ShardingError
from shardtypes.scopes import Site

if TYPE_CHECKING:
    from shardtypes.array_check import ArraySpec


class Collector:
    """What the compiler's answers showed to be wrong, gathered from whatever thread it compiles on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.errors: list[ShardingError] = []
        self.asked = 0
        self.answered = 0

    def add(self, error: ShardingError | None) -> None:
        """Note one answer."""
        with self._lock:
            self.answered += 1
            if error is not None:
                self.errors.append(error)

    def raise_first(self) -> None:
        """Raise what was found, the others as notes of the first."""
        if not self.errors:
            return
        first, *others = self.errors
        for other in others:
            first.add_note(f"also: {other}")
        raise first


_collector: ContextVar[Collector | None] = ContextVar("shardtypes_compile_checks", default=None)


@contextmanager
def collecting() -> Iterator[Collector]:
    """Ask the compiler about everything that is traced in the block."""
    collector = Collector()
    token = _collector.set(collector)
    try:
        yield collector
    finally:
        _collector.reset(token)


def request(spec: ArraySpec, value: Any, declared: Sequence[Any], mesh: Any, site: Site) -> None:
    """Have a traced value's sharding compared when it is compiled."""
    from shardtypes.sharding_check import compare_named  # the two call each other

    collector = _collector.get()
    if collector is None:
        if spec.sharded:
            _stats.count_not_possible("inside jit on Auto mesh axes, without a checking compile")
        return
    if type(value).__name__ == "BatchTracer":
        _stats.count_not_possible("inside vmap inside jit on Auto mesh axes")
        return
    collector.asked += 1
    rank = len(value.shape)
    shape = tuple(value.shape)
    dtype = value.dtype

    def answer(sharding: Any) -> None:
        from shardtypes.layouts import layout
        from shardtypes.meshes import mesh_sizes

        concrete = mesh if isinstance(mesh, jax.sharding.Mesh) else getattr(sharding, "mesh", None)
        lies = layout(sharding, mesh=concrete, shape=shape)
        if lies.dims is None or len(lies.dims) != rank:
            _stats.count_not_possible("the compiler reported a sharding without axis names")
            collector.add(None)
            return
        reason = compare_named(declared, spec.shape.pending, lies, mesh_sizes(mesh), shape)
        if not reason:
            collector.add(None)
            return
        actual = f"{messages.short_dtype(dtype)}[{', '.join(str(lies).split())}]"
        advice = "correct the annotation or the in_shardings, or add a with_sharding_constraint"
        collector.add(
            ShardingError(messages.sharding_differs(reason, spec.text, actual, _mesh_text(mesh), advice), site)
        )

    jax.debug.inspect_array_sharding(value, callback=answer)


def _mesh_text(mesh: Any) -> str:
    from shardtypes.meshes import format_mesh

    return format_mesh(mesh)
