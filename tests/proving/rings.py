"""Programs over a mesh d=2, t=4 that no rule of one operation explains, and how each of them goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from tests.proving.cases import Case, array, mapped

_T = P(None, "t")


def _shifted(x: Any, by: int, around: bool = True) -> Any:
    count = lax.axis_size("t")
    pairs = [(i, i + by) for i in range(count)]
    kept = pairs if around else [(i, j) for i, j in pairs if 0 <= j < count]
    return lax.ppermute(x, "t", [(i, j % count) for i, j in kept])


def ring_attention(
    by: int = 1, rounds: int = 0, causal: bool = True, shrink: bool = True
) -> Callable[[Any], Any]:
    """Blocks of keys and values go round; the mask expects them from the device before."""

    @mapped((_T, _T, _T), _T)
    def attend(q: Any, k: Any, v: Any) -> Any:
        count, me, length = lax.axis_size("t"), lax.axis_index("t"), q.shape[1]
        mine = me * length + jnp.arange(length)

        def visit(carry: Any, step: Any) -> Any:
            k, v, peak, total, mixed = carry
            columns = (me - step) % count * length + jnp.arange(length)
            scores = jnp.einsum("bqd,bkd->bqk", q, k) / q.shape[-1]
            if causal:
                scores = jnp.where(mine[:, None] >= columns, scores, -jnp.inf)
            upper = jnp.maximum(peak, scores.max(-1))
            weights, less = jnp.exp(scores - upper[..., None]), jnp.exp(peak - upper)
            total = total * less + weights.sum(-1)
            before = mixed * less[..., None] if shrink else mixed
            mixed = before + jnp.einsum("bqk,bkd->bqd", weights, v)
            return (_shifted(k, by), _shifted(v, by), upper, total, mixed), None

        start = (
            k,
            v,
            jnp.full(q.shape[:2], -1e30),
            jnp.zeros(q.shape[:2]),
            jnp.zeros_like(v),
        )
        (_, _, _, total, mixed), _ = lax.scan(
            visit, start, jnp.arange(max(count - rounds, 1))
        )
        return mixed / total[..., None]

    return attend


def pipeline(missing: int = 0, first: int = 0) -> Callable[[Any], Any]:
    """Micro-batches go through stages on the devices."""

    @mapped((P(), P("t")), P())
    def through(xs: Any, layers: Any) -> Any:
        count, me, parts = lax.axis_size("t"), lax.axis_index("t"), xs.shape[0]

        def tick(carry: Any, step: Any) -> Any:
            held, made = carry
            fed = jnp.where(me == first, xs[jnp.minimum(step, parts - 1)], held)
            out, _ = lax.scan(lambda x, w: (jnp.tanh(x @ w), None), fed, layers)
            place = step - (count - 1)
            done = (me == count - 1) & (place >= 0)
            at = jnp.clip(place, 0, parts - 1)
            made = made.at[at].set(jnp.where(done, out, made[at]))
            return (_shifted(out, 1, False), made), None

        ticks = jnp.arange(parts + max(count - 1 - missing, 0))
        (_, made), _ = lax.scan(
            tick, (jnp.zeros_like(xs[0]), jnp.zeros_like(xs)), ticks
        )
        return lax.psum(jnp.where(me == count - 1, made, 0.0), "t")

    return through


def convolution(by: int = 1) -> Callable[[Any], Any]:
    """Each position and its neighbours, those of other devices too."""

    @mapped((_T, P()), _T)
    def convolved(x: Any, kernel: Any) -> Any:
        before = _shifted(x[:, -1:], by, False)
        after = _shifted(x[:, :1], -by, False)
        padded = jnp.concatenate([before, x, after], 1)
        return sum(padded[:, k : k + x.shape[1]] @ kernel[k] for k in range(3))

    return convolved


def running_totals(own: int = 0) -> Callable[[Any], Any]:
    """Devices add what those before them have."""

    @mapped((_T,), _T)
    def totals(x: Any) -> Any:
        local = jnp.cumsum(x, 1)
        ends = lax.all_gather(local[:, -1], "t")
        earlier = jnp.arange(ends.shape[0]) < lax.axis_index("t") + own
        return local + jnp.where(earlier[:, None], ends, 0.0).sum(0)[:, None]

    return totals


def own_rows(after: int = 0) -> Callable[[Any], Any]:
    """Each device updates rows of what all have, and hands them to all."""

    @mapped((P(), P("t")), P())
    def updated(w: Any, update: Any) -> Any:
        rows = update.shape[0]
        start = (lax.axis_index("t") * rows + after) % w.shape[0]
        mine = lax.dynamic_slice_in_dim(w, start, rows)
        return lax.all_gather(jnp.tanh(mine) - update, "t", axis=0, tiled=True)

    return updated


def own_columns(width: int = 0) -> Callable[[Any], Any]:
    """Labels among the columns of a device's own."""

    @mapped((_T, P()), P())
    def entropy(logits: Any, labels: Any) -> Any:
        first = lax.axis_index("t") * (logits.shape[1] + width)
        own = jax.nn.one_hot(labels - first, logits.shape[1])
        total = lax.psum(jnp.exp(logits).sum(1), "t")
        return jnp.log(total) - lax.psum((logits * own).sum(1), "t")

    return entropy


Q = array(2, 8, 4)
XS, LAYERS = array(3, 4), array(4, 4, 4)
RIGHT = {
    "ring": Case(ring_attention(causal=False), (Q, Q, Q)),
    "causal_ring": Case(ring_attention(), (Q, Q, Q)),
    "ring_the_other_way": Case(ring_attention(by=-1, causal=False), (Q, Q, Q)),
    "pipeline": Case(pipeline(), (XS, LAYERS)),
    "convolution": Case(convolution(), (array(2, 8, 3), array(3, 3, 5))),
    "running_totals": Case(running_totals(), (array(2, 8),)),
    "own_rows": Case(own_rows(), (array(8, 3), array(8, 3))),
    "own_columns": Case(own_columns(), (array(4, 8), array(4, dtype="int32"))),
}
WRONG = {
    "a round is missing": Case(ring_attention(rounds=1, causal=False), (Q, Q, Q)),
    "the mask expects another device's": Case(ring_attention(by=-1), (Q, Q, Q)),
    "sums are not rescaled": Case(ring_attention(shrink=False), (Q, Q, Q)),
    "a tick is missing": Case(pipeline(missing=1), (XS, LAYERS)),
    "fed to another stage": Case(pipeline(first=1), (XS, LAYERS)),
    "neighbours change places": Case(
        convolution(by=-1), (array(2, 8, 3), array(3, 3, 5))
    ),
    "a device counts itself": Case(running_totals(own=1), (array(2, 8),)),
    "the next rows": Case(own_rows(after=1), (array(8, 3), array(8, 3))),
    "columns of another width": Case(
        own_columns(width=1), (array(4, 8), array(4, dtype="int32"))
    ),
}
