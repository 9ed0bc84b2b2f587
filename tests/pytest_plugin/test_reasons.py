"""The report says why a sharding was never verified, and what a check or a verdict that failed found."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from .conftest import Run

MODEL = """
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from shardtypes import f32

def uncalled(x: f32["B/d"]): ...
def without_mesh(x: f32["B/d"]): ...
def traced(x: f32["B/d"]): ...
def alone(x: f32["B/d"]): ...
def wrong(x: f32["B/d"]): ...
def optional(x: f32["B/d"] | None): ...
def good(x: f32["B/d"]): ...

def untracked(y: f32["B/d"]): ...

def mapped(x):
    def body(x):
        untracked(2 * x)
        return x
    return jax.shard_map(body, in_specs=P("d"), out_specs=P("d"), check_vma=False)(x)

def centred(x: f32["B M"]) -> f32["B M"]:
    return x - x.mean(0)

def turned(x: f32["B M"]) -> f32["M B"]:
    return x

@jax.jit
def summed(x):
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax.shard_map(
        lambda x: x.sum(0, keepdims=True), mesh=mesh, in_specs=P("d"), out_specs=P(), check_vma=False
    )(x)
"""
TESTS = """
import jax
import jax.numpy as jnp
import model
import pytest
from shardtypes import f32

X = jnp.arange(8.0)

def test_without_mesh():
    model.without_mesh(X)
    model.without_mesh(X)
    jax.jit(model.traced)(X)
    model.optional(None)

@pytest.mark.mesh(d=1)
def test_alone(shard):
    model.alone(shard(X, f32["B/d"]))

@pytest.mark.mesh(d=2)
def test_on_two_devices(shard):
    model.good(shard(X, f32["B/d"]))
    model.mapped(shard(X, f32["B/d"]))
    with pytest.raises(Exception, match="dimension 0"):
        model.wrong(shard(X, f32["B"]))

def test_summed():
    model.summed(X.reshape(4, 2))
"""
SETTINGS = """
[tool.pytest]
shardtypes = true
shardtypes_packages = ["model"]
[tool.shardtypes]
roles = {B = "independent"}
"""


@pytest.fixture
def folder(pytester: pytest.Pytester) -> Path:
    pytester.makepyfile(model=MODEL, test_model=TESTS)
    pytester.makepyprojecttoml(SETTINGS)
    return pytester.path


def test_why_nothing_was_verified(folder: Path, run: Run) -> None:
    result = run("--no-shardtypes-trace", "--shardtypes-report=r.json")
    assert result.ret == 0
    report = json.loads((folder / "r.json").read_text())
    rows = report["why_unverified"]
    why = {name.removeprefix("model."): reasons for name, *_, reasons in rows}
    mark = "as by @pytest.mark.mesh(d=2)"
    wanted = {
        "uncalled": "no test calls the function",
        "without_mesh": f"met without a mesh in force, 2 times: mark the test, {mark}",
        "traced": f"met without a mesh in force, once: mark the test, {mark}",
        "alone": f"compared only on meshes where d has size 1: test it on one where it is larger, {mark}",
        "optional": "called once, and no array came there to compare",
    }
    assert {name: why[name] for name in wanted} == {
        name: [text] for name, text in wanted.items()
    }
    (failed,) = why["wrong"]
    assert failed.startswith("a check failed, once: dimension 0 ")
    (untracked,) = why["untracked"]
    assert untracked.endswith("check_vma=False: JAX does not track varying axes")
    assert why.keys() == {*wanted, "wrong", "untracked"}
    assert [row[:4] for row in rows] == report["unverified"]


def test_the_page_says_why_of_each_verdict(folder: Path, run: Run) -> None:
    result = run("--shardtypes-prove", "--shardtypes-report=r.html")
    assert result.ret == 1
    page = (folder / "r.html").read_text()
    sections = {
        found[1]: " ".join(html.unescape(re.sub("<[^>]+>", " ", found[2])).split())
        for found in re.finditer(r"<section id=([\w-]+)>(.*?)</section>", page, re.S)
    }
    never = sections["never-verified"]
    assert "model.uncalled parameter 'x', dimension 0 over d no test calls" in never
    assert "model.wrong parameter 'x' dimension 0" in sections["checks-that-failed"]
    traced = sections["functions-traced"]
    assert "model.py::turned fails turned: fails for B=" in traced
    assert "model.py::good holds" in traced
    proved = sections["mapped-functions-compared"]
    assert "test_model.py::test_summed::model.summed refuted" in proved
    assert "it is a partial sum over 'd' from here on" in proved
    laws = sections["laws-of-dimensions"]
    assert "model.py::centred[independent B] fails centred: " in laws
    title = "dimension 0 over d: never verified: no test calls the function"
    assert f"title='{title}'" in page


@pytest.mark.long
def test_workers_tell_it_too(folder: Path, run: Run) -> None:
    result = run("-n", "2", "--shardtypes-report=r.json")
    assert result.ret == 1
    report = json.loads((folder / "r.json").read_text())
    why = {name: reasons for name, *_, reasons in report["why_unverified"]}
    assert why["model.alone"][0].startswith(
        "compared only on meshes where d has size 1"
    )
    assert why["model.without_mesh"][0].startswith(
        "met without a mesh in force, 2 times"
    )
    assert report["traced"]["model.py::turned"].startswith("failed: turned: fails for")
