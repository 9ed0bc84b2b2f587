"""Image tokenizer: a VQ-VAE whose codebook follows exponential moving averages.

One process drives all local devices with jax.pmap.  Weights, batch statistics, optimizer state
and codebook are replicated; every replica sees its own rows of the batch.  The encoder is
denoising: it gets a jittered image and the decoder has to paint the clean one.

Codes that nobody uses any more are restarted from encodings of the present batch.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax, random

AXIS = "replica"


@dataclasses.dataclass(frozen=True)
class Config:
  side: int = 12
  channels: int = 10
  latent: int = 5
  codes: int = 12
  batch: int = 64
  steps: int = 7
  eval_images: int = 77
  eval_batch: int = 32
  jitter: float = 0.15
  beta: float = 0.4
  book_decay: float = 0.7  # of the moving averages of codes
  norm_decay: float = 0.6
  smoothing: float = 1e-2
  dead_below: float = 4.0


CFG = Config()
EPS = 1e-3
ADAM = optax.adam(optax.linear_schedule(7e-3, 2e-2, 3), b1=0.8, b2=0.95, eps=1e-2)
OPTIMIZER = optax.chain(optax.clip_by_global_norm(0.3), ADAM)


def paint(count, seed, cfg=CFG):
  """Gray stripes and discs, sorted by kind as they come from the archive."""
  rng = np.random.default_rng(seed)
  kind = np.sort(rng.integers(0, 6, count))[:, None, None]
  row, col = np.mgrid[: cfg.side, : cfg.side] / cfg.side
  phase = rng.uniform(0, 2, (count, 1, 1))
  stripes = np.sin((2 + kind) * (row * (kind % 2) + col * (1 - kind % 2)) * 3 + phase)
  disc = ((row - 0.3 - 0.1 * phase) ** 2 + (col - 0.5) ** 2 < 0.06) * (kind > 2)
  image = (0.2 + 0.2 * kind) * stripes + disc + 0.05 * rng.normal(size=stripes.shape)
  return image[..., None].astype(np.float32)


def shard(x):
  """[batch, ...] -> [replicas, batch per replica, ...]"""
  n = jax.device_count()
  return x.reshape((n, x.shape[0] // n) + x.shape[1:])


def replicate(tree):
  n = jax.device_count()
  return jax.tree.map(lambda x: jnp.broadcast_to(x, (n,) + jnp.shape(x)), tree)


def first_replica(tree):
  return jax.tree.map(lambda x: np.asarray(x[0]), tree)


def init_state(seed, cfg=CFG):
  keys = iter(random.split(random.key(seed), 8))

  def kernel(size, fan_in, out):
    scale = (size * size * fan_in) ** -0.5
    return scale * random.normal(next(keys), (size, size, fan_in, out))

  c, d = cfg.channels, cfg.latent
  norms = ("enc_norm", "dec_norm")
  params = {name: {"gain": jnp.ones(c), "bias": jnp.zeros(c)} for name in norms}
  params |= {"enc_in": kernel(3, 1, c), "enc_out": kernel(3, c, d)}
  params |= {"dec_in": kernel(3, d, c), "dec_out": kernel(3, c, 1)}
  stats = {name: {"mean": jnp.zeros(c), "var": jnp.ones(c)} for name in norms}
  codes = random.normal(next(keys), (cfg.codes, d))
  book = {"codes": codes, "size": jnp.full(cfg.codes, 9.0), "sums": 9.0 * codes}
  state = {"params": params, "stats": stats, "book": book, "opt": OPTIMIZER.init(params)}
  return {**state, "step": jnp.zeros((), int)}


def conv(x, kernel, stride=1):
  layout = ("NHWC", "HWIO", "NHWC")
  return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=layout)


def enlarge(x):
  return jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)


def sync_norm(p, running, x, train, decay=CFG.norm_decay):
  """Batch norm over all replicas.  Returns activations and the new running statistics."""
  if train:
    mean = lax.pmean(jnp.mean(x, axis=(0, 1, 2)), AXIS)
    var = lax.pmean(jnp.mean(jnp.square(x - mean), axis=(0, 1, 2)), AXIS)
    running = {
        "mean": decay * running["mean"] + (1 - decay) * lax.stop_gradient(mean),
        "var": decay * running["var"] + (1 - decay) * lax.stop_gradient(var),
    }
  else:
    mean, var = running["mean"], running["var"]
  y = (x - mean) * lax.rsqrt(var + EPS)
  return y * p["gain"] + p["bias"], running


def encode(params, stats, images, train):
  h = conv(images, params["enc_in"], stride=2)
  h, enc = sync_norm(params["enc_norm"], stats["enc_norm"], h, train)
  return conv(jnp.tanh(h), params["enc_out"], stride=2), {**stats, "enc_norm": enc}


def decode(params, stats, q, train):
  h = conv(enlarge(q), params["dec_in"])
  h, dec = sync_norm(params["dec_norm"], stats["dec_norm"], h, train)
  return conv(enlarge(jnp.tanh(h)), params["dec_out"]), {**stats, "dec_norm": dec}


def nearest(codes, z):
  """Ids of the closest codes, shaped like z without its channels."""
  distance = jnp.sum(codes**2, axis=-1) - 2 * z @ codes.T
  return jnp.argmin(distance, axis=-1)


def perplexity(counts):
  p = counts / jnp.sum(counts)
  return jnp.exp(-jnp.sum(p * jnp.log(p + 1e-9)))


def refresh(book, z, ids, key, cfg):
  """Moving averages of all replicas' encodings, then a restart of codes that died out."""
  flat = z.reshape(-1, cfg.latent)
  hot = jax.nn.one_hot(ids.reshape(-1), cfg.codes)
  counts = lax.psum(hot.sum(axis=0), AXIS)
  sums = lax.psum(hot.T @ flat, AXIS)
  size = cfg.book_decay * book["size"] + (1 - cfg.book_decay) * counts
  sums = cfg.book_decay * book["sums"] + (1 - cfg.book_decay) * sums

  pool = lax.all_gather(flat, AXIS, tiled=True)
  lucky = pool[random.randint(key, (cfg.codes,), 0, pool.shape[0])]
  dead = size < cfg.dead_below
  size = jnp.where(dead, cfg.dead_below, size)
  sums = jnp.where(dead[:, None], cfg.dead_below * lucky, sums)

  total = jnp.sum(size)
  smooth = (size + cfg.smoothing) / (total + cfg.codes * cfg.smoothing) * total
  return {"codes": sums / smooth[:, None], "size": size, "sums": sums}, counts, dead


