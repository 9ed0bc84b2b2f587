"""Image classification with flax.linen and pmap, after the ImageNet example of flax, shrunk until a CPU can do it.

Synchronised batch norm, momentum SGD with the linear scaling rule, padded evaluation batches.
"""

import os

os.environ.setdefault('XLA_FLAGS', '--xla_force_host_platform_device_count=8')

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import jax_utils
from flax import linen as nn
from flax.training import common_utils, train_state
from jax import lax

ModuleDef = Any


@dataclasses.dataclass(frozen=True)
class Config:
  num_classes: int = 6
  image_size: int = 6
  num_filters: int = 8
  batch_size: int = 32
  base_learning_rate: float = 2.0
  momentum: float = 0.9
  warmup_steps: int = 2
  num_steps: int = 2
  label_smoothing: float = 0.1
  weight_decay: float = 1e-2
  max_grad_norm: float = 0.4
  num_eval: int = 37


class ResNetBlock(nn.Module):
  filters: int
  conv: ModuleDef
  norm: ModuleDef

  @nn.compact
  def __call__(self, x):
    residual = self.conv(self.filters, (1, 1), (2, 2), name='conv_proj')(x)
    y = self.conv(self.filters, (3, 3), (2, 2))(x)
    y = nn.relu(self.norm()(y))
    y = self.conv(self.filters, (3, 3))(y)
    y = self.norm(scale_init=nn.initializers.constant(0.5))(y)
    return nn.relu(residual + y)


class ResNet(nn.Module):
  config: Config
  bn_axis_name: str | None = None

  @nn.compact
  def __call__(self, x, train: bool = True):
    cfg = self.config
    conv = functools.partial(nn.Conv, use_bias=False)
    norm = functools.partial(
        nn.BatchNorm, use_running_average=not train, momentum=0.8, epsilon=1e-3, axis_name=self.bn_axis_name)
    x = conv(cfg.num_filters, (3, 3), name='conv_init')(x)
    x = nn.relu(norm(name='bn_init')(x))
    x = ResNetBlock(2 * cfg.num_filters, conv=conv, norm=norm)(x)
    x = jnp.mean(x, axis=(1, 2))
    return nn.Dense(cfg.num_classes, name='head')(x)


class TrainState(train_state.TrainState):
  batch_stats: Any


def learning_rate_fn(cfg: Config):
  peak = cfg.base_learning_rate * cfg.batch_size / 256
  warmup = optax.linear_schedule(init_value=0.25 * peak, end_value=peak, transition_steps=cfg.warmup_steps)
  return optax.join_schedules([warmup, optax.cosine_decay_schedule(peak, 10)], boundaries=[cfg.warmup_steps])


def augment(key, images):
  """Random flips and brightness, one draw for each image."""
  key_flip, key_scale = jax.random.split(key)
  n = images.shape[0]
  flip = jax.random.bernoulli(key_flip, 0.5, (n, 1, 1, 1))
  return jnp.where(flip, images[:, :, ::-1], images) * jax.random.uniform(key_scale, (n, 1, 1, 1), minval=0.7, maxval=1.3)


def cross_entropy_loss(cfg: Config, logits, labels):
  onehot = common_utils.onehot(labels, num_classes=cfg.num_classes)
  return jnp.mean(optax.softmax_cross_entropy(logits, optax.smooth_labels(onehot, cfg.label_smoothing)))


def weight_penalty(params):
  return 0.5 * sum(jnp.sum(x**2) for x in jax.tree_util.tree_leaves(params) if x.ndim > 1)


def clip_by_norm(grads, max_norm):
  norm = optax.global_norm(grads)
  return jax.tree_util.tree_map(lambda g: g * jnp.minimum(1.0, max_norm / norm), grads), norm


def train_step(state: TrainState, batch, rng, *, cfg: Config):
  rng = jax.random.fold_in(rng, state.step)
  images = augment(jax.random.fold_in(rng, lax.axis_index('batch')), batch['image'])

  def loss_fn(params):
    variables = {'params': params, 'batch_stats': state.batch_stats}
    logits, updates = state.apply_fn(variables, images, mutable=['batch_stats'])
    loss = cross_entropy_loss(cfg, logits, batch['label'])
    return loss + cfg.weight_decay * weight_penalty(params), (updates, logits)

  (loss, (updates, logits)), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
  grads = lax.pmean(grads, axis_name='batch')
  grads, norm = clip_by_norm(grads, cfg.max_grad_norm)
  metrics = {'loss': loss, 'accuracy': jnp.mean(jnp.argmax(logits, -1) == batch['label'])}
  metrics = lax.pmean(metrics, axis_name='batch')
  metrics['grad_norm'] = norm
  state = state.apply_gradients(grads=grads, batch_stats=updates['batch_stats'])
  return state, metrics


