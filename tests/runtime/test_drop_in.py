"""A program that says ``import shardlib.shardtypes as shardtypes`` runs when that module re-exports ours."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from jax.sharding import Mesh

import shardtypes as st

PROGRAM = """
from functools import partial
from typing import Tuple
import jax
import jax.numpy as jnp
from typeguard import typechecked
import shardlib.shardtypes as shardtypes
from shardlib.shardtypes import Array, Scope, bf16, check, f32, make_shardings
from shardlib.shardtypes import pytree_dataclass, scope, typed_shard_map, u32

shardtypes.register_with_typeguard()


@pytree_dataclass
class Layer:
    w: f32['d_model/d d_ff/t']
    ln: f32['d_model/t/d']


Layers = Array['layers', Layer]


@scope
@typechecked
def norm(x: f32[b'B M']) -> f32[b'B M']:
    return x / jnp.sum(x)


@partial(typed_shard_map, check_rep=False)
def step(layers: Layers, x: f32['B/d M']) -> Tuple[Layers, f32['']]:
    check(jnp.float32, shardtypes.ShapeSpec.parse('B/d M'), x)
    norm(x[:1])
    return layers, jax.lax.psum(jnp.sum(x), 'd')


@typechecked
def wrong(x: f32['B/d M'], y: f32['M']) -> f32['B/d']:
    return x @ y


def run(mesh):
    layers = Layers(w=jnp.ones((2, 8, 8)), ln=jnp.ones((2, 8)))
    layers = jax.tree.map(jax.device_put, layers, make_shardings(Layers))
    x = jax.device_put(jnp.ones((4, 8)), make_shardings(f32['B/d M']))
    with Scope():
        return jax.jit(step)(layers, x)[1]
"""


def test_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auto_mesh: Mesh
) -> None:
    import jax
    import jax.numpy as jnp

    library = tmp_path / "shardlib"
    library.mkdir()
    (library / "__init__.py").write_text("")
    (library / "shardtypes.py").write_text("from shardtypes import *\n")
    (tmp_path / "drop_in_program.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        program = importlib.import_module("drop_in_program")
        with jax.set_mesh(auto_mesh):
            assert program.run(auto_mesh) == 32
            x = st.shard(jnp.ones((4, 8)), st.f32["B/d M"])
            assert program.wrong(x, jnp.ones(8)).shape == (4,)
            with pytest.raises(st.ShapeError, match="wrong: parameter 'y'"):
                program.wrong(x, jnp.ones(9))
            with pytest.raises(st.ShardingError, match="wrong: parameter 'x'"):
                program.wrong(jnp.ones((4, 8)), jnp.ones(8))
    finally:
        for name in ("drop_in_program", "shardlib", "shardlib.shardtypes"):
            sys.modules.pop(name, None)
