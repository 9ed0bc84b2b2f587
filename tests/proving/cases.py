"""Programs over a mesh d=2, t=4: right ones, and wrong ones with the line that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

SIZES = {"d": 2, "t": 4}
MESH = AbstractMesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)


def array(*shape: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


@dataclass(frozen=True)
class Case:
    """``made`` makes the function for a mesh. A wrong one says ``words``, at the line with ``mark``."""

    made: Callable[[Any], Callable[..., Any]]
    args: tuple[Any, ...]
    words: str = ""
    mark: str = ""


def mapped(
    specs: tuple[P, ...], out: Any, **options: Any
) -> Callable[[Callable[..., Any]], Callable[[Any], Any]]:
    """Make functions of a mesh from what runs on a device."""

    def decorate(body: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda mesh: jax.shard_map(
            body, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False, **options
        )

    return decorate


KEY = jax.eval_shape(jax.random.key, 0)
X, W, V, B = array(8, 16), array(16, 32), array(32, 16), array(16)
MLP = (P("d"), P(None, "t"), P("t"))


@mapped(MLP, P("d"))
def mlp(x: Any, w: Any, v: Any) -> Any:
    return lax.psum(jax.nn.gelu(x @ w) @ v, "t")


@mapped(MLP, P("d", "t"))
def scattered_mlp(x: Any, w: Any, v: Any) -> Any:
    return lax.psum_scatter(
        jax.nn.gelu(x @ w) @ v, "t", scatter_dimension=1, tiled=True
    )


@mapped((P("d"), P("t")), P("d"))
def fully_sharded(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ lax.all_gather(w, "t", axis=0, tiled=True))


@mapped((P(("d", "t")),), P())
def mean(x: Any) -> Any:
    return lax.pmean(jnp.mean(x), ("d", "t"))


@mapped((P(None, "t"), P()), P(None, "t"))
def normalised(x: Any, scale: Any) -> Any:
    square = lax.psum(jnp.sum(x * x, -1, keepdims=True), "t") / (
        x.shape[-1] * lax.axis_size("t")
    )
    own = lax.dynamic_slice_in_dim(
        scale, lax.axis_index("t") * x.shape[-1], x.shape[-1]
    )
    return x * lax.rsqrt(square + 1e-6) * own


@mapped((P(None, "t"), P("t")), P(None, "t"))
def normalised_by_own(x: Any, scale: Any) -> Any:
    square = lax.psum(jnp.sum(x * x, -1, keepdims=True), "t") / (
        x.shape[-1] * lax.axis_size("t")
    )
    return x * lax.rsqrt(square + 1e-6) * scale


@mapped((P("d", "t"),), P("d", "t"))
def softmax(x: Any) -> Any:
    peak = lax.pmax(jnp.max(x, -1, keepdims=True), "t")
    weights = jnp.exp(x - peak)
    return weights / lax.psum(jnp.sum(weights, -1, keepdims=True), "t")


@mapped((P("t"), P("d")), P("d"))
def embedding(table: Any, ids: Any) -> Any:
    local = ids - lax.axis_index("t") * table.shape[0]
    inside = (local >= 0) & (local < table.shape[0])
    return lax.psum(
        jnp.where(inside[..., None], table[jnp.where(inside, local, 0)], 0.0), "t"
    )


@mapped((P("t"), P("d")), P("d"))
def clipped_embedding(table: Any, ids: Any) -> Any:
    """Indices are clipped to the rows of the device, of which there are more on one."""
    local = ids - lax.axis_index("t") * table.shape[0]
    inside = (local >= 0) & (local < table.shape[0])
    safe = jnp.minimum(jnp.maximum(local, 0), table.shape[0] - 1)
    return lax.psum(jnp.where(inside[..., None], table[safe], 0.0), "t")


@mapped((P("d"),), P())
def histogram(x: Any) -> Any:
    """What is added is the same number for each row."""
    bins = jnp.clip((x * 2.0 + 4.0).astype(jnp.int32), 0, 7)
    return lax.psum(jnp.zeros(8).at[bins].add(1.0), "d")


@mapped((P("d"), P("d")), P())
def solved(x: Any, y: Any) -> Any:
    """A linear system, which JAX keeps as an operation with programs of its own."""
    moments = lax.psum(x.T @ x, "d") + jnp.eye(x.shape[1])
    return jnp.linalg.solve(moments, lax.psum(x.T @ y, "d"))


@mapped((P(None, None, "t"), P("d")), P("d"))
def layers(stack: Any, x: Any) -> Any:
    @jax.checkpoint
    def layer(x: Any, w: Any) -> Any:
        y = jnp.tanh(x @ w)
        return x + lax.psum(y @ w.T, "t"), None

    return lax.scan(layer, x, stack)[0]


@mapped((P("d", "t"),), P(None, ("d", "t")))
def transposed_shards(x: Any) -> Any:
    return lax.all_to_all(
        lax.all_gather(x, "d", axis=0, tiled=True), "d", 1, 1, tiled=True
    )


@mapped((P("d", "t", None),), P("d", None, "t"))
def exchanged(x: Any) -> Any:
    return lax.all_to_all(x, "t", 2, 1, tiled=True)


def reads_its_mesh(mesh: Any) -> Any:
    """The size of an axis is read in Python, from a mesh that the function holds."""

    @partial(jax.shard_map, mesh=mesh, in_specs=P("t"), out_specs=P(), check_vma=False)
    def total(x: Any) -> Any:
        return lax.pmean(jnp.sum(x), "t") * mesh.shape["t"]

    return jax.jit(total)


@jax.custom_vjp
def copied(x: Any) -> Any:
    return x


copied.defvjp(lambda x: (x, None), lambda _, ct: (lax.psum(ct, "t"),))


@jax.custom_vjp
def reduced(x: Any) -> Any:
    return lax.psum(x, "t")


reduced.defvjp(lambda x: (lax.psum(x, "t"), None), lambda _, ct: (ct,))


@mapped(MLP, (P("d"), P(None, "t"), P("t")))
def conjugate(x: Any, w: Any, v: Any) -> Any:
    """Gradients inside, through rules of the program's own."""

    def loss(x: Any, w: Any, v: Any) -> Any:
        return jnp.sum(reduced(jnp.tanh(copied(x) @ w) @ v) ** 2)

    dx, dw, dv = jax.grad(loss, argnums=(0, 1, 2))(x, w, v)
    return dx, lax.psum(dw, "d"), lax.psum(dv, "d")