def eval_step(state: TrainState, batch):
  """Sums over all devices; padding has weight zero."""
  logits = state.apply_fn({'params': state.params, 'batch_stats': state.batch_stats}, batch['image'], train=False)
  nll = optax.softmax_cross_entropy_with_integer_labels(logits, batch['label'])
  weight = batch['weight']
  totals = {
      'loss': jnp.sum(nll * weight),
      'accuracy': jnp.sum((jnp.argmax(logits, -1) == batch['label']) * weight),
      'count': jnp.sum(weight),
  }
  totals = lax.psum(totals, axis_name='batch')
  count = totals.pop('count')
  return jax.tree_util.tree_map(lambda total: total / count, totals)


def make_data(cfg: Config, n: int, seed: int):
  rng = np.random.default_rng(seed)
  label = rng.integers(0, cfg.num_classes, n)
  prototypes = np.random.default_rng(7).normal(size=(cfg.num_classes, cfg.image_size, cfg.image_size, 3))
  noise = rng.normal(size=(n, cfg.image_size, cfg.image_size, 3)) * rng.uniform(0.5, 2.0, (n, 1, 1, 1))
  return {'image': (prototypes[label] + noise).astype(np.float32), 'label': label.astype(np.int32)}


def pad_batch(batch, multiple: int):
  n = len(batch['label'])
  extra = -n % multiple
  padded = {k: np.concatenate([v, np.zeros((extra, *v.shape[1:]), v.dtype)]) for k, v in batch.items()}
  return padded | {'weight': np.concatenate([np.ones(n, np.float32), np.zeros(extra, np.float32)])}


def create_train_state(cfg: Config, bn_axis_name: str | None) -> TrainState:
  model = ResNet(cfg, bn_axis_name)
  variables = jax.jit(model.init)(jax.random.key(0), jnp.zeros((1, cfg.image_size, cfg.image_size, 3)))
  tx = optax.sgd(learning_rate_fn(cfg), cfg.momentum, nesterov=True)
  return TrainState.create(apply_fn=model.apply, tx=tx, **variables)


def summary(state: TrainState, history, evaluation):
  return jax.tree_util.tree_map(np.asarray, {
      'params': state.params,
      'batch_stats': state.batch_stats, 'history': {k: np.array([m[k] for m in history]) for k in history[0]},
      'eval': evaluation,
  })


def main():
  cfg = Config()
  state = jax_utils.replicate(create_train_state(cfg, 'batch'))
  p_train_step = jax.pmap(functools.partial(train_step, cfg=cfg), axis_name='batch', in_axes=(0, 0, None))
  p_eval_step = jax.pmap(eval_step, axis_name='batch')
  history = []
  for step in range(cfg.num_steps):
    batch = common_utils.shard(make_data(cfg, cfg.batch_size, seed=step))
    state, metrics = p_train_step(state, batch, jax.random.key(1))
    history.append(jax_utils.unreplicate(metrics))
  batch = common_utils.shard(pad_batch(make_data(cfg, cfg.num_eval, seed=100), jax.local_device_count()))
  evaluation = jax_utils.unreplicate(p_eval_step(state, batch))
  return summary(jax_utils.unreplicate(state), history, evaluation)


def reference(num_shards: int = 8):
  cfg = Config()
  state = create_train_state(cfg, None)

  @jax.jit
  def step_fn(state, batch):
    key = jax.random.fold_in(jax.random.key(1), state.step)
    shards = jnp.split(batch['image'], num_shards)
    images = jnp.concatenate([augment(jax.random.fold_in(key, i), x) for i, x in enumerate(shards)])

    def loss_fn(params):
      logits, new = state.apply_fn({'params': params, 'batch_stats': state.batch_stats}, images, mutable=['batch_stats'])
      penalty = weight_penalty(params)
      return cross_entropy_loss(cfg, logits, batch['label']) + cfg.weight_decay * penalty, (new, logits)

    (loss, (new, logits)), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    grads, norm = clip_by_norm(grads, cfg.max_grad_norm)
    accuracy = jnp.mean(jnp.argmax(logits, -1) == batch['label'])
    return state.apply_gradients(grads=grads, **new), {'loss': loss, 'accuracy': accuracy, 'grad_norm': norm}

  history = []
  for step in range(cfg.num_steps):
    state, metrics = step_fn(state, make_data(cfg, cfg.batch_size, seed=step))
    history.append(metrics)
  batch = make_data(cfg, cfg.num_eval, seed=100)
  logits = state.apply_fn({'params': state.params, 'batch_stats': state.batch_stats}, batch['image'], train=False)
  nll = optax.softmax_cross_entropy_with_integer_labels(logits, batch['label'])
  evaluation = {'loss': nll.mean(), 'accuracy': (logits.argmax(-1) == batch['label']).mean()}
  return summary(state, history, evaluation)


if __name__ == '__main__':
  got, want = main(), reference()
  jax.tree_util.tree_map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), got, want)
  print('ok', got['history'], got['eval'])
