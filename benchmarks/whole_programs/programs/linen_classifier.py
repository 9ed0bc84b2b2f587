"""Fine-tunes a small text classifier written in flax.linen with logical axis names (in the manner of T5X / MaxText)."""

import os

os.environ.setdefault('XLA_FLAGS', '--xla_force_host_platform_device_count=8')

import functools
import zlib
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state
from jax.sharding import AxisType, NamedSharding, PartitionSpec

VOCAB, EMBED, HEADS, HEAD_DIM, MLP, CLASSES, LAYERS = 48, 16, 4, 4, 32, 8, 2
BATCH, LENGTH = 16, 12
LEARNING_RATE, MOMENTUM, SMOOTHING = 0.1, 0.9, 0.1

RULES = (
    ('batch', 'data'),
    ('length', None),
    ('activation_embed', None),
    ('activation_heads', 'model'),
    ('activation_mlp', 'model'),
    ('embed', 'data'),
    ('heads', 'model'),
    ('kv', None),
    ('mlp', 'model'),
    ('vocab', 'model'),
    ('classes', 'model'),
)


def param(init, *names):
  return nn.with_logical_partitioning(init, names)


class Dense(nn.Module):
  """A dense layer over the last `n_in` axes of the input, with named axes."""

  features: tuple[int, ...]
  names: tuple[str, ...]
  n_in: int = 1
  use_bias: bool = False

  @nn.compact
  def __call__(self, x):
    shape = x.shape[-self.n_in :] + self.features
    kernel = self.param('kernel', param(nn.initializers.normal(0.02), *self.names), shape)
    y = jnp.tensordot(x, kernel, axes=self.n_in)
    if self.use_bias:
      bias = self.param('bias', param(nn.initializers.zeros, *self.names[self.n_in :]), self.features)
      y = y + bias
    return y


class RMSNorm(nn.Module):
  @nn.compact
  def __call__(self, x):
    scale = self.param('scale', param(nn.initializers.ones, 'embed'), (x.shape[-1],))
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6) * scale


class Attention(nn.Module):
  @nn.compact
  def __call__(self, x, mask):
    proj = functools.partial(Dense, (HEADS, HEAD_DIM), ('embed', 'heads', 'kv'))
    names = ('batch', 'length', 'activation_heads', 'kv')
    q = nn.with_logical_constraint(proj(name='query')(x), names)
    k = nn.with_logical_constraint(proj(name='key')(x), names)
    v = nn.with_logical_constraint(proj(name='value')(x), names)
    logits = jnp.einsum('bqhd,bkhd->bhqk', q, k) / np.sqrt(HEAD_DIM)
    logits = jnp.where(mask[:, None, None, :], logits, -1e9)
    probs = nn.softmax(logits, axis=-1)
    out = jnp.einsum('bhqk,bkhd->bqhd', probs, v)
    out = Dense((EMBED,), ('heads', 'kv', 'embed'), n_in=2, name='out')(out)
    return nn.with_logical_constraint(out, ('batch', 'length', 'activation_embed'))


class MlpBlock(nn.Module):
  @nn.compact
  def __call__(self, x):
    h = nn.gelu(Dense((MLP,), ('embed', 'mlp'), use_bias=True, name='wi')(x))
    h = nn.with_logical_constraint(h, ('batch', 'length', 'activation_mlp'))
    h = Dense((EMBED,), ('mlp', 'embed'), name='wo')(h)
    return nn.with_logical_constraint(h, ('batch', 'length', 'activation_embed'))


class Classifier(nn.Module):
  @nn.compact
  def __call__(self, ids):
    mask = ids > 0
    table = self.param('embedding', param(nn.initializers.normal(1.0), 'vocab', 'embed'), (VOCAB, EMBED))
    position = self.param('position', param(nn.initializers.normal(1.0), 'length', 'embed'), (LENGTH, EMBED))
    x = jnp.take(table, ids, axis=0) + position[None]
    x = nn.with_logical_constraint(x, ('batch', 'length', 'activation_embed'))
    for i in range(LAYERS):
      x = x + Attention(name=f'attention_{i}')(RMSNorm(name=f'pre_attention_{i}')(x), mask)
      x = x + MlpBlock(name=f'mlp_{i}')(RMSNorm(name=f'pre_mlp_{i}')(x))
    x = RMSNorm(name='final')(x)
    weight = mask[..., None].astype(x.dtype)
    pooled = jnp.sum(x * weight, axis=1) / jnp.sum(weight, axis=1)
    return Dense((CLASSES,), ('embed', 'classes'), use_bias=True, name='head')(pooled)


def pretrained(name: str, shape: tuple[int, ...]) -> np.ndarray:
  """Stands for a checkpoint: the same weights for the same name."""
  x = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape, dtype=np.float32)
  if name.endswith('scale'):
    return 1 + 0.1 * x
  return 0.3 * x


def batches(steps: int):
  rng = np.random.default_rng(0)
  ids = rng.integers(1, VOCAB, (steps, BATCH, LENGTH), dtype=np.int32)
  length = rng.integers(3, LENGTH + 1, (steps, BATCH, 1))
  return ids * (np.arange(LENGTH) < length), rng.integers(0, CLASSES, (steps, BATCH), dtype=np.int32)


