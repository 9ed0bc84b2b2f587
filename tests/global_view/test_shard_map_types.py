"""``in_specs`` against the types of arguments on explicit axes: what JAX refuses is reported, and nothing else."""

from __future__ import annotations

from pathlib import Path

import jax
import pytest

from shardlint import check_paths, check_source

SETUP = """\
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2, 4), ('x', 'y'), axis_types=({types}))
jax.set_mesh(mesh)
def double(a):
    return 2 * a
def mapped(**options):
    return jax.shard_map(double, out_specs=P('x'), **options)
whole = jnp.ones((8, 8))
rows = jax.device_put(whole, NamedSharding(mesh, P('x')))
columns = jax.device_put(whole, NamedSharding(mesh, P('y')))
"""
EXPLICIT = "AxisType.Explicit, AxisType.Explicit"
REFUSED = {
    "not sharded": "mapped(in_specs=P('x'))(whole)",
    "other dimension": "mapped(in_specs=P(None, 'x'))(rows)",
    "sharded twice": "mapped(in_specs=P('x'))(jax.reshard(whole, P('x', 'y')))",
    "in jit": "jax.jit(lambda a: mapped(in_specs=P('x'))(a))(whole)",
    "computed": "mapped(in_specs=P('x'))(jnp.tanh(whole) + 1)",
    "in a tuple": "jax.shard_map(lambda p: p[0] + p[1], in_specs=(P('x'),), out_specs=P('x'))((rows, whole))",
}
RIGHT = {
    "placed": "mapped(in_specs=P('x'))(rows)",
    "resharded": "mapped(in_specs=P('x'))(jax.reshard(whole, P('x')))",
    "replicated": "jax.shard_map(double, in_specs=P(), out_specs=P())(whole)",
    "no specs": "mapped()(rows)",
    "some axes manual": "mapped(in_specs=P('x'), axis_names={'x'})(jax.reshard(whole, P('x', 'y')))",
    "with an entry for each dimension": "mapped(in_specs=P('x', None))(rows)",
}
#: Only some axes become manual: JAX compares these since 0.12.
PARTLY = {
    "not sharded": "mapped(in_specs=P('x'), axis_names={'x'})(whole)",
    "along the other axis": "mapped(in_specs=P('x'), axis_names={'x'})(columns)",
    "sharded, but not in the specs": "jax.shard_map(double, in_specs=P(), out_specs=P(), axis_names={'x'})(rows)",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Away from any project, whose files would be read as well."""
    monkeypatch.chdir(tmp_path)


def refused(text: str) -> bool:
    """Whether JAX refuses a program for what its ``in_specs`` say."""
    before = jax.sharding.get_mesh()
    try:
        exec(text, {})
    except ValueError as error:
        assert "in_specs" in str(error)
        return True
    finally:
        jax.set_mesh(before)
    return False


@pytest.mark.parametrize("name", REFUSED)
def test_what_jax_refuses(name: str) -> None:
    text = SETUP.format(types=EXPLICIT) + REFUSED[name]
    assert refused(text)
    (finding,) = check_source(text).findings
    assert finding.code == "ST313"
    assert "but in_specs says P(" in finding.message


@pytest.mark.parametrize("types", [EXPLICIT, "AxisType.Explicit, AxisType.Auto"])
@pytest.mark.parametrize("name", PARTLY)
def test_where_some_axes_are_manual(name: str, types: str, tmp_path: Path) -> None:
    text = SETUP.format(types=types) + PARTLY[name]
    release = ".".join(map(str, jax.__version_info__))
    (tmp_path / "requirements.txt").write_text(f"jax=={release}\n")
    (tmp_path / "program.py").write_text(text)
    codes = [
        finding.code for finding in check_paths([tmp_path / "program.py"]).findings
    ]
    assert codes == (["ST313"] if refused(text) else [])
    assert refused(text) == (jax.__version_info__ >= (0, 12))


@pytest.mark.parametrize("name", RIGHT)
def test_what_jax_takes(name: str) -> None:
    text = SETUP.format(types=EXPLICIT) + RIGHT[name]
    assert not refused(text)
    assert not check_source(text).findings


# jax.reshard is for explicit axes
@pytest.mark.parametrize("name", [name for name in REFUSED if name != "sharded twice"])
def test_on_automatic_axes_specs_shard(name: str) -> None:
    text = SETUP.format(types="AxisType.Auto, AxisType.Auto") + REFUSED[name]
    assert not refused(text)
    assert not check_source(text).findings
