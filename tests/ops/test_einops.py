"""einops, ``jax.random`` and ``jax.nn`` against the real functions."""

from __future__ import annotations

import einops
import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlint import ops
from shardlint.ops.registry import constant
from shardlint.values import Literal
from tests.ops.oracle import agree, sampled
from tests.ops.strategies import arrays, axes, positive

PATTERNS = [
    ("rearrange", "b l m -> b (l m)", {}),
    ("rearrange", "b (h k) m -> b h k m", {"h": 2}),
    ("rearrange", "b l (h k) -> h b l k", {"h": 3}),
    ("rearrange", "... m -> m ...", {}),
    ("rearrange", "b ... -> b (...)", {}),
    ("rearrange", "b l -> l b c", {}),
    ("rearrange", "b l m -> b l", {}),
    ("rearrange", "b (l m -> b l m", {}),
    ("rearrange", "b b -> b", {}),
    ("rearrange", "b 1 m -> b m", {}),
    ("rearrange", "b l -> b 1 l", {}),
    ("rearrange", "b (h k) -> b h k", {}),
    ("rearrange", "b l -> b l", {"l": 2}),
    ("rearrange", "b l -> l b", {"q": 2}),
    ("repeat", "b l -> b l r", {"r": 3}),
    ("repeat", "b l -> (b r) l", {"r": 2}),
    ("repeat", "b l -> b l r", {}),
]


@pytest.mark.parametrize(("name", "pattern", "lengths"), PATTERNS)
@sampled
@given(x=arrays(st.lists(st.sampled_from((1, 2, 3, 4, 6)), min_size=1, max_size=4).map(tuple), ("float32", "int32")))
def test_patterns(name, pattern, lengths, x):
    known = {key: constant(value) for key, value in lengths.items()}
    agree(f"einops.{name}", lambda x: getattr(einops, name)(x, pattern, **lengths), [x],
          run=lambda v, _: ops.apply(f"einops.{name}", [v[0], Literal(pattern)], known, ops.OpContext()))  # fmt: skip


@pytest.mark.parametrize("pattern", ["b l m -> b m", "b (l p) m -> b l m", "b l m -> b 1 m", "b l m ->", "b l -> b c"])
@pytest.mark.parametrize("reduction", ["sum", "mean", "max"])
@sampled
@given(x=arrays(st.lists(st.sampled_from((1, 2, 4)), min_size=2, max_size=3).map(tuple), ("float32",), weak=False))
def test_reduce(pattern, reduction, x):
    lengths = {"p": 2} if "p" in pattern else {}
    known = {key: constant(value) for key, value in lengths.items()}
    args = [Literal(pattern), Literal(reduction)]
    agree("einops.reduce", lambda x: einops.reduce(x, pattern, reduction, **lengths), [x],
          run=lambda v, _: ops.apply("einops.reduce", [v[0], *args], known, ops.OpContext()))  # fmt: skip


@pytest.mark.parametrize("pattern", ["b l, l m -> b m", "b l, b m -> b l m", "b l, l b ->", "... l, l m -> ... m",
                                     "b l, l m -> b x"])  # fmt: skip
@sampled
@given(a=arrays(st.lists(st.sampled_from((2, 2, 3)), min_size=1, max_size=3).map(tuple), ("float32",), weak=False),
       b=arrays(st.lists(st.sampled_from((2, 3)), min_size=2, max_size=2).map(tuple), ("float32",), weak=False))
def test_einsum(pattern, a, b):
    if a.shape and 1 not in (*a.shape, *b.shape):
        agree("einops.einsum", lambda a, b: einops.einsum(a, b, pattern), [a, b],
              run=lambda v, _: ops.apply("einops.einsum", [*v, Literal(pattern)], {}, ops.OpContext()))  # fmt: skip


@pytest.mark.parametrize("name", ["normal", "uniform", "gumbel", "bits", "bernoulli", "rademacher"])
@sampled
@given(shape=positive)
def test_random(name, shape):
    key = jax.random.key(0)
    agree(f"jax.random.{name}", lambda: getattr(jax.random, name)(key, shape=shape), [],
          run=lambda v, _: ops.apply(f"jax.random.{name}", [constant(None)], {"shape": constant(shape)},
                                     ops.OpContext()))  # fmt: skip


@sampled
@given(x=arrays(positive, ("int32", "uint8")), n=st.integers(1, 5), axis=axes)
def test_one_hot(x, n, axis):
    agree("jax.nn.one_hot", jax.nn.one_hot, [x, n], {"axis": axis})
    agree("jax.nn.glu", jax.nn.glu, [x], {"axis": axis})
