"""Mistakes in code as people write it, each with the change that the finding is to name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shardlint.cli import main
from tests.evaluation.running import in_jax

HEAD = """
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P


def numbers(*shape):
    return np.sin(np.arange(np.prod(shape))).reshape(shape).astype(np.float32)


def mesh(**axes):
    types = (AxisType.Auto,) * len(axes)
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=types)
"""
END = """

if __name__ == "__main__":
    main()
"""


@dataclass(frozen=True)
class Mistake:
    """``right`` in a program becomes ``wrong``; the finding is on the line with ``line`` in it, and ``says`` so."""

    name: str
    program: str
    right: str
    wrong: str
    line: str
    says: str

    def text(self, part: str) -> str:
        assert self.program.count("{part}") == 1
        return HEAD + self.program.replace("{part}", part) + END


MAPPED_EDGES = """
def at_nodes(values, receiver):
    return jax.ops.segment_sum(values, receiver, 5)


def softmax(logits, receiver):
    weights = jnp.exp(logits)
    total = {part}
    return weights / total[receiver]


def energy(logits, receiver):
    weights = softmax(logits, receiver)
    each = lax.psum(at_nodes(weights * logits, receiver), "edge")
    return jnp.sum(each**2)


def main():
    receiver = (np.arange(96) % 5).reshape(4, 24)
    mapped = jax.shard_map(
        lambda logits, receiver: jax.vmap(energy)(logits, receiver),
        mesh=mesh(edge=4, mol=2), in_specs=(P("mol", "edge"),) * 2, out_specs=P("mol"), check_vma=False,
    )
    return mapped(numbers(4, 24), receiver)
"""
VOCABULARY = """
def embedded(table, ids):
    size = table.shape[0]
    local = ids - {part} * size
    mine = (local >= 0) & (local < size)
    rows = table[jnp.where(mine, local, 0)]
    return lax.psum(jnp.where(mine[..., None], rows, 0.0), "model")


def main():
    over = mesh(data=2, expert=2, model=2)
    specs = P("model"), P(("data", "expert"))
    mapped = jax.shard_map(embedded, mesh=over, in_specs=specs, out_specs=P(("data", "expert")), check_vma=False)
    return mapped(numbers(24, 3), np.arange(32).reshape(8, 4) % 24)
"""
NORMALIZED = """
def explained(x):
    x = x - lax.pmean(jnp.mean(x, axis=0), "d")
    centre = {part}
    return lax.psum(jnp.sum((x - centre) ** 2), "d")


def main():
    mapped = jax.shard_map(explained, mesh=mesh(d=4), in_specs=P("d"), out_specs=P(), check_vma=False)
    return mapped(numbers(16, 3))
"""
GRADIENTS_OF_TREES = """
def loss(params, x):
    hidden = jnp.tanh(x @ params["scale"] @ params["up"])
    return jnp.mean(lax.psum(hidden @ params["down"], "t") ** 2) / lax.axis_size("t")


def synchronised(path, grad):
    is_sharded = path[0].key != "scale"
    {part}
    return lax.pmean(grad, "d")


def step(params, x):
    grads = jax.grad(loss)(params, x)
    grads = jax.tree_util.tree_map_with_path(synchronised, grads)
    squares = {True: 0.0, False: 0.0}
    for path, grad in jax.tree_util.tree_leaves_with_path(grads):
        squares[path[0].key != "scale"] += jnp.sum(grad**2)
    norm = jnp.sqrt(lax.psum(squares[True], "t") + squares[False])
    return jax.tree.map(lambda p, g: p - 0.1 * g / norm, params, grads)


def main():
    specs = {"scale": P(), "up": P(None, "t"), "down": P("t")}
    params = {"scale": numbers(6, 6), "up": numbers(6, 16), "down": numbers(16, 3)}
    mapped = jax.shard_map(
        step, mesh=mesh(d=2, t=4), in_specs=(specs, P("d")), out_specs=specs, check_vma=False
    )
    return mapped(params, numbers(8, 6))
"""
DECAYED_STATES = """
def states(decay, x):
    total = jnp.cumsum(x, axis=1)
    ends = lax.all_gather(total[:, -1], "s")
    me = lax.axis_index("s")
    before = jnp.zeros_like(total[:, -1])
    for i in range(lax.axis_size("s")):
        before = jnp.where({part}, decay * before + ends[i], before)
    return total + before[:, None]


