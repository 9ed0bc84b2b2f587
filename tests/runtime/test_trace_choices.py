"""``trace`` and parameters of few values: each is tried."""

from __future__ import annotations

import enum
from typing import Literal

import pytest

from shardtypes import f32, trace

pytestmark = pytest.mark.once


class Mode(enum.Enum):
    WHOLE = 1
    FIRST = 2


def test_both_values_of_a_flag_are_tried() -> None:
    def pooled(x: f32["B M"], train: bool = False) -> f32["B M"]:
        return x.sum(0) if train else x

    verdict = trace(pooled)
    assert verdict.ok is False
    assert verdict.reason.startswith(
        "pooled with train=True: fails for B=11, M=13: pooled: the result: rank is 1"
    )
    assert trace(pooled, train=False).ok is True


def test_a_flag_that_needs_no_default() -> None:
    def scaled(x: f32["B M"], twice: bool) -> f32["B M"]:
        return x * 2 if twice else x

    verdict = trace(scaled)
    assert (verdict.ok, verdict.proved) == (True, True)
    assert (
        verdict.reason == "scaled: holds for all sizes; with twice=False or twice=True"
    )


def test_literals_and_enumerations() -> None:
    def turned(x: f32["B M"], way: Literal["keep", "turn"] = "keep") -> f32["B M"]:
        return x if way == "keep" else x.T

    def cut(x: f32["B M"], *, mode: Mode) -> f32["B M"]:
        return x if mode is Mode.WHOLE else x[:1]

    assert "turned with way='turn': fails for" in trace(turned).reason
    assert "cut with mode=Mode.FIRST: fails for" in trace(cut).reason


def test_values_that_the_function_refuses_together_are_no_fault() -> None:
    def either(x: f32["B"], a: bool = False, b: bool = False) -> f32["B"]:
        if a and b:
            raise ValueError("a and b exclude each other")
        return x

    assert (
        trace(either).reason
        == "either: holds for all sizes; with 4 combinations of values"
    )


def test_one_value_that_cannot_be_told_is_said() -> None:
    def gated(x: f32["B"], gate: bool = False) -> f32["B"]:
        return x * 2 if gate and x.sum() > 0 else x

    verdict = trace(gated)
    assert verdict.ok is None
    assert verdict.reason.startswith(
        "gated with gate=True: what it does depends on values"
    )


def test_many_flags_are_tried_one_by_one() -> None:
    calls = []

    def six(
        x: f32["B"],
        a: bool = False,
        b: bool = False,
        c: bool = False,
        d: bool = False,
        e: bool = True,
    ) -> f32["B"]:
        calls.append((a, b, c, d, e))
        return x if e else x[0]

    verdict = trace(six)
    assert verdict.ok is False
    assert "e=False" in verdict.reason
    assert calls[0] == (False, False, False, False, True)
    assert all(
        sum(given != default for given, default in zip(call, calls[0], strict=True))
        <= 1
        for call in calls
    )
