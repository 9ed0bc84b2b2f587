"""The compiler's answers to the questions in a program.

They are read from the disk, where an earlier process kept them. Else the compiler is asked, and stopped once it has
given all of them. Shardings are decided before anything is made faster, or code: most of what a compilation takes is
left out.
"""

from __future__ import annotations

from typing import Any

import jax

from shardtypes.compiled import Collector, quick_options
from shardtypes.kept_answers import entry_of, read_answers, write_answers
from shardtypes.questions import answers_due


def answer_questions(lowered: Any, collector: Collector) -> None:
    """Have the questions in a lowered program answered. Raises what the compiler does where it fails before."""
    due = answers_due(lowered.compiler_ir("stablehlo"))
    if not due:  # on one device they were answered when it was lowered
        return
    if _waits_for_others():  # those may have no answers on their disk
        lowered.compile(compiler_options=quick_options())
        return
    names = list(due)
    entry = entry_of(lowered, due, collector.devices)
    kept = None if entry is None else read_answers(entry, due)
    if kept is not None:
        for position, sharding in kept:
            collector.takers[names[position]](sharding)
        return
    collector.expect(due)
    try:
        lowered.compile(compiler_options=quick_options())
    except jax.errors.JaxRuntimeError:
        if not collector.is_stopped:
            raise
    if entry is not None and collector.is_stopped:
        positions = {name: position for position, name in enumerate(names)}
        write_answers(
            entry, [(positions[name], given) for name, given in collector.given]
        )


def _waits_for_others() -> bool:
    """Whether other processes wait for what this one compiles: then it has to come to an end."""
    return bool(jax.config.jax_share_binary_between_hosts)  # type: ignore[attr-defined]  # JAX adds its options there
