"""Initializers against JAX: shapes, dtypes, and what they refuse.

A call of one makes a function of a key and a shape.
"""

from __future__ import annotations

from typing import Any

import jax
import pytest

from shardtypes.lang.size import Size
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.lowerings.convert import AxisOutOfRange
from shardtypes.semantics.registry import Refused

pytestmark = pytest.mark.once

KEY = Array((2,), "uint32")
B, D = Size.symbol("B"), Size.symbol("D")
SIMPLE = ["normal", "uniform", "truncated_normal", "constant"]
SCALED = ["lecun_normal", "glorot_uniform", "he_normal", "variance_scaling"]
FIRST = {"constant": (0.5,), "variance_scaling": (1.0, "fan_geo_avg", "normal")}
NARROW = {"dtype": "bfloat16"}

TAKEN = [
    *((name, (3,), {}) for name in SIMPLE),
    *((name, (3, 4), NARROW) for name in (*SIMPLE, *SCALED)),
    *((name, (3,), {"in_axis": 0}) for name in SCALED),
    ("he_normal", (2, 3, 4), {"in_axis": (0, 1), "batch_axis": (), **NARROW}),
    ("he_normal", (2, 3, 4), {"batch_axis": 0}),
    ("orthogonal", (3, 4), {}),
    ("delta_orthogonal", (3, 2, 4), {}),
]
REFUSED = [
    *((name, (3,), {}) for name in SCALED),
    ("he_normal", (3, 4), {"in_axis": 2}),
    ("orthogonal", (3,), {}),
    ("delta_orthogonal", (3, 4), {}),
    ("delta_orthogonal", (3, 4, 2), {}),
]


def made(name: str, shape: tuple[Any, ...], options: dict[str, Any]) -> Array:
    init = LOWERINGS[f"jax.nn.initializers.{name}"](*FIRST.get(name, ()), **options)
    found: Array = init(KEY, shape)
    return found


def in_jax(name: str, shape: tuple[int, ...], options: dict[str, Any]) -> Any:
    init = getattr(jax.nn.initializers, name)(*FIRST.get(name, ()), **options)
    return jax.eval_shape(lambda: init(jax.random.key(0), shape))


@pytest.mark.parametrize(("name", "shape", "options"), TAKEN)
def test_shapes_and_dtypes(
    name: str, shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    found = made(name, shape, options)
    expected = in_jax(name, shape, options)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype.name)
    assert not found.weak


@pytest.mark.parametrize(("name", "shape", "options"), REFUSED)
def test_both_refuse(
    name: str, shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    with pytest.raises((Refused, AxisOutOfRange)):
        made(name, shape, options)
    with pytest.raises((ValueError, IndexError)):
        in_jax(name, shape, options)


@pytest.mark.parametrize("name", [*SIMPLE, *SCALED, "orthogonal"])
def test_names_as_sizes(name: str) -> None:
    assert made(name, (B, D), {}).shape == (B, D)


@pytest.mark.parametrize("shape", [(3, B, D), (B, 2, 4), (B, D, D)], ids=str)
def test_names_as_sizes_of_kernels(shape: tuple[Any, ...]) -> None:
    assert made("delta_orthogonal", shape, {}).shape == shape
