"""Programs under ``jit`` that say where things lie: shardings of arguments and results, constraints, logical axes."""

from __future__ import annotations

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from shardtypes import f32

RULES = (
    ("batch", "d"),
    ("embed", None),
    ("mlp", "t"),
    ("heads", "t"),
    ("kv", None),
    ("length", None),
)


@partial(jax.jit, in_shardings=(P("d", None), P(None, "t")), out_shardings=P("d", "t"))
def dense(x: f32["B/d M"], w: f32["M F/t"]) -> f32["B/d F/t"]:
    return x @ w


@partial(jax.jit, out_shardings=(P("d", "t"), P("t", "d")))
def gradients(
    up: f32["M/d F/t"], down: f32["F/t M/d"], x: f32["B M"]
) -> tuple[f32["M/d F/t"], f32["F/t M/d"]]:
    def loss(up, down):
        hidden = jax.lax.with_sharding_constraint(jax.nn.relu(x @ up), P("d", "t"))
        return jnp.mean((hidden @ down) ** 2)

    return jax.grad(loss, argnums=(0, 1))(up, down)


@jax.jit
def constrained(x: f32["B L M"], w: f32["M H D"]) -> f32["B/d L H/t D"]:
    x = jax.lax.with_sharding_constraint(x, P("d", None, None))
    heads = jnp.einsum("blm,mhd->blhd", x, w)
    return jax.lax.with_sharding_constraint(heads, P("d", None, "t", None))


@jax.jit
def logical_mlp(
    x: f32["batch embed"], up: f32["embed mlp"], down: f32["mlp embed"]
) -> f32["batch embed"]:
    with nn.logical_axis_rules(RULES):
        x = nn.with_logical_constraint(x, ("batch", "embed"))
        hidden = nn.with_logical_constraint(nn.gelu(x @ up), ("batch", "mlp"))
        return nn.with_logical_constraint(hidden @ down, ("batch", "embed"))


@jax.jit
def logical_heads(
    x: f32["batch length embed"], w: f32["embed heads kv"]
) -> f32["batch length heads kv"]:
    with nn.logical_axis_rules(RULES):
        up = nn.with_logical_constraint(w, ("embed", "heads", "kv"))
        heads = jnp.einsum("ble,ehd->blhd", x, up)
        return nn.with_logical_constraint(heads, ("batch", "length", "heads", "kv"))
