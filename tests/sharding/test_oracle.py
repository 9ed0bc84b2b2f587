"""JAX is the oracle: what the engine says of values in manual code holds on eight devices, against one."""

from __future__ import annotations

import os
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from shardlint.ops.sharding.state import sharded, state
from shardlint.values import ArrayValue, Unknown
from tests.sharding.programs import (
    MESH,
    SIZES,
    Program,
    Statement,
    assembled,
    claims,
    locals_of,
    mesh,
    opinion,
    programs,
    reported_lines,
    right_in_some_way,
    trace,
)

BATCH = 40
#: Rules that say of a value that its numbers are wrong.
_WRONG_NUMBERS = frozenset({"ST301", "ST302", "ST303", "ST304", "ST309"})
#: What makes few numbers of many, so that devices may agree by chance.
_ROUNDING = ("int32", "jnp.arg", "> ", "top_k", "searchsorted")
CASES = int(os.environ.get("ORACLE_CASES", "40"))
COUNTS = {
    "variables": 0,
    "claims": 0,
    "weak": 0,
    "reports": 0,
    "miscounted": 0,
    "varying": 0,
    "bare": 0,
}


def _close(a: Any, b: Any) -> bool:
    return a.shape == b.shape and bool(
        np.allclose(a, b, rtol=2e-3, atol=2e-3, equal_nan=True)
    )


def _shape_agrees(value: ArrayValue, local: tuple[int, ...]) -> bool:
    if value.dims is None:
        return True
    if len(value.dims) != len(local):
        return False
    for dim, actual in zip(value.dims, local, strict=True):
        devices = prod(MESH[axis] for axis in dim.axes or ())
        if (
            dim.size is not None
            and not dim.size.is_opaque
            and dim.size.evaluate(SIZES) != actual * devices
        ):
            return False
    return True


def _refute(message: str, many: Any, one: Any) -> None:
    """The devices' values, of which something wrong is said, do not make up what one device computes."""
    parts, alone = np.asarray(many, np.float64), np.asarray(one, np.float64)[0, 0]
    # else numbers may agree by chance
    telling = np.issubdtype(np.asarray(many).dtype, np.floating)
    several = telling and len(np.unique(alone.round(6))) > 3
    assert not (several and right_in_some_way(parts, alone)), message


def _judge_varying(message: str, value: ArrayValue, parts: np.ndarray) -> None:
    """Where the engine would report a value that leaves as if it were the same on all devices, it is not."""
    telling = (
        np.issubdtype(parts.dtype, np.floating) and len(np.unique(parts.round(6))) > 8
    )
    for axis in value.varying - sharded(value):
        if telling and axis in MESH and axis not in value.unclear:
            COUNTS["varying"] += 1
            place = list(MESH).index(axis)
            assert not np.allclose(
                parts, parts.take([0], place), rtol=1e-6, atol=1e-7
            ), f"{axis}: {message}"


def _judge(program: Program, many: dict[str, Any], one: dict[str, Any]) -> None:
    seen, found = opinion(program)
    text = program.source() + "\n".join(f"{e.code} {e.message}" for e in found)
    for name, code in reported_lines(program, found) if found else ():
        if code in _WRONG_NUMBERS and name in many and name in one:
            COUNTS["reports"] += 1
            _refute(f"{name}: {code} though it is right\n{text}", many[name], one[name])
    for name, value in seen.items():
        if not isinstance(value, ArrayValue):
            continue
        kinds = {mark for _, mark in value.marks}
        # one more sum may make a share whole
        if name in one and "miscounted" in kinds and "shared" not in kinds:
            COUNTS["miscounted"] += 1
            _refute(
                f"{name}: miscounted though it is right\n{value}\n{text}",
                many[name],
                one[name],
            )
        COUNTS["variables"] += 1
        parts = np.asarray(many[name])
        assert _shape_agrees(value, parts.shape[2:]), (
            f"{name}: local shape {parts.shape[2:]}\n{value}\n{text}"
        )
        if not program.mentions(name, _ROUNDING):
            _judge_varying(f"{name}: devices agree\n{value}\n{text}", value, parts)
        if (
            name not in one
            or not claims(value)
            or not np.isfinite(parts.astype(np.float64)).all()
        ):
            continue
        try:
            whole = assembled(value, parts.astype(np.float64))
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}\n{value}\n{text}") from None
        weak = value.constant or program.counts_devices(name)
        if weak or any(mark == "scaled" for _, mark in value.marks):
            COUNTS["weak"] += 1
            continue
        COUNTS["claims"] += 1
        alone = np.asarray(one[name])[0, 0].astype(np.float64)
        assert whole is not None and _close(whole, alone), (
            f"{name}:\n{value}\n{text}\n{whole}\n{alone}"
        )


