"""Shardings that only the compiler knows: values inside ``jit`` on Auto mesh axes.

The trace says nothing about them, and a call with another sharding compiles again without another trace. So wherever
``jit`` is about to compile a function in which such a check was met, the function is first compiled once more with
the question to the compiler in it; what differs is collected and raised there, before anything runs. The executable
that the user calls has no trace of this. ``SHARDTYPES_COMPILE=0`` in the environment turns it off: then every value
that was not compared is counted.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
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
        if spec.sharded and not _mark():
            _stats.count_not_possible("inside a trace on Auto mesh axes, without a checking compile")
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


_to_check: weakref.WeakSet[Any] = weakref.WeakSet()


def _mark() -> bool:
    """Note that the ``jit`` that is tracing has checks for its compiler. False where there is none to be found."""
    if not install():
        return False
    frame = sys._getframe(1)
    found: Any = None
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name == "cache_miss" and frame.f_code.co_filename.endswith("pjit.py"):
            found = frame.f_locals.get("fun")  # the outermost one is where the program is compiled
    if found is None:
        return False
    try:
        _to_check.add(found)
    except TypeError:  # a callable that cannot be referred to weakly
        return False
    return True


@functools.lru_cache(maxsize=1)
def install() -> bool:
    """Have ``jit`` ask us before it compiles. False where this JAX has no such place, or it was turned off."""
    from jax._src import pjit

    run = getattr(pjit, "_run_python_pjit", None)
    if run is None or os.environ.get("SHARDTYPES_COMPILE", "1").strip() == "0":
        return False

    @functools.wraps(run)
    def checked_run(p: Any, args_flat: Any, fun: Any, args: Any, kwargs: Any) -> Any:
        if fun in _to_check:
            _check_compile(fun, sys._getframe(1).f_locals.get("jit_info"), args, kwargs, pjit._cpp_pjit)
        return run(p, args_flat, fun, args, kwargs)

    pjit._run_python_pjit = checked_run
    return True


def _check_compile(fun: Any, jit_info: Any, args: Any, kwargs: Any, make_jit: Callable[..., Any]) -> None:
    if jit_info is None or any(isinstance(x, jax.core.Tracer) for x in jax.tree_util.tree_leaves((args, kwargs))):
        _stats.count_not_possible("inside a nested jit on Auto mesh axes")
        return

    @functools.wraps(fun)
    def again(*a: Any, **k: Any) -> Any:
        return fun(*a, **k)

    with collecting() as collector:
        try:
            make_jit(again, jit_info).lower(*args, **kwargs).compile()
        except ShardingError:
            raise
        except Exception as error:  # noqa: BLE001 - the program itself is compiled next and says what is wrong with it
            _stats.count_not_possible(f"the checking compile failed: {type(error).__name__}")
            return
    if collector.answered < collector.asked:
        _stats.count_not_possible("the compiler did not report the sharding of a value")
    collector.raise_first()
