"""A tagger in Equinox whose experts choose their tokens (Zhou et al., 2022).

Mesh: sentences over "data", experts over "expert". Every expert ranks the tokens of the WHOLE
batch, not of one data rank, and takes the best `capacity` of them. A data rank then runs the local
experts for those of the chosen tokens that it holds, and the columns of the mesh are added up.
"""
import math
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

PAD = 0


class Config(eqx.Module):
    vocab: int = 20
    tags: int = 6
    sentences: int = 16
    length: int = 10
    dim: int = 12
    hidden: int = 16
    experts: int = 8
    depth: int = 2
    steps: int = 6
    factor: float = 0.6
    factor_eval: float = 0.75
    jitter: float = 0.3
    z_weight: float = 1e-2
    balance_weight: float = 5e-2
    lr: float = 2e-2
    max_norm: float = 0.7


CFG = Config()


class RMSNorm(eqx.Module):
    gain: jax.Array

    def __call__(self, x):
        return self.gain * x * lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6)


class Expert(eqx.Module):
    """Of one expert, or with a leading axis of many."""

    up: jax.Array
    shift: jax.Array
    down: jax.Array
    offset: jax.Array

    def __call__(self, x):
        return jax.nn.silu(x @ self.up + self.shift) @ self.down + self.offset


class Report(eqx.Module):
    """What a layer has to say about its routing; per expert it is about the local ones."""

    importance: jax.Array
    picks: jax.Array
    unserved: jax.Array


class ChoiceLayer(eqx.Module):
    norm: RMSNorm
    router: jax.Array
    experts: Expert

    def route(self, x, valid, key):
        """Probabilities of the local experts, and the log of the normaliser of all experts."""
        logits = x @ self.router.T
        logits = logits + self.noise(key, *logits.shape)
        peak = lax.pmax(lax.stop_gradient(logits.max(-1)), "expert")
        normaliser = lax.psum(jnp.exp(logits - peak[:, None]).sum(-1), "expert")
        lse = peak + jnp.log(normaliser)
        probs = jnp.exp(logits - lse[:, None])
        return probs * valid[:, None], lse * valid

    def noise(self, key, tokens, experts):
        """One key for each token of the batch, one draw from it for each of all experts."""
        first = lax.axis_index("data") * tokens
        keys = jax.vmap(partial(jax.random.fold_in, key))(first + jnp.arange(tokens))
        total = experts * lax.axis_size("expert")
        draws = jax.vmap(lambda k: jax.random.normal(k, (total,)))(keys)
        own = lax.axis_index("expert") * experts
        return CFG.jitter * lax.dynamic_slice_in_dim(draws, own, experts, axis=1)

    def choose(self, probs, factor):
        """Gates and local positions of what the local experts took; no gate for others' tokens."""
        tokens, experts = probs.shape
        everyone = lax.all_gather(probs, "data", tiled=True)
        capacity = math.ceil(factor * len(everyone) / (experts * lax.axis_size("expert")))
        gates, chosen = lax.top_k(everyone.T, capacity)
        position = chosen - lax.axis_index("data") * tokens
        mine = (position >= 0) & (position < tokens)
        return gates * mine, jnp.where(mine, position, 0)

    def __call__(self, x, valid, key, factor):
        h = self.norm(x)
        probs, lse = self.route(h, valid, key)
        gates, where = self.choose(probs, factor)
        done = jax.vmap(Expert.__call__)(self.experts, h[where])
        mixed = jnp.zeros_like(x).at[where].add(gates[..., None] * done)
        taken = jnp.zeros(len(x)).at[where].add(gates > 0)
        tokens = lax.psum(valid.sum(), "data")
        served = lax.psum(taken, "expert")
        report = Report(
            importance=lax.psum(probs.sum(0), "data") / tokens,
            picks=lax.psum(jnp.sum(gates > 0, axis=1), "data"),
            unserved=lax.psum(jnp.sum(valid & (served == 0)), "data") / tokens,
        )
        return x + lax.psum(mixed, "expert"), jnp.sum(lse**2) / tokens, report


