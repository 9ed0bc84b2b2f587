"""Laws are tried with what was given or made. What was made fails a law only where it could not have been otherwise:
a mask may say what is there or what is not, and a number may be a length that is never 0, or count positions. Of a mask
that was given other values are tried where a law fails, for what is padded may depend on anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from shardtypes.function_names import display_name
from shardtypes.laws.arguments import Call, Function, Leaf
from shardtypes.laws.verdict import CannotTell, SaysNothing, Verdict
from shardtypes.trace_forms import innermost


def judged(
    f: Function,
    make: Callable[[], Call],
    law: Callable[[Call], Verdict],
    mixed: bool = False,
    masks: bool = False,
) -> Verdict:
    """The verdict over all fillings; *could not tell* where a law cannot be tried, or fails with some only.

    With ``mixed`` truth values along the dimension are both True and False: what they mean does not matter then. With
    ``masks`` a law must fail with other values of given masks, too.
    """
    name = display_name(innermost(f))
    try:
        verdicts: list[tuple[str, Verdict]] = []
        for words, call in fillings(make(), mixed, masks):
            try:
                verdict = law(call)
            except SaysNothing:
                if not verdicts or call.is_made:
                    raise
                continue  # of a mask that was given: one under which there is nothing
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


def fillings(
    call: Call, mixed: bool = False, masks: bool = False
) -> Iterator[tuple[str, Call]]:
    """The call with other truth values and integers in place of those that were made, each with words for them."""
    if mixed:
        call = replace(call, leaves=tuple(map(_mixed, call.leaves)))
    if any(leaf.made and leaf.kind == "b" for leaf in call.leaves):
        truths: list[bool | None] = [True, False]
    else:
        truths = [None]
    if masks and any(_is_mask(leaf) for leaf in call.leaves):
        truths = [None, True, False]
    has_numbers = any(leaf.made and leaf.kind == "i" for leaf in call.leaves)
    ways = [
        (counted, truth)
        for counted in ((False, True) if has_numbers else (False,))
        for truth in truths
    ]
    for number, (counted, truth) in enumerate(ways):
        values = [_filled(leaf, truth, counted, masks) for leaf in call.leaves]
        if truth is None:
            words = []
        else:
            words = [f"all truth values {truth}"]
        words += (
            ["integers that count"]
            if counted
            else ["integers 0 and 1"]
            if has_numbers
            else []
        )
        yield (
            " and ".join(words) or "these arguments",
            replace(call.with_values(values), refilled=number > 0),
        )


def _is_mask(leaf: Leaf) -> bool:
    """Whether an argument that was given says which positions are there: where none is, all may be used."""
    return not leaf.made and leaf.kind == "b" and isinstance(leaf.axis, int)


def _mixed(leaf: Leaf) -> Leaf:
    """With truth values along the dimension that take turns, where they were made."""
    if not leaf.made or leaf.kind != "b" or not isinstance(leaf.axis, int):
        return leaf
    turns = np.arange(leaf.value.shape[leaf.axis]) % 2 == 0
    sizes = [1] * leaf.value.ndim
    sizes[leaf.axis] = turns.size
    return replace(
        leaf, value=np.broadcast_to(turns.reshape(sizes), leaf.value.shape), made=False
    )


def _filled(leaf: Leaf, truth: bool | None, counted: bool, masks: bool) -> Any:
    if (
        leaf.kind == "b"
        and truth is not None
        and (leaf.made or (masks and _is_mask(leaf)))
    ):
        return np.full(leaf.value.shape, truth)
    if not leaf.made or leaf.kind != "i" or not counted:
        return leaf.value
    if not isinstance(leaf.axis, int):
        return np.ones_like(leaf.value)
    sizes = [1] * leaf.value.ndim
    sizes[leaf.axis] = -1
    counting = np.arange(leaf.value.shape[leaf.axis]).reshape(sizes)
    return np.broadcast_to(counting, leaf.value.shape).astype(leaf.value.dtype)
