"""One mistake has one finding, whether a rule says it, or a run in numbers, or both."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.cli import main

pytestmark = pytest.mark.once  # JAX has no part in it

MODEL = """
import jax
import jax.numpy as jnp
from jax import lax


def hidden(x, w):
    h = x @ w
    h = h * 0.5
    return {middle}


def scores(x):
    return {scores}
"""
TRAIN = """
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from model import hidden, scores

mesh = jax.make_mesh((2, 4), ('d', 't'))


def both(x, w, y):
    return hidden(x, w), scores(y)


if __name__ == '__main__':
    specs = P(None, 't'), P('t', None), P(None, '{axis}')
    mapped = jax.shard_map(both, mesh=mesh, in_specs=specs, out_specs=(P(), P(None, '{axis}')), check_vma=False)
    x = jnp.arange(64.0).reshape(4, 16)
    mapped(x, jnp.ones((16, 8)), x)
"""
RIGHT = "lax.psum(h, 't')"
NO_SUM = "jnp.tanh(h)"
NO_SUM_AT_ALL = "h"
ADDED_FIRST = "lax.psum(h + jnp.cos(0.5 * jnp.arange(8.0)), 't')"
WHOLE = "x * 2.0"
PER_SHARD = "jnp.exp(x) / jnp.exp(x).sum(axis=-1, keepdims=True)"


@pytest.mark.parametrize(
    ("middle", "scores", "axis", "expected"),
    [
        (RIGHT, WHOLE, "t", []),
        (NO_SUM, WHOLE, "t", ["train.py:12 ST301"]),
        (NO_SUM_AT_ALL, WHOLE, "t", ["model.py:8 ST316"]),
        (RIGHT, PER_SHARD, "t", ["train.py:12 ST302"]),
        (NO_SUM, PER_SHARD, "d", ["train.py:12 ST301", "train.py:12 ST302"]),
        (ADDED_FIRST, PER_SHARD, "d", ["model.py:10 ST316", "train.py:12 ST302"]),
    ],
)
def test_a_mistake_in_another_file_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], middle: str, scores: str,
    axis: str, expected: list[str],
) -> None:  # fmt: skip
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\n")
    (tmp_path / "model.py").write_text(MODEL.format(middle=middle, scores=scores))
    (tmp_path / "train.py").write_text(TRAIN.format(axis=axis))
    monkeypatch.chdir(tmp_path)
    assert found(capsys, "--no-cache") == expected
    found(capsys)
    assert found(capsys) == expected, "from the cache"


def test_a_mistake_that_two_programs_come_by_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = MODEL.format(middle=ADDED_FIRST, scores=WHOLE)
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\n")
    (tmp_path / "model.py").write_text(model)
    for program in ("train.py", "evaluate.py"):
        (tmp_path / program).write_text(TRAIN.format(axis="t"))
    monkeypatch.chdir(tmp_path)
    expected = ["model.py:10 ST316"]
    assert found(capsys, "--no-cache") == expected
    found(capsys)
    assert found(capsys) == expected, "from the cache"


def found(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    main(["--format", "concise", "--jobs", "1", *options, "."])
    lines = capsys.readouterr().out.splitlines()
    return [
        f"{line.split(':')[0]}:{line.split(':')[1]} {line.split()[1]}"
        for line in lines
        if ".py:" in line
    ]


GRADIENT = """
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ('t',))


@jax.custom_vjp
def copied(x):
    return x


copied.defvjp(lambda x: (x, None), lambda _, g: ({cotangent},))


def loss(x, w):
    return jnp.sum(jax.nn.gelu(copied(x) @ w))


{mapped}
"""
AT_THE_TOP = """
specs = P(), P(None, 't')
grads = jax.shard_map({grad}, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False)


def train(x, w):
    return grads(x, w)
"""
IN_A_METHOD = """
class Trainer:
    def __init__(self, mesh):
        self.mesh = mesh

    def grads(self, x, w):
        specs = P(), P(None, 't')
        return jax.shard_map({grad}, mesh=self.mesh, in_specs=specs, out_specs=P(), check_vma=False)(x, w)


def train(x, w):
    return Trainer(mesh).grads(x, w)
"""
GRADS = [
    "jax.grad(loss)",
    "jax.grad(lambda x, w: 2 * loss(x, w))",
    "jax.jit(jax.grad(loss))",
]


@pytest.mark.parametrize("place", [AT_THE_TOP, IN_A_METHOD])
@pytest.mark.parametrize("grad", GRADS)
def test_a_gradient_that_is_mapped_itself_has_its_finding_in_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    grad: str, place: str,
) -> None:  # fmt: skip
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\n")
    monkeypatch.chdir(tmp_path)
    mapped = place.format(grad=grad)
    model = tmp_path / "model.py"
    model.write_text(GRADIENT.format(cotangent="g", mapped=mapped))
    assert len(found(capsys, "--no-cache")) == 1
    model.write_text(GRADIENT.format(cotangent="jax.lax.psum(g, 't')", mapped=mapped))
    assert found(capsys, "--no-cache") == []


REFUSED = """
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((2, 4), ('d', 't'), axis_types=(jax.sharding.AxisType.Auto,) * 2)
specs = dict(in_specs=(P(None, 't'), P('t')), out_specs=P())


def plain(x, w):
    return {wrong}


{form}

if __name__ == '__main__':
    x, w = jnp.arange(32.0).reshape(4, 8), jnp.ones((8, 8))
    run(x, w)
"""
MAPPED_FUNCTION = "run = jax.shard_map(plain, mesh=mesh, **specs)"
MAPPED_IN_A_FUNCTION = """
def run(x, w):
    return jax.jit(jax.shard_map(plain, mesh=mesh, **specs))(x, w)
"""
MAPPED_NAMED_TUPLE = """
class Layer(NamedTuple):
    w: jax.Array

    def apply(self, x):
        return plain(x, self.w)


def run(x, w):
    return jax.shard_map(lambda x, w: Layer(w).apply(x), mesh=mesh, **specs)(x, w)
"""
MAPPED_METHOD = """
class Model:
    def __init__(self, w):
        self.w = w

    def step(self, x, w):
        return plain(x, w)

    def run(self, x):
        return jax.shard_map(self.step, mesh=mesh, **specs)(x, self.w)


def run(x, w):
    return Model(w).run(x)
"""


@pytest.mark.parametrize(
    "form", [MAPPED_FUNCTION, MAPPED_IN_A_FUNCTION, MAPPED_NAMED_TUPLE, MAPPED_METHOD]
)
def test_a_mistake_inside_of_what_jax_refuses_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    form: str,
) -> None:  # fmt: skip
    """And what nothing inside explains is told where JAX refuses it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\n")
    program = tmp_path / "program.py"
    program.write_text(REFUSED.format(wrong="jnp.tanh(x @ w)", form=form))
    assert found(capsys, "--no-cache") == ["program.py:14 ST301"]
    program.write_text(REFUSED.format(wrong="lax.psum(x @ w, 't')", form=form))
    assert found(capsys, "--no-cache") == []
    program.write_text(REFUSED.format(wrong="lax.axis_index('t')", form=form))
    assert len(found(capsys, "--no-cache")) == 1
