"""Programs on explicit axes ``d`` and ``t``: layers, losses and steps of training, and what moves arrays alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, Mesh, NamedSharding, reshard
from jax.sharding import PartitionSpec as P

Arrays = tuple[jax.ShapeDtypeStruct, ...]
_ARRAYS: dict[Callable[..., Any], tuple[tuple[P, tuple[int, ...]], ...]] = {}


def _on(*arrays: tuple[P, tuple[int, ...]]) -> Callable[[Any], Any]:
    """The specs and shapes of the arguments of a program."""

    def keep(f: Callable[..., Any]) -> Callable[..., Any]:
        _ARRAYS[f] = arrays
        return f

    return keep


def programs(
    mesh: Mesh | AbstractMesh,
) -> dict[str, tuple[Callable[..., Any], Arrays]]:
    """The programs by name, and their arguments on a mesh of explicit axes."""
    return {
        f.__name__: (
            f,
            tuple(
                jax.ShapeDtypeStruct(
                    shape, jnp.float32, sharding=NamedSharding(mesh, spec)
                )
                for spec, shape in arrays
            ),
        )
        for f, arrays in _ARRAYS.items()
    }


@_on((P("d", "t"), (64, 128)), (P("t", None), (128, 64)))
def row_parallel(x, w):
    return jnp.dot(x, w, out_sharding=P("d", None))


@_on((P("d", None), (64, 128)), (P(None, "t"), (128, 256)), (P("t", None), (256, 128)))
def feed_forward(x, up, down):
    hidden = jax.nn.gelu(x @ up)
    return jnp.dot(hidden, down, out_sharding=P("d", None))


@_on((P("d", None), (64, 128)), (P("d", None), (128, 256)))
def gathered_weight(x, w):
    return x @ reshard(w, P())


@_on((P("d", None), (128, 256)), (P("d", None), (64, 128)))
def fully_sharded_gradient(w, x):
    def loss(w):
        return jnp.mean(jnp.tanh(x @ reshard(w, P(None, None))) ** 2)

    return jax.grad(loss)(w)


@_on((P("t", None), (128, 64)), (P("d", "t"), (64, 128)))
def row_parallel_gradient(w, x):
    def loss(w):
        return jnp.sum(jnp.dot(x, w, out_sharding=P("d", None)) ** 2)

    return jax.grad(loss)(w)


@_on((P("d", None, "t", None), (8, 32, 8, 16)), (P("t", None, None), (8, 16, 64)))
def attention_output(heads, w):
    return jnp.einsum("blhk,hkm->blm", heads, w, out_sharding=P("d", None, None))


@_on((P("d", "t"), (64, 128)), (P("t"), (128,)))
def norm(x, scale):
    square = jnp.mean(x * x, axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(square + 1e-6) * scale


@_on((P("d", "t"), (64, 256)))
def vocabulary_softmax(logits):
    return jax.nn.softmax(logits, axis=-1)


@_on((P("d", None, "t"), (16, 32, 64)))
def statistics(x):
    return jnp.mean(x, axis=(0, 1)), jnp.max(x, axis=2)


@_on((P("d", "t"), (64, 128)))
def gathered(x):
    return reshard(x, P(None, None))


@_on((P(("d", "t"), None), (64, 128)))
def heads_for_rows(x):
    return reshard(x, P("d", "t"))


@_on((P("d", None), (64, 128)))
def rows_for_columns(x):
    return reshard(x, P(None, "d"))


@_on((P("t", None), (64, 128)))
def from_t_to_d(x):
    return reshard(x, P("d", None))


@_on((P("d", None), (64, 128)))
def from_d_to_t(x):
    return reshard(x, P("t", None))


@_on((P(("d", "t"), None), (64, 128)))
def other_order(x):
    return reshard(x, P(("t", "d"), None))


@_on((P("d", None), (64, 128)))
def sliced(x):
    return reshard(x, P("d", "t"))


@_on((P(None, "d", "t"), (16, 32, 64)), (P("d", "t", None), (32, 64, 16)))
def summed_over_both(x, w):
    return jnp.einsum("abc,bcf->af", x, w, out_sharding=P(None, None))


@_on((P("d", "t"), (64, 128)))
def greedy(logits):
    return jnp.argmax(logits, axis=-1)


@_on((P("d", None), (64, 128)), (P(None, None, "t"), (6, 128, 128)))
def layers(x, weights):
    def layer(x, w):
        return reshard(jnp.tanh(x @ w), P("d", None)), None

    return jax.lax.scan(layer, x, weights)[0]


@_on(
    (P(None, "t"), (128, 256)),
    (P("t", None), (256, 128)),
    (P("d", None), (64, 128)),
)
def training_step(up, down, x):
    def loss(up, down):
        made = jnp.dot(jnp.tanh(x @ up), down, out_sharding=P("d", None))
        return jnp.mean((made - x) ** 2)

    grads = jax.grad(loss, argnums=(0, 1))(up, down)
    return up - 0.1 * grads[0], down - 0.1 * grads[1]


@_on((P("d", "t"), (64, 128)), (P("t", None), (128, 64)))
def scattered(x, w):
    return jnp.dot(x, w, out_sharding=P("d", "t"))


@_on((P("d", None), (64, 128)))
def rows_for_columns_of_t(x):
    return reshard(x, P(None, "t"))


@_on((P("d", "t"), (64, 128)))
def swapped(x):
    return reshard(x, P("t", "d"))


@_on((P("t", None), (64, 128)), (P("d"), (32,)))
def looked_up(table, rows):
    places = jnp.abs(rows).astype(jnp.int32)
    return table.at[places].get(out_sharding=P("d", None))
