"""Where ``jit`` compiles: there the compiler is first given a program with checks with the questions in it.

JAX has no public place for this. Where a release has none of those that we know, nothing is asked, and every check is
counted.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from types import FrameType
from typing import Any

import jax
from jax._src import core, pjit, source_info_util, stages

from shardtypes import _stats, eager_loops
from shardtypes.checking_compile import answer_questions
from shardtypes.compiled import (
    asking,
    counted_failures,
    finish,
    looking,
    questions,
)
from shardtypes.eager_loops import covered, install_where_jax_runs, is_entry
from shardtypes.provenance import has_checks, has_checks_inside

# Where `jit`, having no executable for a call, traces and compiles: by its names in JAX's releases.
_PLACES = ("_run_python_pjit", "_python_pjit_helper")


@functools.lru_cache(maxsize=1)
def install() -> bool:
    """Have JAX ask us before it compiles. False where this JAX has no such place, or it was turned off."""
    place = next((name for name in _PLACES if hasattr(pjit, name)), None)
    if place is None or os.environ.get("SHARDTYPES_COMPILE", "1").strip() == "0":
        return False
    run = getattr(pjit, place)
    signature = inspect.signature(run)
    if not signature.parameters.keys() >= {"fun", "args", "kwargs"}:
        return False
    names = tuple(signature.parameters)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    is_fixed = kinds == {inspect.Parameter.POSITIONAL_OR_KEYWORD}
    # what is traced below these frames is not written there
    for file in (__file__, eager_loops.__file__):
        source_info_util.register_exclusion(file)

    @functools.wraps(run)
    def checked_run(*values: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        if asking():
            return run(*values, **named)
        if is_fixed:  # as `bind` does, in a tenth of its time
            call = {**dict(zip(names, values, strict=False)), **named}
        else:
            call = signature.bind(*values, **named).arguments
        fun, args, kwargs = call["fun"], call.get("args", ()), call.get("kwargs", {})
        if any(
            isinstance(x, jax.core.Tracer)
            for x in jax.tree_util.tree_leaves((args, kwargs))
        ):
            # asked where the program around it is compiled, or by itself run
            return run(*values, **named)
        jit_info: Any = sys._getframe(1).f_locals.get("jit_info")
        traced = (
            call["p"]
            if "p" in call
            else pjit._infer_params(fun, jit_info, args, kwargs)[0]
        )
        program = traced.params["jaxpr"].jaxpr
        if has_checks(program):
            _check(fun, jit_info, args, kwargs, program)
        token = covered.set(True)
        try:
            return run(*values, **named)
        finally:
            covered.reset(token)

    lower = stages.Traced.lower

    @functools.wraps(lower)
    def checked_lower(traced: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if not asking() and not looking.get() and has_checks(traced.jaxpr.jaxpr):
            _check_ahead(sys._getframe(1), traced.jaxpr.jaxpr)
        return lower(traced, *args, **kwargs)

    setattr(pjit, place, checked_run)
    stages.Traced.lower = checked_lower  # type: ignore[method-assign, assignment]  # no public place to be asked
    install_where_jax_runs()
    return True


def install_in_time() -> None:
    """In JAX before 0.9 a call is past that place by the time its trace meets the first check: install before."""
    if not hasattr(pjit, _PLACES[0]):
        install()


def is_compiled(frame: FrameType | None) -> bool:
    """Whether what is traced here is compiled where we are asked first: by ``jit``, or where a loop runs by itself."""
    found = only_traced = False
    while frame is not None:
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if file.endswith("api.py") and name in ("eval_shape", "make_jaxpr_f"):
            return False
        if file.endswith("pjit.py") and name in (
            "jit_trace",
            "jit_eval_shape",
            "jit_lower",
        ):
            only_traced = name != "jit_lower"
            found = found or not only_traced
        elif is_entry(frame):
            found = True
        frame = frame.f_back
    return found and not only_traced


# What stands between a function and the ``jit`` that it is handed to.
_BETWEEN = ("jax", "shardtypes", "flax", "equinox", "functools", "contextlib")


def is_placed_by_jit(function: str) -> bool:
    """Whether what a checked function returns goes to ``jit`` and nowhere else, which places it by its
    ``out_shardings``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        names = frame.f_locals
        jit_info = names.get("ji", names.get("jit_info"))
        leaves = getattr(jit_info, "out_shardings_leaves", None)
        if leaves is not None:
            return any(type(leaf).__name__ != "UnspecifiedValue" for leaf in leaves)
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        is_itself = frame.f_code.co_name == function.rpartition(".")[2]
        if package not in _BETWEEN and not is_itself:
            return False
        frame = frame.f_back
    return False


def _check_ahead(frame: FrameType | None, program: Any) -> None:
    """``jit(f).lower(…)``: the function and its arguments are in the frames of the call."""
    __tracebackhide__ = True
    for _ in range(6):
        if frame is not None and frame.f_code.co_name == "jit_lower":
            names = frame.f_locals
            jitted = names["jit_func"]
            fun, jit_info = jitted._fun, jitted._jit_info
            _check(fun, jit_info, names["args"], names["kwargs"], program)
            return
        frame = frame.f_back if frame is not None else None
    _stats.count_not_possible("traced and compiled ahead of time, in two steps")


def _check(fun: Any, jit_info: Any, args: Any, kwargs: Any, program: Any) -> None:
    """Trace a function once more, with the questions in it, for the compiler. Raises ``ShardingError``.

    ``program`` is what it was traced to without them.
    """
    __tracebackhide__ = True
    if jit_info is None:
        _stats.count_not_possible("inside a jit of a form that is not known")
        return
    out_shardings = jax.tree_util.tree_unflatten(
        jit_info.out_shardings_treedef, jit_info.out_shardings_leaves
    )
    checks_inside = has_checks_inside(program)
    with questions(fun, inside=checks_inside) as collector:
        if collector is None:
            return
        asked = collector

        @functools.wraps(fun)
        def again(*a: Any, **k: Any) -> Any:
            if not checks_inside:
                asked.trace = core.trace_ctx.trace
            asked.arguments((a, k), (args, kwargs))
            made = fun(*a, **k)
            asked.results(made, out_shardings)
            return made

        with counted_failures():
            lowered = pjit._cpp_pjit(again, jit_info).lower(*args, **kwargs)
            answer_questions(lowered, collector)
    finish(collector)
