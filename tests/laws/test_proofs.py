"""Proofs are held against numbers: what may depend on what, for random programs, is all that does."""

from __future__ import annotations

import os
import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardtypes.laws.dependence import Dependence
from shardtypes.laws.walk import Walker

pytestmark = pytest.mark.once  # the other suite runs the programs that people write

ROWS, COLUMNS = 4, 4
CASES = int(os.environ.get("ORACLE_CASES", "60"))

#: Each makes an array of four rows and four columns of such arrays.
STEPS: list[Any] = [
    lambda a, b: a + b,
    lambda a, b: a * jnp.tanh(b),
    lambda a, b: a @ b,
    lambda a, b: a @ b.T,
    lambda a, b: a.T,
    lambda a, b: a - a.mean(0),
    lambda a, b: a - a.max(1, keepdims=True),
    lambda a, b: jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((4, 4), bool)), a, -1e9), axis=-1) @ b,
    lambda a, b: jax.nn.softmax(a + jnp.triu(jnp.full((4, 4), -1e9), 1), axis=-1) @ b,
    lambda a, b: jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((4, 4), bool), -1), a, -jnp.inf), axis=-1),
    lambda a, b: jnp.where(jnp.tril(jnp.ones((4, 4), bool)), a, -1e9) - b,
    lambda a, b: jnp.exp(jnp.where(jnp.eye(4, dtype=bool), a, -1e9) - jnp.min(b)),
    lambda a, b: jnp.exp(jnp.where(jnp.eye(4, dtype=bool), a, -1e9) - jnp.where(b > 9, b, -1e9).min(1)),
    lambda a, b: jnp.where(jnp.eye(4, dtype=bool), a, 0.0) @ b,
    lambda a, b: jnp.where(b > 0, a, b),
    lambda a, b: jnp.cumsum(a, 0),
    lambda a, b: jnp.cumsum(a, 1, dtype=a.dtype)[:, ::-1],
    lambda a, b: jnp.sort(a, 0),
    lambda a, b: a[jnp.array([3, 0, 1, 1])],
    lambda a, b: jnp.take_along_axis(a, jnp.argsort(b, 0), 0),
    lambda a, b: a[:, jnp.clip(jnp.argmax(b), 0, 3)][:, None] + b,
    lambda a, b: jnp.roll(a, 1, 0),
    lambda a, b: a.reshape(2, 8).reshape(4, 4)[::-1],
    lambda a, b: jnp.concatenate([a[2:], b[:2]]),
    lambda a, b: jnp.pad(a, ((1, 0), (0, 0)))[:-1],
    lambda a, b: a.at[1].set(b[2]),
    lambda a, b: a.at[jnp.argmax(b[:, 0])].add(b[0]),
    lambda a, b: jax.lax.dynamic_update_slice(a, b[:2], (1, 0)),
    lambda a, b: jax.lax.dynamic_slice(jnp.concatenate([a, b]), (jnp.argmax(a[0]), 0), (4, 4)),
    lambda a, b: jax.lax.scan(lambda c, x: (jnp.tanh(c + x), c), b[0], a)[1],
    lambda a, b: jax.lax.scan(lambda c, x: (c * x, c + x), b[3], a, reverse=True)[1],
    lambda a, b: jax.lax.cond(a[0, 0] > 0, lambda: a, lambda: b),
    lambda a, b: jax.lax.while_loop(lambda c: jnp.abs(c).max() > 1, lambda c: c / 2, a),
    lambda a, b: jax.lax.fori_loop(0, 3, lambda i, c: c.at[i].set(c[i] + c[i + 1]), a),
    lambda a, b: jax.vmap(lambda r, s: jnp.dot(r, s) * r)(a, b),
    lambda a, b: jax.lax.associative_scan(jnp.add, a, axis=0),
    lambda a, b: jnp.convolve(a[:, 0], b[:3, 1], mode="same")[:, None] + a,
    lambda a, b: jax.grad(lambda v: (jnp.tanh(v) @ b).sum())(a),
    lambda a, b: jnp.fft.fft(a, axis=0).real,
    lambda a, b: jax.nn.relu(a) * jnp.zeros((4, 4)).at[0].set(1.0),
    lambda a, b: jax.lax.top_k(a, 4)[0],
    lambda a, b: jax.checkpoint(lambda v: jax.nn.gelu(v) @ b)(a),
    lambda a, b: jnp.where(jnp.isfinite(a), a, b),
    lambda a, b: jax.nn.logsumexp(jnp.where(jnp.eye(4, dtype=bool), a, -jnp.inf), axis=1)[:, None] * b,
    lambda a, b: jnp.exp((a + jnp.full((4, 4), -1e9).at[0].set(0.0)) - jnp.full((4, 4), -1e9).at[0].set(0.0)) + b,
    lambda a, b: jnp.exp((a + jnp.full((4, 4), -1e9).at[0].set(0.0)) * 1e-9),
    lambda a, b: jnp.exp(jnp.minimum(a, jnp.full((4, 4), -1e9)) - jnp.minimum(b, -1e9)),
    lambda a, b: (a + jnp.full((4, 4), -1e5)).astype(jnp.int32) * 1e-5,
    lambda a, b: jnp.tanh((a * 1e9 - jnp.full((4, 4), 1e9)) * 1e-9),
    lambda a, b: jnp.maximum(jnp.where(jnp.eye(4, dtype=bool), a, -1e9), -1e10) * 1e-9,
]  # fmt: skip


def program(seed: int) -> Any:
    """A random program of one array."""
    chosen = random.Random(seed)
    steps = [
        (chosen.choice(STEPS), chosen.random()) for _ in range(chosen.randint(1, 5))
    ]

    def run(x: Any) -> Any:
        made = [x]
        for step, which in steps:
            made.append(step(made[-1], made[int(which * len(made))]))
        return made[-1]

    return run


def may_depend(f: Any, x: Any) -> Any:
    """For each row of the argument the elements of the result that may depend on it."""
    dependence = Dependence(ROWS)
    on = np.arange(ROWS).reshape(-1, 1, 1) == np.arange(ROWS).reshape(1, -1, 1)
    (found,) = Walker(dependence).run(jax.make_jaxpr(f)(x), [dependence.given(x, on)])
    return found.on[:ROWS]


@pytest.mark.parametrize("seed", range(CASES))
def test_what_changes_may_depend(seed: int) -> None:
    f = program(seed)
    with (
        jax.enable_x64(True)
        if hasattr(jax, "enable_x64")
        else jax.experimental.enable_x64()
    ):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(ROWS, COLUMNS))
        allowed = may_depend(f, x)
        run = jax.jit(f)
        before = np.asarray(run(x))
        for row in range(ROWS):
            for _ in range(2):
                other = x.copy()
                other[row] = rng.normal(size=COLUMNS)
                with np.errstate(all="ignore"):
                    after = np.asarray(run(other))
                    fine = np.isfinite(before) & np.isfinite(after)
                    scale = (
                        np.abs(np.where(fine, before, 0)).max()
                        + np.abs(np.where(fine, after, 0)).max()
                        + 1e-300
                    )
                    moved = fine & (np.abs(before - after) > 1e-9 * scale)
                assert not (moved & ~allowed[row]).any(), f"seed {seed}, row {row}"


def test_the_comparison_can_fail() -> None:
    x = jnp.ones((ROWS, COLUMNS))
    assert may_depend(lambda a: a.at[:].set(a.mean(0)), x).all()
    assert not may_depend(lambda a: a * 2, x)[0, 1:].any()
    assert not may_depend(masked, x)[3, :3].any()


def masked(a: Any) -> Any:
    return STEPS[7](a, a)
