"""Rings of devices whose length is a number in the program: it follows the size of the mesh where the permutations say
so. What stays on its device while the rest of its block goes round is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.cli import main
from tests.evaluation.test_entries import judged

HEAD = """
import functools
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("sp",))
smap = functools.partial(jax.shard_map, mesh=mesh, check_vma=False)
N = 8
HEADS = 8
PERM = [(i, (i + 1) % N) for i in range(N)]


def block(q, k, v, m, l, o, bias=0.0):
    s = jnp.einsum("bqd,bkd->bqk", q, k) + bias
    new = jnp.maximum(m, s.max(-1))
    a = jnp.exp(m - new)
    p = jnp.exp(s - new[..., None])
    return new, l * a + p.sum(-1), o * a[..., None] + jnp.einsum("bqk,bkd->bqd", p, v)


def start(q):
    return jnp.full(q.shape[:2], -1e30), jnp.zeros(q.shape[:2]), jnp.zeros_like(q)
"""
RIGHT = {
    "two_lengths": """
@functools.partial(smap, in_specs=(P(None, "sp"),) * 3, out_specs=P(None, "sp"))
def two_lengths(q, k, v):
    m, l, o = start(q)
    for _ in range(HEADS):
        m, l, o = block(q, k, v, m, l, o)
        k, v = lax.ppermute(k, "sp", PERM), lax.ppermute(v, "sp", PERM)
    return o / l[..., None]
""",
    "causal_literals": """
@functools.partial(smap, in_specs=(P(None, "sp"),) * 3, out_specs=P(None, "sp"))
def causal_literals(q, k, v):
    m, l, o = start(q)
    me = lax.axis_index("sp")
    n = q.shape[1]
    rows = me * n + jnp.arange(n)
    for r in range(8):
        source = (me - r) % 8
        cols = source * n + jnp.arange(n)
        bias = jnp.where(rows[:, None] >= cols[None, :], 0.0, -1e9)
        m, l, o = block(q, k, v, m, l, o, bias)
        k, v = lax.ppermute((k, v), "sp", PERM)
    return o / l[..., None]
""",
    "newton_literals": """
@functools.partial(smap, in_specs=(P(None, "sp"),) * 3, out_specs=P(None, "sp"))
def newton_literals(q, k, v):
    m, l, o = start(q)
    perm = [(i, (i + 1) % 8) for i in range(8)]
    for _ in range(8):
        m, l, o = block(q, k, v, m, l, o)
        k, v = lax.ppermute((k, v), "sp", perm)
    y = 0.001 * jnp.ones_like(l)
    for _ in range(8):
        y = y * (2.0 - l * 0.001 * y)
    return o * y[..., None]
""",
    "fori_axis_size": """
@functools.partial(smap, in_specs=(P(None, "sp"),) * 3, out_specs=P(None, "sp"))
def fori_axis_size(q, k, v):
    n = lax.axis_size("sp")
    perm = [(i, (i - 1) % n) for i in range(n)]

    def step(i, c):
        k, v, m, l, o = c
        m, l, o = block(q, k, v, m, l, o)
        return lax.ppermute(k, "sp", perm), lax.ppermute(v, "sp", perm), m, l, o

    *_, m, l, o = lax.fori_loop(0, n, step, (k, v, *start(q)))
    return o / l[..., None]
""",
    "ring_all_reduce": """
@functools.partial(smap, in_specs=P("sp"), out_specs=P("sp"))
def ring_all_reduce(g):
    total = g
    for _ in range(N - 1):
        g = lax.ppermute(g, "sp", PERM)
        total = total + g
    return total
""",
    "gossip": """
@functools.partial(smap, in_specs=P("sp"), out_specs=P("sp"))
def gossip(w):
    return (w + lax.ppermute(w, "sp", PERM) + lax.ppermute(w, "sp", [(j, i) for i, j in PERM])) / 3
""",
    "similar": """
@functools.partial(smap, in_specs=P("sp"), out_specs=P("sp"))
def similar(w):
    near = w
    total = jnp.zeros((w.shape[0],))
    for _ in range(N):
        near = lax.ppermute(near, "sp", PERM)
        total = total + (w * near).sum(-1)
    return total
""",
    "pipeline": """
@functools.partial(smap, in_specs=(P("sp"), P()), out_specs=P())
def pipeline(w, x):
    me = lax.axis_index("sp")
    perm = [(i, i + 1) for i in range(N - 1)]
    state = jnp.zeros_like(x[0])
    outs = []
    for t in range(len(x) + N - 1):
        inp = jnp.where(me == 0, x[min(t, len(x) - 1)], state)
        y = jnp.tanh(inp @ w[0])
        if t >= N - 1:
            outs.append(jnp.where(me == N - 1, y, 0.0))
        state = lax.ppermute(y, "sp", perm)
    return lax.psum(jnp.stack(outs), "sp")
