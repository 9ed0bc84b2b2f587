'''DPO on a 2-layer decoder: the base is frozen, adapters (LoRA) learn from pairs of answers.

    mesh ('data', 'model'):  pairs over data;  heads, hidden units and vocabulary over model

The log-prob of an answer never needs the whole row of logits.  Adapters of the attention are cut
on their output side (b), adapters of the MLP on their input side (a).
'''
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

hp = SimpleNamespace(
    vocab=48, width=16, heads=4, head=4, hidden=32, layers=2, length=12, rank=3, alpha=6.0,
    pairs=16, steps=6, held_out=21, new_tokens=4, beta=0.5, smooth=0.1, sft=0.2, keep=0.8,
    lr=0.04, decay=0.02, clip=0.3,
)


class Adapter(NamedTuple):
    a: Any
    b: Any


class Pairs(NamedTuple):
    '''tokens and answer [pairs, 2, length]: the preferred one first; answer marks its tokens.'''
    tokens: Any
    answer: Any
    weight: Any


class Adam(NamedTuple):
    mu: Any
    nu: Any
    t: Any


BASE_SPECS = {
    'embed': P('model', None), 'place': P(), 'unembed': P(None, 'model'),
    'blocks': {
        'norm1': P(), 'norm2': P(),
        'qkv': P(None, None, None, 'model', None), 'out': P(None, 'model', None, None),
        'up': P(None, None, 'model'), 'down': P(None, 'model', None),
    },
}
LORA_SPECS = {
    'qkv': Adapter(P(), P(None, None, None, 'model', None)),
    'down': Adapter(P(None, 'model', None), P()),
}
PAIR_SPECS = Pairs(P('data'), P('data'), P('data'))


def initial_weights(seed=0):
    rng = np.random.default_rng(seed)
    n, d, h, k, f, r = hp.layers, hp.width, hp.heads, hp.head, hp.hidden, hp.rank

    def draw(*shape, fan):
        return (rng.normal(size=shape) / fan ** 0.5).astype(np.float32)

    base = {
        'embed': draw(hp.vocab, d, fan=1), 'place': draw(hp.length, d, fan=4),
        'unembed': draw(d, hp.vocab, fan=d / 4),
        'blocks': {
            'norm1': 1 + draw(n, d, fan=50), 'norm2': 1 + draw(n, d, fan=50),
            'qkv': draw(n, d, 3, h, k, fan=d), 'out': draw(n, h, k, d, fan=h * k),
            'up': draw(n, d, f, fan=d), 'down': draw(n, f, d, fan=f),
        },
    }
    lora = {
        'qkv': Adapter(draw(n, d, r, fan=d), np.zeros((n, r, 3, h, k), np.float32)),
        'down': Adapter(draw(n, f, r, fan=f), np.zeros((n, r, d), np.float32)),
    }
    return base, lora


def preferences(count, seed):
    '''Good answers go on as the prompt does, bad ones get lost; the longest come last.'''
    rng = np.random.default_rng(seed)
    at = np.arange(hp.length)
    good = (rng.integers(0, hp.vocab, (count, 1)) + 3 * at) % hp.vocab
    bad = np.where(at < 5, good, rng.integers(0, hp.vocab, good.shape))
    ends = np.sort(rng.integers(7, hp.length + 1, (count, 2)), axis=0)[..., None]
    tokens = np.where(at < ends, np.stack([good, bad], axis=1), 0)
    answer = (at >= 5) & (at < ends)
    return Pairs(tokens.astype(np.int32), answer.astype(np.float32), np.ones(count, np.float32))


def padded(pairs, count):
    fill = lambda x: np.pad(x, [(0, count - len(x))] + [(0, 0)] * (x.ndim - 1))
    return Pairs(*map(fill, pairs))


def lesson(step):
    '''Every third batch is the rest of an epoch.'''
    return padded(preferences(hp.pairs - 5 * (step % 3 == 2), 20 + step), hp.pairs)


# ---- what one device does with its heads, hidden units and part of the vocabulary ----

def rms(x, gain):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * gain


def lookup(table, ids):
    mine = ids - jax.lax.axis_index('model') * table.shape[0]
    inside = (mine >= 0) & (mine < table.shape[0])
    rows = table[jnp.where(inside, mine, 0)] * inside[..., None]
    return jax.lax.psum(rows, 'model')


def attention(q, k, v):
    scores = jnp.einsum('nthk,nshk->nhts', q, k) / hp.head ** 0.5
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    probs = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
    return jnp.einsum('nhts,nshk->nthk', probs, v)


