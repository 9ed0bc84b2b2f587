"""Where JAX refuses arrays for how they lie on explicit axes, the specs that placed them are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint import check_source

SETUP = """\
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
jax.set_mesh(mesh)
ROWS = P("x", None)
COLUMNS = P(None, "x")


def shift(x):
    return jnp.tanh(x) + 1
"""
PLACED = """
a = jax.device_put(jnp.zeros((8, 8)), NamedSharding(mesh, ROWS))
b = jax.sharding.reshard(jnp.zeros((8, 8)), COLUMNS)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Away from any project, whose files would be read as well."""
    monkeypatch.chdir(tmp_path)


def named(source: str) -> tuple[str, list[str]]:
    """The rule of the one finding, and the texts of the lines that it relates to."""
    (finding,) = check_source(source).findings
    lines = source.splitlines()
    return finding.code, [lines[place.line - 1] for place in finding.related]


@pytest.mark.parametrize(
    "use",
    [
        "a + b",
        "jnp.tanh(a) * 2 + b",
        "jnp.concatenate([a, shift(b)])",
        "jnp.where(a > 0, a, b.astype(jnp.float32))",
    ],
)
def test_specs_of_both_operands(use: str) -> None:
    code, lines = named(SETUP + PLACED + use)
    assert (code, lines) == ("ST309", ['ROWS = P("x", None)', 'COLUMNS = P(None, "x")'])


def test_a_spec_where_it_is_used() -> None:
    use = """
w = jnp.einsum('ij,jk->ik', a, a, out_sharding=P(None, 'x'))
a + w
"""
    code, lines = named(SETUP + PLACED + use)
    assert code == "ST309"
    assert lines == ['ROWS = P("x", None)', use.splitlines()[1]]


def test_a_result_that_would_be_split_twice() -> None:
    code, lines = named(SETUP + PLACED + "jnp.einsum('ij,kl->ijkl', a, b)")
    assert code == "ST310"
    assert lines == ['ROWS = P("x", None)', 'COLUMNS = P(None, "x")']


def test_a_carry_that_changes_how_it_lies() -> None:
    use = """
def body(carry, _):
    return jax.sharding.reshard(carry, COLUMNS), None
jax.lax.scan(body, a, None, length=3)
"""
    code, lines = named(SETUP + PLACED + use)
    assert code == "ST313"
    assert lines[-2:] == ['ROWS = P("x", None)', 'COLUMNS = P(None, "x")']


def test_mapped_dimensions() -> None:
    code, lines = named(SETUP + PLACED + "jax.vmap(jnp.dot, in_axes=(0, 0))(a, b)")
    assert code == "ST313"
    assert lines[1:] == ['ROWS = P("x", None)', 'COLUMNS = P(None, "x")']


def test_the_latest_spec_counts() -> None:
    """Of an array that was placed anew the spec before says nothing."""
    use = """
a = jax.sharding.reshard(b, P(None, "y"))
a + b
"""
    code, lines = named(SETUP + PLACED + use)
    assert code == "ST309"
    assert lines == [use.splitlines()[1], 'COLUMNS = P(None, "x")']


def test_no_more_than_four() -> None:
    specs = "".join(
        f"s{i} = jax.device_put(jnp.zeros((8, 8)), P('x', None))\n" for i in range(9)
    )
    total = " + ".join(f"s{i}" for i in range(9))
    code, lines = named(SETUP + PLACED + specs + f"c = {total}\nb + c")
    assert code == "ST309"
    assert lines[0] == 'COLUMNS = P(None, "x")'
    assert len(lines) == 4
