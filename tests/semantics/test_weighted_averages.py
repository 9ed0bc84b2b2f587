"""``jnp.average`` with weights of some dimensions only, against JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.primitive import evaluation

X = np.sin(np.arange(60.0, dtype=np.float32)).reshape(3, 4, 5)


@pytest.mark.parametrize(
    ("axis", "shape"),
    [
        (None, (3, 4, 5)),
        (1, (4,)),
        (-1, (5,)),
        ((0, 2), (3, 5)),
        ((2, 0), (5, 3)),
        ((1,), (4,)),
    ],
)
@pytest.mark.parametrize("keepdims", [False, True])
def test_weights_of_some_dimensions(
    axis: Any, shape: tuple[int, ...], keepdims: bool
) -> None:
    weights = 1.5 + np.cos(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)
    expected = jax.numpy.average(X, axis=axis, weights=weights, keepdims=keepdims)
    with evaluation():
        found = LOWERINGS["jax.numpy.average"](
            X, axis=axis, weights=weights, keepdims=keepdims
        )
    np.testing.assert_allclose(found.value.at({}), expected, rtol=1e-5, atol=1e-6)
