"""Shardings that only the compiler knows: values inside ``jit`` on Auto mesh axes.

The trace says nothing about them, and a call with another sharding compiles again without another trace. So wherever
``jit`` is about to compile a function in which such a check was met, the function is first compiled once more with
the question to the compiler in it; what differs is collected and raised there, before anything runs. The executable
that the user calls has no trace of this. ``SHARDTYPES_COMPILE=0`` in the environment turns it off: then every value
that was not compared is counted.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any

import jax
from jax._src import (
    core,  # no public way to say in which trace an operation belongs
    source_info_util,
)
from jax._src.tree_util import broadcast_prefix  # no public one in the oldest JAX that we support

from shardtypes import _stats, messages
from shardtypes.beneath import beneath
from shardtypes.errors import ShardingError
from shardtypes.scopes import Bound, Site

if TYPE_CHECKING:
    from shardtypes.array_check import ArraySpec


class Collector:
    """What the compiler's answers showed to be wrong, gathered from whatever thread it compiles on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.errors: list[ShardingError] = []
        self.asked = 0
        self.answered = 0
        # Tracers by identity; they are kept so that no other object gets their address.
        self._kept: list[Any] = []
        self._arguments: set[int] = set()
        self._free: set[int] = set()
        self._decided: dict[int, Any] = {}
        self.constrains_results = False

    def add(self, error: ShardingError | None) -> None:
        """Note one answer."""
        with self._lock:
            self.answered += 1
            if error is not None:
                self.errors.append(error)

    def arguments(self, tree: Any, given: Any) -> None:
        """Note the traced arguments of the program, and what was given for them."""
        leaves = jax.tree_util.tree_leaves(tree)
        self._kept += leaves
        self._arguments.update(id(leaf) for leaf in leaves)
        values = jax.tree_util.tree_leaves(given)
        if len(values) == len(leaves):
            self._free.update(
                id(leaf)
                for leaf, value in zip(leaves, values, strict=True)
                if not getattr(value, "committed", isinstance(value, jax.ShapeDtypeStruct))
            )

    def is_free(self, value: Any) -> bool:
        """Whether a value is an argument that nobody placed, so that the compiler may choose where it lies."""
        return id(value) in self._free

    def results(self, tree: Any, out_shardings: Any) -> None:
        """Note the traced results and the ``out_shardings`` that place them, a prefix of their tree."""
        placed = [x for x in jax.tree_util.tree_leaves(out_shardings) if isinstance(x, jax.sharding.Sharding)]
        if not placed:
            return
        self.constrains_results = True
        leaves = jax.tree_util.tree_leaves(tree)
        self._kept += leaves
        if isinstance(out_shardings, jax.sharding.Sharding):
            shardings = [out_shardings] * len(leaves)
        else:
            shardings = broadcast_prefix(out_shardings, tree)
        self._decided.update(
            (id(leaf), sharding)
            for leaf, sharding in zip(leaves, shardings, strict=True)
            if isinstance(sharding, jax.sharding.Sharding)
        )

    def placement(self, value: Any, site: Site, reported: Any) -> Any:
        """Where a value lies: as ``out_shardings`` say, if it is a result; None where nothing is certain."""
        is_argument = id(value) in self._arguments
        if not is_argument or site.role.startswith("the result"):
            decided = self._decided.get(id(value))
            if decided is not None:
                return decided
        if not is_argument and self.constrains_results and reported.is_fully_replicated:
            return None  # moved to where the results belong only at the border
        return reported

    def raise_first(self) -> None:
        """Raise what was found, the others as notes of the first."""
        __tracebackhide__ = True
        if not self.errors:
            return
        first, *others = self.errors
        for other in others:
            first.add_note(f"also: {other}")
        raise first


def retraced() -> AbstractContextManager[Any]:
    """A new part of JAX's cache keys: functions that were traced before are traced again, with the question in them."""
    return _context(next(_traces)) if _context is not None else nullcontext()


_traces = itertools.count(1)


_context = jax.make_user_context(None) if hasattr(jax, "make_user_context") else None

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


def request(
    spec: ArraySpec, value: Any, declared: Sequence[Any], mesh: Any, bindings: tuple[Bound, ...], site: Site
) -> None:
    """Have a traced value's sharding compared when it is compiled."""
    from shardtypes.sharding_check import compare_named, count_agreement  # the two call each other

    if _is_batched_later(sys._getframe(1)):
        _stats.count_not_possible(
            "in a loop, branch or jit under vmap: the dimension that vmap adds is not known there"
        )
        return
    collector = _collector.get()
    if collector is None:
        if not _mark() and not _check_loop(value):
            _stats.count_not_possible("inside a trace on Auto mesh axes, without a checking compile")
        return
    under = beneath(value)
    if under is None:
        _stats.count_not_possible("a ragged value inside vmap")
        return
    traced = under.value
    collector.asked += 1
    dtype = value.dtype

    def answer(sharding: Any) -> None:
        from shardtypes.layouts import layout
        from shardtypes.meshes import mesh_sizes

        if collector.is_free(traced) and not any(declared):
            _stats.count_not_possible("an argument that was not placed, so that the compiler may choose where it lies")
            collector.add(None)
            return
        sharding = collector.placement(traced, site, sharding)
        if sharding is None:
            _stats.count_not_possible("an intermediate value, under out_shardings that place the results")
            collector.add(None)
            return
        concrete = mesh if isinstance(mesh, jax.sharding.Mesh) else getattr(sharding, "mesh", None)
        lies = layout(sharding, mesh=concrete, shape=traced.shape)
        if lies.dims is None or len(lies.dims) != len(traced.shape):
            _stats.count_not_possible("the compiler reported a sharding without axis names")
            collector.add(None)
            return
        lies = lies.without(under.mapped)
        reason = compare_named(declared, spec.shape.pending, lies, mesh_sizes(mesh), lies.shape)
        if not reason:
            if _stats.recording:
                count_agreement(spec, mesh_sizes(mesh), site)
            collector.add(None)
            return
        actual = messages.described(dtype, lies)
        advice = "correct the annotation or the in_shardings, or add a with_sharding_constraint"
        error = ShardingError(messages.sharding_differs(reason, spec.text, actual, _mesh_text(mesh)), site, advice)
        error.bindings = bindings
        collector.add(error)

    with core.set_current_trace(traced._trace):
        jax.debug.inspect_array_sharding(traced, callback=answer)


