"""Experts with a capacity for each sequence: a token finds a place if few before it chose the same expert."""

import jax
import jax.numpy as jnp

from shardtypes import f32, laws

CAPACITY = 2


def routed(x: f32["B L D"], router: f32["D E"], experts: f32["E D D"]) -> f32["B L D"]:
    gates = jax.nn.softmax(x @ router, axis=-1)
    chosen = jax.nn.one_hot(gates.argmax(-1), router.shape[1])
    place = jnp.cumsum(chosen, axis=1) * chosen
    kept = chosen * (place <= CAPACITY)
    y = jnp.einsum("bld,edf->blef", x, experts)
    return x + jnp.einsum("blef,ble->blf", y, kept * gates)


LAWS = {
    "independent": lambda: laws.independent(routed, "B"),
    "causal": lambda: laws.causal(routed, "L"),
}
