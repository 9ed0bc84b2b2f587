"""The compiler's answers to the questions in a program.

It is stopped once it has given all of them. Shardings are decided before anything is made faster, or code: most of what
a compilation takes is left out.
"""

from __future__ import annotations

from typing import Any

import jax

from shardtypes.compiled import Collector, quick_options
from shardtypes.questions import answers_due


def answer_questions(lowered: Any, collector: Collector) -> None:
    """Have the questions in a lowered program answered. Raises what the compiler does where it fails before."""
    due = answers_due(lowered.compiler_ir("stablehlo"))
    if not due:  # on one device they were answered when it was lowered
        return
    if not _waits_for_others():
        collector.expect(due)
    try:
        lowered.compile(compiler_options=quick_options())
    except jax.errors.JaxRuntimeError:
        if not collector.is_stopped:
            raise


def _waits_for_others() -> bool:
    """Whether other processes wait for what this one compiles: then it has to come to an end."""
    return bool(jax.config.jax_share_binary_between_hosts)  # type: ignore[attr-defined]  # JAX adds its options there