def _is_batched_later(frame: FrameType | None) -> bool:
    """Whether what is traced here gets another dimension from a ``vmap`` around its trace.

    The compiler then reports shardings of one dimension more, of which nothing says where it is.
    """
    traced = False
    while frame is not None:
        code = frame.f_code
        if traced and code.co_name == "vmap_f" and code.co_filename.endswith("api.py"):
            return True
        traced = traced or (code.co_name.startswith("trace_to_jaxpr") and code.co_filename.endswith("partial_eval.py"))
        frame = frame.f_back
    return False


def _check_loop(value: Any) -> bool:
    __tracebackhide__ = True
    from shardtypes.eager_loops import check_by_itself  # the two call each other

    under = beneath(value)
    return under is not None and check_by_itself(under.value)


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


# Where `jit`, having no executable for a call, traces and compiles: by its names in JAX's releases.
_PLACES = ("_run_python_pjit", "_python_pjit_helper")


@functools.lru_cache(maxsize=1)
def install() -> bool:
    """Have ``jit`` ask us before it compiles. False where this JAX has no such place, or it was turned off."""
    from jax._src import pjit

    place = next((name for name in _PLACES if hasattr(pjit, name)), None)
    if place is None or os.environ.get("SHARDTYPES_COMPILE", "1").strip() == "0":
        return False
    source_info_util.register_exclusion(__file__)  # what is traced below this frame is not written here
    run = getattr(pjit, place)
    signature = inspect.signature(run)
    if not signature.parameters.keys() >= {"fun", "args", "kwargs"}:
        return False

    @functools.wraps(run)
    def checked_run(*values: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        call = signature.bind(*values, **named).arguments
        fun, args, kwargs = call["fun"], call.get("args", ()), call.get("kwargs", {})
        jit_info: Any = sys._getframe(1).f_locals.get("jit_info")
        traced = call["p"] if "p" in call else pjit._infer_params(fun, jit_info, args, kwargs)[0]
        if _has_checks(fun, traced.params["jaxpr"]):
            _check_compile(fun, jit_info, args, kwargs, pjit._cpp_pjit)
        return run(*values, **named)

    setattr(pjit, place, checked_run)
    return True


def install_in_time() -> None:
    """In JAX before 0.9 a call is past that place by the time its trace meets the first check: install before."""
    from jax._src import pjit

    if not hasattr(pjit, _PLACES[0]):
        install()


# The bodies of functions under ``jit`` inside programs that have checks: another program may use the same trace, and
# then nothing of ours runs that would mark it.
_traced_with_checks: weakref.WeakSet[Any] = weakref.WeakSet()


def _has_checks(fun: Any, program: Any) -> bool:
    inner = list(_inner_programs(getattr(program, "jaxpr", program), 0))
    if fun in _to_check:
        _traced_with_checks.update(inner)
        return True
    if not any(body in _traced_with_checks for body in inner):
        return False
    if _context is None:
        _stats.count_not_possible("a jit function traced before, in another program")
        return False
    return True


def _inner_programs(program: Any, depth: int) -> Iterator[Any]:
    if depth > 20:
        return
    for equation in program.eqns:
        for part in jax.tree_util.tree_leaves(
            list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")
        ):
            body = getattr(part, "jaxpr", part)
            if hasattr(body, "eqns"):
                if equation.primitive.name in ("jit", "pjit"):
                    yield body
                yield from _inner_programs(body, depth + 1)


def _check_compile(fun: Any, jit_info: Any, args: Any, kwargs: Any, make_jit: Callable[..., Any]) -> None:
    __tracebackhide__ = True
    if jit_info is None or any(isinstance(x, jax.core.Tracer) for x in jax.tree_util.tree_leaves((args, kwargs))):
        _stats.count_not_possible("inside a nested jit on Auto mesh axes")
        return

    out_shardings = jax.tree_util.tree_unflatten(jit_info.out_shardings_treedef, jit_info.out_shardings_leaves)

    @functools.wraps(fun)
    def again(*a: Any, **k: Any) -> Any:
        collector.arguments((a, k), (args, kwargs))
        made = fun(*a, **k)
        collector.results(made, out_shardings)
        return made

    begun = time.perf_counter()
    with collecting() as collector, retraced():
        try:
            make_jit(again, jit_info).lower(*args, **kwargs).compile()
        except ShardingError:
            raise
        except Exception as error:  # noqa: BLE001 - the program itself is compiled next and says what is wrong with it
            _stats.count_not_possible(f"the checking compile failed: {type(error).__name__}")
            return
        finally:
            name = str(getattr(fun, "__qualname__", fun)).rpartition("<locals>.")[2]
            _stats.spend(f"{getattr(fun, '__module__', '')}.{name}", time.perf_counter() - begun)
    if collector.answered < collector.asked:
        _stats.count_not_possible("the compiler did not report the sharding of a value")
    collector.raise_first()