class Tagger(eqx.Module):
    embed: jax.Array
    before: jax.Array
    layers: list
    norm: RMSNorm
    head: jax.Array
    bias: jax.Array

    def __init__(self, key):
        keys = iter(jax.random.split(key, 4 + 5 * CFG.depth))
        c, d, h = CFG.experts, CFG.dim, CFG.hidden

        def weight(*shape, scale=None):
            return (scale or shape[-2] ** -0.5) * jax.random.normal(next(keys), shape)

        self.embed = weight(CFG.vocab, d, scale=0.7)
        self.before = weight(d, d)
        self.layers = []
        for _ in range(CFG.depth):
            up, down, router = weight(c, d, h), weight(c, h, d), weight(c, d, scale=0.6)
            experts = Expert(up, weight(c, h, scale=0.3), down, weight(c, d, scale=0.3))
            self.layers.append(ChoiceLayer(RMSNorm(jnp.ones(d)), router, experts))
        self.norm = RMSNorm(jnp.ones(d))
        self.head = weight(d, CFG.tags)
        self.bias = jnp.zeros(CFG.tags)

    def __call__(self, tokens, key, factor):
        x = self.embed[tokens]
        x = x.at[:, 1:].add(x[:, :-1] @ self.before)
        x, valid, z, reports = x.reshape(-1, CFG.dim), tokens.ravel() != PAD, 0.0, []
        for i, layer in enumerate(self.layers):
            x, part, report = layer(x, valid, jax.random.fold_in(key, i), factor)
            z, reports = z + part, [*reports, report]
        return self.norm(x) @ self.head + self.bias, z, reports


def sentences(seed):
    """The tag of a word depends on the word before it."""
    rng = np.random.default_rng(seed)
    words = rng.integers(1, CFG.vocab, (CFG.sentences, CFG.length))
    tags = (words + np.pad(words, ((0, 0), (1, 0)))[:, :-1] // 4) % CFG.tags
    lengths = rng.integers(3, CFG.length + 1, (CFG.sentences, 1))
    lengths[: CFG.sentences // 2] = np.minimum(lengths[: CFG.sentences // 2], 7)
    return np.where(np.arange(CFG.length) < lengths, words, PAD).astype(np.int32), tags


def mark(model):
    """True at the weights that are cut over the experts."""

    def cut(m):
        return [part for layer in m.layers for part in (layer.router, layer.experts)]

    nowhere = jax.tree.map(lambda _: False, model)
    return eqx.tree_at(cut, nowhere, replace_fn=lambda part: jax.tree.map(lambda _: True, part))


def cross_entropy(logits, tokens, tags):
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, tags.ravel())
    return jnp.sum(nll * (tokens.ravel() != PAD))


def objective(model, tokens, tags, key):
    """What this device adds to the loss; what several devices know alike is divided among them."""
    logits, z, reports = model(tokens, key, CFG.factor)
    ce = cross_entropy(logits, tokens, tags) / lax.psum(jnp.sum(tokens != PAD), "data")
    balance = CFG.experts * sum(jnp.sum(r.importance**2) for r in reports)
    by_token = (ce + CFG.z_weight * z) / lax.axis_size("expert")
    by_expert = CFG.balance_weight * balance / lax.axis_size("data")
    return by_token + by_expert, {"ce": ce, "z": z, "balance": balance}


def reduce_gradients(grads, owned):
    def total(g, mine):
        return lax.psum(g, "data") if mine else lax.psum(g, ("data", "expert"))

    return jax.tree.map(total, grads, owned)


def global_norm(grads, owned):
    mine, shared = eqx.partition(grads, owned)
    square = lax.psum(optax.tree.norm(mine, squared=True), "expert")
    return jnp.sqrt(square + optax.tree.norm(shared, squared=True))


def train_step(optimizer, owned, model, memory, tokens, tags, key):
    (_, said), grads = jax.value_and_grad(objective, has_aux=True)(model, tokens, tags, key)
    grads = reduce_gradients(grads, owned)
    norm = global_norm(grads, owned)
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, CFG.max_norm / norm), grads)
    updates, memory = optimizer.update(grads, memory, model)
    said["ce"], said["z"] = lax.psum((said["ce"], said["z"]), "data")
    said["balance"] = lax.psum(said["balance"], "expert")
    return optax.apply_updates(model, updates), memory, said | {"norm": norm}


def evaluate(model, tokens, tags, key):
    logits, _, reports = model(tokens, key, CFG.factor_eval)
    right = (jnp.argmax(logits, -1) == tags.ravel()) & (tokens.ravel() != PAD)
    hits = jnp.zeros(CFG.tags, int).at[tags.ravel()].add(right)
    return lax.psum(hits, "data"), logits, reports


def results(model, stats, log):
    last, (importance, picks, unserved) = model.layers[-1], zip(*stats)
    said = {"router": last.router, "down": last.experts.down, "embed": model.embed, "log": log}
    said |= {"importance": importance, "picks": picks, "unserved": unserved}
    return {name: np.array(value) for name, value in said.items()}


