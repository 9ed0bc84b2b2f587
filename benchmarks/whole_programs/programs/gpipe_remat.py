# GPipe in one shard_map: stages hand activations to their neighbour with ppermute inside a lax.scan over clock
# ticks, and every tick is rematerialized in the backward pass.
#
#   mesh: stage x data.   Layer weights: [stage, layer in stage, ...].   Encoder and decoder: replicated; only the
#   first (last) stage makes use of them.
import os
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
from jax import lax, numpy as jnp, random, tree_util as tu
from jax.sharding import AxisType, NamedSharding, PartitionSpec as Pspec
import numpy as np

n_features, n_outputs, width, hidden = 9, 4, 16, 32
n_stages, n_data = 4, 2
layers_per_stage = 2
n_micro = 6
batch = 48
n_steps = 3
drop_rate = 0.1
learning_rate, beta, max_norm = 0.005, 0.9, 15.0

stage_specs = {"norm": Pspec("stage"), "w_in": Pspec("stage"), "b_in": Pspec("stage"), "w_out": Pspec("stage")}
specs = {"encoder": Pspec(), "blocks": stage_specs, "decoder": Pspec()}


def init_params(key):
  k_enc, k_dec, *k_layers = random.split(key, 2 + n_stages * layers_per_stage)

  def one_layer(k):
    k1, k2, k3 = random.split(k, 3)
    return {
        "norm": jnp.ones(width),
        "w_in": random.normal(k1, (width, hidden)) / width**0.5,
        "b_in": 0.1 * random.normal(k2, (hidden,)),
        "w_out": random.normal(k3, (hidden, width)) / hidden**0.5,
    }

  layers = [one_layer(k) for k in k_layers]
  stack = lambda *leaves: jnp.stack(leaves).reshape(n_stages, layers_per_stage, *leaves[0].shape)
  return {
      "encoder": random.normal(k_enc, (n_features, width)) / n_features**0.5,
      "blocks": tu.tree_map(stack, *layers),
      "decoder": random.normal(k_dec, (width, n_outputs)) / width**0.5,
  }


def layer_norm(x, scale):
  mu = x.mean(axis=-1, keepdims=True)
  var = ((x - mu) ** 2).mean(axis=-1, keepdims=True)
  return scale * (x - mu) * lax.rsqrt(var + 1e-5)


def apply_layer(layer, x, key):
  h = jax.nn.gelu(layer_norm(x, layer["norm"]) @ layer["w_in"] + layer["b_in"])
  keep = random.bernoulli(key, 1 - drop_rate, h.shape)
  return x + jnp.where(keep, h / (1 - drop_rate), 0.0) @ layer["w_out"]


def run_stage(layers, x, key):
  keys = random.split(key, layers_per_stage)

  def body(x, layer_and_key):
    layer, k = layer_and_key
    return apply_layer(layer, x, k), None

  return lax.scan(body, x, (layers, keys))[0]


def pipeline(layers, micro, key):
  """micro: [n_micro, b, width], of which only the first stage's matters.  Returns the same shape, of which only the
  last stage's matters."""
  stage = lax.axis_index("stage")
  last = n_stages - 1
  handover = [(s, s + 1) for s in range(last)]

  def tick(arrived, t):
    m = jnp.clip(t - stage, 0, n_micro - 1)  # bubbles compute nonsense that nobody looks at
    x = jnp.where(stage == 0, micro[m], arrived)
    k = random.fold_in(random.fold_in(key, m), stage)
    y = run_stage(layers, x, k)
    return lax.ppermute(y, "stage", handover), y

  ticks = jnp.arange(n_micro + last)
  _, ys = lax.scan(jax.checkpoint(tick), jnp.zeros_like(micro[0]), ticks)
  return ys[last:]


