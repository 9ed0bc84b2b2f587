"""GRPO fine-tuning of a tiny policy against a frozen reference model.

Sequences over `data`, heads / hidden units / vocabulary over `model`; sampling, scoring and updates are all shard_map.
Gradients are taken inside: a weight that is replicated over an axis gets its gradient summed over that axis by JAX
(check_vma), so there is no psum of gradients here.
"""
import os
import sys
from dataclasses import dataclass
from functools import partial

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


@dataclass(frozen=True)
class GRPOConfig:
    vocab: int = 24
    d_model: int = 16
    heads: int = 4
    d_ff: int = 32
    prompt_len: int = 4
    response_len: int = 6
    num_prompts: int = 4
    group_size: int = 4
    temperature: float = 0.8
    clip_eps: float = 0.1
    kl_coef: float = 0.1
    entropy_coef: float = 0.01
    lr: float = 1e-2
    max_grad_norm: float = 0.5
    iterations: int = 2
    inner_epochs: int = 2


CFG = GRPOConfig()
EOS = 0
MESHES = {1: (1, 1), 2: (2, 1), 4: (2, 2), 8: (4, 2)}

SPECS = {
    "embed": P(),
    "pos": P(),
    "qkv": P(None, None, "model", None),
    "o": P("model", None, None),
    "up": P(None, "model"),
    "down": P("model", None),
    "head": P(None, "model"),
}


def init_params(key, c=CFG):
    ks = jax.random.split(key, len(SPECS))
    hd = c.d_model // c.heads
    shapes = {
        "embed": (c.vocab, c.d_model),
        "pos": (c.prompt_len + c.response_len, c.d_model),
        "qkv": (c.d_model, 3, c.heads, hd),
        "o": (c.heads, hd, c.d_model),
        "up": (c.d_model, c.d_ff),
        "down": (c.d_ff, c.d_model),
        "head": (c.d_model, c.vocab),
    }
    return {name: 0.25 * jax.random.normal(k, shape) for k, (name, shape) in zip(ks, shapes.items())}


def normalize(x):
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def forward(params, tokens):
    """Logits of this device's slice of the vocabulary."""
    length = tokens.shape[1]
    x = params["embed"][tokens] + params["pos"][:length]
    q, k, v = jnp.einsum("btd,dchk->cbhtk", normalize(x), params["qkv"])
    scores = jnp.einsum("bhqk,bhsk->bhqs", q, k) / q.shape[-1] ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    att = jnp.einsum("bhqs,bhsk,hkd->bqd", jax.nn.softmax(scores, axis=-1), v, params["o"])
    x = x + lax.psum(att, "model")
    h = jax.nn.gelu(normalize(x) @ params["up"])
    x = x + lax.psum(h @ params["down"], "model")
    return normalize(x) @ params["head"]


def log_normalizer(logits):
    top = lax.pmax(lax.stop_gradient(logits.max(-1)), "model")
    return top + jnp.log(lax.psum(jnp.exp(logits - top[..., None]).sum(-1), "model"))


def score(params, tokens, c=CFG):
    """Log-probability and entropy of every response token."""
    logits = forward(params, tokens)[:, c.prompt_len - 1 : -1] / c.temperature
    targets = tokens[:, c.prompt_len :]
    lse = log_normalizer(logits)
    width = logits.shape[-1]
    local = targets - lax.axis_index("model") * width
    mine = (local >= 0) & (local < width)
    picked = jnp.take_along_axis(logits, jnp.clip(local, 0, width - 1)[..., None], axis=-1)[..., 0]
    picked = lax.psum(jnp.where(mine, picked, 0.0), "model")
    probs = jnp.exp(logits - lse[..., None])
    entropy = lse - lax.psum(jnp.sum(probs * logits, axis=-1), "model")
    return picked - lse, entropy


def response_mask(tokens, c=CFG):
    """Up to EOS, inclusive."""
    ended = jnp.cumsum(tokens[:, c.prompt_len :] == EOS, axis=1) - (tokens[:, c.prompt_len :] == EOS)
    return (ended == 0).astype(jnp.float32)


def rollout(params, prompts, key, c=CFG):
    prompts = jnp.repeat(prompts, c.group_size, axis=0)
    n = prompts.shape[0]
    ids = lax.axis_index("data") * n + jnp.arange(n)
    keys = jax.vmap(partial(jax.random.fold_in, key))(ids)
    tokens = jnp.pad(prompts, ((0, 0), (0, c.response_len)))

    def sample(tokens, t):
        logits = forward(params, tokens)[:, t - 1] / c.temperature
        width = logits.shape[-1]
        noise = jax.vmap(lambda k: jax.random.gumbel(jax.random.fold_in(k, t), (c.vocab,)))(keys)
        first = lax.axis_index("model") * width
        noisy = logits + lax.dynamic_slice_in_dim(noise, first, width, axis=1)
        best = lax.pmax(noisy.max(-1), "model")
        candidate = jnp.where(noisy.max(-1) == best, first + noisy.argmax(-1), c.vocab)
        return tokens.at[:, t].set(lax.pmin(candidate, "model")), None

    tokens, _ = lax.scan(sample, tokens, jnp.arange(c.prompt_len, tokens.shape[1]))
    return tokens


