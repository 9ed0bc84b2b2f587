"""Gradients through entries of complex arrays: what is written back has imaginary parts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardtypes.semantics.array import Array
from shardtypes.semantics.gradient import pulled_back, watched
from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.primitive import evaluation
from shardtypes.semantics.simulated import Simulated

pytestmark = pytest.mark.once  # what primitives compute does not change with JAX

FACTOR = 1 + 2j
ENTRIES: dict[str, Any] = {
    "a slice": (slice(None), slice(1, 3)),
    "every other entry": (slice(None), slice(None, None, 2)),
    "chosen entries": (slice(None), np.array([1, 4])),
}


def lifted(numbers: np.ndarray) -> Array:
    return Array(numbers.shape, numbers.dtype.name, value=Simulated.everywhere(numbers))


@pytest.mark.parametrize("entries", ENTRIES.values(), ids=ENTRIES)
def test_gradients_through_a_transform_are_those_of_jax(entries: Any) -> None:
    x = np.random.default_rng(0).normal(size=(4, 6))

    def total(x: jax.Array) -> jax.Array:
        return jnp.real(jnp.fft.fft(x, axis=1)[entries] * FACTOR).sum()

    with jax.enable_x64(True), evaluation():
        expected = jax.grad(total)(x)
        given = watched(lifted(x))
        taken = LOWERINGS["jax.numpy.fft.fft"](given, axis=1)[entries]
        scaled = LOWERINGS["jax.numpy.multiply"](taken, FACTOR)
        found = LOWERINGS["jax.numpy.sum"](LOWERINGS["jax.numpy.real"](scaled))
        (gradient,) = pulled_back([found], [lifted(np.asarray(1.0))], [given])
    assert gradient is not None
    assert gradient.value is not None
    np.testing.assert_allclose(gradient.value.parts[0], expected, atol=1e-9)
