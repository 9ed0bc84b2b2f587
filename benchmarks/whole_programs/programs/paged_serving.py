"""Continuous batching with a paged KV cache, on a mesh of Explicit axes.

A pool of ENGINES decodes independently; engines are cut over "replica", heads / hidden units / vocabulary over "tensor".
Each engine has a few slots and a pool of pages; a finished request gives its slot and its pages back, and the next
request of the queue moves in.  Projections rely on sharding in types; the page pool is touched inside of shard_map only.

    R engines, S slots, G pages per engine, Z positions per page, M pages per request
    D model width, H query heads, K key/value heads, E head width, F hidden width, V vocabulary
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

from collections import deque
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

R, S, G, Z, M = 4, 2, 8, 3, 4
D, H, K, E, F, V = 16, 4, 2, 4, 24, 32
LAYERS = 2
EOS = 1
MESHES = {1: (1, 1), 2: (1, 2), 4: (2, 2), 8: (4, 2)}

WEIGHTS = {
    "embed": P(None, None),  # V D
    "wq": P(None, None, "tensor", None),  # L D H E
    "wk": P(None, None, "tensor", None),  # L D K E
    "wv": P(None, None, "tensor", None),
    "wo": P(None, "tensor", None, None),  # L H E D
    "up": P(None, None, "tensor"),  # L D F
    "down": P(None, "tensor", None),  # L F D
    "unembed": P(None, "tensor"),  # D V
}
POOL = P(None, "replica", None, None, "tensor", None)  # L R G Z K E


@dataclass
class Request:
    id: int
    prompt: list[int]
    budget: int
    output: list[int] = field(default_factory=list)


def make_weights(key):
    shapes = dict(
        embed=(V, D), wq=(LAYERS, D, H, E), wk=(LAYERS, D, K, E), wv=(LAYERS, D, K, E), wo=(LAYERS, H, E, D),
        up=(LAYERS, D, F), down=(LAYERS, F, D), unembed=(D, V),
    )  # fmt: skip
    keys = jax.random.split(key, len(shapes))
    return {n: 0.4 * jax.random.normal(k, s) for k, (n, s) in zip(keys, shapes.items())}


def rms(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)


def rope(x, position):
    # x: R S heads E, position: R S
    freq = 50.0 ** (-jnp.arange(E // 2) / (E // 2))
    angle = position[..., None, None] * freq  # R S 1 E/2
    a, b = x[..., : E // 2], x[..., E // 2 :]
    return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], axis=-1)


# ---- inside of shard_map: r engines, h and k heads of this device ----


def write_page(pool, new, table, length):
    # pool: r G Z k E, new: r S k E, table: r S M, length: r S
    def one(pool, new, table, length):
        page = jnp.take_along_axis(table, (length // Z)[:, None], axis=1)[:, 0]
        return pool.at[page, length % Z].set(new)

    return jax.vmap(one)(pool, new, table, length)


def paged_attention(q, k, v, keys, values, table, length):
    # q: r S h E; the token at position `length` is written first, and attends to itself
    keys = write_page(keys, k, table, length)
    values = write_page(values, v, table, length)
    pick = jax.vmap(lambda pool, t: pool[t].reshape(S, M * Z, *pool.shape[2:]))
    ks, vs = pick(keys, table), pick(values, table)  # r S MZ k E
    r, _, h, _ = q.shape
    q = q.reshape(r, S, ks.shape[3], h // ks.shape[3], E)
    scores = jnp.einsum("rskge,rstke->rskgt", q, ks) / E**0.5
    seen = jnp.arange(M * Z) <= length[..., None]
    scores = jnp.where(seen[:, :, None, None, :], scores, -jnp.inf)
    out = jnp.einsum("rskgt,rstke->rskge", jax.nn.softmax(scores, axis=-1), vs)
    return out.reshape(r, S, h, E), keys, values


def choose(logits):
    # logits: r S v -> greedy token and its log-probability; the vocabulary is cut over "tensor"
    v = logits.shape[-1]
    top = logits.max(-1)
    best = jax.lax.pmax(top, "tensor")
    index = logits.argmax(-1) + jax.lax.axis_index("tensor") * v
    token = jax.lax.pmin(jnp.where(top == best, index, V), "tensor")
    total = jax.lax.psum(jnp.exp(logits - best[..., None]).sum(-1), "tensor")
    return token, -jnp.log(total)


HEADS = P("replica", None, "tensor", None)
SLOTS = P("replica", None)
PAGES = P(*POOL[1:])


@partial(jax.jit, donate_argnums=1)
def decode(w, pools, token, table, length):
    """One token for each slot of each engine."""
    attend = jax.shard_map(
        paged_attention, in_specs=(HEADS, HEADS, HEADS, PAGES, PAGES, SLOTS, SLOTS), out_specs=(HEADS, PAGES, PAGES)
    )
    x = w["embed"].at[token].get(out_sharding=P("replica", None, None))  # R S D

    def layer(x, scanned):
        w, keys, values = scanned
        h = rms(x)
        project = lambda m: jnp.einsum("rsd,dhe->rshe", h, m, out_sharding=HEADS)
        q, k = rope(project(w["wq"]), length), rope(project(w["wk"]), length)
        out, keys, values = attend(q, k, project(w["wv"]), keys, values, table, length)
        x = x + jnp.einsum("rshe,hed->rsd", out, w["wo"], out_sharding=P("replica", None, None))
        h = jax.nn.silu(jnp.einsum("rsd,df->rsf", rms(x), w["up"]))
        x = x + jnp.einsum("rsf,fd->rsd", h, w["down"], out_sharding=P("replica", None, None))
        return x, (keys, values)

    stacked = {n: m for n, m in w.items() if "embed" not in n}
    x, pools = jax.lax.scan(layer, x, (stacked, *pools))
    logits = jnp.einsum("rsd,dv->rsv", rms(x), w["unembed"])
    token, logp = jax.shard_map(choose, in_specs=P("replica", None, "tensor"), out_specs=(SLOTS, SLOTS))(logits)
    return pools, token, logp


class Engine:
    """Bookkeeping on the host: which request is in which slot, and which pages are free."""

    def __init__(self, requests):
        self.queue = deque(requests)
        self.free = list(range(G))
        self.slots = [None] * S
        self.token = np.zeros(S, np.int32)
        self.length = np.zeros(S, np.int32)
        self.table = np.zeros((S, M), np.int32)

    def admit(self):
        for s in range(S):
            if self.slots[s] is None and self.queue:
                request = self.slots[s] = self.queue.popleft()
                self.table[s] = [self.free.pop() for _ in range(M)]
                self.token[s], self.length[s] = request.prompt[0], 0

    def advance(self, tokens, logps):
        total = 0.0
        for s, request in enumerate(self.slots):
            if request is None:
                continue
            self.length[s] += 1
            if self.length[s] < len(request.prompt):  # the prompt is fed one token at a time
                self.token[s] = request.prompt[self.length[s]]
                continue
            request.output.append(int(tokens[s]))
            total += float(logps[s])
            self.token[s] = tokens[s]
            if tokens[s] == EOS or len(request.output) == request.budget:
                self.free.extend(self.table[s].tolist())
                self.slots[s] = None
        return total


def requests(seed=0):
    rng = np.random.default_rng(seed)
    for i in range(3 * R):
        n = int(rng.integers(2, 6))
        yield Request(i, rng.integers(2, V, n).tolist(), int(rng.integers(3, M * Z - n + 1)))


def main(device_count: int = 8):
    mesh = jax.make_mesh(
        MESHES[device_count],
        ("replica", "tensor"),
        axis_types=(AxisType.Explicit, AxisType.Explicit),
        devices=jax.devices()[:device_count],
    )
    todo = list(requests())
    engines = [Engine(todo[i::R]) for i in range(R)]
    logp, steps = 0.0, 0
    with jax.set_mesh(mesh):
        w = {n: jax.device_put(a, NamedSharding(mesh, WEIGHTS[n])) for n, a in make_weights(jax.random.key(0)).items()}
        empty = partial(jnp.zeros, (LAYERS, R, G, Z, K, E), out_sharding=POOL)
        pools = (empty(), empty())
        while any(e.queue or any(e.slots) for e in engines):
            for e in engines:
                e.admit()
            state = [np.stack([getattr(e, n) for e in engines]) for n in ("token", "table", "length")]
            token, table, length = (
                jax.device_put(a, NamedSharding(mesh, P("replica", *[None] * (a.ndim - 1)))) for a in state
            )
            pools, tokens, logps = decode(w, pools, token, table, length)
            tokens, logps = np.asarray(tokens), np.asarray(logps)
            logp += sum(e.advance(tokens[i], logps[i]) for i, e in enumerate(engines))
            steps += 1
    outputs = [t for r in todo for t in r.output]
    return {"tokens": outputs, "logp": logp, "steps": steps}


def reference():
    return main(1)


if __name__ == "__main__":
    print(main())