def reward(tokens, c=CFG):
    """Wants tokens larger than the last of the prompt, and short answers."""
    mask = response_mask(tokens)
    larger = tokens[:, c.prompt_len :] > tokens[:, c.prompt_len - 1 : c.prompt_len]
    return (larger * mask).sum(1) / mask.sum(1) - 0.02 * mask.sum(1)


def prepare(params, ref_params, tokens, c=CFG):
    r = reward(tokens)
    groups = r.reshape(-1, c.group_size)
    adv = (groups - groups.mean(1, keepdims=True)).reshape(-1)
    adv = adv / (jnp.sqrt(lax.pmean(jnp.mean(adv**2), "data")) + 1e-4)
    old, _ = score(params, tokens)
    ref, _ = score(ref_params, tokens)
    return {"tokens": tokens, "adv": adv, "old": old, "ref": ref}, lax.pmean(r.mean(), "data")


def grpo_loss(params, batch, c=CFG):
    logp, entropy = score(params, batch["tokens"])
    mask = response_mask(batch["tokens"])
    ratio = jnp.exp(logp - batch["old"])
    adv = batch["adv"][:, None]
    surrogate = jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - c.clip_eps, 1 + c.clip_eps) * adv)
    diff = batch["ref"] - logp
    kl = jnp.exp(diff) - diff - 1
    per_token = -surrogate + c.kl_coef * kl - c.entropy_coef * entropy
    total = lax.psum(mask.sum(), "data")
    mean = lambda x: lax.psum((x * mask).sum(), "data") / total
    return mean(per_token), {"kl": mean(kl), "entropy": mean(entropy)}


def grad_norm(grads):
    squares = {k: jnp.sum(g**2) for k, g in grads.items()}
    squares = {k: lax.psum(s, "model") if "model" in SPECS[k] else s for k, s in squares.items()}
    return jnp.sqrt(sum(squares.values()))


def update(params, opt, batch, c=CFG):
    (loss, aux), grads = jax.value_and_grad(grpo_loss, has_aux=True)(params, batch)
    norm = grad_norm(grads)
    scale = jnp.minimum(1.0, c.max_grad_norm / norm)
    grads = jax.tree.map(lambda g: g * scale, grads)
    count = opt["count"] + 1
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, opt["mu"], grads)
    nu = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g**2, opt["nu"], grads)
    lr = c.lr * jnp.sqrt(1 - 0.99**count) / (1 - 0.9**count)
    params = jax.tree.map(lambda p, m, v: p - lr * m / (jnp.sqrt(v) + 1e-3), params, mu, nu)
    return params, {"mu": mu, "nu": nu, "count": count}, {"loss": loss, "norm": norm, **aux}


def main(device_count: int = 8):
    devices = np.array(jax.devices()[:device_count]).reshape(MESHES[device_count])
    mesh = Mesh(devices, ("data", "model"))
    per_device = partial(jax.shard_map, mesh=mesh)
    opt_specs = {"mu": SPECS, "nu": SPECS, "count": P()}
    batch_specs = {"tokens": P("data"), "adv": P("data"), "old": P("data"), "ref": P("data")}
    generate = jax.jit(per_device(rollout, in_specs=(SPECS, P("data"), P()), out_specs=P("data")))
    judge = jax.jit(per_device(prepare, in_specs=(SPECS, SPECS, P("data")), out_specs=(batch_specs, P())))
    learn = jax.jit(
        per_device(update, in_specs=(SPECS, opt_specs, batch_specs), out_specs=(SPECS, opt_specs, P())),
        donate_argnums=(0, 1),
    )

    shardings = {k: NamedSharding(mesh, s) for k, s in SPECS.items()}
    make = jax.jit(init_params, out_shardings=shardings)
    params, ref_params = make(jax.random.key(0)), make(jax.random.key(0))
    opt = {"mu": jax.tree.map(jnp.zeros_like, params), "nu": jax.tree.map(jnp.zeros_like, params), "count": jnp.int32(0)}
    rng = np.random.default_rng(5)
    rewards, log = [], []
    for it in range(CFG.iterations):
        prompts = rng.integers(1, CFG.vocab, (CFG.num_prompts, CFG.prompt_len))
        tokens = generate(params, prompts, jax.random.fold_in(jax.random.key(1), it))
        batch, mean_reward = judge(params, ref_params, tokens)
        rewards.append(float(mean_reward))
        for _ in range(CFG.inner_epochs):
            params, opt, metrics = learn(params, opt, batch)
            log.append({k: float(v) for k, v in metrics.items()})
    squares = sum(np.sum(np.square(p)) for p in params.values())
    return {"reward": rewards, "log": log, "norm": float(np.sqrt(squares)), "tokens": np.asarray(tokens).mean(0)}


def reference():
    return main(1)


if __name__ == "__main__":
    print(main(int(sys.argv[1]) if len(sys.argv) > 1 else 8))