def jittered(key, images, cfg):
  """Noise that depends on the place of an image in the whole batch only."""
  rows = images.shape[0]
  place = lax.axis_index(AXIS) * rows + jnp.arange(rows)
  keys = jax.vmap(functools.partial(random.fold_in, key))(place)
  noise = jax.vmap(lambda k: random.normal(k, images.shape[1:]))(keys)
  return images + cfg.jitter * noise


def objective(params, stats, codes, noisy, images, cfg):
  z, stats = encode(params, stats, noisy, train=True)
  ids = nearest(codes, z)
  q = codes[ids]
  passed = z + lax.stop_gradient(q - z)
  painted, stats = decode(params, stats, passed, train=True)
  error = jnp.mean((painted - images) ** 2)
  commit = jnp.mean((z - q) ** 2)
  return error + cfg.beta * commit, (stats, z, ids, error, commit)


@functools.partial(jax.pmap, axis_name=AXIS, in_axes=(0, 0, None), donate_argnums=0)
def train_step(state, images, key):
  cfg = CFG
  noise_key, restart_key = random.split(random.fold_in(key, state["step"]))
  noisy = jittered(noise_key, images, cfg)
  grad_fn = jax.value_and_grad(objective, has_aux=True)
  codes = state["book"]["codes"]
  (loss, aux), grads = grad_fn(state["params"], state["stats"], codes, noisy, images, cfg)
  stats, z, ids, error, commit = aux
  grads = lax.pmean(grads, AXIS)

  updates, opt = OPTIMIZER.update(grads, state["opt"], state["params"])
  params = optax.apply_updates(state["params"], updates)
  book, counts, dead = refresh(state["book"], z, ids, restart_key, cfg)

  metrics = lax.pmean({"loss": loss, "error": error, "commit": commit}, AXIS)
  metrics |= {"perplexity": perplexity(counts), "restarted": jnp.sum(dead)}
  metrics["grad_norm"] = optax.global_norm(grads)
  new = {"params": params, "stats": stats, "book": book, "opt": opt, "step": state["step"] + 1}
  return new, metrics