def main():
    mapped = jax.shard_map(
        states, mesh=mesh(s=8), in_specs=(P(), P(None, "s")), out_specs=P(None, "s"), check_vma=False
    )
    return mapped(jnp.float32(1.0), numbers(2, 32))
"""
BATCH_SPEC = """
def mean_loss(w, v, x):
    hidden = jnp.tanh(x @ w)
    out = lax.psum(hidden @ v, "t")
    return lax.psum(jnp.sum(out**2), "d") / 8


def main():
    mapped = jax.shard_map(
        mean_loss,
        mesh=mesh(d=2, t=4),
        in_specs=(P(None, "t"), P("t"), {part}),
        out_specs=P(),
        check_vma=False,
    )
    return mapped(numbers(6, 8), numbers(8, 3), numbers(8, 6))
"""
RING = """
def shifted(x):
    n = lax.axis_size("s")
    return lax.ppermute(x, "s", [((i + 1) % n, i) for i in range(n)])


def attend(q, k, v):
    n = lax.axis_size("s")
    start = jnp.zeros((q.shape[0], v.shape[1]))

    def hop(carry, _):
        k, v, total = carry
        total = total + jax.nn.sigmoid(q @ k.T) @ v
        {part}
        return (k, v, total), None

    (_, _, total), _ = lax.scan(jax.checkpoint(hop), (k, v, start), jnp.arange(n))
    return total


def sent(x):
    n = lax.axis_size("s")
    return lax.ppermute(x, "s", [(i, (i + 1) % n) for i in range(n)])


def main():
    mapped = jax.shard_map(
        lambda q, k, v: attend(jnp.concatenate([q[1:], shifted(q[:1])]), k, v),
        mesh=mesh(s=4), in_specs=P("s"), out_specs=P("s"), check_vma=False,
    )
    return mapped(numbers(16, 4), numbers(16, 4), numbers(16, 3))
"""
MICRO_BATCHES = """
def loss(w, x, y):
    z = x @ w.reshape(6, 2)
    center = {part}(jnp.mean(z, axis=0))
    return jnp.mean((jnp.tanh(z - center) - y) ** 2)


def step(w, x, y):
    xs, ys = x.reshape(2, -1, 6), y.reshape(2, -1, 2)
    whole = lax.all_gather(w, "d", tiled=True)

    def body(total, batch):
        return total + jax.grad(loss)(whole, *batch), None

    total, _ = lax.scan(body, jnp.zeros_like(whole), (xs, ys))
    grad = lax.psum_scatter(total, "d", tiled=True) / lax.axis_size("d")
    return w - 0.1 * grad


def averaged(x):
    return lax.stop_gradient(lax.pmean(x, "d"))


def main():
    mapped = jax.shard_map(step, mesh=mesh(d=4), in_specs=P("d"), out_specs=P("d"), check_vma=False)
    return jax.jit(mapped)(numbers(12), numbers(32, 6), numbers(32, 2))
"""
SCATTERED = MICRO_BATCHES.replace("{part}", "averaged").replace(
    ' / lax.axis_size("d")', "{part}"
)
LARGEST = """
def best(x, w):
    logits = x @ w
    score = jnp.max(logits, axis=-1)
    place = {part}
    is_best = score == lax.pmax(score, "v")
    return lax.pmin(jnp.where(is_best, place, 1000), "v")


def main():
    mapped = jax.shard_map(
        best, mesh=mesh(v=4), in_specs=(P(), P(None, "v")), out_specs=P(), check_vma=False
    )
    return mapped(numbers(8, 5), numbers(5, 24))
"""
PEAK = """
def step(x):
    peak = {part}
    return x / peak


def main():
    mapped = jax.shard_map(
        step, mesh=mesh(r=2, c=4), in_specs=P("r", "c"), out_specs=P("r", "c"), check_vma=False
    )
    return mapped(numbers(8, 8))