RIGHT = {
    "mlp": Case(mlp, (X, W, V)),
    "scattered_mlp": Case(scattered_mlp, (X, W, V)),
    "fully_sharded": Case(fully_sharded, (X, array(16, 8))),
    "mean": Case(mean, (X,)),
    "normalised_by_own": Case(normalised_by_own, (X, B)),
    "softmax": Case(softmax, (X,)),
    "embedding": Case(embedding, (array(32, 4), array(8, 3, dtype="int32"))),
    "clipped_embedding": Case(
        clipped_embedding, (array(32, 4), array(8, 3, dtype="int32"))
    ),
    "histogram": Case(histogram, (B,)),
    "solved": Case(solved, (array(8, 4), array(8, 3))),
    "layers": Case(layers, (array(3, 16, 32), X)),
    "exchanged": Case(exchanged, (array(4, 8, 8),)),
    "reads_its_mesh": Case(reads_its_mesh, (B,)),
    "conjugate": Case(conjugate, (X, W, V)),
}


@mapped(MLP, P("d"))
def never_reduced(x: Any, w: Any, v: Any) -> Any:
    return jax.nn.gelu(x @ w) @ v  # mark: never


@mapped((*MLP, P()), P("d"))
def bias_before_psum(x: Any, w: Any, v: Any, b: Any) -> Any:
    y = jax.nn.gelu(x @ w) @ v
    y = y + b  # mark: bias
    return lax.psum(y, "t")


