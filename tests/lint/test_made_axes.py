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
    (tmp_path / "pyproject.toml").write_text(
        "[tool.shardlint]\nmesh = { data = 2, model = 4 }\n"
    )
    (tmp_path / "model.py").write_text(MODEL)
    train = tmp_path / "train.py"

    def found() -> list[str]:
        paths = [str(tmp_path)], [str(tmp_path / "model.py")]
        reports = [check(given, find(tmp_path)) for given in (*paths, *paths)]
        texts = [
            [f"{one.place.line}: {one.message}" for one in report.diagnostics]
            for report in reports
        ]
        assert all(one == texts[0] for one in texts)
        return texts[0]

    without = found()
    assert f"4: {UNKNOWN.replace('dd', 'd')}" in without
    train.write_text(
        f"import jax\nfrom functools import partial\nfrom jax.sharding import Mesh\n\n{maker}"
    )
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
print(f(jax.reshard(jnp.ones(4), P('stages'))))
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


CONSTRAINED = """\
import jax
from jax.sharding import PartitionSpec as P

def forward(x, w):
    return jax.lax.with_sharding_constraint(x @ w, P({spec}))
"""


@pytest.mark.parametrize(
    ("spec", "mesh", "reported"),
    [
        ("'data', 'modle'", "jax.make_mesh((2, 4), ('data', 'model'))", True),
        ("('data', 'modle')", "jax.make_mesh((2, 4), ('data', 'model'))", True),
        ("'data', 'model'", "jax.make_mesh((2, 4), ('data', 'model'))", False),
        # for a mesh of whoever calls it
        ("'rows', 'columns'", "jax.make_mesh((2, 4), ('data', 'model'))", False),
        ("'data', 'modle'", "jax.make_mesh((2, 4), names())", False),
        ("'data', 'modle'", "jax.make_mesh((2, 4), ('data', 'modle'))", False),
    ],
)
def test_a_constraint_is_held_against_the_meshes_that_the_project_makes(
    tmp_path: Path, spec: str, mesh: str, reported: bool
) -> None:
    """Where no mesh is in force; what is constrained need not be known."""
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\n")
    (tmp_path / "model.py").write_text(CONSTRAINED.format(spec=spec))
    (tmp_path / "train.py").write_text(
        f"import jax\nfrom names import names\n\nmesh = {mesh}\n"
    )
    found = [one.message for one in check([str(tmp_path)], find(tmp_path)).diagnostics]
    assert found == (
        ["no mesh has an axis 'modle' (axes: 'data', 'model')"] if reported else []
    )


def test_a_mesh_in_force_that_is_not_known_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\n")
    (tmp_path / "train.py").write_text(
        "import jax\n\nmesh = jax.make_mesh((2, 4), ('data', 'model'))\n"
    )
    text = CONSTRAINED.format(spec="'data', 'modle'").replace(
        "(x, w):", "(x, w, mesh):\n    jax.set_mesh(mesh)"
    )
    (tmp_path / "model.py").write_text(text)
    assert check([str(tmp_path)], find(tmp_path)).diagnostics == []


@pytest.mark.parametrize("form", ["f32['{}']", "f32[Array, '{}']"])
def test_axes_of_made_meshes_are_held_against_either_form(
    tmp_path: Path, form: str
) -> None:
    known, unknown = form.format("B/d M"), form.format("B/dd M")
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\n")
    (tmp_path / "model.py").write_text(
        "import jax\n"
        "from jax import Array\n"
        "from shardtypes.annotated import f32\n"
        "mesh = jax.make_mesh((8,), ('d',))\n"
        f"def loss(x: {known}, y: {unknown}) -> None: ...\n"
    )
    report = check([str(tmp_path)], find(tmp_path))
    assert [(one.code, one.place.line) for one in report.diagnostics] == [("ST103", 5)]
