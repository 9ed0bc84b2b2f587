"""``mesh_invariant`` names the culprit: the axis, the leaf, the kind of error, and where on the way it begins."""

from __future__ import annotations

import fnmatch

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
        (A[:2], "result['y'] has shape (2, 6) instead of (4, 6)"),
        (np.full_like(A, np.nan), "result['y'] has infinities or NaNs in other places"),
    ],
)
def test_differences(result: np.ndarray, said: str) -> None:
    difference = compare({"x": 1, "y": A}, {"x": 1, "y": result})
    assert difference is not None
    if "order along dimension 0" in said and result[0, 0] == A[-1, -1]:
        said = "*in another order *"  # both dimensions are reversed
    assert fnmatch.fnmatch(str(difference), said.replace("[", "[[]")), str(difference)


def test_equal_and_several_leaves() -> None:
    assert compare([A, 3], [A * (1 + 1e-6), 3]) is None
    difference = compare([A, A, A, np.arange(3)], [A, A * 2, A + 1, np.arange(3) + 1])
    assert str(difference) == "result[1] is 2 times what one device gives (wrong as well: result[2], result[3])"
    assert str(compare([A], (A,))).startswith("result has another structure: PyTreeDef((*,)) instead of")
    assert compare(np.array([np.nan, np.inf, 1]), np.array([np.nan, np.inf, 1])) is None
    assert "infinities" in str(compare(np.array([np.inf]), np.array([-np.inf])))


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


CULPRITS = {
    "missing": (
        "mesh axis 't' changes the answer: on t=4, result['y'] is off by *",
        "reduce: the result: devices along 't' hold different values, but the annotation says replicated; "
        "their sum is what one device holds: a psum over 't' is missing",
    ),
    "double": (
        "*'t'*, result['y'] is off by * of its largest value",
        "reduce: the result is 4 times what one device gives; 4 is the number of devices along 't': *applied twice*",
    ),
    "mean": (
        "*'t'*",
        "reduce: the result is 0.25 times *; that is 1/4: a psum over 't' is missing, or is a pmean, or the program "
        "divides by the number of devices",
    ),
    "wrong_axis": (
        "*'d'*",
        "reduce: the result: devices along 'd' hold the same values, *; each holds the sum of the shards: remove *",
        "*'t'*",
        "reduce: the result: devices along 't' hold different values, *; their sum is what one device holds: a psum *",
    ),
    "early": (
        "*'t'*",
        "act: parameter 'h': devices along 't' hold the same values, *the sum of the shards: remove a psum over 't'*",
    ),
    "out_specs": (
        "*'t' changes the answer: on t=4, result['y'] has shape (32, 16) instead of (8, 16); *: check out_specs",
        "*agree: it goes wrong after block: the result",
    ),
    "gather": (
        "*'t'*, result has the same numbers in another order along dimension 1; shards are concatenated in *",
        "gather: the result has the same numbers in another order along dimension 1",
    ),
    "ring": ("*'t'*", "turn: the result: the device at t=0 holds the shard of t=3; an index along 't' *"),
    "slice": ("*'t'*", "pick: the result: the device at t=0 holds the shard of t=1; an index along 't' *"),
    "softmax": ("*'t'*; the numbers do not show how it depends on 't'", "softmax: * off by *"),
    "local_mean": (
        "*'t'*result['loss'] is * times *; its replicas differ: their mean is what one device gives, so *",
        "mean: the result: devices along 't' hold different values*; their mean *: a pmean over 't' is missing",
    ),
    "largest": ("*'t'*; its replicas differ: their maximum is *, so a pmax over 't' is missing", "*"),
    "capacity": (
        "*'t'*is * times what one device gives; the numbers do not show how it depends on 't'",
        "kept: the result is * times what one device gives",  # not the buffer, whose size goes by the devices
    ),
    "dropout": ("*'t'*; it draws random numbers and uses the device index (*): per-device keys *", "*"),
    "sum_of_means": ("*'t'*result['loss'] is 4 times *; 4 is *", "mean: the result is 4 times what one device gives"),
    "bare": ("*'t'*, result is 4 times *; 4 is the number of devices along 't'*", "*no annotated intermediate value*"),
}


def test_culprits(pytester: pytest.Pytester, run: Run) -> None:
    """Each of the usual mistakes: which axis, which leaf, how it is wrong, and the function that has the mistake."""
    package = pytester.mkpydir("model")
    (package / "layers.py").write_text(MODEL)
    pytester.makepyfile(TESTS)
    pytester.makepyprojecttoml('[tool.pytest]\nshardtypes = true\nshardtypes_trace = false\npythonpath = ["."]')
    result = run()
    result.assert_outcomes(passed=1, failed=len(CULPRITS) + 1)
    said = str(result.stdout).split("= FAILURES =")[1].splitlines()
    for mistake, wanted in CULPRITS.items():
        at = next(number for number, line in enumerate(said) if f" test_wrong[{mistake}] " in line)
        for line, words in zip(said[at + 1 :], wanted, strict=False):
            pattern = words.replace("[", "[[]")
            found = fnmatch.fnmatchcase(line, pattern) or fnmatch.fnmatchcase(line, f"  the first *: {pattern}")
            assert found, f"{mistake}: {line}"
    result.stdout.fnmatch_lines(
        [
            "* shardtypes: what the compiler chose *",
            "placed on mesh d=2, t=4",
            "    x       f32[[]8, 16/t] * declared f32[[]'B/d M'[]]",
        ]
    )


