"""Every collective on simulated devices against JAX on forced ones: its numbers, and its gradients."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.lowerings.collectives import collectives
from tests.evaluation.running import evaluated
from tests.support import force_devices, run_python

pytestmark = pytest.mark.once  # what collectives compute does not change with JAX

_PAIRS = "axis_index_groups=[[0, 1], [2, 3]]"
#: By name, calls on an array of 8 by 4 entries that each of four devices along ``t`` has.
CALLS = {
    "psum": ["lax.psum(x, 't')", f"lax.psum(x, 't', {_PAIRS})", "lax.psum(x[0], 't')"],
    "pmean": ["lax.pmean(x, 't')", f"lax.pmean(x, 't', {_PAIRS})"],
    "pmax": ["lax.pmax(x, 't')"],
    "pmin": ["lax.pmin(x, 't')"],
    "all_gather": [
        "lax.all_gather(x, 't')",
        "lax.all_gather(x, 't', axis=1, tiled=True)",
    ],
    "psum_scatter": [
        "lax.psum_scatter(x.T, 't')",
        "lax.psum_scatter(x, 't', tiled=True)",
    ],
    "all_to_all": [
        "lax.all_to_all(x, 't', 0, 1, tiled=True)",
        "lax.all_to_all(x, 't', 1, 1)",
    ],
    "ppermute": ["lax.ppermute(x, 't', [(0, 1), (1, 2), (2, 0)])"],
    "pshuffle": ["lax.pshuffle(x, 't', [3, 2, 0, 1])"],
    "axis_index": ["x * lax.axis_index('t')"],
    "axis_size": ["x * lax.axis_size('t')"],
    "pcast": ["lax.pcast(x, 't', to='varying')"],
}
#: Gradients of these are not taken: JAX has none.
_ROUGH = {"pmax", "pmin"}
PROGRAM = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(jax.devices()[:4], ('t',))
x = jnp.sin(jnp.arange(128.0)).reshape(32, 4)


def local(x):
    return ({call})[None]


def mapped(x):
    return jax.shard_map(local, mesh=mesh, in_specs=P('t'), out_specs=P('t'), check_vma=False)(x)


def loss(x):
    made = mapped(x)
    return jnp.sum(made * jnp.cos(jnp.arange(made.size)).reshape(made.shape))


def main():
    return [mapped(x), {gradient}]
"""
ROWS = [
    PROGRAM.format(call=call, gradient="x" if name in _ROUGH else "jax.grad(loss)(x)")
    for name, calls in CALLS.items()
    for call in calls
]


def _under_jax(path: str) -> None:
    """Run the programs on four devices, and keep what they give."""
    force_devices(4)
    import jax

    found: list[Any] = []
    for row in ROWS:
        names: dict[str, Any] = {}
        exec(row, names)
        found += [
            np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(names["main"])())
        ]
    np.savez(path, *found)


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> list[np.ndarray]:
    answer = tmp_path_factory.mktemp("collectives") / "answer.npz"
    ended = run_python("-m", "tests.semantics.test_collectives", str(answer))
    assert ended.returncode == 0, ended.stderr
    with np.load(answer) as kept:
        return [kept[name] for name in kept.files]


def test_every_collective_has_a_row() -> None:
    gone = {"pvary"}  # from JAX; pcast, which is the same function here, is compared
    assert set(CALLS) | gone == collectives("combines", "exchanges", "asks", "casts")
    assert {f"jax.lax.{name}" for name in CALLS} <= set(LOWERINGS)


def test_collectives_give_what_jax_gives_on_devices(truth: list[np.ndarray]) -> None:
    close = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)
    for i, row in enumerate(ROWS):
        made, gradient = evaluated(row)
        close(made, truth[2 * i], err_msg=row)
        close(gradient, truth[2 * i + 1], err_msg=row)


if __name__ == "__main__":
    _under_jax(str(Path(sys.argv[1])))
