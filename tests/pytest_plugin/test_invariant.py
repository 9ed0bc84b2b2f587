"""``mesh_invariant`` names the culprit: the axis, the leaf, the kind of error, and where on the way it begins."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_shardtypes.differences import compare
from pytest_shardtypes.intermediates import Value

from .conftest import Run

A = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (A * 4, "result['y'] is 4 times what one device gives"),
        (A / 2, "result['y'] is 0.5 times what one device gives"),
        (A[[2, 3, 0, 1]], "result['y'] has the same numbers in another order along dimension 0"),
        (A[:, ::-1], "result['y'] has the same numbers in another order along dimension 1"),
        (A[::-1, ::-1], "result['y'] has the same numbers in another order along dimension 0"),
        (A.reshape(-1)[np.random.default_rng(1).permutation(24)].reshape(4, 6), "result['y'] has *order throughout"),
        (A + 1, "result['y'] is off by * of its largest value"),
        (A[:2], "result['y'] has shape (2, 6) instead of (4, 6); it is off by inf of its largest value"),
        (np.full_like(A, np.nan), "result['y'] is off by inf of its largest value"),
    ],
)
def test_differences(result: np.ndarray, said: str) -> None:
    difference = compare({"x": 1, "y": A}, {"x": 1, "y": result})
    assert difference is not None
    if "order along dimension 0" in said and result[0, 0] == A[-1, -1]:
        said = "*in another order *"  # both dimensions are reversed
    import fnmatch

    assert fnmatch.fnmatch(str(difference), said.replace("[", "[[]")), str(difference)


def test_equal_and_several_leaves() -> None:
    assert compare([A, 3], [A * (1 + 1e-6), 3]) is None
    difference = compare([A, A, A, np.arange(3)], [A, A * 2, A + 1, np.arange(3) + 1])
    assert str(difference) == "result[1] is 2 times what one device gives (so do result[2], result[3])"
    assert compare([A], (A,)) is not None


def test_parts_come_together() -> None:
    """Along two axes of one dimension in either order, summed over a pending one, compared along the others."""
    whole = np.arange(16).reshape(8, 2)
    for order in (("d", "t"), ("t", "d")):
        value = Value("v", ("d", "t", "p", "r"), (2, 4, 2, 2), (order, ()), frozenset({"p"}))
        for d, t, p, r in np.ndindex(2, 4, 2, 2):
            number = d * 4 + t if order == ("d", "t") else t * 2 + d
            value.parts[d, t, p, r] = [whole[number : number + 1] * (3 if p else -2)]
        (joined,) = value.whole() or []
        np.testing.assert_array_equal(joined, whole)
        assert value.unequal_axis(np.array_equal) is None
        value.parts[0, 0, 0, 1] = [whole[:1] + 7]
        assert value.unequal_axis(np.array_equal) == "r"
        del value.parts[0, 0, 0, 1][0]
        assert value.whole() is None


def test_culprits(pytester: pytest.Pytester, run: Run) -> None:
    package = pytester.mkpydir("model")
    (package / "layers.py").write_text(MODEL)
    pytester.makepyfile(TESTS)
    pytester.makepyprojecttoml('[tool.pytest]\nshardtypes = true\nshardtypes_trace = false\npythonpath = ["."]')
    result = run()
    result.assert_outcomes(passed=1, failed=5)
    result.stdout.fnmatch_lines(
        [
            "mesh axis 't' changes the answer: on t=4, result[[]'h'[]] is off by *; * may be missing *",
            "the first annotated value that differs: finish: the result: devices along t hold other values, and *",
            "mesh axis 't' changes the answer: on t=4, result[[]'h'[]] is 4 times what one device gives; 4 is the *",
            "the first annotated value that differs: finish: the result is 4 times what one device gives",
            "mesh axis 'd' changes the answer: on d=2, result has the same numbers in another order along dim*",
            "the first annotated value that differs: body: the result has the same numbers in another order along *",
            "no annotated value on the way: annotate the functions that it calls to see where it goes wrong",
            "* shardtypes: what the compiler chose *",
            "gathered on mesh d=2, t=4",
            "    x       f32[[]4, 8/t] * declared f32[[]'B/d M'[]]",
        ]
    )


MODEL = """
from __future__ import annotations
from functools import partial
import jax
from jax.sharding import PartitionSpec as P
from shardtypes import f32

def block(x: f32['B/d M/t'], w: f32['M/t F'], reduce) -> f32['B/d F']:
    return finish(partial_product(x, w), reduce)

def partial_product(x: f32['B/d M/t'], w: f32['M/t F']) -> f32['B/d F {U:t}']:
    return x @ w

def finish(y: f32['B/d F {U:t}'], reduce) -> f32['B/d F']:
    return reduce(y) * 2

def make(reduce):
    def f(x: f32['B/d M/t'], w: f32['M/t F']):
        inside = partial(block, reduce=reduce)
        mapped = jax.shard_map(inside, in_specs=(P('d', 't'), P('t')), out_specs=P('d'), check_vma=False)
        return {'h': jax.jit(mapped)(x, w), 'x': x * 2}
    return f

def gathered(x: f32['B/d M']):
    def body(x: f32['B/d M']) -> f32['M B/d']:
        n = jax.lax.axis_size('d')
        return jax.lax.ppermute(x, 'd', [(i, (i + 1) % n) for i in range(n)]).T
    return jax.shard_map(body, in_specs=P('d'), out_specs=P(None, 'd'))(x)

def bare(x):
    return jax.shard_map(lambda x: jax.lax.psum(x, 'd'), in_specs=P(), out_specs=P(), check_vma=False)(x)
"""

TESTS = """
import jax, jax.numpy as jnp, numpy as np, pytest
from model import layers
from shardtypes import f32

pytestmark = pytest.mark.mesh(d=2, t=4)
X = np.random.default_rng(0).normal(size=(4, 8)).astype('float32')
W = np.random.default_rng(1).normal(size=(8, 16)).astype('float32')

def test_right(mesh_invariant):
    mesh_invariant(layers.make(lambda y: jax.lax.psum(y, 't')), X, W)

def test_missing(mesh_invariant):
    mesh_invariant(layers.make(lambda y: y), X, W)

def test_double(mesh_invariant):
    mesh_invariant(layers.make(lambda y: jax.lax.psum(jax.lax.psum(y, 't'), 't')), X, W)

def test_order(mesh_invariant):
    mesh_invariant(layers.gathered, X)

def test_bare(mesh_invariant):
    mesh_invariant(layers.bare, X)

def test_place(shard):
    layers.gathered(shard(jnp.asarray(X), f32['B M/t']))
"""
