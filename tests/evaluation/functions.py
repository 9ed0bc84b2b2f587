"""Functions that map over devices, each right in one form and wrong in another."""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """
import functools
import jax
import jax.numpy as jnp
from dataclasses import dataclass
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P
from jaxtyping import Array, Float, Int
from shardtypes import f32, i32, key, pytree_dataclass, typed_shard_map

mesh = jax.make_mesh((2, 4), ("d", "t"))
"""


MAIN = """

def normal(*shape):
    return jax.random.normal(jax.random.key(sum(shape)), shape)


if __name__ == "__main__":
    {call}
"""


@dataclass(frozen=True)
class Pair:
    """``text`` has ``{}`` where ``right`` or ``wrong`` stands; ``found`` is the line of the wrong one that is named, up
    to spaces."""

    name: str
    text: str
    right: str
    wrong: str
    found: str
    call: str = ""
    """The arguments with which only a whole program is certain to be wrong; a caller of the function alone may give
    what makes it right."""

    def program(self, is_right: bool) -> str:
        """A module with one of the two forms."""
        return (
            HEAD
            + self.text.replace("{}", self.right if is_right else self.wrong)
            + MAIN.format(call=self.call or "pass")
        )


PAIRS = [
    Pair(
        "reduced_over_the_axis_that_shards",
        """
def normalize(x: f32["B/d M"]) -> f32["B/d M"]:
    def body(x):
        total = {}
        return x / (1 + total)
    return jax.shard_map(body, mesh=mesh, in_specs=(P("d"),), out_specs=P("d"), check_vma=False)(x)
""",
        "jnp.sum(x * x, axis=-1, keepdims=True)",
        'lax.psum(jnp.sum(x * x, axis=-1, keepdims=True), "d")',
        'lax.psum(jnp.sum(x * x, axis=-1, keepdims=True), "d")',
        "normalize(normal(16, 8))",
    ),
    Pair(
        "quantised_parts",
        """
def project(x: f32["B/d M/t"], w: f32["M/t F"]):
    def body(x, w):
        part = x @ w
        scale = lax.pmax(jnp.max(jnp.abs(part), axis=-1, keepdims=True), "t") / 127
        entries = jnp.clip(jnp.round(part / scale), -127, 127).astype(jnp.int8)
        return lax.psum(entries.astype(jnp.int32), "t"){}
    return jax.shard_map(body, mesh=mesh, in_specs=(P("d", "t"), P("t")), out_specs=P("d"), check_vma=False)(x, w)
""",
        " * scale",
        "",
        "jnp.abs(part)",
    ),
    Pair(
        "one_axis_too_many",
        """
def project(x: f32["B/d M/t"], w: f32["M/t F"]):
    def body(x, w):
        y = lax.psum(x @ w, {})
        return jax.nn.relu(y)
    return jax.shard_map(body, mesh=mesh, in_specs=(P("d", "t"), P("t")), out_specs=P("d"), check_vma=False)(x, w)
""",
        '"t"',
        '("d", "t")',
        'lax.psum(x @ w, ("d", "t"))',
        "project(normal(16, 8), normal(8, 4))",
    ),
    Pair(
        "bias_before_the_sum",
        """
def project(x: f32["B M"], w: f32["M F"], b: f32["F"]) -> f32["B F"]:
    def body(x, w, b):
        return {}
    return jax.shard_map(body, mesh=mesh, in_specs=(P(None, "t"), P("t", None), P()), out_specs=P())(x, w, b)
""",
        'lax.psum(x @ w, "t") + b',
        'lax.psum(x @ w + b, "t")',
        'lax.psum(x @ w + b, "t")',
    ),
    Pair(
        "lookup_without_offset",
        """
def lookup(table: f32["V/t M"], ids: i32["B"]) -> f32["B M"]:
    def body(table, ids):
        rows = table.shape[0]
        local = {}
        held = (local >= 0) & (local < rows)
        found = jnp.where(held[:, None], table[jnp.clip(local, 0, rows - 1)], 0.0)
        return lax.psum(found, "t")
    return jax.shard_map(body, mesh=mesh, in_specs=(P("t"), P()), out_specs=P())(table, ids)
""",
        'ids - lax.axis_index("t") * rows',
        "ids",
        "jnp.where(held",
    ),
    Pair(
        "mean_by_local_size",
        """
def mean(x: Float[Array, "batch dim"]) -> Float[Array, "dim"]:
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=P("d"), out_specs=P())
    def body(x):
        return lax.psum(x.sum(axis=0), "d") / {}
    return body(x)
""",
        'lax.psum(x.shape[0], "d")',
        "x.shape[0]",
        "x.shape[0]",
    ),
    Pair(
        "keys_go_round_and_values_do_not",
        """
def attend(q: f32["T H"], k: f32["T H"], v: f32["T H"]) -> f32["T H"]:
    def body(q, k, v):
        n = lax.axis_size("t")
        ring = [(i, (i + 1) % n) for i in range(n)]
        out, norm = jnp.zeros_like(q), jnp.zeros(q.shape[:1])
        for _ in range(n):
            p = jnp.exp(q @ k.T / 10)
            out, norm = out + p @ v, norm + p.sum(axis=-1)
            k = lax.ppermute(k, "t", ring)
            {}
        return out / norm[:, None]
    return jax.shard_map(body, mesh=mesh, in_specs=P("t"), out_specs=P("t"), check_vma=False)(q, k, v)
""",
        'v = lax.ppermute(v, "t", ring)',
        "pass",
        "out / norm",
        "attend(normal(16, 8), normal(16, 8), normal(16, 8))",
    ),
    Pair(
        "softmax_along_the_sharded_dimension",
        """
def weights(x: f32["B V/t"]) -> f32["B V/t"]:
    def body(x):
        top = lax.pmax(x.max(axis=-1, keepdims=True), "t")
        p = jnp.exp(x - top)
        return p / {}
    return jax.shard_map(body, mesh=mesh, in_specs=P(None, "t"), out_specs=P(None, "t"), check_vma=False)(x)
""",
        'lax.psum(p.sum(axis=-1, keepdims=True), "t")',
        "p.sum(axis=-1, keepdims=True)",
        "p / p.sum(axis=-1",
        "weights(normal(16, 8))",
    ),
    Pair(
        "in_the_signature_of_a_typed_shard_map",
        """
@functools.partial(typed_shard_map, mesh=mesh)
def layer(x: f32["B/d M/t"], w: f32["M/t F"]) -> f32["B/d F"]:
    return {}
""",
        'jnp.tanh(lax.psum(x @ w, "t"))',
        'lax.psum(jnp.tanh(x @ w), "t")',
        'lax.psum(jnp.tanh(x @ w), "t")',
    ),
    Pair(
        "in_a_method_of_an_object_that_is_closed_over",
        """
class Layer:
    scale = 2.0

    @functools.partial(typed_shard_map, mesh=mesh)
    def output(self, x: f32["B/d M/t"], w: f32["M/t F"]) -> f32["B/d F"]:
        return self.scale * {}
""",
        'jnp.tanh(lax.psum(x @ w, "t"))',
        'lax.psum(jnp.tanh(x @ w), "t")',
        'lax.psum(jnp.tanh(x @ w), "t")',
    ),
    Pair(
        "in_a_method_of_a_dataclass_that_is_sharded",
        """
@pytree_dataclass
class Layer:
    up: f32["M F/t"]
    down: f32["F/t M"]

    @functools.partial(typed_shard_map, mesh=mesh)
    def output(self, x: f32["B/d M"]) -> f32["B/d M"]:
        hidden = x @ self.up
        return {}
""",
        'jnp.tanh(lax.psum(hidden @ self.down, "t"))',
        'lax.psum(jnp.tanh(hidden @ self.down), "t")',
        'lax.psum(jnp.tanh(hidden @ self.down), "t")',
    ),
    Pair(
        "through_a_helper_on_a_mesh_that_is_given",
        """
def scaled(x, w):
    return {}


def layer(x: f32["B M"], w: f32["M F"], mesh: Mesh) -> f32["B F"]:
    specs = (P(None, "t"), P("t"))
    return jax.shard_map(scaled, mesh=mesh, in_specs=specs, out_specs=P())(x, w)
""",
        'lax.psum(x @ w, "t") ** 2',
        'lax.psum((x @ w) ** 2, "t")',
        "(x @ w) ** 2",
    ),
    Pair(
        "in_fields_of_a_class",
        """
@pytree_dataclass
class Weights:
    up: f32["M F/t"]
    down: f32["F/t M"]
    bias: f32["M"]


def mlp(x: f32["B/d M"], weights: Weights) -> f32["B/d M"]:
    def body(x, weights):
        hidden = jax.nn.gelu(x @ weights.up)
        return {}
    specs = (P("d"), Weights(P(None, "t"), P("t"), P()))
    return jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=P("d"))(x, weights)
""",
        'lax.psum(hidden @ weights.down, "t") + weights.bias',
        'lax.psum(hidden @ weights.down + weights.bias, "t")',
        "+ weights.bias",
    ),
    Pair(
        "gradient_of_a_replicated_weight",
        """
def gradient(x: f32["B/d M"], w: f32["M"]) -> f32["M"]:
    def body(x, w):
        def loss(w):
            return lax.pmean(jnp.mean(jnp.tanh(x @ w)), "d")
        return {}
    return jax.shard_map(body, mesh=mesh, in_specs=(P("d"), P()), out_specs=P(), check_vma=False)(x, w)
""",
        'lax.pmean(jax.grad(loss)(w), "d")',
        "jax.grad(loss)(w)",
        "lax.pmean(jnp.mean",
    ),
]