@mapped(MLP, P("d"))
def softmax_before_psum(x: Any, w: Any, v: Any) -> Any:
    y = jnp.tanh(x @ w) @ v
    y = jnp.exp(y)  # mark: exp
    return lax.psum(y, "t")


@mapped((P("d"),), P())
def sum_of_means(x: Any) -> Any:
    own = jnp.mean(x)
    return lax.psum(own, "d")  # mark: means


@mapped((P("d"), P()), P("d"))
def summed_twice(x: Any, w: Any) -> Any:
    y = x @ w
    return lax.psum(y, "t")  # mark: twice


@mapped((P("d", "t"),), P("d"))
def sum_of_shards(x: Any) -> Any:
    return lax.psum(x, "t")[:, :4]  # mark: shards


@mapped((P("t"),), P())
def local_size(x: Any) -> Any:
    total = lax.psum(jnp.sum(x), "t")
    return total / x.shape[0]  # mark: size


@mapped((P("t"), P("d")), P("d"))
def lookup_without_mask(table: Any, ids: Any) -> Any:
    local = ids - lax.axis_index("t") * table.shape[0]
    inside = (local >= 0) & (local < table.shape[0])
    found = table[jnp.where(inside, local, 0)]  # mark: rows
    return lax.psum(found, "t")


@mapped(MLP, (P("d"), P(None, "t"), P("t")))
def gradient_not_reduced(x: Any, w: Any, v: Any) -> Any:
    def loss(x: Any, w: Any, v: Any) -> Any:
        return jnp.sum(reduced(jnp.tanh(copied(x) @ w) @ v) ** 2)

    dx, dw, dv = jax.grad(loss, argnums=(0, 1, 2))(x, w, v)
    return dx, w - 0.1 * lax.psum(dw, "d"), v - 0.1 * dv  # mark: gradient


@mapped(MLP, P("d"))
def mean_of_parts(x: Any, w: Any, v: Any) -> Any:
    y = jnp.tanh(x @ w) @ v
    return lax.pmean(y, "t")  # mark: pmean


@mapped((P(("d", "t")), P()), P())
def mean_not_reduced(x: Any, scale: Any) -> Any:
    mean = jnp.mean(x, axis=0)  # mark: statistics
    square = lax.pmean(jnp.mean(x * x, axis=0), ("d", "t"))
    return lax.pmean(scale, "d") * lax.rsqrt(square - mean * mean + 1e-5)


@mapped((P("d", "t"), P("t")), P("t"))
def reduced_over_too_few(x: Any, w: Any) -> Any:
    square = lax.psum(jnp.sum(x * x), "d")  # mark: few
    return w * lax.rsqrt(square)


@mapped((P("t"), P("d")), P("d"))
def lookup_without_offset(table: Any, ids: Any) -> Any:
    inside = (ids >= 0) & (ids < table.shape[0])
    local = jnp.where(inside, ids, 0)  # mark: offset
    return lax.psum(jnp.where(inside[..., None], table[local], 0.0), "t")


@mapped((P(("d", "t")), P()), P())
def divided_by_own_count(x: Any, scale: Any) -> Any:
    count = lax.psum(jnp.sum(x > 0, dtype=jnp.float32), "d")  # mark: count
    return lax.psum(jnp.sum(x) / count, ("d", "t")) * scale


@mapped((P(), P("t")), P("t"))
def masked_scores(x: Any, scores: Any) -> Any:
    """Numbers that stand for a mask do not hide the others."""
    slopes = 2.0 ** -(1.0 + jnp.arange(scores.shape[0]))  # mark: slopes
    distance = jnp.arange(4)[:, None] - jnp.arange(4)
    bias = jnp.where(distance >= 0, -slopes[:, None, None] * distance, -1e9)
    return jax.nn.softmax(scores + bias + x)