def decoder(base, lora, ids, kept=None):
    '''Logits of the own part of the vocabulary; kept [rows, width] are features not dropped.'''
    x = lookup(base['embed'], ids) + base['place'][:ids.shape[1]]
    gain = hp.alpha / hp.rank

    def block(x, weights):
        w, adapter = weights
        h = rms(x, w['norm1'])
        qkv = jnp.einsum('ntd,dchk->cnthk', h, w['qkv'])
        if adapter is not None:
            low = (h if kept is None else h * kept[:, None] / hp.keep) @ adapter['qkv'].a
            qkv += gain * jnp.einsum('ntr,rchk->cnthk', low, adapter['qkv'].b)
        mixed = jnp.einsum('nthk,hkd->ntd', attention(*qkv), w['out'])
        x = x + jax.lax.psum(mixed, 'model')
        h = jax.nn.gelu(rms(x, w['norm2']) @ w['up'])
        y = h @ w['down']
        if adapter is not None:
            y += gain * (h @ adapter['down'].a) @ adapter['down'].b
        return x + jax.lax.psum(y, 'model'), None

    x, _ = jax.lax.scan(block, x, (base['blocks'], lora))
    return rms(x, 1.0) @ base['unembed']


def token_logp(logits, ids):
    '''Log-probs of ids, of which logits hold the own part of the vocabulary.'''
    top = jax.lax.pmax(jax.lax.stop_gradient(logits).max(axis=-1), 'model')
    mass = jax.lax.psum(jnp.exp(logits - top[..., None]).sum(axis=-1), 'model')
    size = logits.shape[-1]
    mine = ids - jax.lax.axis_index('model') * size
    inside = (mine >= 0) & (mine < size)
    picked = jnp.take_along_axis(logits, jnp.clip(mine, 0, size - 1)[..., None], axis=-1)[..., 0]
    picked = jax.lax.psum(jnp.where(inside, picked, 0.0), 'model')
    return picked - top - jnp.log(mass)


def answer_logp(base, lora, kept, tokens, answer):
    logits = decoder(base, lora, tokens[:, :-1], kept)
    return jnp.sum(token_logp(logits, tokens[:, 1:]) * answer[:, 1:], axis=-1)


def both(base, lora, kept, pairs):
    '''[pairs, 2]'''
    one = partial(answer_logp, base, lora, kept)
    return jax.vmap(one, in_axes=1, out_axes=1)(pairs.tokens, pairs.answer)


def kept_features(key, rows):
    place = jax.lax.axis_index('data') * rows + jnp.arange(rows)
    draw = lambda i: jax.random.bernoulli(jax.random.fold_in(key, i), hp.keep, (hp.width,))
    return jax.vmap(draw)(place).astype(jnp.float32)


def over_pairs(x, weight):
    '''Mean over the pairs of all devices that are not padding.'''
    return jax.lax.psum(jnp.sum(x * weight), 'data') / jax.lax.psum(jnp.sum(weight), 'data')


def dpo(lora, base, pairs, key=None):
    kept = None if key is None else kept_features(key, pairs.weight.shape[0])
    policy = both(base, lora, kept, pairs)
    anchor = both(base, None, None, pairs)
    reward = hp.beta * (policy - anchor)
    margin = reward[:, 0] - reward[:, 1]
    pull = -(1 - hp.smooth) * jax.nn.log_sigmoid(margin) - hp.smooth * jax.nn.log_sigmoid(-margin)
    words = pairs.answer[:, 0, 1:].sum(axis=-1)
    nll = -jax.lax.psum(policy[:, 0].sum(), 'data') / jax.lax.psum(words.sum(), 'data')
    preference = over_pairs(pull, pairs.weight)
    told = {'dpo': preference, 'nll': nll, 'margin': over_pairs(margin, pairs.weight)}
    told['right'] = over_pairs((margin > 0).astype(jnp.float32), pairs.weight)
    told['drift'] = over_pairs(jnp.abs(policy - anchor).mean(axis=1), pairs.weight)
    return preference + hp.sft * nll, told


