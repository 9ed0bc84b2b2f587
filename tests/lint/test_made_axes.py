"""Axes of an annotation that the configured mesh has not, but that the project's code makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.config import find
from shardlint.run import check

pytestmark = pytest.mark.once

MODEL = """\
from jax import lax
from shardtypes import f32

def loss(x: f32['B/d M'], y: f32['B/dd M']) -> f32['']:
    return lax.pmean(x.mean(), 'd')
"""
UNKNOWN = "no mesh has an axis 'dd' (axes: 'data', 'model')"


@pytest.mark.parametrize(
    "maker",
    [
        "@partial(jax.pmap, axis_name='d')\ndef step(x): ...\n",
        "AXIS = 'd'\nstep = jax.pmap(print, axis_name=AXIS)\n",
        "NAMES = ('d', 'e')\nmesh = Mesh(devices, NAMES)\n",
        "mesh = jax.make_mesh((8,), ('d',))\n",
    ],
)
def test_axes_that_code_makes_are_no_unknown_ones(tmp_path: Path, maker: str) -> None:
    """In another file as well, also in a run over the annotated file alone; the file may change under the cache."""
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\nmesh = { data = 2, model = 4 }\n")
    (tmp_path / "model.py").write_text(MODEL)
    train = tmp_path / "train.py"

    def found() -> list[str]:
        paths = [str(tmp_path)], [str(tmp_path / "model.py")]
        reports = [check(given, find(tmp_path)) for given in (*paths, *paths)]
        texts = [[f"{one.place.line}: {one.message}" for one in report.diagnostics] for report in reports]
        assert all(one == texts[0] for one in texts)
        return texts[0]

    without = found()
    assert f"4: {UNKNOWN.replace('dd', 'd')}" in without
    train.write_text(f"import jax\nfrom functools import partial\nfrom jax.sharding import Mesh\n\n{maker}")
    assert found() == [f"4: {UNKNOWN}"]
    train.write_text("import jax\n")
    assert found() == without


LATER = """\
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

jax.set_mesh(jax.make_mesh((4, 2), ('batch', 'feats')))

@jax.shard_map(in_specs=P('stages'), out_specs=P('stages'))
def f(x): return x

jax.set_mesh(jax.make_mesh((2,), ('stages',)))
print(f(jnp.ones(4)))
"""


def test_a_function_without_a_mesh_takes_the_one_of_its_calls(tmp_path: Path) -> None:
    """Of an axis that no mesh has it is said all the same."""
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'later'\n")
    path = tmp_path / "later.py"
    path.write_text(LATER)
    assert check([str(path)], find(tmp_path)).diagnostics == []
    path.write_text(LATER.replace("P('stages')", "P('stage')", 1))
    codes = [one.code for one in check([str(path)], find(tmp_path)).diagnostics]
    assert "ST103" in codes
