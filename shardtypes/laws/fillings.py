"""Laws are tried with what was given or made. What was made fails a law only where it could not have been otherwise:
a mask may say what is there or what is not, and a number may be a length that is never 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from shardtypes.checked import display_name
from shardtypes.laws.arguments import Call, Leaf
from shardtypes.laws.verdict import CannotTell, Verdict
from shardtypes.trace_forms import innermost


def judged(
    f: Callable[..., Any], make: Callable[[], Call], law: Callable[[Call], Verdict], mixed: bool = False
) -> Verdict:
    """The verdict over all fillings; *could not tell* where a law cannot be tried, or fails with some only.

    With ``mixed`` truth values along the dimension are both True and False: what they mean does not matter then.
    """
    name = display_name(innermost(f))
    try:
        verdicts: list[tuple[str, Verdict]] = []
        for words, call in fillings(make(), mixed):
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


def fillings(call: Call, mixed: bool = False) -> Iterator[tuple[str, Call]]:
    """The call with other truth values and integers in place of those that were made, each with words for them."""
    if mixed:
        call = replace(call, leaves=tuple(map(_mixed, call.leaves)))
    kinds = {leaf.kind for leaf in call.leaves if leaf.made and leaf.kind in "bi"}
    truths = (True, False) if "b" in kinds else (None,)
    numbers = (None, 1) if "i" in kinds else (None,)
    for number in numbers:
        for truth in truths:
            values = [_filled(leaf, truth, number) for leaf in call.leaves]
            words = [] if truth is None else [f"all truth values {truth}"]
            words += ["all integers 1"] if number is not None else ["integers 0 and 1"] if "i" in kinds else []
            yield " and ".join(words), call.with_values(values)


def _mixed(leaf: Leaf) -> Leaf:
    """With truth values along the dimension that take turns, where they were made."""
    if not leaf.made or leaf.kind != "b" or not isinstance(leaf.axis, int):
        return leaf
    turns = np.arange(leaf.value.shape[leaf.axis]) % 2 == 0
    sizes = [1] * leaf.value.ndim
    sizes[leaf.axis] = turns.size
    return replace(leaf, value=np.broadcast_to(turns.reshape(sizes), leaf.value.shape), made=False)


def _filled(leaf: Leaf, truth: bool | None, number: int | None) -> Any:
    if not leaf.made:
        return leaf.value
    if leaf.kind == "b":
        return np.full(leaf.value.shape, truth)
    if leaf.kind == "i" and number is not None and leaf.axis is None:
        return np.full_like(leaf.value, number)
    return leaf.value
