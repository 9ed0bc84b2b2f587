"""What laws say: the words, what cannot be told and what to give, what is never blamed."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from shardtypes import bf16, bool_, f32, i32, key, laws


def shifted(x: f32["B L D"]) -> f32["B L D"]:
    after = jnp.pad(x, ((0, 0), (0, 1), (0, 0)))[:, 1:]
    return x + after


def doubled(x: f32["B L D"]) -> f32["B L D"]:
    return 2 * x


def test_a_failure_names_dimension_positions_and_line() -> None:
    verdict = laws.causal(shifted, "L")
    assert verdict.ok is False
    assert verdict.positions == (0, 1)
    assert verdict.where is not None
    assert verdict.where.endswith(
        f"test_verdicts.py:{shifted.__code__.co_firstlineno + 2}"
    )
    assert str(verdict) == verdict.reason
    assert verdict.reason.startswith(
        "shifted: not causal in 'L': position 0 of result depends on position 1, which"
    )
    assert verdict.reason.endswith(
        f"they first mix in add at {verdict.where} in shifted"
    )
    with pytest.raises(laws.LawError, match="not causal in 'L'"):
        verdict.raise_if_failed()


def test_a_proof_says_for_what() -> None:
    verdict = laws.independent(doubled, "B")
    assert verdict.proved
    assert (
        verdict.reason
        == "doubled: independent in 'B': proved for all values at L=3, D=5, B=4"
    )
    assert verdict.raise_if_failed() is verdict
    with pytest.raises(TypeError, match="three values"):
        bool(verdict)


def unannotated(x, y):  # type: ignore[no-untyped-def]
    return x - x.mean(0), y


def untold(x: f32["B D"]):  # type: ignore[no-untyped-def]
    return x


def without(x: f32["B D"]) -> f32["D"]:
    return x.mean(0)


def between(x: f32["L D"], mask: bool_["L L"]) -> f32["L D"]:
    return jnp.where(mask, x @ x.T, 0) @ x


def constant(x: f32["B D"]) -> f32["B D"]:
    return jnp.where(jnp.sort(x, 0) > 1e9, 2.0, 1.0)


def values(x: f32["B D"]) -> f32["B D"]:
    return x if float(x.sum()) > 1e9 else -x


def broken(x: f32["B D"]) -> f32["B D"]:
    raise RuntimeError("not today")


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (
            lambda: laws.independent(unannotated, "B"),
            "parameter 'x' has no annotation and has no default: give an",
        ),
        (
            lambda: laws.independent(unannotated, "B", np.ones((2, 3)), 1.0),
            "no argument has the dimension 'B'",
        ),
        (
            lambda: laws.independent(untold, "B"),
            "no annotation says where 'B' is in the result",
        ),
        (lambda: laws.independent(without, "B"), "no result has the dimension 'B'"),
        (
            lambda: laws.causal(between, "L"),
            "give an example of 'mask', which is between positions of 'L'",
        ),
        (
            lambda: laws.independent(constant, "B"),
            "no result changed with any position of 'B'",
        ),
        (
            lambda: laws.independent(doubled, "B", jnp.ones((1, 2, 3))),
            "has size 1 in the examples: give at least 2",
        ),
        (lambda: laws.independent(broken, "B"), "not today"),
        (lambda: laws.padding(doubled, "L"), "no argument is named 'mask'"),
        (lambda: laws.keys(doubled, "B"), "no argument is a PRNG key"),
    ],
)
def test_what_cannot_be_told(verdict: Any, words: str) -> None:
    found = verdict()
    assert found.ok is None
    assert words in found.reason


def test_axes_are_said_as_for_vmap() -> None:
    x = np.random.default_rng(0).normal(size=(4, 3))
    assert (
        laws.independent(
            unannotated, "B", x, 1.0, in_axes=(0, None), out_axes=(0, None)
        ).ok
        is False
    )
    assert laws.independent(
        unannotated, "D", x, 1.0, in_axes=(1, None), out_axes=(1, None)
    ).proved


def test_annotations_of_jaxtyping_say_where_the_dimension_is() -> None:
    def mixes(x: Float[Array, "batch d"]) -> Float[Array, "batch d"]:
        return x - x.mean(0)

    def fine(x: Float[Array, "batch d"]) -> Float[Array, "batch d"]:
        return x - x.mean(1, keepdims=True)

    assert laws.independent(mixes, "batch").ok is False
    assert laws.independent(fine, "batch").proved


def test_functions_that_depend_on_values_are_run_as_they_are() -> None:
    verdict = laws.independent(values, "B")
    assert verdict.ok is True
    assert not verdict.proved


def test_what_cancels_out_is_not_blamed() -> None:
    def stable(x: f32["B D"]) -> f32["B D"]:
        highest = x.max()
        part = jnp.exp(x - highest)
        total = part.sum(-1, keepdims=True)
        return part / total

    assert laws.independent(stable, "B").ok is True

    def unstable(x: f32["B D"]) -> f32["B D"]:
        highest = x.max()
        part = jnp.exp(x - highest)
        total = part.sum()
        return part / total

    verdict = laws.independent(unstable, "B")
    assert verdict.ok is False
    assert verdict.where is not None
    assert verdict.where.endswith(f":{unstable.__code__.co_firstlineno + 3}")


def test_rounding_is_no_dependence() -> None:
    def coarse(x: bf16["B D"]) -> bf16["B D"]:
        total = x.sum(0, keepdims=True)
        return ((x + 4 * total) - 4 * total).astype(jnp.bfloat16)

    assert laws.independent(coarse, "B", jnp.ones((3, 2), jnp.bfloat16)).ok is True


def test_masks_that_were_made_blame_nobody() -> None:
    """A row of nothing but masked keys attends to all of them, later ones too; no caller gives such a mask."""

    def attend(x: f32["B L D"], real: bool_["B L"]) -> f32["B L D"]:
        s = jnp.einsum("bqd,bkd->bqk", x, x)
        s = jnp.where(real[:, None, :] & jnp.tril(jnp.ones(s.shape[1:], bool)), s, -1e9)
        return jax.nn.softmax(s) @ x

    assert laws.causal(attend, "L").ok is True

    def other(x: f32["B L D"], padded: bool_["B L"]) -> f32["B L D"]:
        return attend(x, ~padded)

    verdict = laws.causal(other, "L")
    assert verdict.ok is not False

    def needed(x: f32["B L D"], lengths: i32["B"]) -> f32["B L D"]:
        return attend(x, jnp.arange(x.shape[1]) < lengths[:, None])

    assert laws.causal(needed, "L").ok is not False
    assert (
        laws.causal(needed, "L", lengths=jnp.array([2, 4, 1]), sizes={"L": 4}).ok
        is True
    )


def by_positions(
    x: f32["B L D"], positions: i32["B L"], real: bool_["B L"]
) -> f32["B L D"]:
    s = jnp.einsum("bqd,bkd->bqk", x, x)
    mask = positions[:, :, None] >= positions[:, None, :]
    return jax.nn.softmax(jnp.where(mask & real[:, None, :], s, -1e9)) @ x


def test_positions_and_masks_are_not_what_stands_there() -> None:
    """Other positions, or a row in which nothing is real, would let a right program look ahead."""
    x, positions = (
        jnp.sin(jnp.arange(24.0)).reshape(2, 4, 3),
        jnp.tile(jnp.arange(4), (2, 1)),
    )
    for row in ([True, True, True, False], [False, False, True, True]):
        verdict = laws.causal(
            by_positions, "L", x, positions, jnp.tile(jnp.array(row), (2, 1))
        )
        assert verdict.ok is not False, verdict.reason
    assert laws.causal(by_positions, "L").ok is not False

    def ahead(x: f32["B L D"], real: bool_["B L"], low: float) -> f32["B L D"]:
        s = jnp.einsum("bqd,bkd->bqk", x, x)
        mask = jnp.tril(jnp.ones(s.shape[1:], bool), 1)
        return x + jax.nn.softmax(jnp.where(mask & real[:, None, :], s, low)) @ x

    for low in (-1e9, -jnp.inf):
        real = jnp.tile(jnp.array([True, True, True, False]), (2, 1))
        assert laws.causal(ahead, "L", x, real, low).ok is False

    def decoder(tokens: i32["B L"], positions: i32["B L"]) -> f32["B L 3"]:
        return by_positions(jnp.eye(3)[tokens], positions, tokens >= 0)

    assert (
        laws.causal(decoder, "L", jnp.array([[2, 0, 1, 2]]), positions[:1]).ok is True
    )
    assert (
        laws.causal(decoder, "L", jnp.array([[2, 0, 1, 2]]), positions[:1, ::-1]).ok
        is False
    )
    verdict = laws.causal(decoder, "L")
    assert verdict.ok is None
    assert (
        "which of tokens, positions are positions is not known: give examples"
        in verdict.reason
    )


def test_weights_of_zeros_hide_nothing() -> None:
    def gated(x: f32["B D"], w: f32["D D"]) -> f32["B D"]:
        return x + x.mean(0) @ w

    verdict = laws.independent(
        gated, "B", jnp.arange(6.0).reshape(2, 3), jnp.zeros((3, 3))
    )
    assert verdict.ok is False
    assert verdict.reason.endswith(
        "(with random numbers for weights that are all zeros or ones)"
    )


def test_switches_stay_as_they_are() -> None:
    def switched(x: f32["B D"], on: f32[""]) -> f32["B D"]:
        return x + on * x.mean(0)

    assert (
        laws.independent(switched, "B", jnp.arange(6.0).reshape(2, 3), jnp.zeros(())).ok
        is True
    )


def test_states_that_change_are_told() -> None:
    count = iter(range(1000))

    def counting(x: f32["B D"]) -> f32["B D"]:
        return x * float(x.sum() > -1e9) + next(count)

    verdict = laws.independent(counting, "B")
    assert verdict.ok is None
    assert "other results for the same arguments" in verdict.reason


@pytest.mark.parametrize(
    "wrapped", [jax.jit, jax.checkpoint, lambda f: functools.partial(f)]
)
def test_wrapped_functions(wrapped: Any) -> None:
    assert laws.causal(wrapped(doubled), "L").proved
    verdict = laws.causal(wrapped(shifted), "L")
    assert verdict.where is not None
    assert verdict.where.endswith(f":{shifted.__code__.co_firstlineno + 2}")


def test_mapped_functions() -> None:
    def one(x, w):  # type: ignore[no-untyped-def]
        return jnp.tanh(x @ w)

    x, w = np.random.default_rng(0).normal(size=(4, 3)), np.eye(3)
    assert laws.independent(
        jax.vmap(one, (0, None)), "B", x, w, in_axes=(0, None), out_axes=0
    ).proved

    def centred(x, w):  # type: ignore[no-untyped-def]
        return (x - jax.lax.pmean(x, "b")) @ w

    mapped = jax.vmap(centred, (0, None), axis_name="b")
    verdict = laws.independent(mapped, "B", x, w, in_axes=(0, None), out_axes=0)
    assert verdict.ok is False
    assert verdict.where is not None


def test_draws_that_seldom_show_are_not_blamed() -> None:
    def rare(x: f32["B D"], k: key[""]) -> f32["B D"]:
        return jax.vmap(lambda x: x * jax.random.bernoulli(k, 0.999, x.shape))(x)

    verdict = laws.keys(rare, "B")
    assert verdict.ok is None
    assert "seldom" in verdict.reason or "no result depends on a key" in verdict.reason


def test_a_sum_over_micro_batches() -> None:
    def total(w: f32["D"], x: f32["B D"]) -> f32["D"]:
        return jax.grad(lambda w: ((x @ w) ** 2).sum())(w)

    assert laws.accumulates(total, combine="sum").ok is True
    verdict = laws.accumulates(total)
    assert verdict.ok is False
    assert (
        "0.25 times that of one batch: it is averaged over the parts where it should be summed"
        in verdict.reason
    )


def test_dropout_is_not_compared_over_micro_batches() -> None:
    def noisy(w: f32["D"], x: f32["B D"], k: key[""]) -> f32["D"]:
        return (x * jax.random.normal(k, x.shape)).mean(0) * w

    verdict = laws.accumulates(noisy)
    assert verdict.ok is None
    assert "depends on a PRNG key" in verdict.reason
