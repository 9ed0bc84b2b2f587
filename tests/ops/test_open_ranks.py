"""Functions that are given a number which is not known: results have a rank all the same, JAX's for each number."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from shardlint.engine import run
from shardlint.lower import lower
from shardlint.project import Project
from shardlint.values import ArrayValue, CollectionValue, Dimension, Value

#: By expression: numbers that n may be, and the result as it is shown.
CALLS = {
    "jnp.repeat(x, n, axis=0)": ((1, 4), "_ 3"),
    "jnp.repeat(x, n, axis=-1)": ((1, 4), "2 _"),
    "jnp.repeat(x, n)": ((1, 4), "_"),
    "x.repeat(n, axis=0)": ((1, 4), "_ 3"),
    "jnp.tile(x, n)": ((1, 3), "2 _"),
    "jnp.tile(x, (1, n))": ((1, 3), "2 _"),
    "jnp.tile(x, (n, 1, 1))": ((1, 3), "_ 2 3"),
    "jnp.pad(x, n)": ((0, 2), "_ _"),
    "jnp.pad(x, ((0, n), (1, 1)))": ((0, 2), "_ 5"),
    "jnp.resize(x, (n, 3))": ((1, 4), "_ 3"),
    "jnp.split(x, n, axis=1)": ((1, 3), "_ _"),
    "jnp.array_split(x, n)": ((1, 2), "_ _"),
    "jnp.split(x, n, axis=1)[0]": ((1, 3), "_ _"),
    "jnp.flip(x, axis=n)": ((0, 1), "2 3"),
    "jnp.rot90(x, n)": ((1, 2), "_ _"),
    "jnp.swapaxes(x, n, 0)": ((0, 1), "_ _"),
    "jnp.moveaxis(x, n, 0)": ((0, 1), "_ _"),
    "jnp.stack([x, x], axis=n)": ((0, 2), "2 _ _"),
    "jnp.concatenate([x, x], axis=n)": ((0, 1), "_ _"),
    "jnp.stack(x, axis=n)": ((0, 1), "_ _"),
    "jnp.concatenate(jnp.ones((2, 3, 4)), axis=n)": ((0, 1), "_ _"),
    "jnp.expand_dims(x, n)": ((0, 2), "_ _ _"),
    "jnp.triu(x, n)": ((0, 1), "2 3"),
    "jnp.trace(jnp.ones((2, 3, 4)), n)": ((0, 1), "4"),
    "jnp.linalg.norm(x, ord=n, axis=1)": ((1, 2), "2"),
    "jnp.fft.fft(x, n)": ((2, 5), "2 _"),
    "jax.ops.segment_sum(x, jnp.arange(2), n)": ((2, 3), "_ 3"),
    "jnp.roll(x, n, axis=0)": ((0, 2), "2 3"),
    "jnp.linspace(0.0, 1.0, n)": ((2, 3), "_"),
    "jnp.broadcast_to(x, (n, 2, 3))": ((1, 2), "_ 2 3"),
    "jax.nn.one_hot(jnp.arange(2), n)": ((2, 3), "2 _"),
    "jnp.zeros((n, 3))": ((1, 2), "_ 3"),
    "jnp.full(n, 0.5)": ((1, 2), "_"),
    "jnp.eye(n, 3)": ((1, 2), "_ 3"),
    "jnp.arange(n)": ((1, 2), "_"),
    "jnp.arange(0, n, 2)": ((1, 3), "_"),
    "jnp.reshape(x, (n, 3))": ((2,), "2 3"),
    "x.reshape(n, -1)": ((1, 2), "_ _"),
    "jnp.hamming(n)": ((1, 2), "_"),
}


def inferred(expression: str) -> Value:
    source = f"""
import einops
import jax
import jax.numpy as jnp

def f(a):
    n = len(a.things)
    x = jnp.ones((2, 3))
    y = {expression}
"""
    module = lower(source.encode(), "example", "example.py").module
    seen = run(Project({"example": module}), module).it.seen.values()
    return next(value for name, value in seen if name == "y")


def size(dim: Dimension) -> str:
    return "_" if dim.size is None else str(dim.size)


@pytest.mark.parametrize("expression", CALLS)
def test_the_rank_is_known_and_that_of_jax(expression: str) -> None:
    numbers, wanted = CALLS[expression]
    found = inferred(expression)
    if isinstance(found, CollectionValue):
        found = found.item
    assert isinstance(found, ArrayValue) and found.dims is not None
    assert " ".join(map(size, found.dims)) == wanted
    for number in numbers:
        names = {"jax": jax, "jnp": jnp, "n": number, "x": jnp.ones((2, 3))}
        real = eval(expression, names)
        for one in real if isinstance(real, list) else [real]:
            assert one.ndim == len(found.dims)
            pairs = zip(found.dims, one.shape, strict=True)
            known = [(str(d.size), str(n)) for d, n in pairs if d.size is not None]
            assert all(a == b for a, b in known)
            assert found.dtype in (None, str(one.dtype))


@pytest.mark.parametrize(
    "expression",
    [
        "jnp.tile(x, a.reps)",
        "jnp.concatenate([x, x], axis=a.axis)",
        "jnp.expand_dims(x, a.axes)",
    ],
)
def test_what_may_be_several_numbers_leaves_the_rank_open(expression: str) -> None:
    found = inferred(expression)
    assert getattr(found, "dims", None) is None