def main():
    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape(-1, min(4, devices.size)), ("data", "expert"))
    model, optimizer = Tagger(jax.random.key(0)), optax.adamw(CFG.lr, weight_decay=1e-2)
    owned = mark(model)
    specs = jax.tree.map(lambda mine: P("expert") if mine else P(), owned)
    memory = optimizer.init(model)
    memory_specs = optax.tree.map_params(
        optimizer, lambda _, spec: spec, memory, specs, transform_non_params=lambda _: P())
    wrap = partial(jax.shard_map, mesh=mesh, check_vma=False)
    step = jax.jit(wrap(
        partial(train_step, optimizer, owned),
        in_specs=(specs, memory_specs, P("data"), P("data"), P()),
        out_specs=(specs, memory_specs, P()),
    ), donate_argnums=(0, 1))
    report = Report(P("expert"), P("expert"), P())
    given, found = (specs, P("data"), P("data"), P()), (P(), P("data"), [report] * CFG.depth)
    test = jax.jit(wrap(evaluate, in_specs=given, out_specs=found))
    place = partial(jax.tree.map, lambda x, spec: jax.device_put(x, NamedSharding(mesh, spec)))
    model, memory, log = place(model, specs), place(memory, memory_specs), []
    for i in range(CFG.steps):
        model, memory, said = step(model, memory, *sentences(i), jax.random.key(50 + i))
        log.append([said[name] for name in ("ce", "z", "balance", "norm")])
    hits, logits, reports = test(model, *sentences(77), jax.random.key(9))
    stats = [(r.importance, r.picks, r.unserved) for r in reports]
    return results(model, stats, log) | {"hits": hits, "logits": logits}


def reference():
    total = CFG.sentences * CFG.length

    def network(model, words, key, factor):
        real, rank = words.reshape(-1) > 0, math.ceil(factor * total / CFG.experts)
        emb = jnp.take(model.embed, words, axis=0)
        past = jnp.concatenate([jnp.zeros((len(words), 1, CFG.dim)), emb[:, :-1]], 1)
        x = (emb + jnp.einsum("btd,de->bte", past, model.before)).reshape(total, -1)
        stats = []
        for i, layer in enumerate(model.layers):
            h = x / jnp.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * layer.norm.gain
            fold = jax.vmap(partial(jax.random.fold_in, jax.random.fold_in(key, i)))
            own = fold(np.arange(total))
            draws = jax.vmap(lambda k: jax.random.normal(k, (CFG.experts,)))(own)
            scores = jnp.einsum("nd,ed->ne", h, layer.router) + CFG.jitter * draws
            p = jnp.where(real[:, None], jax.nn.softmax(scores, 1), 0)
            # a token is taken by an expert that prefers fewer than `rank` others
            ahead = jnp.sum(p[None, :, :] > p[:, None, :], axis=1)
            keep = (ahead < rank) & real[:, None]
            w = layer.experts
            inner = jax.nn.silu(jnp.einsum("nd,edh->neh", h, w.up) + w.shift)
            outer = jnp.einsum("neh,ehd->ned", inner, w.down) + w.offset
            x = x + jnp.einsum("ne,ned->nd", p * keep, outer)
            z = jnp.sum(real * jax.nn.logsumexp(scores, 1) ** 2) / real.sum()
            alone = jnp.sum(real & ~keep.any(1)) / real.sum()
            stats.append((z, p.sum(0) / real.sum(), keep.sum(0), alone))
        x = x / jnp.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * model.norm.gain
        return x @ model.head + model.bias, stats

    @jax.jit
    @partial(jax.value_and_grad, has_aux=True)
    def loss(model, words, tags, key):
        logits, stats = network(model, words, key, CFG.factor)
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tags.reshape(-1, 1), 1)[:, 0]
        ce = -jnp.sum(picked * (words.reshape(-1) > 0)) / jnp.sum(words > 0)
        z, balance = sum(s[0] for s in stats), sum((s[1] ** 2).sum() for s in stats) * CFG.experts
        return ce + CFG.z_weight * z + CFG.balance_weight * balance, (ce, z, balance)

    model, adam = Tagger(jax.random.key(0)), optax.adamw(CFG.lr, weight_decay=1e-2)
    chain = optax.chain(optax.clip_by_global_norm(CFG.max_norm), adam)
    memory, log = chain.init(model), []
    for i in range(CFG.steps):
        (_, parts), grads = loss(model, *sentences(i), jax.random.key(50 + i))
        log.append([*parts, optax.global_norm(grads)])
        updates, memory = chain.update(grads, memory, model)
        model = optax.apply_updates(model, updates)
    words, tags = sentences(77)
    forward = jax.jit(network, static_argnums=3)
    logits, stats = forward(model, words, jax.random.key(9), CFG.factor_eval)
    right = (np.argmax(logits, 1).reshape(tags.shape) == tags) & (words > 0)
    hits = np.bincount(tags[right], minlength=CFG.tags)
    return results(model, [s[1:] for s in stats], log) | {"hits": hits, "logits": logits}


if __name__ == "__main__":
    ours, theirs = main(), reference()
    for name in theirs:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-3, atol=1e-4, err_msg=name)
    print("expert_choice_eqx: ok, hits by tag", ours["hits"], "unserved", ours["unserved"])
