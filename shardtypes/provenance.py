"""Which programs have checks in them that only the compiler can answer.

JAX keeps what it traced, and runs nothing of ours where it uses a trace again: in another program, outside of ``vmap``,
on arguments that lie otherwise. So what is asked is not which checks were just met, but which a program was traced
with. Each program, and each body of a loop or branch in it, names the function that it was traced from, also after
``grad`` or ``vmap`` made another of it. Functions of the same name on the same line count as one: where that is wrong,
a program without checks is compiled once in vain.
"""

from __future__ import annotations

import weakref
from typing import Any

# no public way to find the programs inside a program, and what is being traced
from jax._src.core import (
    jaxprs_in_params,
    trace_ctx,
)

from shardtypes import _stats

_sources: set[str] = set()
# of those, the ones that have checks of another program, which leaves its operations there
_inlining: set[str] = set()
_answers: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def note_check(trace: Any) -> bool:
    """Note that a check was met in a trace. False for one that does not end in a program."""
    info = getattr(getattr(trace, "frame", None), "debug_info", None)
    if info is None:
        return False
    _sources.add(info.func_src_info)
    return True


def note_inlined(trace: Any) -> None:
    """Note that a trace takes over the operations of another program, and with them its checks."""
    if note_check(trace):
        _inlining.add(trace.frame.debug_info.func_src_info)


def note_unchecked() -> None:
    """Note that checks were left out of what is being traced: JAX may use it again when they should be made."""
    trace = trace_ctx.trace
    while trace is not None:
        # then it is traced again, with them, for every program that is compiled later
        if note_check(trace):
            _stats.count_not_possible(
                "traced while checks were off: JAX may run it again later"
            )
            return
        trace = getattr(trace, "parent_trace", None)


def has_checks(program: Any) -> bool:
    """Whether a ``Jaxpr``, or one inside of it, was traced with checks in it."""
    known = _answers.get(program)
    if known is None:
        info = getattr(program, "debug_info", None)
        own = info is not None and info.func_src_info in _sources
        known = own or has_checks_inside(program)
        _answers[program] = known
    return known


def has_checks_inside(program: Any) -> bool:
    """Whether a program inside of a ``Jaxpr``, as of an inner ``jit`` or a loop, was traced with checks in it."""
    info = getattr(program, "debug_info", None)
    if info is not None and info.func_src_info in _inlining:
        return True
    return any(
        has_checks(inner)
        for equation in program.eqns
        for inner in jaxprs_in_params(equation.params)
    )