def _judge_bare(program: Program, many: dict[str, Any], one: dict[str, Any]) -> None:
    """Without annotations the engine knows along which axes a value is the same on all devices, and where not."""
    seen, found = opinion(program, bare=True)
    text = program.source(bare=True) + "\n".join(f"{e.code} {e.message}" for e in found)
    for name, code in reported_lines(program, found, bare=True) if found else ():
        if code in _WRONG_NUMBERS and name in many and name in one:
            COUNTS["reports"] += 1
            _refute(f"{name}: {code} though it is right\n{text}", many[name], one[name])
    for name, known in seen.items():
        value = known.leaf if isinstance(known, Unknown) else known
        parts = np.asarray(many[name])
        if (
            not isinstance(value, ArrayValue)
            or not value.manual
            or not np.isfinite(parts.astype(np.float64)).all()
        ):
            continue
        assert _shape_agrees(value, parts.shape[2:]), (
            f"{name}: local shape {parts.shape[2:]}\n{value}\n{text}"
        )
        if not program.mentions(name, _ROUNDING):
            _judge_varying(f"{name}: devices agree\n{value}\n{text}", value, parts)
        for place, axis in enumerate(MESH):
            if state(value, axis) == "replicated":
                COUNTS["bare"] += 1
                same = np.allclose(parts, parts.take([0], place), rtol=1e-4, atol=1e-4)
                assert same, f"{name}: devices along {axis} differ\n{value}\n{text}"


def _hold(drawn: list[list[Statement]], check_vma: bool) -> list[Program]:
    """Run the programs on eight devices and on one, and hold what the engine says of them against that."""
    batch = [Program(statements) for statements in drawn]
    trace(batch, mesh(2, 4), check_vma)
    batch = [program for program in batch if program.lines]
    many = locals_of(batch, mesh(2, 4), check_vma)
    one = locals_of(batch, mesh(1, 1), check_vma)
    for program, values, alone in zip(batch, many, one, strict=True):
        _judge(program, values, alone)
        _judge_bare(program, values, alone)
    return batch


@settings(
    max_examples=max(CASES // BATCH, 1), deadline=None, suppress_health_check=list(HealthCheck), database=None,
    # a batch shrinks by seconds a step; the message has the one program
    phases=[Phase.generate],
    derandomize="ORACLE_CASES" not in os.environ,  # the long run looks for new programs
)  # fmt: skip
@given(st.lists(programs(), min_size=BATCH, max_size=BATCH), st.booleans())
def _hold_samples(drawn: list[list[Statement]], check_vma: bool) -> None:
    _hold(drawn, check_vma)


@pytest.mark.once
# JAX, of reductions of ints
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
def test_what_the_engine_says_holds_on_eight_devices() -> None:
    """It says something of most variables, too: an oracle of silence would agree with everything."""
    COUNTS.update(dict.fromkeys(COUNTS, 0))
    _hold_samples()
    assert COUNTS["claims"] > COUNTS["variables"] * 0.2, COUNTS
    assert COUNTS["bare"] > COUNTS["variables"] * 0.2, COUNTS


#: Programs of which the engine once said something untrue.
_ONCE_WRONG: list[list[Statement]] = [
    # on each device the columns of its own part were reversed: sums of them are no parts of one array
    [
        ("jnp.flip({a}, axis=-1)", 1, 0, "d"),
        ("jax.ops.segment_sum({a}, jnp.arange({a}.shape[0]) % 2, 2)", 0, 0, "d"),
    ],
]


@pytest.mark.once
def test_programs_that_were_once_misjudged() -> None:
    assert [len(program.lines) for program in _hold(_ONCE_WRONG, check_vma=False)] == [
        len(p) for p in _ONCE_WRONG
    ]