MODEL = """
from __future__ import annotations
from functools import partial
import jax, jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P
from shardtypes import f32

def mapped(body, specs, out):
    return jax.jit(jax.shard_map(body, in_specs=specs, out_specs=out, check_vma=False))

def act(h: f32['B/d F/t']) -> f32['B/d F/t']:
    return jax.nn.relu(h)

def down(h: f32['B/d F/t'], v: f32['F/t M']) -> f32['B/d M {U:t}']:
    return h @ v

def reduce(y: f32['B/d M {U:t}'], how) -> f32['B/d M']:
    return how(y)

def block(x: f32['B/d M'], w: f32['M F/t'], v: f32['F/t M'], how, early) -> f32['B/d M']:
    return x + reduce(down(act(early(x @ w)), v), how)

def mlp(how=lambda y: lax.psum(y, 't'), early=lambda h: h, out=P('d')):
    def f(x: f32['B/d M'], w: f32['M F/t'], v: f32['F/t M']):
        body = partial(block, how=how, early=early)
        return {'x': x * 1, 'y': mapped(body, (P('d'), P(None, 't'), P('t')), out)(x, w, v)}
    return f

def gather(x: f32['B/d M/t']) -> f32['B/d M']:
    return jnp.moveaxis(lax.all_gather(x, 't'), 0, 2).reshape(x.shape[0], -1)

def turn(x: f32['B/d M/t']) -> f32['B/d M/t']:
    n = lax.axis_size('t')
    return lax.ppermute(x, 't', [(i, (i + 1) % n) for i in range(n)])

def softmax(x: f32['B/d M/t']) -> f32['B/d M/t']:
    return jax.nn.softmax(x)

def mean(x: f32['B/d M/t'], how) -> f32['']:
    return how(jnp.mean(x))

def buffer(x: f32['B/d M']) -> f32['B/d C']:
    return x[:, :x.shape[1] // lax.axis_size('t')]

def kept(x: f32['B/d M']) -> f32['B/d M']:
    few = buffer(x)
    return lax.psum(x * few.sum(), 't')

def dropped(x):
    key = jax.random.fold_in(jax.random.key(0), lax.axis_index('t'))
    return x * jax.random.bernoulli(key, 0.5, x.shape)

def pick(x: f32['B/d M']) -> f32['B/d M/t']:
    size = x.shape[1] // lax.axis_size('t')
    return lax.dynamic_slice_in_dim(x, (lax.axis_index('t') + 1) * size, size, 1)

def of_parts(body, out, leaf=lambda y: y):
    def f(x: f32['B/d M/t']):
        return leaf(mapped(body, P('d', 't'), out)(x))
    return f

def placed(x: f32['B/d M']):
    return x

WRONG = {
    'missing': mlp(lambda y: y),
    'double': mlp(lambda y: lax.psum(lax.psum(y, 't'), 't')),
    'mean': mlp(lambda y: lax.pmean(y, 't')),
    'wrong_axis': mlp(lambda y: lax.psum(y, 'd')),
    'early': mlp(early=lambda h: lax.psum(h, 't')),
    'out_specs': mlp(out=P('t')),
    'gather': of_parts(gather, P('d')),
    'ring': of_parts(turn, P('d', 't')),
    'slice': lambda x: mapped(pick, P('d'), P('d', 't'))(x),
    'softmax': of_parts(softmax, P('d', 't')),
    'local_mean': of_parts(partial(mean, how=lambda y: y), P(), lambda y: {'loss': y}),
    'sum_of_means': of_parts(partial(mean, how=lambda y: lax.psum(y, 't')), P(), lambda y: {'loss': y}),
    'largest': lambda x: mapped(lambda x: jnp.max(x), P(None, 't'), P())(x),
    'capacity': lambda x: mapped(kept, P(), P())(x),
    'dropout': lambda x: mapped(dropped, P('d', 't'), P('d', 't'))(x),
    'bare': lambda x: mapped(lambda x: lax.psum(x, 't'), P(), P())(x),
}
"""

TESTS = """
import inspect, jax.numpy as jnp, numpy as np, pytest
from model import layers
from shardtypes import f32

X, W, V = (np.random.default_rng(0).normal(size=s).astype('float32') for s in ((8, 16), (16, 32), (32, 16)))

@pytest.mark.mesh(d=1, t=4)
def test_right(mesh_invariant):
    mesh_invariant(layers.mlp(), X, W, V)

MISTAKES = [
    pytest.param(name, marks=pytest.mark.mesh(d=2 if name == 'wrong_axis' else 1, t=4)) for name in layers.WRONG
]

@pytest.mark.parametrize('mistake', MISTAKES)
def test_wrong(mistake, mesh_invariant):
    f = layers.WRONG[mistake]
    mesh_invariant(f, *(X, W, V)[:len(inspect.signature(f).parameters)])

@pytest.mark.mesh(d=2, t=4)
def test_place(shard):
    layers.placed(shard(jnp.asarray(X), f32['B M/t']))
"""
