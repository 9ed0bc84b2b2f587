"""``--shardtypes-prove``: what the tests call that maps over devices is compared with one device, without a test of its
own."""

from __future__ import annotations

import json

import pytest

from shardtypes.lang.kept_verdicts import FOLDER, read

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


WORKERS = [(), pytest.param(("-n", "2"), marks=pytest.mark.long)]


@pytest.fixture
def project(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(model=MODEL, test_model=TESTS)


@pytest.mark.parametrize("workers", WORKERS)
def test_each_call_has_a_verdict(
    project: None, run: Run, workers: tuple[str, ...]
) -> None:
    result = run(
        "--shardtypes", "--shardtypes-prove", "--no-shardtypes-trace", "-v", *workers
    )
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


@pytest.mark.once
@pytest.mark.parametrize("workers", WORKERS)
def test_verdicts_are_kept_for_editors(
    project: None, run: Run, pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    """The worst of several calls; a run of a part leaves those of other functions."""
    options = "--shardtypes", "--shardtypes-prove", "--no-shardtypes-trace"
    run(*options, *workers)

    def kept() -> dict[str, tuple[str, int, str]]:
        found = {}
        for one in read(pytester.path / FOLDER):
            behind = {"model.py"} if one.file == "model.py" else {"model.py", one.file}
            assert {*one.read} == behind
            found[one.function] = one.verdict, one.calls, one.culprit
        return found

    first = kept()
    assert first["right"] == ("proved", 1, "")
    assert first["wrong"] == ("refuted", 1, "model.py:12")
    assert first["mlp.body"] == ("refuted", 1, "model.py:12")
    assert first["dropping"] == ("not compared", 1, "")
    run(*options, "-k", "test_right or test_declared")
    assert kept() == first


@pytest.mark.once
@pytest.mark.parametrize("workers", WORKERS)
def test_the_report_has_the_arrays_on_the_devices(
    project: None, run: Run, pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    options = "--shardtypes", "--shardtypes-prove", "--no-shardtypes-trace"
    run(*options, "--shardtypes-report=report.json", *workers)
    rows = json.loads((pytester.path / "report.json").read_text())["intermediates"]
    (right,) = (found for name, found in rows.items() if name.endswith("model.right"))
    assert [[array, line, remark] for _, array, line, remark in right] == [
        ["f32[8/d, 16/t]", "argument 1 of shard_map", ""],
        ["f32[16/t, 6]", "argument 2 of shard_map", ""],
        ["f32[8/d, 6 {U:t}]", "h = x @ w", ""],
        [
            "f32[8/d, 6]",
            'return jnp.tanh(h) if wrong else jnp.tanh(lax.psum(h, "t"))',
            "",
        ],
    ]
    (step,) = (found for name, found in rows.items() if name.endswith("model.step"))
    assert [row[:2] for row in step] == [
        ["shard_map", "f32[16]"],
        ["shard_map", "f32[1, 8/i, 16]"],
        ["model.py:27", "f32[16]"],
    ]
    (wrong,) = (found for name, found in rows.items() if name.endswith("model.wrong"))
    assert wrong[-1][3].startswith("not what one device computes")
    run(*options, "--shardtypes-report=report.html")
    page = (pytester.path / "report.html").read_text()
    assert "<h2>Arrays on the devices</h2>" in page
    assert (
        "<td>model.py:12</td><td><code>f32[8/d, 6 {U:t}]</code></td><td><code>h = x @ w</code></td>"
        in page
    )
    assert "::model.wrong</code> <small class='no'>refuted</small></h4>" in page


def test_without_the_option_they_are_counted(project: None, run: Run) -> None:
    result = run("--shardtypes", "--no-shardtypes-trace")
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(
        [
            "mapped functions not compared with one device: 6 (--shardtypes-prove compares them)"
        ]
    )


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
    result.stdout.fnmatch_lines(
        ["left: jax._src.pmap jax._src.pjit jax._src.shard_map"]
    )


def test_what_a_mapped_function_raises_is_shown_without_us(
    run: Run, pytester: pytest.Pytester
) -> None:
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
