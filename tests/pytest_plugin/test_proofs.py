"""``--shardtypes-prove``: what the tests call that maps over devices is compared with one device, without a test of its
own."""

from __future__ import annotations

import pytest

from .conftest import Run

MODEL = """
from functools import partial
import jax, jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P
from shardtypes import mesh_dependent

def mesh():
    return jax.make_mesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)

def mlp(wrong):
    def body(x, w):
        h = x @ w
        return jnp.tanh(h) if wrong else jnp.tanh(lax.psum(h, "t"))
    specs = P("d", "t"), P("t", None)
    return jax.shard_map(body, mesh=mesh(), in_specs=specs, out_specs=P("d", None), check_vma=False)

@jax.jit
def right(x, w):
    return mlp(False)(x, w).sum()

@partial(jax.jit, static_argnums=2, donate_argnums=0)
def wrong(x, w, scale):
    return {"y": mlp(True)(x, w) * scale}

@partial(jax.pmap, axis_name="i", in_axes=(None, 0))
def step(w, x):
    return w - lax.pmean(jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w), "i")

@mesh_dependent("each device has units of its own")
def dropping(x, w):
    return mlp(True)(x, w)

def fresh():
    return jnp.reshape(jnp.sin(jnp.arange(128.0)), (8, 16)), jnp.reshape(jnp.cos(jnp.arange(96.0)), (16, 6))
"""

TESTS = """
import jax, pytest
import model

def test_right():
    model.right(*model.fresh())

def test_wrong_under_jit():
    model.wrong(*model.fresh(), 2.0)

def test_wrong_outside_of_jit():
    model.mlp(True)(*model.fresh())

def test_pmap():
    x, w = model.fresh()
    model.step(w[:, 0], x.reshape(8, 1, 16))

def test_shardings_alone():
    jax.jit(lambda x: x * 2)(model.fresh()[0])

@pytest.mark.mesh_dependent("its own noise")
def test_marked():
    jax.jit(lambda x, w: model.mlp(True)(x * 3, w))(*model.fresh())

def test_declared():
    jax.jit(model.dropping)(*model.fresh())
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(model=MODEL, test_model=TESTS)


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_each_call_has_a_verdict(project: None, run: Run, workers: tuple[str, ...]) -> None:
    result = run("--shardtypes", "--shardtypes-prove", "--no-shardtypes-trace", "-v", *workers)
    result.assert_outcomes(passed=9, failed=2, skipped=2)
    result.stdout.fnmatch_lines_random(
        [
            "*REFUTED: model.wrong*",
            "*PROVED: model.right*",
            "*PROVED: model.step*",
            "*refuted: on d=2, t=4 result* on devices, * on one*",
            "*tanh is applied to a partial sum over 't': call lax.psum(…, 't') first",
            "mapped functions compared with one device: 2 not compared, 2 proved, 2 refuted",
            "*test_marked*: not compared: its own noise",
            "*test_declared*: not compared: each device has units of its own",
        ]
    )


def test_without_the_option_they_are_counted(project: None, run: Run) -> None:
    result = run("--shardtypes", "--no-shardtypes-trace")
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["mapped functions not compared with one device: 6 (--shardtypes-prove compares them)"])


def test_jax_is_left_as_it_was(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        conftest="""
import jax
from jax._src import pjit, shard_map

def pytest_unconfigure(config):
    names = [each.__module__ for each in (jax.pmap, pjit._run_python_pjit, shard_map._shard_map)]
    print("left:", *names)
""",
        test_one="def test_one(): pass",
    )
    result = run("--shardtypes", "--shardtypes-prove", "-s")
    result.stdout.fnmatch_lines(["left: jax._src.pmap jax._src.pjit jax._src.shard_map"])


def test_what_a_mapped_function_raises_is_shown_without_us(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
import jax, jax.numpy as jnp
from jax.sharding import PartitionSpec as P

def test_raises():
    mesh = jax.make_mesh((8,), ("d",))
    jax.shard_map(lambda x: x.no_such_thing, mesh=mesh, in_specs=P("d"), out_specs=P("d"))(jnp.ones(8))
"""
    )
    result = run("--shardtypes", "--shardtypes-prove")
    result.assert_outcomes(failed=1)
    assert "mapped_calls.py" not in result.stdout.str()