@functools.partial(jax.pmap, axis_name=AXIS, in_axes=(0, 0, None))
def eval_step(state, images, real):
  """Sums over the first `real` images of the batch, the rest is padding."""
  rows = images.shape[0]
  weight = (lax.axis_index(AXIS) * rows + jnp.arange(rows) < real).astype(jnp.float32)
  z, _ = encode(state["params"], state["stats"], images, train=False)
  ids = nearest(state["book"]["codes"], z)
  painted, _ = decode(state["params"], state["stats"], state["book"]["codes"][ids], train=False)
  error = jnp.mean((painted - images) ** 2, axis=(1, 2, 3))
  hot = jax.nn.one_hot(ids, CFG.codes) * weight[:, None, None, None]
  sums = {"error": jnp.sum(weight * error), "images": jnp.sum(weight)}
  sums |= {"psnr": jnp.sum(weight * -10 * jnp.log10(error)), "used": hot.sum(axis=(0, 1, 2))}
  sums = lax.psum(sums, AXIS)
  worst = lax.pmax(jnp.max(weight * error), AXIS)
  return sums, worst, ids


def evaluate(state, images, cfg=CFG):
  total, worst, tokens = None, 0.0, []
  for start in range(0, len(images), cfg.eval_batch):
    batch = images[start : start + cfg.eval_batch]
    real = len(batch)
    batch = np.pad(batch, ((0, cfg.eval_batch - real), (0, 0), (0, 0), (0, 0)))
    sums, top, ids = eval_step(state, shard(batch), real)
    sums = first_replica(sums)
    total = sums if total is None else jax.tree.map(np.add, total, sums)
    worst = max(worst, float(top[0]))
    tokens.append(np.asarray(ids).reshape((cfg.eval_batch,) + ids.shape[2:])[:real])
  found = {"eval_error": total["error"] / total["images"], "psnr": total["psnr"] / total["images"]}
  found |= {"eval_perplexity": perplexity(total["used"]), "used": total["used"]}
  return found | {"worst": worst, "tokens": np.concatenate(tokens)}


def main():
  state = replicate(init_state(0))
  key = random.key(7)
  history = []
  for step in range(CFG.steps):
    state, metrics = train_step(state, shard(paint(CFG.batch, 10 + step)), key)
    history.append(first_replica(metrics))
  found = evaluate(state, paint(CFG.eval_images, 99))
  found |= {name: np.stack([m[name] for m in history]) for name in history[0]}
  final = first_replica({k: state[k] for k in ("params", "stats", "book")})
  found |= {"codes": final["book"]["codes"], "running": final["stats"]["dec_norm"]["var"]}
  found |= {"enc_out": final["params"]["enc_out"], "size": final["book"]["size"]}
  return {name: np.asarray(value) for name, value in found.items()}


