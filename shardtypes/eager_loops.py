"""Shardings on Auto axes in loops, branches, ``remat`` and ``jit`` that JAX runs by itself, outside of a ``jit``.

JAX traces their functions and compiles what ``vmap`` and ``grad`` made of them; no ``jit`` asks us before. Where JAX is
about to run such a program, the call is made once more with the questions of ``compiled`` in its trace, up to the same
point; what it would run there is compiled instead, and the answers are compared. A later call whose arguments lie in
another way is checked again, also where JAX uses its trace again.
"""

from __future__ import annotations

import functools
import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import jax
from jax._src import (
    ad_checkpoint,
    core,  # no public way to say in which trace an operation belongs
    pjit,
)
from jax._src.interpreters import batching, partial_eval
from jax._src.lax.control_flow import conditionals, loops

from shardtypes.beneath import beneath, layers
from shardtypes.checking_compile import answer_questions
from shardtypes.compiled import Collector, counted_failures, finish, questions
from shardtypes.provenance import has_checks, note_inlined
from shardtypes.questions import is_asked

# Who traces functions of the user, by file and name in JAX's releases.
_ENTRIES = {
    ("loops.py", "scan"),
    ("loops.py", "while_loop"),
    ("loops.py", "fori_loop"),
    ("loops.py", "map"),
    ("conditionals.py", "cond"),
    ("conditionals.py", "switch"),
    ("ad_checkpoint.py", "fun_remat"),
    ("pjit.py", "cache_miss"),
}
_PRIMITIVES = (
    loops.scan_p,
    loops.while_p,
    conditionals.cond_p,
    ad_checkpoint.remat_p,
    pjit.jit_p,
)


class _Reached(BaseException):
    """Ends the second call where JAX would run it. No ``Exception``, which the user's code may catch."""


class _SecondCall:
    """A call that is made once more, for the questions in it."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self.one_by_one = False  # inside of ``remat``, which runs its operations so

    def reach(
        self, primitive: Any, arguments: tuple[Any, ...], parameters: dict[str, Any]
    ) -> Any:
        """Have the questions answered in what JAX would run here, and end the call."""
        __tracebackhide__ = True
        if self.one_by_one or not any(map(is_asked, core.jaxprs_in_params(parameters))):
            return _originals[primitive](*arguments, **parameters)
        with core.eval_context():
            if primitive is ad_checkpoint.remat_p:
                self.one_by_one = True
                _originals[primitive](*arguments, **parameters)
            else:
                program = jax.jit(lambda *a: primitive.bind(*a, **parameters))
                answer_questions(program.lower(*arguments), self._collector)
        raise _Reached


_second: ContextVar[_SecondCall | None] = ContextVar(
    "shardtypes_second_call", default=None
)
# Set while something runs that was checked as a whole.
covered: ContextVar[bool] = ContextVar("shardtypes_covered", default=False)
# How the arguments lay for which a program was checked; its bodies are kept, and so their ids.
_known: OrderedDict[tuple[Any, ...], tuple[Any, set[Any]]] = OrderedDict()
_originals: dict[Any, Callable[..., Any]] = {}


@functools.lru_cache(maxsize=1)
def install_where_jax_runs() -> None:
    """Have JAX ask us where it runs one of these outside of every trace."""
    for primitive in _PRIMITIVES:
        _originals[primitive] = primitive.impl
        primitive.def_impl(functools.partial(_run, primitive))
    # Under `grad` the operations of `remat` run one by one, and so do the branches of a mapped `cond`.
    rules = partial_eval.custom_partial_eval_rules
    rules[ad_checkpoint.remat_p] = functools.partial(
        _run_remat_partly, rules[ad_checkpoint.remat_p]
    )
    batchers = batching.fancy_primitive_batchers
    batchers[conditionals.cond_p] = functools.partial(
        _run_all_branches, batchers[conditionals.cond_p]
    )
    staging = partial_eval.custom_staging_rules
    staging[pjit.jit_p] = functools.partial(_inline, staging[pjit.jit_p])


def _run(primitive: Any, *arguments: Any, **parameters: Any) -> Any:
    __tracebackhide__ = True
    second = _second.get()
    if second is not None:
        return second.reach(primitive, arguments, parameters)
    if covered.get():
        return _originals[primitive](*arguments, **parameters)
    _check(parameters, arguments)
    token = covered.set(True)
    try:
        return _originals[primitive](*arguments, **parameters)
    finally:
        covered.reset(token)


def _run_remat_partly(
    rule: Callable[..., Any], trace: Any, *tracers: Any, **parameters: Any
) -> Any:
    __tracebackhide__ = True
    values = tuple(tracer.pval.get_known() for tracer in tracers)
    return _run_one_by_one(
        lambda: rule(trace, *tracers, **parameters), parameters, values
    )


def _run_all_branches(
    rule: Callable[..., Any], axis: Any, values: Any, dims: Any, **parameters: Any
) -> Any:
    __tracebackhide__ = True
    if dims[0] is None:
        return rule(axis, values, dims, **parameters)
    return _run_one_by_one(
        lambda: rule(axis, values, dims, **parameters), parameters, values
    )


def _run_one_by_one(
    run: Callable[[], Any], parameters: dict[str, Any], values: Sequence[Any]
) -> Any:
    """Where JAX makes the operations of a body its caller's own, or runs them."""
    __tracebackhide__ = True
    second = _second.get()
    if second is not None:
        second.one_by_one = True
        return run()
    if covered.get() or not any(map(has_checks, core.jaxprs_in_params(parameters))):
        return run()
    traces = [trace for trace in map(_trace_beneath, values) if trace is not None]
    if traces:
        for trace in traces:
            note_inlined(trace)
        return run()
    _check(parameters, tuple(values))
    token = covered.set(True)
    try:
        return run()
    finally:
        covered.reset(token)


