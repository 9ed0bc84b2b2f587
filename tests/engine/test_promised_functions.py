"""Functions of which only the signatures are known, functions with several, and arrays that are only declared."""

from __future__ import annotations

from pathlib import Path

from tests.engine.test_cases import expected, found, project

SOURCE = """
from collections.abc import Callable
from dataclasses import dataclass
from typing import overload

import jax
import jax.numpy as jnp
from shardtypes import f32, i32, pytree_dataclass

Step = Callable[[f32['K'], int], f32['K 2']]
TABLE: f32['4 3']


def given(x: f32['B M'], f: Callable[[f32['K']], f32['K 2']], g: Callable[..., f32['M']] | None = None):
    f(x)  # expect: ST202
    f(x[0])[:, 0] + x[:, 0]  # expect: ST204
    jax.vmap(f)(x)[..., 0] + x.T  # expect: ST204
    f(x, x)
    if g is not None:
        g(1, a=2) @ g(3)
        g(x) @ x
        g(x)[:, 0]  # expect: ST214


def contained(x: f32['B M'], fs: list[Callable[[f32['K']], f32['K 2']]], steps: dict[str, Step]) -> f32['M 2']:
    for f in fs:
        f(x)  # expect: ST202
    if x.size:
        return fs[0](x.T[0])  # expect: ST201
    steps['a'](x[0], 1) + steps['b'](x.T[0], 2)  # expect: ST204
    return fs[1](x[0])


@pytree_dataclass
class Block:
    w: f32['M F']
    act: Callable[[f32['N F']], f32['N F']] = jax.nn.relu

    def __call__(self, x: f32['B M']) -> f32['B F']:
        self.act(x)[0] @ self.w.T[:, 0]  # expect: ST204
        return self.act(x @ self.w)


def of_no_arrays(x: f32['B M'], f: Callable[[int], int], g: Callable):
    f(x)
    return g(x) + f(1)


@overload
def pooled(x: f32['B']) -> f32['B 2']: ...
@overload
def pooled(x: i32['B']) -> i32['B 3']: ...
@overload
def pooled(x: f32['B L']) -> f32['L']: ...
def pooled(x, axis=0):
    return jnp.asarray(read(x, axis))


def calls(x: f32['P'], y: i32['P'], z: f32['P Q'], unknown: jax.Array) -> f32['P']:
    pooled(x)[:, :2] + pooled(y)[:, :2]
    pooled(x) + pooled(y)  # expect: ST204
    pooled(z) + x  # expect: ST204
    pooled(unknown) + x
    return pooled(z)  # expect: ST201


class Reader:
    @overload
    def read(self, x: f32['B']) -> f32['B B']: ...
    @overload
    def read(self, x: f32['B L']) -> f32['L']: ...
    def read(self, x):
        return load(x)


def methods(reader: Reader, x: f32['P'], z: f32['P Q']) -> f32['P']:
    reader.read(x) @ z
    return reader.read(z)  # expect: ST201


def shown(block: Block, x: f32['B M']) -> f32['F']:
    reveal_type(x)
    block.w = block.w * 2
    return reveal_type(block.w)  # expect: ST201


def declared(x: f32['B 4']) -> f32['B 4']:
    return x @ TABLE  # expect: ST201
"""


def test_what_is_only_declared(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text(SOURCE)
    assert found(project(tmp_path), path) == expected(path)
