"""Causal ring attention with sequence parallelism.

The sequence is cut over mesh axis 'seq'.  Keys and values travel around the ring while every device
accumulates its own queries' attention with an online softmax.
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

Params = dict[str, Any]

VOCAB = 40
DIM = 24
HEADS = 4
KV_HEADS = 2
HEAD_DIM = 6
HIDDEN = 48
SEQ = 32
BATCH = 4
LEARNING_RATE = 0.5
NEG = -1e30


def init_params(seed: int = 0) -> Params:
  ks = jax.random.split(jax.random.key(seed), 8)
  glorot = lambda k, i, *o: jax.random.normal(k, (i, *o)) / np.sqrt(i)
  return {
      "tok": jax.random.normal(ks[0], (VOCAB, DIM)),
      "pos": 0.5 * jax.random.normal(ks[1], (SEQ, DIM)),
      "wq": glorot(ks[2], DIM, HEADS, HEAD_DIM),
      "wkv": glorot(ks[3], DIM, 2, KV_HEADS, HEAD_DIM),
      "wo": glorot(ks[4], HEADS * HEAD_DIM, DIM),
      "up": glorot(ks[5], DIM, HIDDEN),
      "down": glorot(ks[6], HIDDEN, DIM),
      "head": glorot(ks[7], DIM, VOCAB),
  }


def make_data(steps: int) -> np.ndarray:
  return np.random.default_rng(11).integers(0, VOCAB, (steps, BATCH, SEQ), dtype=np.int32)


def normalize(x: Float[Array, "b t m"]) -> Float[Array, "b t m"]:
  x = x - jnp.mean(x, axis=-1, keepdims=True)
  return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)


def rotate(x: Array, axis_name: str) -> Array:
  """Sends to the next device of the ring."""
  n = lax.axis_size(axis_name)
  return lax.ppermute(x, axis_name, [(i, (i + 1) % n) for i in range(n)])


def from_next(x: Int[Array, "b"], axis_name: str) -> Int[Array, "b"]:
  n = lax.axis_size(axis_name)
  return lax.ppermute(x, axis_name, [((i + 1) % n, i) for i in range(n)])


def positions(t: int, block: Int[Array, ""]) -> Int[Array, "t"]:
  return block * t + jnp.arange(t)


def block_scores(
    q: Float[Array, "b t k g d"], k: Float[Array, "b s k d"], mask: Bool[Array, "t s"]
) -> Float[Array, "b k g t s"]:
  scores = jnp.einsum("btkgd,bskd->bkgts", q, k) * q.shape[-1] ** -0.5
  return jnp.where(mask, scores, NEG)


def ring_attention(
    q: Float[Array, "b t k g d"],
    k: Float[Array, "b t k d"],
    v: Float[Array, "b t k d"],
    axis_name: str = "seq",
) -> Float[Array, "b t k g d"]:
  n = lax.axis_size(axis_name)
  me = lax.axis_index(axis_name)
  b, t, kh, g, d = q.shape
  q_pos = positions(t, me)

  def hop(carry, i):
    k, v, top, denom, acc = carry
    source = (me - i) % n
    mask = q_pos[:, None] >= positions(t, source)[None, :]
    s = block_scores(q, k, mask)
    new_top = jnp.maximum(top, s.max(-1))
    p = jnp.exp(s - new_top[..., None])
    scale = jnp.exp(top - new_top)
    denom = denom * scale + p.sum(-1)
    acc = acc * scale[..., None] + jnp.einsum("bkgts,bskd->bkgtd", p, v)
    k, v = rotate(k, axis_name), rotate(v, axis_name)
    return (k, v, new_top, denom, acc), None

  start = (
      k,
      v,
      jnp.full((b, kh, g, t), NEG),
      jnp.zeros((b, kh, g, t)),
      jnp.zeros((b, kh, g, t, d)),
  )
  (_, _, _, denom, acc), _ = lax.scan(jax.checkpoint(hop), start, jnp.arange(n))
  return jnp.moveaxis(acc / denom[..., None], 3, 1)


def attention_layer(p: Params, x: Float[Array, "b t m"]) -> Float[Array, "b t m"]:
  b, t, _ = x.shape
  h = normalize(x)
  q = jnp.einsum("btm,mhd->bthd", h, p["wq"])
  k, v = jnp.einsum("btm,mchd->cbthd", h, p["wkv"])
  q = q.reshape(b, t, KV_HEADS, HEADS // KV_HEADS, HEAD_DIM)
  o = ring_attention(q, k, v)
  return o.reshape(b, t, HEADS * HEAD_DIM) @ p["wo"]


def mlp_layer(p: Params, x: Float[Array, "b t m"]) -> Float[Array, "b t m"]:
  return jax.nn.relu(normalize(x) @ p["up"]) @ p["down"]


def forward(p: Params, ids: Int[Array, "b t"]) -> Float[Array, "b t v"]:
  t = ids.shape[1]
  pos = lax.dynamic_slice_in_dim(p["pos"], lax.axis_index("seq") * t, t, axis=0)
  x = p["tok"][ids] + pos
  x = x + attention_layer(p, x)
  x = x + mlp_layer(p, x)
  return normalize(x) @ p["head"]


def token_loss(p: Params, ids: Int[Array, "b t"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
  """Sum of the local tokens' losses, and how many tokens they are."""
  t = ids.shape[1]
  targets = jnp.concatenate([ids[:, 1:], from_next(ids[:, 0], "seq")[:, None]], axis=1)
  real = positions(t, lax.axis_index("seq")) < SEQ - 1
  logp = jax.nn.log_softmax(forward(p, ids), axis=-1)
  nll = -jnp.take_along_axis(logp, targets[..., None], axis=-1)[..., 0]
  return jnp.sum(nll * real), jnp.sum(jnp.broadcast_to(real, nll.shape).astype(jnp.float32))