def _trace_beneath(value: Any) -> Any:
    """The trace to which a value belongs in the end, None for arrays."""
    under = beneath(value)
    return getattr(value if under is None else under.value, "_trace", None)


def _inline(
    rule: Callable[..., Any], trace: Any, *arguments: Any, **parameters: Any
) -> Any:
    """``jit(inline=True)`` inside of another program leaves its operations there, and no program of its own."""
    if has_checks(parameters["jaxpr"].jaxpr):
        note_inlined(trace)
    return rule(trace, *arguments, **parameters)


def _check(parameters: dict[str, Any], arguments: tuple[Any, ...]) -> None:
    """Make the call around this once more with questions, if that is due. Raises ``ShardingError``."""
    __tracebackhide__ = True
    if not any(map(has_checks, core.jaxprs_in_params(parameters))):
        return
    call = _call(sys._getframe(1))
    if call is None:  # a backward pass, of a function whose call was checked
        return
    bodies = list(core.jaxprs_in_params(call.parameters or parameters))
    key = (*map(id, bodies), *map(_wrapping, call.operands))
    shardings = tuple(getattr(argument, "sharding", None) for argument in arguments)
    if shardings in _known.get(key, (None, ()))[1]:
        return
    with questions(call.function, inside=True) as collector:
        if collector is None:
            return
        token = _second.set(_SecondCall(collector))
        try:
            with core.set_current_trace(call.trace), counted_failures():
                call.function(*call.arguments, **call.keywords)
        except _Reached:
            pass
        finally:
            _second.reset(token)
    finish(collector)
    _known.setdefault(key, (bodies, set()))[1].add(shardings)
    if len(_known) > 256:
        _known.popitem(last=False)


@dataclass
class _Call:
    """A call of a loop, branch, ``remat`` or ``jit``, and what JAX got for it: the trace, the operands, the bodies."""

    trace: Any
    operands: Sequence[Any] = ()
    parameters: dict[str, Any] | None = None
    function: Any = None
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)


def _call(frame: FrameType | None) -> _Call | None:
    """The innermost such call around a frame."""
    call = _Call(core.eval_trace)
    while frame is not None:
        code, names = frame.f_code, frame.f_locals
        if code.co_name == "process_primitive" and isinstance(
            names.get("self"), core.Trace
        ):
            call.trace, _, call.operands, call.parameters = (
                names[name] for name in code.co_varnames[:4]
            )
        if is_entry(frame):
            call.function, call.arguments, call.keywords = (
                names["fun"],
                names.get("args", ()),
                names.get("kwargs", {}),
            )
            return call
        frame = frame.f_back
    return None


def _wrapping(operand: Any) -> tuple[Any, ...]:
    """The tracers of ``vmap`` and ``grad`` around an operand: they make other programs of one body."""
    return tuple(
        (type(under.value).__name__, under.mapped) for under in layers(operand)
    )


def is_entry(frame: FrameType) -> bool:
    """Whether a frame is the wrapper that JAX puts around one of these functions of its own."""
    if not frame.f_code.co_filename.endswith("traceback_util.py"):
        return False
    inner = getattr(frame.f_locals.get("fun"), "__code__", None)
    return (
        inner is not None
        and (os.path.basename(inner.co_filename), inner.co_name) in _ENTRIES
    )