""",
    "ring_matmul": """
@functools.partial(smap, in_specs=(P(None, "sp"), P(None, "sp")), out_specs=P(None, "sp"))
def ring_matmul(x, w):
    me = lax.axis_index("sp")
    n = x.shape[1]
    acc = jnp.zeros((x.shape[0], w.shape[1]))
    for r in range(N):
        source = (me - r) % N
        acc = acc + x @ lax.dynamic_slice_in_dim(w, source * n, n)
        x = lax.ppermute(x, "sp", PERM)
    return acc
""",
    "own_negatives": """
@functools.partial(smap, in_specs=P("sp"), out_specs=P("sp"))
def own_negatives(z):
    other = z
    total = jnp.zeros((z.shape[0],))
    for _ in range(N - 1):
        other = lax.ppermute(other, "sp", PERM)
        total = total + jnp.exp(z @ other.T).sum(-1)
    return jnp.log(total)
""",
}
WRONG = {
    "values_only": """
@functools.partial(smap, in_specs=(P(None, "sp"),) * 3, out_specs=P(None, "sp"))
def values_only(q, k, v):
    m, l, o = start(q)
    for _ in range(N):
        m, l, o = block(q, k, v, m, l, o)
        v = lax.ppermute(v, "sp", PERM)
    return o / l[..., None]
""",
    "literals": """
@functools.partial(smap, in_specs=(P(None, "sp"),) * 3, out_specs=P(None, "sp"))
def literals(q, k, v):
    m, l, o = start(q)
    perm = [(i, (i + 1) % 8) for i in range(8)]
    for _ in range(8):
        m, l, o = block(q, k, v, m, l, o)
        k = lax.ppermute(k, "sp", perm)
    return o / l[..., None]
""",
    "two_lengths": """
@functools.partial(smap, in_specs=(P(None, "sp"),) * 3, out_specs=P(None, "sp"))
def two_lengths(q, k, v):
    m, l, o = start(q)
    for _ in range(HEADS):
        m, l, o = block(q, k, v, m, l, o)
        k = lax.ppermute(k, "sp", PERM)
    return o / l[..., None]
""",
    "while_arange": """
@functools.partial(smap, in_specs=(P(None, "sp"),) * 3, out_specs=P(None, "sp"))
def while_arange(q, k, v):
    perm = list(zip(range(N), [*range(1, N), 0]))

    def step(c, i):
        k, m, l, o = c
        m, l, o = block(q, k, v, m, l, o)
        return (lax.ppermute(k, "sp", perm), m, l, o), i

    (_, m, l, o), _ = lax.scan(step, (k, *start(q)), jnp.arange(N))
    return o / l[..., None]
""",
    "bias_stays": """
@functools.partial(smap, in_specs=(P(None, "sp"),) * 4, out_specs=P(None, "sp"))
def bias_stays(q, k, v, b):
    m, l, o = start(q)
    for _ in range(N):
        m, l, o = block(q, k, v, m, l, o, b.mean(-1)[:, None])
        k, v = lax.ppermute((k, v), "sp", PERM)
    return o / l[..., None]
""",
    "sent_first": """
@functools.partial(smap, in_specs=(P(None, "sp"),) * 3, out_specs=P(None, "sp"))
def sent_first(q, k, v):
    m, l, o = start(q)
    for _ in range(N):
        k = lax.ppermute(k, "sp", PERM)
        m, l, o = block(q, k, v, m, l, o)
    return o / l[..., None]
""",
}


@pytest.mark.once
@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_right_rings_are_silent(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "ST316" not in linted(text, tmp_path, capsys)


@pytest.mark.once
@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_what_stays_behind_is_found(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = linted(text, tmp_path, capsys)
    assert found.count("[depends-on-devices]") == 1
    assert (
        "with the operand that stays on its device sent round 'sp' with the others, it is the same"
        in found
    )


@pytest.mark.once
def test_other_numbers_stay_what_they_are() -> None:
    """A length that is written in one place follows the mesh; an equal number elsewhere, of steps, does not."""
    assert judged(HEAD + RIGHT["newton_literals"]).compared == ("sp",)
    wrong = judged(HEAD + WRONG["literals"])
    (departure,) = wrong.departures
    changed = departure.evidence.setting.literals
    assert len(changed) == 3, "the mesh, and both numbers of the permutation"


def linted(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\n")
    (tmp_path / "ring.py").write_text(HEAD + text)
    main(["--jobs", "1", "--no-cache", str(tmp_path / "ring.py")])
    return capsys.readouterr().out