def train_step(state: train_state.TrainState, ids, labels) -> tuple[train_state.TrainState, dict[str, Any]]:
  def loss_fn(params):
    logits = state.apply_fn({'params': params}, ids)
    targets = optax.smooth_labels(jax.nn.one_hot(labels, CLASSES), SMOOTHING)
    return optax.softmax_cross_entropy(logits, targets).mean(), logits

  (loss, logits), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
  metrics = {
      'loss': loss,
      'accuracy': jnp.mean(jnp.argmax(logits, axis=-1) == labels),
      'grad_norm': optax.global_norm(grads),
  }
  return state.apply_gradients(grads=grads), metrics


def main(data: int = 4, model: int = 2, steps: int = 2) -> dict[str, np.ndarray]:
  devices = jax.devices()[: data * model]
  mesh = jax.make_mesh((data, model), ('data', 'model'), axis_types=(AxisType.Auto,) * 2, devices=devices)
  classifier = Classifier()
  tx = optax.sgd(LEARNING_RATE, MOMENTUM)

  def create(key, ids):
    params = classifier.init(key, ids)['params']
    return train_state.TrainState.create(apply_fn=classifier.apply, params=params, tx=tx)

  with jax.set_mesh(mesh), nn.logical_axis_rules(RULES):
    ids = jnp.zeros((BATCH, LENGTH), jnp.int32)
    abstract = jax.eval_shape(create, jax.random.key(0), ids)
    shardings = nn.logical_to_mesh_sharding(nn.get_partition_spec(abstract), mesh, RULES)
    state = jax.jit(create, out_shardings=shardings)(jax.random.key(0), ids)

    def restore(path, old):
      return jax.device_put(pretrained('/'.join(k.key for k in path if hasattr(k, 'key')), old.shape), old.sharding)

    state = state.replace(params=jax.tree_util.tree_map_with_path(restore, state.params))
    batch_sharding = NamedSharding(mesh, PartitionSpec('data'))
    step = jax.jit(
        train_step,
        in_shardings=(shardings, batch_sharding, batch_sharding),
        out_shardings=(shardings, None),
        donate_argnums=0,
    )
    history = []
    for ids, labels in zip(*batches(steps)):
      state, metrics = step(state, ids, labels)
      history.append([metrics[m] for m in ('loss', 'accuracy', 'grad_norm')])
  flat = jax.tree_util.tree_leaves_with_path(nn.meta.unbox(state.params))
  result = {'/'.join(k.key for k in path): np.asarray(x) for path, x in flat}
  return result | {'history': np.array(history)}


def reference(steps: int = 2) -> dict[str, np.ndarray]:
  e, h, d, c = EMBED, HEADS, HEAD_DIM, CLASSES
  shapes = dict(embedding=(VOCAB, e), position=(LENGTH, e)) | {'final/scale': (e,), 'head/kernel': (e, c), 'head/bias': (c,)}
  for i in range(LAYERS):
    shapes |= {f'attention_{i}/{n}/kernel': (e, h, d) for n in ('query', 'key', 'value')}
    shapes |= {f'attention_{i}/out/kernel': (h, d, e), f'pre_attention_{i}/scale': (e,), f'pre_mlp_{i}/scale': (e,)}
    shapes |= {f'mlp_{i}/wi/kernel': (e, MLP), f'mlp_{i}/wi/bias': (MLP,), f'mlp_{i}/wo/kernel': (MLP, e)}
  p = {n: jnp.asarray(pretrained(n, s)) for n, s in shapes.items()}

  def logits(p, ids):
    norm = lambda x, n: x / jnp.sqrt((x * x).mean(1)[:, None] + 1e-6) * p[n + '/scale']
    real = (ids != 0).astype(jnp.float32)
    x = p['embedding'][ids] + p['position']
    for i in range(LAYERS):
      y, total = norm(x, f'pre_attention_{i}'), 0.0
      for j in range(h):
        q, k, v = (y @ p[f'attention_{i}/{n}/kernel'][:, j] for n in ('query', 'key', 'value'))
        w = jnp.exp(q @ k.T / 2.0) * real  # 2 = sqrt(HEAD_DIM)
        total += w / w.sum(1)[:, None] @ v @ p[f'attention_{i}/out/kernel'][j]
      x = x + total
      y = jax.nn.gelu(norm(x, f'pre_mlp_{i}') @ p[f'mlp_{i}/wi/kernel'] + p[f'mlp_{i}/wi/bias'])
      x = x + y @ p[f'mlp_{i}/wo/kernel']
    return real @ norm(x, 'final') / real.sum() @ p['head/kernel'] + p['head/bias']

  def loss(p, ids, labels):
    z = jax.vmap(logits, (None, 0))(p, ids)
    lp = jax.nn.log_softmax(z)
    picked = (1 - SMOOTHING) * lp[np.arange(len(ids)), labels] + SMOOTHING * lp.mean(1)
    return -picked.mean(), (z.argmax(1) == labels).mean()

  grad = jax.jit(jax.value_and_grad(loss, has_aux=True))
  trace, history = {n: 0.0 for n in p}, []
  for ids, labels in zip(*batches(steps)):
    (value, accuracy), g = grad(p, ids, labels)
    trace = {n: MOMENTUM * trace[n] + g[n] for n in p}
    p = {n: p[n] - LEARNING_RATE * trace[n] for n in p}
    history.append([value, accuracy, sum(float((x * x).sum()) for x in g.values()) ** 0.5])
  return {n: np.asarray(x) for n, x in p.items()} | {'history': np.array(history)}


if __name__ == '__main__':
  got, want = main(), reference()
  for name in want:
    np.testing.assert_allclose(got[name], want[name], rtol=1e-3, atol=1e-4, err_msg=name)
  print('ok', got['history'])