def clipped_adam(specs, lora, grads, state):
    '''Adam with decay of one device's parts of the adapters.'''
    def square(g, spec):
        total = jnp.sum(g * g)
        return jax.lax.psum(total, 'model') if 'model' in spec else total

    squares = jax.tree.map(square, grads, specs)
    norm = jnp.sqrt(sum(jax.tree.leaves(squares)))
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, hp.clip / norm), grads)
    t = state.t + 1
    mu = jax.tree.map(lambda m, g: 0.8 * m + 0.2 * g, state.mu, grads)
    nu = jax.tree.map(lambda v, g: 0.9 * v + 0.1 * g * g, state.nu, grads)

    def move(p, m, v):
        m, v = m / (1 - 0.8 ** t), v / (1 - 0.9 ** t)
        return p - hp.lr * (m / (jnp.sqrt(v) + 1e-2) + hp.decay * p)

    return jax.tree.map(move, lora, mu, nu), Adam(mu, nu, t), norm


def greedy(base, lora, ids):
    '''Appends the most probable tokens to the first five of each row.'''
    def append(ids, at):
        logits = jnp.take(decoder(base, lora, ids), at - 1, axis=1)
        best = logits.max(axis=-1)
        where = logits.argmax(axis=-1) + jax.lax.axis_index('model') * logits.shape[-1]
        first = jnp.where(best == jax.lax.pmax(best, 'model'), where, hp.vocab)
        chosen = jax.lax.pmin(first, 'model').astype(ids.dtype)
        return ids.at[:, at].set(chosen), best

    ids, _ = jax.lax.scan(append, ids, 5 + jnp.arange(hp.new_tokens))
    return ids[:, 5:5 + hp.new_tokens]


class Tuner:
    def __init__(self, mesh):
        self.mesh = mesh
        spmd = partial(jax.shard_map, mesh=mesh, check_vma=False)
        state = Adam(LORA_SPECS, LORA_SPECS, P())
        loss_in = (LORA_SPECS, BASE_SPECS, PAIR_SPECS)
        self.loss = spmd(dpo, in_specs=loss_in + (P(),), out_specs=P())
        self.evaluate = jax.jit(spmd(dpo, in_specs=loss_in, out_specs=P()))
        self.adam = spmd(partial(clipped_adam, LORA_SPECS), in_specs=(LORA_SPECS,) * 2 + (state,),
                         out_specs=(LORA_SPECS, state, P()))
        self.complete = jax.jit(spmd(greedy, in_specs=(BASE_SPECS, LORA_SPECS, P('data')),
                                     out_specs=P('data')))
        self.step = jax.jit(self._step, donate_argnums=(0, 1))

    def put(self, tree, specs):
        to = jax.tree.map(partial(NamedSharding, self.mesh), specs)
        return jax.device_put(tree, to)

    def _step(self, lora, state, base, pairs, key):
        grad = jax.value_and_grad(self.loss, has_aux=True)
        (loss, told), grads = grad(lora, base, pairs, key)
        lora, state, norm = self.adam(lora, grads, state)
        return lora, state, told | {'loss': loss, 'norm': norm}