def step(p: Params, ids: Int[Array, "b t"]) -> tuple[Params, Float[Array, ""]]:
  (total, count), grads = jax.value_and_grad(token_loss, has_aux=True)(p, ids)
  total, count, grads = lax.psum((total, count, grads), ("data", "seq"))
  p = jax.tree.map(lambda w, g: w - LEARNING_RATE * g / count, p, grads)
  return p, total / count


def build(mesh: Mesh):
  train = jax.shard_map(
      step, mesh=mesh, in_specs=(P(), P("data", "seq")), out_specs=(P(), P()), check_vma=False)
  return jax.jit(train)


def main(data: int = 2, seq: int = 4, steps: int = 2) -> dict[str, np.ndarray]:
  mesh = jax.make_mesh(
      (data, seq), ("data", "seq"), axis_types=(AxisType.Auto,) * 2, devices=jax.devices()[:data * seq])
  p = jax.device_put(init_params(), NamedSharding(mesh, P()))
  train = build(mesh)
  losses = []
  for ids in make_data(steps):
    p, loss = train(p, jax.device_put(ids, NamedSharding(mesh, P("data", "seq"))))
    losses.append(loss)
  return {"loss": np.array(losses)} | {n: np.asarray(w) for n, w in p.items()}


def reference(steps: int = 2) -> dict[str, np.ndarray]:
  def ln(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

  def sequence_loss(p, ids):
    x = jax.nn.one_hot(ids, VOCAB) @ p["tok"] + p["pos"]
    h = ln(x)
    heads = []
    for i in range(HEADS):
      q, k, v = h @ p["wq"][:, i], h @ p["wkv"][:, 0, i // 2], h @ p["wkv"][:, 1, i // 2]
      a = jax.nn.softmax(jnp.where(np.tri(SEQ, dtype=bool), q @ k.T / np.sqrt(HEAD_DIM), -jnp.inf))
      heads.append(a @ v)
    x = x + jnp.concatenate(heads, 1) @ p["wo"]
    x = x + jnp.maximum(ln(x) @ p["up"], 0) @ p["down"]
    z = ln(x) @ p["head"]
    return jnp.mean(jax.nn.logsumexp(z[:-1], -1) - z[np.arange(SEQ - 1), ids[1:]])

  grad = jax.jit(jax.value_and_grad(lambda p, ids: jax.vmap(functools.partial(sequence_loss, p))(ids).mean()))
  p, losses = init_params(), []
  for ids in make_data(steps):
    loss, g = grad(p, ids)
    p = {n: p[n] - LEARNING_RATE * g[n] for n in p}
    losses.append(loss)
  return {"loss": np.array(losses)} | {n: np.asarray(w) for n, w in p.items()}


if __name__ == "__main__":
  got, want = main(), reference()
  for name in want:
    np.testing.assert_allclose(got[name], want[name], rtol=1e-3, atol=1e-4, err_msg=name)
  print("ok", got["loss"])