def reference():
  """Whole batches, numpy for the codebook."""
  c, start = CFG, init_state(0)
  params, stats, opt = start["params"], start["stats"], start["opt"]
  codes, size, sums = (np.array(start["book"][k]) for k in ("codes", "size", "sums"))
  out = {k: [] for k in ("loss", "error", "commit", "perplexity", "restarted", "grad_norm")}

  def norm(p, x, moments):
    mean, var = moments or (x.mean((0, 1, 2)), x.var((0, 1, 2)))
    return jnp.tanh((x - mean) / jnp.sqrt(var + EPS) * p["gain"] + p["bias"]), (mean, var)

  def autoencode(p, codes, x, fixed=(None, None)):
    h, enc = norm(p["enc_norm"], conv(x, p["enc_in"], 2), fixed[0])
    z = conv(h, p["enc_out"], 2)
    ids = jnp.linalg.norm(z[..., None, :] - codes, axis=-1).argmin(-1)
    q = lax.stop_gradient(codes[ids] - z) + z
    h, dec = norm(p["dec_norm"], conv(enlarge(q), p["dec_in"]), fixed[1])
    return conv(enlarge(h), p["dec_out"]), z, ids, (enc, dec)

  @jax.jit
  @functools.partial(jax.value_and_grad, has_aux=True)
  def lossf(p, codes, noisy, clean):
    painted, z, ids, moments = autoencode(p, codes, noisy)
    error, commit = jnp.mean((painted - clean) ** 2), jnp.mean((z - codes[ids]) ** 2)
    return error + c.beta * commit, (z, ids, moments, error, commit)

  draw = jax.jit(lambda key, i: random.normal(random.fold_in(key, i), (c.side, c.side, 1)))

  def spread(used):
    p = used[used > 0] / used.sum()
    return np.exp(-(p * np.log(p)).sum())

  for t in range(c.steps):
    clean = paint(c.batch, 10 + t)
    noise_key, restart_key = random.split(random.fold_in(random.key(7), t))
    noisy = clean + c.jitter * jnp.stack([draw(noise_key, i) for i in range(c.batch)])
    (loss, aux), g = lossf(params, codes, noisy, clean)
    z, ids, moments, error, commit = aux
    updates, opt = OPTIMIZER.update(g, opt, params)
    params = optax.apply_updates(params, updates)
    for name, (mean, var) in zip(("enc_norm", "dec_norm"), moments):
      old = stats[name]
      stats[name] = {"mean": 0.6 * old["mean"] + 0.4 * mean, "var": 0.6 * old["var"] + 0.4 * var}
    flat, ids = np.asarray(z).reshape(-1, c.latent), np.asarray(ids).reshape(-1)
    used, added = np.bincount(ids, minlength=c.codes), np.zeros_like(sums)
    np.add.at(added, ids, flat)
    size, sums = 0.7 * size + 0.3 * used, 0.7 * sums + 0.3 * added
    lucky = flat[np.asarray(random.randint(restart_key, (c.codes,), 0, len(flat)))]
    dead = size < c.dead_below
    size[dead], sums[dead] = c.dead_below, c.dead_below * lucky[dead]
    share = (size + c.smoothing) / (size + c.smoothing).sum()
    codes = (sums / (share * size.sum())[:, None]).astype(np.float32)
    row = (loss, error, commit, spread(used), dead.sum(), optax.global_norm(g))
    for name, value in zip(out, row):
      out[name].append(value)

  images = paint(c.eval_images, 99)
  fixed = tuple((stats[k]["mean"], stats[k]["var"]) for k in ("enc_norm", "dec_norm"))
  painted, _, tokens, _ = autoencode(params, codes, images, fixed)
  error = np.mean((painted - images) ** 2, axis=(1, 2, 3))
  used = np.bincount(np.ravel(tokens), minlength=c.codes)
  out |= {"eval_error": error.mean(), "psnr": -10 * np.log10(error).mean(), "used": used}
  out |= {"eval_perplexity": spread(used), "worst": error.max(), "tokens": tokens}
  out |= {"codes": codes, "size": size, "running": stats["dec_norm"]["var"]}
  return {name: np.asarray(v) for name, v in (out | {"enc_out": params["enc_out"]}).items()}


if __name__ == "__main__":
  got, expected = main(), reference()
  for name in expected:
    np.testing.assert_allclose(got[name], expected[name], rtol=2e-3, atol=5e-4, err_msg=name)
  print("vq_tokenizer", {k: got[k] for k in ("loss", "perplexity", "restarted", "psnr")})
