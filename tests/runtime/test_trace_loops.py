"""Python loops over sizes: few steps are traced, and what holds for these is shown for all of the other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from shardtypes import f32, trace
from shardtypes.trace_series import CHAINS, COMPOSITES, FAR_APART, PRIMES, numbers_for


def by_index(x: f32["B L M"]) -> f32["B M"]:
    return sum(x[:, i] for i in range(x.shape[1]))


def by_row(x: f32["L M"]) -> f32["M"]:
    return sum(row for row in x)


def by_length(x: f32["L M"]) -> f32["L M"]:
    return jnp.stack([x[i] * 2 for i in range(len(x))])


def recurrent(x: f32["B L M"], w: f32["M M"]) -> f32["B L M"]:
    h, outs = jnp.zeros((x.shape[0], x.shape[2])), []
    for i in range(x.shape[1]):
        h = jnp.tanh(x[:, i] @ w + h @ w)
        outs.append(h)
    return jnp.stack(outs, 1)


def chunked(x: f32["L M"]) -> f32["L M"]:
    return jnp.concatenate([x[i : i + 4] for i in range(0, x.shape[0], 4)])


def repeated(x: f32["L M"]) -> f32["M"]:
    return sum([x[0]] * x.shape[0]) + sum(x.shape[0] * (x[0],))


@pytest.mark.parametrize(
    "f", [by_index, by_row, by_length, recurrent, chunked, repeated]
)
def test_what_holds_for_some_steps_is_shown_for_all_other_sizes(f: Any) -> None:
    verdict = trace(f)
    assert verdict.ok is True and not verdict.proved
    first = "13" if f in (by_index, recurrent) else "11"
    assert verdict.reason == (
        f"{f.__name__}: holds for all sizes where L={first}, and where L=7"
    )


def wrong_by_index(x: f32["B L M"]) -> f32["B M"]:
    return by_index(x).T


def wrong_by_row(x: f32["L M"]) -> f32["L"]:
    return by_row(x)


@pytest.mark.parametrize("f", [wrong_by_index, wrong_by_row])
def test_wrong_ones_fail(f: Any) -> None:
    assert trace(f).ok is False


def counted(f: Callable[[Any, Any], Any]) -> tuple[Any, list[None]]:
    """A function of five sizes that counts its steps."""
    steps: list[None] = []

    def g(x: f32["A B C D L"], w: f32["M N"]) -> f32["A"]:
        return f(x, steps)

    return g, steps


def one_loop(x: Any, steps: Any) -> Any:
    for i in range(x.shape[4]):
        steps.append(None)
        x = x + i
    return x


def two_loops(x: Any, steps: Any) -> Any:
    for _ in range(x.shape[0]):
        for _ in range(x.shape[4]):
            steps.append(None)
    return x


@pytest.mark.parametrize(("f", "most"), [(one_loop, 10_000), (two_loops, 100_000)])
def test_few_steps_are_traced_of_what_fails(f: Any, most: int) -> None:
    """Sizes that are far apart would be millions."""
    g, steps = counted(f)
    assert trace(g).ok is False
    assert len(steps) < most


def test_three_loops_inside_of_each_other() -> None:
    steps = []

    def copied(x: f32["A B C"]) -> f32["A B C"]:
        for _ in range(x.shape[0]):
            for _ in range(x.shape[1]):
                for _ in range(x.shape[2]):
                    steps.append(None)
        return x

    assert trace(copied).reason == (
        "copied: holds for A=11, B=13, C=17; A=7, B=5, C=3 "
        "(for all sizes it cannot be told: numbers were used for A, B, C)"
    )
    assert len(steps) < 10_000


def test_a_loop_in_what_needs_divisible_sizes() -> None:
    def halves(x: f32["L M"]) -> f32["L M//2"]:
        rows = [row.reshape(2, -1).sum(0) for row in x]
        return jnp.stack(rows)

    verdict = trace(halves)
    assert verdict.ok is True, verdict.reason
    assert "not for" in verdict.reason


def test_what_is_no_loop_is_tried_with_large_sizes() -> None:
    def scaled(q: f32["B D"]) -> f32["B D"]:
        return jax.nn.softmax(q / q.shape[1] ** 0.5)

    assert trace(scaled).reason == "scaled: holds for B=11, D=13; B=61, D=59"


@pytest.mark.parametrize("series", [*PRIMES, COMPOSITES, FAR_APART, *CHAINS])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_numbers_of_a_trial_differ(series: Any, backwards: bool, count: int) -> None:
    symbols = "ABCDEFG"
    found = numbers_for(series, symbols, symbols[2 : 2 + count], backwards)
    assert sorted(found) == list(symbols)
    assert len(set(found.values())) == len(symbols)


@pytest.mark.parametrize("looped", ["A", "G", "AG"])
def test_loops_are_longer_than_all_others_in_one_trial_and_shorter_in_one(
    looped: str,
) -> None:
    """A program may need either."""
    trials = [
        numbers_for(series, "ABCDEFG", looped, backwards)
        for series in (*PRIMES, COMPOSITES, FAR_APART)
        for backwards in (False, True)
    ]
    for largest in (min, max):
        assert any(
            all(
                largest(steps, other) == steps
                for name, other in trial.items()
                if name not in looped
                for steps in [trial[at] for at in looped]
            )
            for trial in trials
        )
