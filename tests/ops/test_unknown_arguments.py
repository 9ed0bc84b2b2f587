"""Calls with an argument of which nothing is known: what is told of the result holds for whatever it may be."""

from __future__ import annotations

from typing import Any

import einops
import jax
import jax.numpy as jnp
import pytest

from shardlint.values import ArrayValue, Dimension, SequenceValue, Value
from tests.ops.test_open_ranks import inferred

LIBRARIES = {"einops": einops, "jax": jax, "jnp": jnp}
X = jnp.ones((2, 3))
WIDE = jnp.ones((4, 2, 3))
KEY, OLD_KEY = jax.random.key(0), jax.random.PRNGKey(0)
ANY_ARRAY = (2.0, jnp.ones(3), X, WIDE)
AXES = (None, 0, 1)
FLAGS = (False, True)

#: By expression: what the argument may be, and the result as it is shown.
CALLS: dict[str, tuple[tuple[Any, ...], str]] = {
    "jnp.sum(x, axis=u)": (AXES, "float32[?]"),
    "jnp.sum(x, axis=0, keepdims=u)": (FLAGS, "float32[?]"),
    "jnp.sum(x, axis=u, keepdims=True)": (AXES, "float32[_ _]"),
    "jnp.sum(u)": (ANY_ARRAY, "?[]"),
    "jnp.mean(x, axis=0, where=u)": ((True, X > 0), "float32[3]"),
    "jnp.sum(x, axis=0, where=u)": ((True, X > 0, WIDE > 0), "float32[?]"),
    "jnp.sort(x, axis=u)": (AXES, "float32[?]"),
    "jnp.sum(jnp.ones(3), axis=u)": ((None, 0, ()), "float32[?]"),
    "jnp.squeeze(jnp.ones((1, 3)), axis=u)": ((None, 0, ()), "float32[?]"),
    "jnp.mean(u, axis=3)": (
        (jnp.ones((1, 2, 3, 4)), jnp.ones((1, 2, 3, 4, 5))),
        "?[?]",
    ),
    "jax.nn.one_hot(jnp.arange(2), 3, axis=u)": ((0, -1), "?[?]"),
    "jax.lax.dynamic_slice(x, (u, 0), (1, 2))": ((0, 1), "float32[1 2]"),
    "jax.lax.dynamic_slice(x, (0, 0), (1, u))": ((1, 2), "float32[1 _]"),
    "jax.lax.dynamic_slice(x, u, (1, 2))": (((0, 1), jnp.arange(2)), "float32[1 2]"),
    "jax.lax.dynamic_index_in_dim(x, u, keepdims=False)": ((0, 1), "float32[3]"),
    "jax.lax.dynamic_update_slice(x, jnp.ones((1, 1)), u)": (
        ((0, 1), jnp.arange(2)),
        "float32[2 3]",
    ),
    "jax.lax.top_k(x, u)": ((1, 2), "float32[2 _] int32[2 _]"),
    "jax.lax.slice_in_dim(x, 0, u)": ((1, 2), "float32[_ 3]"),
    "jnp.argsort(x, axis=0, descending=u)": (FLAGS, "int32[2 3]"),
    "jnp.argmax(x, axis=u)": (AXES, "int32[?]"),
    "jnp.cumsum(x, axis=u)": (AXES, "float32[?]"),
    "jnp.flip(x, axis=u)": (AXES, "float32[2 3]"),
    "jnp.std(x, axis=0, ddof=u)": ((0, 1), "float32[3]"),
    "jnp.round(x, u)": ((0, 2), "float32[2 3]"),
    "jnp.where(x > 0, x, u)": (ANY_ARRAY, "?[?]"),
    "jnp.where(u > 0, 1.0, 0.0)": (ANY_ARRAY, "float32[?]"),
    "jnp.maximum(x, u)": (ANY_ARRAY, "?[?]"),
    "jnp.clip(x, u)": ((None, *ANY_ARRAY), "?[?]"),
    "jnp.quantile(x, u, axis=0)": ((0.5, jnp.ones(4)), "float32[?]"),
    "jnp.argsort(u)": ((jnp.ones(3), X, WIDE), "int32[?]"),
    "jnp.searchsorted(jnp.ones(4), u)": (ANY_ARRAY, "int32[?]"),
    "jnp.zeros((2, 3), u)": (("float32", "int32"), "?[2 3]"),
    "jnp.sum(x, axis=0, dtype=u)": (("float32", "int32"), "?[3]"),
    "x.astype(u)": (("float32", "bfloat16"), "?[2 3]"),
    "jax.lax.top_k(u, 2)": ((jnp.ones(3), X, WIDE), "?[?] int32[?]"),
    "jax.nn.softmax(x, axis=u)": ((0, 1, (0, 1)), "float32[2 3]"),
    "jnp.bincount(u, length=4)": ((jnp.arange(3), jnp.arange(4)), "int32[4]"),
    "jax.random.normal(u, (2, 3))": ((KEY, OLD_KEY), "float32[2 3]"),
    "jax.random.fold_in(u, 1)": ((KEY, OLD_KEY), "?[?]"),
    "jax.random.bernoulli(jax.random.key(0), u, (4, 2, 3))": (
        (0.5, X / 2),
        "bool[4 2 3]",
    ),
    "jax.random.uniform(jax.random.key(0), (2, 3), minval=u)": (
        (0.5, X / 2),
        "float32[2 3]",
    ),
    "jax.random.choice(u, x)": ((KEY, OLD_KEY), "float32[3]"),
    "jax.random.normal(jax.random.key(0), u)": ((2, (2, 3)), "float32[?]"),
    "jnp.zeros(u, jnp.bfloat16)": ((2, (2, 3)), "bfloat16[?]"),
    "jnp.full((2, 3), 0.5, u)": (("float32", "int32"), "?[2 3]"),
    "jnp.arange(u)": ((3, 4.5), "?[_]"),
    "jnp.zeros_like(u)": (ANY_ARRAY, "?[?]"),
    "jnp.zeros((2, 3), device=u)": ((None, jax.devices()[0]), "float32[2 3]"),
    "jnp.ravel(x, order=u)": (("C", "F"), "float32[6]"),
    "jnp.insert(x, 0, u, axis=0)": ((7.0, jnp.ones(3), X), "float32[_ 3]"),
    "jax.lax.select(u, x, x)": ((True, X > 0), "float32[2 3]"),
    "jax.lax.select(x > 0, u, u)": ((X,), "?[2 3]"),
    "jnp.einsum('ab->ba', x, preferred_element_type=u)": (
        ("float32", "bfloat16"),
        "?[3 2]",
    ),
    "jnp.eye(3, k=u)": ((0, 1), "float32[3 3]"),
    "jnp.take(x, jnp.arange(2), axis=0, mode=u)": (("clip", "wrap"), "float32[2 3]"),
    "jnp.take(x, u, axis=0)": (
        (0, jnp.arange(2), jnp.zeros((4, 5), int)),
        "float32[?]",
    ),
    "jnp.take_along_axis(x, u, axis=1)": ((jnp.zeros((2, 4), int),), "float32[2 _]"),
    "jnp.delete(x, u, axis=0)": ((0, 1), "?[_ 3]"),
    "jnp.stack([x, x], axis=u)": ((0, 1, 2), "float32[2 _ _]"),
    "jnp.concatenate([x, u])": ((X, X[:1]), "?[_ 3]"),
    "jnp.matmul(x, u)": ((jnp.ones(3), X.T, jnp.ones((4, 3, 2))), "?[?]"),
    "jnp.einsum('ab,bc->ac', x, u)": ((X.T, jnp.ones((3, 4))), "?[2 _]"),
    "jnp.einsum('...a,ab->...b', u, x)": ((jnp.ones(2), X.T, WIDE.mT), "?[?]"),
    "jnp.einsum('...,cac->...', u, u)": ((jnp.ones((2, 2, 2)),), "?[?]"),
    "einops.rearrange(u, 'b (h k) -> b h k', h=2)": ((X.T,), "?[_ 2 _]"),
    "einops.rearrange(x, 'b (h k) -> b h k', h=u)": ((1, 3), "float32[2 _ _]"),
    "einops.reduce(x, 'a b -> a', u)": (("mean", "max"), "float32[2]"),
    "x.reshape(u)": ((6, (3, 2)), "float32[?]"),
    "x.reshape(u, 3)": ((2,), "float32[_ 3]"),
    "x.reshape(u, -1)": ((1, 2, 3), "float32[_ _]"),
    "jnp.reshape(u, (6, -1))": ((X, WIDE), "?[6 _]"),
}


