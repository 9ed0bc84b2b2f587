"""Calls with other shapes than those of the tables: what the linter says of a lowered function is what JAX says.

``VARIED_CALLS=20 pytest tests/semantics/test_varied.py`` tries many more.
"""

from __future__ import annotations

import os
import warnings
from random import Random
from typing import Any

import numpy as np
import pytest

from shardlint.ops import lowered
from shardlint.ops.registry import MODELS, OpError
from shardlint.values import ArrayValue, Unknown, Value
from shardtypes.lang import Size
from tests.semantics.call import Call, types_in_jax
from tests.semantics.calls import CALLS
from tests.semantics.test_symbolic import asked, parts, symbolic

pytestmark = pytest.mark.once

TIMES = int(os.environ.get("VARIED_CALLS", "2"))
#: Refused by JAX when they are compiled; to be traced they are taken.
REFUSED_LATER = frozenset({"jax.lax.reshape"})
#: What the linter asks lowerings about.
NAMES = sorted(
    name
    for name in {call.name for call in CALLS} - MODELS.keys() - REFUSED_LATER
    if lowered.is_lowered(name)
)
_TOGETHER = 40
GROUPS = [NAMES[k : k + _TOGETHER] for k in range(0, len(NAMES), _TOGETHER)]


def varied(argument: Any, random: Random) -> Any:
    """An argument of another shape, or another number."""
    if isinstance(argument, np.ndarray) and argument.size:
        shape = _varied_shape(list(argument.shape), random)
        return np.resize(argument, shape).astype(argument.dtype)
    if isinstance(argument, (tuple, list)):
        return type(argument)(varied(item, random) for item in argument)
    if type(argument) is int and random.random() < 0.25:
        return random.choice([-3, -2, -1, 0, 1, 2, 3])
    return argument


def _varied_shape(shape: list[int], random: Random) -> list[int]:
    size = random.choice([1, 2, 3, 4])
    kind = random.choice(["same", "new", "size", "more", "less"])
    if kind == "new":
        return [random.choice([1, 2, 3, 4]) for _ in range(random.choice([0, 1, 2, 3]))]
    if kind == "more":
        shape.insert(random.randrange(len(shape) + 1), size)
    elif kind == "size" and shape:
        shape[random.randrange(len(shape))] = size
    elif kind == "less" and shape:
        shape.pop(random.randrange(len(shape)))
    return shape


def numbered(argument: Any) -> Value:
    """An argument as the linter knows it, its sizes as numbers."""
    return symbolic(argument, Size.const)


def fault(call: Call) -> str | None:
    """What is wrong with what is said of a call."""
    args = [numbered(argument) for argument in call.args]
    kwargs = {name: numbered(value) for name, value in (call.kwargs or {}).items()}
    refusal = None
    found: Value | None = None
    try:
        found = asked(call.name, args, kwargs)
    except OpError as error:
        refusal = error.message
    if refusal is None and (found is None or isinstance(found, Unknown)):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            types = types_in_jax(call)
    except Exception:  # noqa: BLE001 - whatever JAX says of it
        return None
    if refusal is not None:
        return f"{refusal}; JAX gives {types}"
    assert found is not None
    said = parts(found)
    if len(said) != len(types):
        return f"{len(said)} results, JAX gives {types}"
    for one, (shape, dtype) in zip(said, types, strict=True):
        if not isinstance(one, ArrayValue) or one.dims is None:
            continue
        sizes = [None if dim.size is None else dim.size.constant for dim in one.dims]
        if len(sizes) != len(shape) or any(
            size not in (None, wanted)
            for size, wanted in zip(sizes, shape, strict=True)
        ):
            return f"shape {sizes}, JAX gives {types}"
        if one.dtype not in (None, dtype):
            return f"dtype {one.dtype}, JAX gives {types}"
    return None


@pytest.mark.long
@pytest.mark.parametrize(
    "group", GROUPS, ids=[f"{one[0]}-to-{one[-1]}" for one in GROUPS]
)
def test_varied_calls(group: list[str]) -> None:
    random = Random(group[0])
    wrong = []
    for call in CALLS:
        if call.name not in group:
            continue
        for _ in range(TIMES):
            args = tuple(varied(argument, random) for argument in call.args)
            kwargs = {
                k: varied(value, random) for k, value in (call.kwargs or {}).items()
            }
            other = Call(call.name, args, kwargs)
            why = fault(other)
            if why is not None:
                shapes = [getattr(arg, "shape", arg) for arg in args]
                wrong.append(f"{call}{shapes} {kwargs}: {why}")
    assert not wrong, "\n".join(wrong)


def test_a_false_alarm_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*call: object) -> Value:
        raise OpError("ST204", "it does not fit")

    monkeypatch.setattr(f"{__name__}.asked", refused)
    call = Call("jax.scipy.special.softmax", (np.ones((2, 3)),))
    assert "does not fit; JAX gives" in (fault(call) or "")