"""

MISTAKES = (
    Mistake(
        "not_summed_where_it_is_called",
        MAPPED_EDGES,
        'lax.psum(at_nodes(weights, receiver), "edge")',
        "at_nodes(weights, receiver)",
        "total = at_nodes(",
        "with a lax.psum over 'edge' of this value",
    ),
    Mistake(
        "some_gradients_of_a_tree",
        GRADIENTS_OF_TREES,
        'grad = grad if is_sharded else lax.psum(grad, "t")',
        "",
        'return lax.pmean(grad, "d")',
        "with a lax.psum over 't' of this value",
    ),
    Mistake(
        "includes_itself",
        DECAYED_STATES,
        "i < me",
        "i <= me",
        "jnp.where(i <= me",
        "with `<` in place of `<=` here",
    ),
    Mistake(
        "batch_over_the_wrong_axis",
        BATCH_SPEC,
        'P("d")',
        'P("t")',
        "in_specs=",
        "with 'd' in place of 't' in this spec",
    ),
    Mistake(
        "values_stay",
        RING,
        "k, v = sent(k), sent(v)",
        "k = sent(k)",
        "total = total + ",
        "with the operand that stays on its device sent round 's'",
    ),
    Mistake(
        "center_of_each_device",
        MICRO_BATCHES,
        "averaged",
        "lax.stop_gradient",
        "center = ",
        "with a lax.pmean over 'd' of this value",
    ),
    Mistake(
        "scattered_sum",
        SCATTERED,
        ' / lax.axis_size("d")',
        "",
        "lax.psum_scatter(",
        "with this lax.psum_scatter divided by the number of devices",
    ),
    Mistake(
        "place_in_the_shard",
        LARGEST,
        'jnp.argmax(logits, axis=-1) + lax.axis_index("v") * w.shape[1]',
        "jnp.argmax(logits, axis=-1)",
        "place = ",
        "with the offset of the shard (lax.axis_index('v') times its size) added to the positions here",
    ),
    Mistake(
        "offset_along_another_axis",
        VOCABULARY,
        'lax.axis_index("model")',
        'lax.axis_index("expert")',
        "local = ids",
        "with lax.axis_index('model') here",
    ),
    Mistake(
        "mean_of_what_is_normalized",
        NORMALIZED,
        'lax.pmean(jnp.mean(x, axis=0), "d")',
        "jnp.mean(x, axis=0)",
        "centre = ",
        "with a lax.pmean over 'd' of this value",
    ),
    Mistake(
        "over_no_axis",
        PEAK,
        'lax.pmax(jnp.max(jnp.abs(x)), ("r", "c"))',
        "jnp.max(jnp.abs(x))",
        "peak = ",
        "with a lax.pmax over 'c' and 'r' of this value",
    ),
)


def findings(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str
) -> list[dict[str, Any]]:
    path = folder / "program.py"
    path.write_text(text)
    main(["--no-cache", "--select", "ST316", "--format", "json", str(path)])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.once
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_the_change_is_named(
    mistake: Mistake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert findings(tmp_path, capsys, mistake.text(mistake.right)) == []
    text = mistake.text(mistake.wrong)
    (finding,) = findings(tmp_path, capsys, text)
    assert mistake.line in text.splitlines()[int(finding["line"]) - 1]
    assert mistake.says in finding["message"]


def test_the_spec_of_a_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a result that is right as it is, the spec is named."""
    text = """
def doubled(x):
    return 2 * x


def main():
    over = mesh(a=2, b=4)
    out = {part}
    mapped = jax.shard_map(doubled, mesh=over, in_specs=P(("a", "b")), out_specs=out, check_vma=False)
    return mapped(numbers(16, 3))
"""
    right, wrong = 'P(("a", "b"))', 'P(("b", "a"))'
    mistake = Mistake("order", text, right, wrong, "", "")
    assert findings(tmp_path, capsys, mistake.text(right)) == []
    found = findings(tmp_path, capsys, mistake.text(wrong))
    lines = mistake.text(wrong).splitlines()
    assert found
    for finding in found:
        (note,) = finding["related"]
        assert note["message"] == "the spec of this result is made here"
        assert lines[note["line"] - 1] == f"    out = {wrong}"


JUDGED = """
def judged(leaves):
    return np.concatenate([np.asarray(leaf).ravel() for leaf in leaves]).tolist()
"""


@pytest.mark.long
def test_they_are_mistakes_in_jax(tmp_path: Path) -> None:
    programs = {
        f"{mistake.name} {part}": mistake.text(part)
        for mistake in MISTAKES
        for part in (mistake.right, mistake.wrong)
    }
    results = in_jax(tmp_path, programs, JUDGED)
    for mistake in MISTAKES:
        right = results[f"{mistake.name} {mistake.right}"]
        wrong = results[f"{mistake.name} {mistake.wrong}"]
        assert wrong != pytest.approx(right, rel=1e-3), mistake.name
