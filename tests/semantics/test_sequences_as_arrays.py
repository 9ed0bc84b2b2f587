"""A list in the place of an array: what the linter reports of it (ST219), JAX refuses."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from shardlint.ops import lowered
from shardlint.ops.registry import Call as Asked
from shardlint.ops.registry import OpContext, OpError
from tests.semantics.call import Call, resolved
from tests.semantics.calls import CALLS
from tests.semantics.test_symbolic import symbolic

pytestmark = pytest.mark.once
#: One call of each function.
FIRST = {call.name: call for call in reversed(CALLS) if lowered.is_lowered(call.name)}


def with_lists(call: Call) -> Iterator[Call]:
    """The call with one of its arrays as the list of its rows."""
    for k, argument in enumerate(call.args):
        if isinstance(argument, np.ndarray) and argument.ndim:
            args = (*call.args[:k], list(argument), *call.args[k + 1 :])
            yield replace(call, args=args)


def is_reported(call: Call) -> bool:
    found = lowered.find_lowered(call.name)
    assert found is not None
    named = {name: symbolic(one) for name, one in (call.kwargs or {}).items()}
    bound = found.bind([symbolic(one) for one in call.args], named)
    if bound is None:
        return False
    try:
        lowered.model(call.name, Asked(call.name, bound, OpContext()))
    except OpError as error:
        return error.code == "ST219"
    return False


def is_refused(call: Call) -> bool:
    """Whether JAX refuses it where it is traced: there alone some functions look."""
    arrays: list[Any] = []

    def noted(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray):
            arrays.append(leaf)
        return leaf

    jax.tree.map(noted, (call.args, call.kwargs))

    def run(given: list[Any]) -> Any:
        rest = iter(given)
        changed = lambda leaf: next(rest) if isinstance(leaf, np.ndarray) else leaf  # noqa: E731 - one line
        args, kwargs = jax.tree.map(changed, (call.args, call.kwargs or {}))
        return resolved(call.name)(*args, **kwargs)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            jax.eval_shape(run, arrays)
    except Exception:  # noqa: BLE001 - whatever JAX says of it
        return True
    return False


def test_jax_refuses_what_is_reported() -> None:
    calls = [one for call in FIRST.values() for one in with_lists(call)]
    reported = [call for call in calls if is_reported(call)]
    assert len(reported) > 100
    wrong = {call.name for call in reported if not is_refused(call)}
    assert not wrong
