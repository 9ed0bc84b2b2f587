"""``mesh_invariant`` names the culprit: the axis, the leaf, the kind of error, and where on the way it begins."""

from __future__ import annotations

import fnmatch
import itertools

import numpy as np
import pytest

from pytest_shardtypes.differences import compare

from .conftest import Run

A = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (A * 4, "result['y'] is 4 times what one device gives"),
        (A / 2, "result['y'] is 0.5 times what one device gives"),
        (
            A[[2, 3, 0, 1]],
            "result['y'] has the same numbers in another order along dimension 0",
        ),
        (
            A[:, ::-1],
            "result['y'] has the same numbers in another order along dimension 1",
        ),
        (
            A[::-1, ::-1],
            "result['y'] has the same numbers in another order along dimension 0",
        ),
        (
            A.reshape(-1)[np.random.default_rng(1).permutation(24)].reshape(4, 6),
            "result['y'] has *order throughout",
        ),
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
    assert (
        str(difference)
        == "result[1] is 2 times what one device gives (wrong as well: result[2], result[3])"
    )
    assert str(compare([A], (A,))).startswith(
        "result has another structure: PyTreeDef((*,)) instead of"
    )
    assert compare(np.array([np.nan, np.inf, 1]), np.array([np.nan, np.inf, 1])) is None
    assert "infinities" in str(compare(np.array([np.inf]), np.array([-np.inf])))


#: What is said of the axes, then of the line: its text and what happens there.
CULPRITS = {
    "missing": (
        "mesh axis 't' changes the answer: on t=4, result['y'] is off by *",
        "return h @ v",
        "it is a partial sum over 't' from here on: `+` is applied to a partial sum over 't' and what is *: call *",
    ),
    "double": (
        "*'t'*, result['y'] is off by * of its largest value",
        "'double': *",
        "lax.psum over 't' is applied to what is the same on all devices already: the result is 4 times too large",
    ),
    "mean": (
        "*'t'*",
        "'mean': *",
        "lax.pmean is applied to a partial sum over 't': the mean is 4 times too small; call lax.psum(…, 't')",
    ),
    "wrong_axis": (
        "*'d'*",
        "'wrong_axis': *",
        "lax.psum over 'd' is applied to what is sharded over 'd' along dimension 0: it adds different shards; *",
        "*'t'*",
        "*",
        "*a partial sum over 't'*",
    ),
    "early": (
        "*'t'*",
        "'early': *",
        "lax.psum over 't' is applied to what is sharded over 't' along dimension 1: it adds different shards; *",
    ),
    "out_specs": (
        "*'t' changes the answer: on t=4, result['y'] has shape (32, 16) instead of (8, 16)",
        "*",
        "result 1 of shard_map is replicated, but out_specs says dimension 0 't'",
    ),
    "gather": (
        "*'t'*, result has the same numbers in another order along dimension 1",
        "return jnp.moveaxis(lax.all_gather(x, 't'), 0, 2)*",
        "lax.all_gather is applied to what is sharded over 't' along dimension 1",
    ),
    "narrow": (
        "*'t'*",
        "return how(h).astype(jnp.float32)",
        "*partial sum over 't'*",
    ),
    "ring": (
        "*'t'*",
        "return lax.ppermute(*",
        "lax.ppermute is applied to what is sharded over 't' along dimension 1",
    ),
    "slice": (
        "*'t'*",
        "return lax.dynamic_slice_in_dim(*",
        "lax.dynamic_slice is applied to *",
    ),
    "softmax": (
        "*'t'*off by *",
        "return jax.nn.softmax(x)",
        "`-` is applied to a per-device maximum along 't' and *: call lax.pmax(…, 't') first",
    ),
    "local_mean": (
        "*'t'*result['loss'] is * times *",
        "*",
        "result 1 of shard_map is a per-device mean along 't' but is returned as replicated: call lax.pmean(…, 't')",
    ),
    "sum_of_means": (
        "*'t'*result['loss'] is 4 times *",
        "'sum_of_means': *",
        "lax.psum is applied to a per-device mean along 't': the sum is 4 times too large; call lax.pmean(…, 't')",
    ),
    "largest": (
        "*'t'*",
        "'largest': *",
        "result 1 of shard_map is a per-device maximum along 't' *: call lax.pmax(…, 't')",
    ),
    "bare": (
        "*'t'*, result is 4 times *",
        "'bare': *",
        "lax.psum over 't' is applied to what is the same on all devices already: the result is 4 times too large",
    ),
}
#: Those of which no line is known: what is said instead.
UNPLACED = {
    "capacity": (
        "*'t'*is * times what one device gives",
        "where could not be told: none of its operations alone *",
    ),
    "dropout": ("*'t'*off by *", "could not tell: *"),
    "drawn": (
        "*'t'*off by *",
        "none of its operations is wrong there: each device draws numbers of its own",
    ),
    "size of the mesh": (
        "*'t'*, result is 0.25 times what one device gives",
        "none of its operations is wrong there: Python takes something else from the mesh*",
    ),
}


