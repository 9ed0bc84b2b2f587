"""Layers along time: a recurrence, a token shift, a convolution, a discounted sum."""

import jax
import jax.numpy as jnp

from shardtypes import f32, laws


def recurrent(x: f32["B L D"], w: f32["D D"]) -> f32["B L D"]:
    def cell(state, frame):
        state = jnp.tanh(state @ w + frame)
        return state, state

    start = jnp.zeros_like(x[:, 0])
    _, states = jax.lax.scan(cell, start, x.swapaxes(0, 1))
    return states.swapaxes(0, 1)


def mixed(x: f32["B L D"]) -> f32["B L D"]:
    before = jnp.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    return 0.5 * x + 0.5 * before


def convolved(x: f32["B L D"], w: f32["3 D D"]) -> f32["B L D"]:
    y = jax.lax.conv_general_dilated(x, w, (1,), [(2, 0)], dimension_numbers=("NWC", "WIO", "NWC"))
    return jax.nn.silu(y)


def discounted(x: f32["B L D"]) -> f32["B L D"]:
    return jax.lax.associative_scan(lambda a, b: 0.9 * a + b, x, axis=1)


def running(x: f32["B L D"]) -> f32["B L D"]:
    total = jnp.cumsum(x, axis=1)
    return total / jnp.arange(1, x.shape[1] + 1)[:, None]


LAWS = {
    "recurrent": lambda: laws.causal(recurrent, "L"),
    "mixed": lambda: laws.causal(mixed, "L"),
    "convolved": lambda: laws.causal(convolved, "L"),
    "discounted": lambda: laws.causal(discounted, "L"),
    "running": lambda: laws.causal(running, "L"),
    "independent": lambda: laws.independent(recurrent, "B"),
}