@mapped((P("d"), P()), P("d"))
def same_draws(x: Any, key: Any) -> Any:
    return jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x, 0.0)  # mark: draws


WRONG = {
    "mean_not_reduced": Case(
        mean_not_reduced,
        (X, B),
        "it is a per-device mean along 'd' and 't' from here on: `*` is applied to a per-device mean along 'd' and "
        "'t': call lax.pmean(…, ('d', 't')) first",
        "statistics",
    ),
    "reduced_over_too_few": Case(
        reduced_over_too_few,
        (X, B),
        "lax.psum over 'd' leaves a partial sum over 't': lax.rsqrt is applied to a partial sum over 't': "
        "call lax.psum(…, 't') first",
        "few",
    ),
    "lookup_without_offset": Case(
        lookup_without_offset,
        (array(32, 4), np.arange(24, dtype=np.int32).reshape(8, 3)),
        "these are the same rows of every shard along 't': indices into a shard begin at its first row, which depends "
        "on lax.axis_index(…)",
        "offset",
    ),
    "divided_by_own_count": Case(
        divided_by_own_count,
        (X, array()),
        "lax.psum over 'd' leaves a partial sum over 't': `/` is applied to a partial sum over 't': "
        "call lax.psum(…, 't') first",
        "count",
    ),
    "masked_scores": Case(
        masked_scores,
        (array(), array(8, 4, 4)),
        "the result of lax.convert_element_type is not what one device computes, nor a shard or a partial result of it",
        "slopes",
    ),
    "same_draws": Case(
        same_draws,
        (X, KEY),
        "all devices draw the same random numbers, of which one device draws more: fold lax.axis_index(…) into the "
        "key, or split it",
        "draws",
    ),
    "mean_of_parts": Case(
        mean_of_parts,
        (X, W, V),
        "lax.pmean is applied to a partial sum over 't': the mean is 4 times too small; call lax.psum(…, 't')",
        "pmean",
    ),
    "never_reduced": Case(
        never_reduced,
        (X, W, V),
        "result 1 of shard_map is sharded over 'd' along dimension 0 and a partial sum over 't' but is returned as "
        "replicated: call lax.psum(…, 't')",
        "never",
    ),
    "bias_before_psum": Case(
        bias_before_psum,
        (X, W, V, B),
        "`+` is applied to a partial sum over 't' and what is replicated: call lax.psum(…, 't') first",
        "bias",
    ),
    "softmax_before_psum": Case(
        softmax_before_psum,
        (X, W, V),
        "lax.exp is applied to a partial sum over 't': call lax.psum(…, 't') first",
        "exp",
    ),
    "sum_of_means": Case(
        sum_of_means,
        (X,),
        "lax.psum is applied to a per-device mean along 'd': the sum is 2 times too large; call lax.pmean(…, 'd')",
        "means",
    ),
    "summed_twice": Case(
        summed_twice,
        (X, array(16, 4)),
        "lax.psum over 't' is applied to what is the same on all devices already: the result is 4 times too large",
        "twice",
    ),
    "sum_of_shards": Case(
        sum_of_shards,
        (X,),
        "lax.psum over 't' is applied to what is sharded over 'd' along dimension 0 and sharded over 't' along "
        "dimension 1: it adds different shards; use all_gather, or leave it out",
        "shards",
    ),
    "local_size": Case(
        local_size,
        (B,),
        "from here on it is 4 times too large: it takes 4, on one device 16",
        "size",
    ),
    "lookup_without_mask": Case(
        lookup_without_mask,
        (array(32, 4), np.arange(24, dtype=np.int32).reshape(8, 3)),
        "lax.gather is applied to what is sharded over 't' along dimension 0: the devices along 't' compute something "
        "else than one device does",
        "rows",
    ),
    "gradient_not_reduced": Case(
        gradient_not_reduced,
        (X, W, V),
        "`-` is applied to a partial sum over 'd' and what is sharded over 't' along dimension 0: "
        "call lax.psum(…, 'd') first",
        "gradient",
    ),
}
