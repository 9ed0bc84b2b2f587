"""Layers of libraries that the test environments do not have."""

from __future__ import annotations

import pytest

from shardlint.engine import analyze
from shardlint.lower import lower
from shardlint.project import Project

HAIKU = """
import haiku as hk
import jax.numpy as jnp
from shardtypes import f32

def f(x: f32['B 16'], ids: f32['B L'], y: f32['B N']):
    return RESULT
"""


@pytest.mark.parametrize(
    ("result", "codes"),
    [
        ("hk.Linear(32)(x) @ hk.get_parameter('w', (32, 8), init=jnp.zeros)", []),
        ("hk.Linear(32)(x) @ hk.get_parameter('w', (16, 8), init=jnp.zeros)", ["ST204"]),
        ("hk.nets.MLP([64, 10])(x) + jnp.zeros(10)", []),
        ("hk.nets.MLP([64, 10])(x) + jnp.zeros(5)", ["ST204"]),
        ("hk.LayerNorm(-1, True, True)(x) + jnp.zeros(5)", ["ST204"]),
        ("hk.Embed(100, 8)(ids) + jnp.zeros(5)", ["ST204"]),
    ],
)
def test_haiku(result: str, codes: list[str]) -> None:
    module = lower(HAIKU.replace("RESULT", result).encode(), "example", "example.py").module
    assert [event.code for event in analyze(Project({"example": module}), module)] == codes