def shown(value: Value) -> str:
    if isinstance(value, SequenceValue):
        return " ".join(map(shown, value.items))
    assert isinstance(value, ArrayValue)
    dims = "?"
    if value.dims is not None:
        dims = " ".join(map(size, value.dims))
    return f"{value.dtype or '?'}[{dims}]"


def size(dim: Dimension) -> str:
    """``_`` also of a number that is not known."""
    if dim.size is None or dim.size.is_opaque:
        return "_"
    return str(dim.size)


def fits(told: Value, real: Any) -> bool:
    if isinstance(told, SequenceValue):
        return all(map(fits, told.items, real))
    assert isinstance(told, ArrayValue)
    if told.dtype not in (None, str(real.dtype)):
        return False
    if told.dims is None:
        return True
    if len(told.dims) != real.ndim:
        return False
    pairs = zip(map(size, told.dims), map(str, real.shape), strict=True)
    return all(one in ("_", other) for one, other in pairs)


@pytest.mark.parametrize("expression", CALLS)
def test_what_is_told_holds_whatever_it_is(expression: str) -> None:
    choices, wanted = CALLS[expression]
    told = inferred(_asked(expression))
    assert shown(told) == wanted
    for chosen in choices:
        real = eval(expression, {**LIBRARIES, "x": X, "u": chosen})
        assert fits(told, real), chosen


def _asked(expression: str) -> str:
    """The expression with an attribute of something unknown in the place of ``u``."""
    return f"(lambda u: {expression})(a.u)"


@pytest.mark.parametrize(
    "expression",
    ["jnp.expand_dims(x, u)", "jnp.take(x, jnp.arange(2), axis=u)", "jnp.diff(x, u)"],
)
def test_what_may_be_anything_leaves_the_rank_open(expression: str) -> None:
    assert getattr(inferred(_asked(expression)), "dims", None) is None