def test_culprits(pytester: pytest.Pytester, run: Run) -> None:
    """Each of the usual mistakes: which axis, which leaf, how it is wrong, and the line that has the mistake."""
    package = pytester.mkpydir("model")
    (package / "layers.py").write_text(MODEL)
    pytester.makepyfile(TESTS)
    pytester.makepyprojecttoml(
        '[tool.pytest]\nshardtypes = true\nshardtypes_trace = false\npythonpath = ["."]'
    )
    result = run()
    result.assert_outcomes(passed=4, failed=len(CULPRITS) + len(UNPLACED) + 2)
    said = str(result.stdout).split("= FAILURES =")[1].splitlines()
    for mistake, wanted in CULPRITS.items():
        reports = _reports(said, f"test_wrong[{mistake}]")
        assert len(reports) == len(wanted) // 3, reports
        for report, (head, text, what) in zip(
            reports, zip(*[iter(wanted)] * 3, strict=True), strict=True
        ):
            place, source = report[1:3]
            assert _matches(report[0], head), report[0]
            assert _matches(place, f"  *layers.py:*: {what}"), f"{mistake}: {place}"
            assert _matches(source, f"      {text}"), f"{mistake}: {source}"
    for mistake, (head, instead) in UNPLACED.items():
        ((first, second, *_),) = _reports(said, f"test_wrong[{mistake}]")
        assert _matches(first, head), first
        assert _matches(second, f"  {instead}"), second
    ((first, second, third, *_),) = _reports(said, "test_wrong_for_others")
    assert first == "the mesh changes the answer for other arguments than these"
    assert _matches(second, "refuted: on d=1, t=4 result is * on devices, * on one"), (
        second
    )
    assert _matches(
        third, "*layers.py:*: lax.pmean is applied to a partial sum over 't': *"
    ), third
    result.stdout.fnmatch_lines(
        [
            "* shardtypes: what the compiler chose *",
            "placed on mesh d=2, t=4",
            "    x       f32[[]8, 16/t] * declared f32[[]'B/d M'[]]",
        ]
    )


def _matches(line: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(line, pattern.replace("[", "[[]"))


def _reports(said: list[str], test: str) -> list[list[str]]:
    """What a failing test says of each axis: the lines from the one that names it."""
    start = next(number for number, line in enumerate(said) if f" {test} " in line)
    lines = list(
        itertools.takewhile(
            lambda line: not line.startswith(("___", "===")), said[start + 1 :]
        )
    )
    heads = [
        number for number, line in enumerate(lines) if "changes the answer" in line
    ]
    return [lines[a:b] for a, b in zip(heads, [*heads[1:], len(lines)], strict=True)]


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

def averaged(x, w):
    return mapped(lambda x, w: lax.pmean(x @ w, 't'), (P(None, 't'), P('t')), P())(x, w)

def narrow(x, w, how=lambda y: lax.psum(y, 't')):
    def body(x, w):
        h = x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)
        return how(h).astype(jnp.float32)
    specs = P(None, 't'), P('t')  # without jit, under which XLA may leave out that it rounds
    return jax.shard_map(body, in_specs=specs, out_specs=P(), check_vma=False)(x, w)

def narrow_by_value(x, w):
    return narrow(x, w) if float(x[0, 0]) else x

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
    'drawn': lambda x: mapped(dropped, P('t'), P('t'))(x),
    'narrow': lambda x, w: narrow(x, w, how=lambda y: y),
    'size of the mesh': lambda x: x / jax.sharding.get_abstract_mesh().size,
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

@pytest.mark.mesh(d=1, t=4)
def test_right_in_bfloat16(mesh_invariant):
    mesh_invariant(layers.narrow, X, W)
    with pytest.raises(pytest.fail.Exception, match='off by 0.00'):
        mesh_invariant(layers.narrow, X, W, tolerance=1e-4)

@pytest.mark.mesh(d=1, t=4)
def test_not_traced(mesh_invariant):
    with pytest.raises(pytest.fail.Exception, match='off by 0.00'):
        mesh_invariant(layers.narrow_by_value, X, W)

MISTAKES = [
    pytest.param(name, marks=pytest.mark.mesh(d=2 if name == 'wrong_axis' else 1, t=4)) for name in layers.WRONG
]

@pytest.mark.parametrize('mistake', MISTAKES)
def test_wrong(mistake, mesh_invariant):
    f = layers.WRONG[mistake]
    mesh_invariant(f, *(X, W, V)[:len(inspect.signature(f).parameters)])

@pytest.mark.mesh(d=1, t=4)
def test_wrong_for_others(mesh_invariant):
    mesh_invariant(layers.averaged, np.zeros((8, 16), 'float32'), W)

@pytest.mark.mesh(d=1, t=4)
def test_tolerated(mesh_invariant):
    mesh_invariant(layers.averaged, np.zeros((8, 16), 'float32'), W, tolerance=1e-4)

@pytest.mark.mesh(d=2, t=4)
def test_place(shard):
    layers.placed(shard(jnp.asarray(X), f32['B M/t']))
"""