def main():
    mesh = jax.make_mesh((2, 4), ('data', 'model'), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    tuner = Tuner(mesh)
    base, lora = initial_weights()
    base, lora = tuner.put(base, BASE_SPECS), tuner.put(lora, LORA_SPECS)
    zeros = partial(jax.tree.map, jnp.zeros_like)
    state, told = Adam(zeros(lora), zeros(lora), jnp.zeros((), jnp.int32)), []
    for step in range(hp.steps):
        pairs = tuner.put(lesson(step), PAIR_SPECS)
        key = jax.random.fold_in(jax.random.key(5), step)
        lora, state, metrics = tuner.step(lora, state, base, pairs, key)
        told.append(metrics)
    exam = tuner.put(padded(preferences(hp.held_out, 77), 24), PAIR_SPECS)
    loss, found = tuner.evaluate(lora, base, exam)
    said = tuner.complete(base, lora, exam.tokens[:, 0])[:hp.held_out]
    out = {k: np.stack([m[k] for m in told]) for k in told[0]}
    out |= {'exam_' + k: v for k, v in found.items()} | {'exam_loss': loss, 'said': said}
    out |= {'qkv_b': lora['qkv'].b, 'down_a': lora['down'].a, 'down_b': lora['down'].b}
    return {k: np.asarray(v) for k, v in out.items()}


def reference():
    '''Adapters are merged into the weights; answers one by one, layers in a loop.'''
    base, lora = jax.tree.map(jnp.asarray, initial_weights())

    def logp_row(lora, kept, ids):
        x = base['embed'][ids] + base['place'][:len(ids)]
        for i in range(hp.layers):
            w = jax.tree.map(lambda p: p[i], base['blocks'])
            down, extra = w['down'], 0.0
            h = rms(x, w['norm1'])
            if lora is not None:
                (qa, qb), (da, db) = ([p[i] for p in lora[k]] for k in ('qkv', 'down'))
                extra = jnp.einsum('td,dr,rchk->cthk', h * kept / hp.keep, qa, qb) * 2.0
                down = down + 2.0 * da @ db
            q, k, v = jnp.einsum('td,dchk->cthk', h, w['qkv']) + extra
            later = jnp.triu(jnp.full((len(ids),) * 2, -1e9), 1)
            score = jnp.einsum('thk,shk->hts', q, k) / 2.0 + later
            x = x + jnp.einsum('hts,shk,hkd->td', jax.nn.softmax(score), v, w['out'])
            x = x + jax.nn.gelu(rms(x, w['norm2']) @ w['up']) @ down
        return jax.nn.log_softmax(rms(x, 1.0) @ base['unembed'])

    def lossf(lora, pairs, kept):
        def one(lora, kept, tokens, answer):
            logp = logp_row(lora, kept, tokens)[jnp.arange(hp.length - 1), tokens[1:]]
            return (logp * answer[1:]).sum()

        many = jax.vmap(jax.vmap(one, (None, None, 0, 0)), (None, 0, 0, 0))
        policy = many(lora, kept, pairs.tokens, pairs.answer)
        shift = policy - many(None, kept, pairs.tokens, pairs.answer)
        margin = hp.beta * (shift[:, 0] - shift[:, 1])
        win = jax.nn.sigmoid(margin)
        told = {'dpo': -(0.9 * jnp.log(win) + 0.1 * jnp.log(1 - win)).mean()}
        told |= {'nll': -policy[:, 0].sum() / pairs.answer[:, 0].sum(), 'margin': margin.mean()}
        told |= {'right': (margin > 0).mean(), 'drift': jnp.abs(shift).mean()}
        return told['dpo'] + hp.sft * told['nll'], told

    grad = jax.jit(jax.value_and_grad(lossf, has_aux=True))
    mu = nu = jax.tree.map(jnp.zeros_like, lora)
    history = []
    for step in range(hp.steps):
        pairs = lesson(step)
        pairs = jax.tree.map(lambda x: x[:int(pairs.weight.sum())], pairs)
        key = jax.random.fold_in(jax.random.key(5), step)
        keys = [jax.random.fold_in(key, i) for i in range(len(pairs.weight))]
        kept = jnp.stack([jax.random.bernoulli(k, hp.keep, (hp.width,)) for k in keys])
        (loss, told), g = grad(lora, pairs, kept)
        norm = jnp.linalg.norm(jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(g)]))
        g = jax.tree.map(lambda x: x / jnp.maximum(1.0, norm / hp.clip), g)
        mu = jax.tree.map(lambda m, x: m + 0.2 * (x - m), mu, g)
        nu = jax.tree.map(lambda v, x: v + 0.1 * (x * x - v), nu, g)
        fix = 1 - 0.8 ** (step + 1), 1 - 0.9 ** (step + 1)
        adam = jax.tree.map(lambda m, v: m / fix[0] / ((v / fix[1]) ** 0.5 + 1e-2), mu, nu)
        lora = jax.tree.map(lambda p, u: (1 - hp.lr * hp.decay) * p - hp.lr * u, lora, adam)
        history.append(told | {'loss': loss, 'norm': norm})
    exam = preferences(hp.held_out, 77)
    loss, found = lossf(lora, exam, jnp.full((hp.held_out, hp.width), hp.keep))
    ids = exam.tokens[:, 0, :5]
    for _ in range(hp.new_tokens):
        logp = jax.vmap(partial(logp_row, lora, jnp.full(hp.width, hp.keep)))(ids)
        ids = np.concatenate([ids, logp[:, -1].argmax(-1)[:, None]], axis=1)
    out = {k: np.stack([m[k] for m in history]) for k in history[0]}
    out |= {'exam_' + k: v for k, v in found.items()} | {'exam_loss': loss, 'said': ids[:, 5:]}
    out |= {'qkv_b': lora['qkv'].b, 'down_a': lora['down'].a, 'down_b': lora['down'].b}
    return {k: np.asarray(v) for k, v in out.items()}


if __name__ == '__main__':
    ours, plain = main(), reference()
    for k in plain:
        np.testing.assert_allclose(ours[k], plain[k], rtol=2e-3, atol=5e-4, err_msg=k)
    print('dpo_adapters', ours['loss'], 'right', ours['exam_right'], 'margin', ours['exam_margin'])
