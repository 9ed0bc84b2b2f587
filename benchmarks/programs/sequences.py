"""Recurrences, state-space models and reinforcement learning: scans and loops."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from shardtypes import bool_, f32, i32, pytree_dataclass


@pytree_dataclass
class Lstm:
    """The parameters of a recurrent cell with four gates."""

    hidden: f32["H 4*H"]
    inputs: f32["I 4*H"]
    bias: f32["4*H"]


def lstm_cell(
    w: Lstm, state: tuple[f32["B H"], f32["B H"]], x: f32["B I"]
) -> tuple[f32["B H"], f32["B H"]]:
    hidden, cell = state
    gates = x @ w.inputs + hidden @ w.hidden + w.bias
    i, f, g, o = jnp.split(gates, 4, axis=-1)
    cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(cell), cell


def lstm(w: Lstm, xs: f32["T B I"]) -> f32["T B H"]:
    def step(state, x):
        state = lstm_cell(w, state, x)
        return state, state[0]

    zeros = jnp.zeros((xs.shape[1], w.hidden.shape[0]))
    _, out = jax.lax.scan(step, (zeros, zeros), xs)
    return out


def gru(xs: f32["B T I"], wx: f32["I 3 H"], wh: f32["H 3 H"]) -> f32["B T H"]:
    def step(h: f32["B H"], x: f32["B I"]) -> tuple[f32["B H"], f32["B H"]]:
        a = jnp.einsum("bi,igh->bgh", x, wx)
        b = jnp.einsum("bk,kgh->bgh", h, wh)
        reset, update = (
            jax.nn.sigmoid(a[:, 0] + b[:, 0]),
            jax.nn.sigmoid(a[:, 1] + b[:, 1]),
        )
        new = jnp.tanh(a[:, 2] + reset * b[:, 2])
        h = (1 - update) * h + update * new
        return h, h

    _, out = jax.lax.scan(
        step, jnp.zeros((xs.shape[0], wh.shape[0])), jnp.swapaxes(xs, 0, 1)
    )
    return jnp.swapaxes(out, 0, 1)


def state_space(
    x: f32["T D"], decay: f32["D N"], b: f32["D N"], c: f32["D N"]
) -> f32["T D"]:
    def step(state: f32["D N"], x_t: f32["D"]) -> tuple[f32["D N"], f32["D"]]:
        state = state * decay + b * x_t[:, None]
        return state, jnp.sum(state * c, axis=-1)

    _, out = jax.lax.scan(step, jnp.zeros_like(decay), x)
    return out


def parallel_scan(decay: f32["T D"], x: f32["T D"]) -> f32["T D"]:
    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    _, out = jax.lax.associative_scan(combine, (decay, x), axis=0)
    return out


def convolve(x: f32["B T D"], kernel: f32["4 D"]) -> f32["B T D"]:
    padded = jnp.pad(x, ((0, 0), (3, 0), (0, 0)))
    windows = jnp.stack([padded[:, i : i + x.shape[1]] for i in range(4)], axis=2)
    return jnp.sum(windows * kernel, axis=2)


def advantages(
    rewards: f32["T B"], values: f32["T+1 B"], done: bool_["T B"]
) -> f32["T B"]:
    keep = 1.0 - done.astype(jnp.float32)
    deltas: f32["T B"] = rewards + 0.99 * values[1:] * keep - values[:-1]

    def step(
        carry: f32["B"], inputs: tuple[f32["B"], f32["B"]]
    ) -> tuple[f32["B"], f32["B"]]:
        delta, going = inputs
        carry = delta + 0.95 * going * carry
        return carry, carry

    _, out = jax.lax.scan(step, jnp.zeros_like(deltas[0]), (deltas, keep), reverse=True)
    return out


def returns(rewards: f32["B T"]) -> f32["B T"]:
    weights = 0.9 ** jnp.arange(rewards.shape[1])
    discounted = rewards * weights
    return jnp.cumsum(discounted[:, ::-1], axis=1)[:, ::-1] / weights


def policy_loss(
    logits: f32["T B A"], actions: i32["T B"], gains: f32["T B"]
) -> f32[""]:
    logprobs = jax.nn.log_softmax(logits)
    chosen = jnp.take_along_axis(logprobs, actions[:, :, None], axis=-1)[:, :, 0]
    return -jnp.mean(chosen * gains)


def viterbi(emissions: f32["T S"], transitions: f32["S S"]) -> f32["S"]:
    def step(best, emission):
        best = jnp.max(best[:, None] + transitions, axis=0) + emission
        return best, None

    best, _ = jax.lax.scan(step, emissions[0], emissions[1:])
    return best


def forward_algorithm(
    start: f32["S"], transitions: f32["S S"], emissions: f32["T S"]
) -> f32[""]:
    def body(t, alpha: f32["S"]):
        return jax.nn.logsumexp(alpha[:, None] + transitions, axis=0) + emissions[t]

    alpha = jax.lax.fori_loop(1, emissions.shape[0], body, start + emissions[0])
    return jax.nn.logsumexp(alpha)


def kalman(
    mean: f32["N"], cov: f32["N N"], motion: f32["N N"], noise: f32["N N"]
) -> tuple[f32["N"], f32["N N"]]:
    return motion @ mean, motion @ cov @ motion.T + noise


def kalman_update(
    mean: f32["N"],
    cov: f32["N N"],
    seen: f32["M"],
    observe: f32["M N"],
    noise: f32["M M"],
) -> tuple[f32["N"], f32["N N"]]:
    residual = seen - observe @ mean
    innovation = observe @ cov @ observe.T + noise
    gain: f32["N M"] = jnp.linalg.solve(innovation, observe @ cov).T
    return mean + gain @ residual, cov - gain @ observe @ cov


def power_iteration(matrix: f32["N N"], start: f32["N"]) -> f32["N"]:
    def body(_, v):
        v = matrix @ v
        return v / jnp.linalg.norm(v)

    return jax.lax.fori_loop(0, 10, body, start)


def beam_scores(
    logprobs: f32["B K V"], totals: f32["B K"], width: f32["W"]
) -> tuple[f32["B W"], i32["B W"]]:
    batch, beams, vocab = logprobs.shape
    joint = (totals[:, :, None] + logprobs).reshape(batch, beams * vocab)
    best, chosen = jax.lax.top_k(joint, width.shape[0])
    return best, chosen


def bidirectional(
    xs: f32["T B I"],
    forward: Lstm,
    backward: Lstm,
    first: f32["H O"],
    second: f32["H O"],
) -> f32["T B O"]:
    left = lstm(forward, xs)
    right = lstm(backward, xs[::-1])[::-1]
    return jnp.concatenate([left, right], axis=-1) @ jnp.concatenate(
        [first, second], axis=0
    )


def rollout(
    state: f32["B S"], policy: f32["S A"], dynamics: f32["S+A S"], rates: f32["T"]
) -> f32["T B S"]:
    def step(state: f32["B S"], rate: f32[""]) -> tuple[f32["B S"], f32["B S"]]:
        action = jnp.tanh(state @ policy)
        state = state + rate * (jnp.concatenate([state, action], axis=-1) @ dynamics)
        return state, state

    return jax.lax.scan(step, state, rates)[1]
