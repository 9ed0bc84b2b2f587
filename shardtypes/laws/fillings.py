"""Laws are tried with what was given or made. What was made fails a law only where it could not have been otherwise:
a mask may say what is there or what is not, and a number may be a length that is never 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from shardtypes.checked import display_name
from shardtypes.laws.arguments import Call
from shardtypes.laws.verdict import CannotTell, Verdict
from shardtypes.trace_forms import innermost


def judged(f: Callable[..., Any], make: Callable[[], Call], law: Callable[[Call], Verdict]) -> Verdict:
    """The verdict over all fillings; *could not tell* where a law cannot be tried, or fails with some only."""
    name = display_name(innermost(f))
    try:
        verdicts: list[tuple[str, Verdict]] = []
        for words, call in fillings(make()):
            verdict = law(call)
            if verdict.ok is True and not verdicts:
                return verdict
            verdicts.append((words, verdict))
            if verdict.ok is True:
                failed, first = verdicts[0]
                reason = f"{first.reason}; so with {failed}, not with {words}: give examples of these arguments"
                return Verdict(None, reason)
    except CannotTell as error:
        return Verdict(None, f"{name}: {error}")
    return verdicts[0][1]


def fillings(call: Call) -> Iterator[tuple[str, Call]]:
    """The call with other truth values and integers in place of those that were made, each with words for them."""
    kinds = {leaf.kind for leaf in call.leaves if leaf.made and leaf.kind in "bi"}
    truths = (True, False) if "b" in kinds else (None,)
    numbers = (None, 1) if "i" in kinds else (None,)
    for number in numbers:
        for truth in truths:
            values = [_filled(leaf, truth, number) for leaf in call.leaves]
            words = [] if truth is None else [f"all truth values {truth}"]
            words += ["all integers 1"] if number is not None else ["integers 0 and 1"] if "i" in kinds else []
            yield " and ".join(words), call.with_values(values)


def _filled(leaf: Any, truth: bool | None, number: int | None) -> Any:
    if not leaf.made:
        return leaf.value
    if leaf.kind == "b":
        return np.full(leaf.value.shape, truth)
    if leaf.kind == "i" and number is not None and leaf.axis is None:
        return np.full_like(leaf.value, number)
    return leaf.value