def split_micro(a):
  return a.reshape(n_micro, a.shape[0] // n_micro, *a.shape[1:])


def local_objective(params, x, y, key):
  """This device's part of the loss; only devices of the last stage have one."""
  layers = tu.tree_map(lambda a: a[0], params["blocks"])
  micro = split_micro(x) @ params["encoder"]
  out = pipeline(layers, micro, key) @ params["decoder"]
  squares = jnp.sum((out - split_micro(y)) ** 2)
  is_last = lax.axis_index("stage") == n_stages - 1
  return jnp.where(is_last, squares, 0.0) / (batch * n_outputs)


def reduce_grads(grads):
  blocks = lax.psum(grads["blocks"], "data")
  encoder, decoder = lax.psum((grads["encoder"], grads["decoder"]), ("stage", "data"))
  return {"encoder": encoder, "blocks": blocks, "decoder": decoder}


def sum_of_squares(tree):
  return sum(jnp.sum(leaf**2) for leaf in tu.tree_leaves(tree))


def global_norm(grads):
  blocks = lax.psum(sum_of_squares(grads["blocks"]), "stage")
  return jnp.sqrt(blocks + sum_of_squares((grads["encoder"], grads["decoder"])))


def train_step(params, momentum, x, y, key):
  key = random.fold_in(key, lax.axis_index("data"))
  loss, grads = jax.value_and_grad(local_objective)(params, x, y, key)
  loss = lax.psum(loss, ("stage", "data"))
  grads = reduce_grads(grads)
  norm = global_norm(grads)
  scale = jnp.minimum(1.0, max_norm / norm)
  momentum = tu.tree_map(lambda m, g: beta * m + scale * g, momentum, grads)
  params = tu.tree_map(lambda p, m: p - learning_rate * m, params, momentum)
  return params, momentum, loss, norm


def data():
  rng = np.random.default_rng(2)
  a, b = rng.normal(size=(n_features, n_outputs)), rng.normal(size=(n_features, n_outputs))
  for _ in range(n_steps):
    x = rng.normal(size=(batch, n_features))
    yield x.astype(np.float32), (np.sin(x @ a) + 0.3 * x @ b).astype(np.float32)


def main():
  mesh = jax.make_mesh((n_stages, n_data), ("stage", "data"), axis_types=(AxisType.Auto, AxisType.Auto))
  put = lambda tree: tu.tree_map(lambda a, s: jax.device_put(a, NamedSharding(mesh, s)), tree, specs)
  params = put(init_params(random.key(0)))
  momentum = tu.tree_map(jnp.zeros_like, params)
  step = jax.jit(
      jax.shard_map(
          train_step, mesh=mesh,
          in_specs=(specs, specs, Pspec("data"), Pspec("data"), Pspec()),
          out_specs=(specs, specs, Pspec(), Pspec()),
          check_vma=False),
      donate_argnums=(0, 1))
  losses, norms = [], []
  for i, (x, y) in enumerate(data()):
    params, momentum, loss, norm = step(params, momentum, x, y, random.key(i + 1))
    losses.append(loss)
    norms.append(norm)
  return {"loss": np.array(losses), "norm": np.array(norms), "params": tu.tree_map(np.asarray, params)}


def reference():
  def forward(params, x, key):
    h = x @ params["encoder"]
    for s in range(n_stages):
      keys = random.split(random.fold_in(key, s), layers_per_stage)
      for l in range(layers_per_stage):
        h = apply_layer(tu.tree_map(lambda a: a[s, l], params["blocks"]), h, keys[l])
    return h @ params["decoder"]

  def loss_fn(params, x, y, key):
    pieces = lambda a: a.reshape(n_data * n_micro, -1, a.shape[-1])
    keys = jnp.stack([random.fold_in(random.fold_in(key, d), m) for d in range(n_data) for m in range(n_micro)])
    out = jax.vmap(forward, (None, 0, 0))(params, pieces(x), keys)
    return jnp.mean((out - pieces(y)) ** 2)

  grad = jax.jit(jax.value_and_grad(loss_fn))
  params = init_params(random.key(0))
  momentum = tu.tree_map(jnp.zeros_like, params)
  losses, norms = [], []
  for i, (x, y) in enumerate(data()):
    loss, g = grad(params, x, y, random.key(i + 1))
    norm = jnp.sqrt(sum_of_squares(g))
    momentum = tu.tree_map(lambda m, g: beta * m + jnp.minimum(1.0, max_norm / norm) * g, momentum, g)
    params = tu.tree_map(lambda p, m: p - learning_rate * m, params, momentum)
    losses.append(loss)
    norms.append(norm)
  return {"loss": np.array(losses), "norm": np.array(norms), "params": tu.tree_map(np.asarray, params)}


if __name__ == "__main__":
  mine, plain = main(), reference()
  tu.tree_map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), mine, plain)
  print("losses", mine["loss"], "gradient norms", mine["norm"])
