"""Shardings on Auto axes in loops, branches and ``remat`` that run outside of ``jit``.

JAX traces their functions and compiles them by itself, so no ``jit`` asks us first. At the first check in such a trace
the call is made once more, with the questions of ``compiled`` in its trace, up to the point where JAX would run it;
what it would run is compiled instead, and the answers are compared. A later call that JAX runs from its cache of
traces is checked again where its arguments lie in another way.
"""

from __future__ import annotations

import functools
import os
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import jax
from jax._src import (
    ad_checkpoint,
    core,  # no public way to say in which trace an operation belongs
)
from jax._src.lax.control_flow import conditionals, loops

from shardtypes import _stats

# Who traces functions of the user, by file and name in JAX's releases.
_ENTRIES = {
    ("loops.py", "scan"),
    ("loops.py", "while_loop"),
    ("loops.py", "fori_loop"),
    ("loops.py", "map"),
    ("conditionals.py", "cond"),
    ("conditionals.py", "switch"),
    ("ad_checkpoint.py", "fun_remat"),
}
_PRIMITIVES = (loops.scan_p, loops.while_p, conditionals.cond_p, ad_checkpoint.remat_p)


class _Reached(BaseException):
    """Ends the second call where JAX would run it. No ``Exception``, which the user's code may catch."""


@dataclass
class _Program:
    """What JAX would run, with questions in it."""

    collector: Any
    primitive: Any = None
    arguments: tuple[Any, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    asked: set[Any] = field(default_factory=set)

    def ask(self, arguments: tuple[Any, ...]) -> None:
        """Have the answers for these arguments, once for each way in which they lie."""
        __tracebackhide__ = True
        lie = _placement(arguments)
        if lie in self.asked:
            return
        self.asked.add(lie)
        self.collector.errors.clear()
        with core.eval_context():
            if self.primitive is ad_checkpoint.remat_p:  # its operations run one by one
                _original(self.primitive)(*arguments, **self.parameters)
            else:
                jax.jit(lambda *a: self.primitive.bind(*a, **self.parameters)).lower(*arguments).compile()
        self.collector.raise_first()


def _placement(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(getattr(a, "sharding", None) for a in arguments)


_reaching: ContextVar[_Program | None] = ContextVar("shardtypes_reaching", default=None)
# The program with questions that belongs to the next one that JAX runs, and those of programs that it ran.
_next: ContextVar[_Program | None] = ContextVar("shardtypes_next_program", default=None)
_known: OrderedDict[tuple[int, ...], tuple[Any, _Program]] = OrderedDict()
_traces: list[weakref.ref[Any]] = []
_originals: dict[Any, Callable[..., Any]] = {}


def _original(primitive: Any) -> Callable[..., Any]:
    return _originals[primitive]


@functools.lru_cache(maxsize=1)
def _install() -> None:
    """Have JAX ask us where it runs one of these outside of every trace."""
    for primitive in _PRIMITIVES:
        _originals[primitive] = primitive.impl
        primitive.def_impl(functools.partial(_run, primitive))


def _run(primitive: Any, *arguments: Any, **parameters: Any) -> Any:
    __tracebackhide__ = True
    program = _reaching.get()
    if program is not None:
        program.primitive, program.arguments, program.parameters = primitive, arguments, parameters
        raise _Reached
    bodies = [x for x in jax.tree_util.tree_leaves(list(parameters.values()), is_leaf=_is_body) if _is_body(x)]
    key = tuple(map(id, bodies))
    following = _next.get()
    if following is not None and following.primitive is primitive:
        _next.set(None)
        _known[key] = (bodies, following)  # which keeps the bodies, and so their ids
        if len(_known) > 256:
            _known.popitem(last=False)
    elif key in _known:
        _known[key][1].ask(arguments)
    return _originals[primitive](*arguments, **parameters)


def _is_body(x: Any) -> bool:
    return hasattr(x, "eqns")


def check_by_itself(traced: Any) -> bool:
    """Check the call of a loop, branch or ``remat`` around the trace of this value, which no ``jit`` surrounds.

    False where there is none, or it cannot be made again. Raises ``ShardingError``.
    """
    __tracebackhide__ = True
    from shardtypes.compiled import collecting, retraced  # the two call each other

    trace = traced._trace
    if os.environ.get("SHARDTYPES_COMPILE", "1").strip() == "0":
        return False
    if any(ref() is trace for ref in _traces):
        return True
    entry = _entry(sys._getframe(1))
    if entry is None:
        return False
    function, arguments, keywords = entry
    leaves = jax.tree_util.tree_leaves((arguments, keywords))
    around = {id(leaf._trace): leaf._trace for leaf in leaves if isinstance(leaf, jax.core.Tracer)}
    if len(around) > 1:
        return False
    _install()
    with collecting() as collector, retraced():
        program = _Program(collector)
        token = _reaching.set(program)
        try:
            with core.set_current_trace(next(iter(around.values()), core.eval_trace)):
                function(*arguments, **keywords)
        except _Reached:
            pass
        finally:
            _reaching.reset(token)
    if program.primitive is None:
        return False
    program.ask(program.arguments)
    if collector.answered < collector.asked:
        _stats.count_not_possible("the compiler did not report the sharding of a value")
    _traces[:] = [ref for ref in _traces if ref() is not None] + [weakref.ref(trace)]
    _next.set(program)
    return True


def _entry(frame: FrameType | None) -> tuple[Any, Any, Any] | None:
    """The outermost call of a loop, branch or ``remat``: function, arguments and keywords.

    None inside of ``jit``, and of what traces as it does.
    """
    found = None
    while frame is not None:
        code = frame.f_code
        name = os.path.basename(code.co_filename)
        if name == "pjit.py" or code.co_name in ("make_jaxpr", "eval_shape"):
            return None
        if name == "traceback_util.py":  # the wrapper that JAX puts around its functions
            names = frame.f_locals
            inner = getattr(names.get("fun"), "__code__", None)
            if inner is not None and (os.path.basename(inner.co_filename), inner.co_name) in _ENTRIES:
                found = names["fun"], names.get("args", ()), names.get("kwargs", {})
        frame = frame.f_back
    return found
