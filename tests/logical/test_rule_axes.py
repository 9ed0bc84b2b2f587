"""Rules that lay a logical name on a mesh axis which no mesh has."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.cli import main

pytestmark = pytest.mark.once  # JAX has no part in it

RULES = """
RULES = (
    ("batch", "data"),
    ("embed", None),
    ("mlp", {axis}),
    ("heads", {other}),
)
"""
MODEL = """
import flax.linen as nn
import jax
import jax.numpy as jnp

{rules}


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        init = nn.with_logical_partitioning(nn.initializers.ones, ("embed", "mlp"))
        w = self.param("w", init, (8, 16))
        return nn.with_logical_constraint(x @ w, ("batch", "mlp"))


def main():
    mesh = jax.make_mesh((2, 4), ("data", "model"))
    with jax.set_mesh(mesh), nn.logical_axis_rules(RULES):
        model = Block()
        x = jnp.ones((8, 8))
        return model.apply(model.init(jax.random.key(0), x), x)
"""


def findings(
    folder: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str]
) -> list[str]:
    files["pyproject.toml"] = "[tool.shardlint]\n"
    for name, text in files.items():
        (folder / name).write_text(text)
    main([str(folder), "--no-cache", "--format", "concise", "--jobs", "1"])
    return [line for line in capsys.readouterr().out.splitlines() if " ST" in line]


@pytest.mark.parametrize("axis", ['"modle"', '("data", "modle")'])
def test_a_rule_with_an_axis_of_no_mesh_is_found_where_it_is_written(
    axis: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MODEL.format(rules=RULES.format(axis=axis, other="None"))
    (found,) = findings(tmp_path, capsys, {"model.py": text})
    line = int(found.split(":")[1])
    assert "modle" in text.splitlines()[line - 1]
    assert "ST103" in found
    message = "the rule for 'mlp': no mesh has an axis 'modle' (axes: 'data', 'model')"
    assert message in found


def test_it_is_found_where_a_name_is_used_that_has_it_in_another_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MODEL.format(rules="from rules import RULES")
    rules = RULES.format(axis='"modle"', other="None")
    found = findings(tmp_path, capsys, {"model.py": text, "rules.py": rules})
    assert found
    assert all("ST103" in one and "model.py" in one for one in found)


@pytest.mark.parametrize(
    ("axis", "other"),
    [
        ('"model"', "None"),
        ('"model"', '"modle"'),  # no array has heads
        ('("data", "model")', "None"),
        ('"expert"', "None"),  # of somebody else's mesh
    ],
    ids=["right", "unused", "both", "another mesh's"],
)
def test_right_rules_and_those_for_other_meshes_are_not(
    axis: str, other: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MODEL.format(rules=RULES.format(axis=axis, other=other))
    assert findings(tmp_path, capsys, {"model.py": text}) == []


def test_axes_of_a_mesh_that_is_not_known_may_be_any(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MODEL.format(rules=RULES.format(axis='"modle"', other="None"))
    text = text.replace('("data", "model")', "axes").replace("main()", "main(axes)")
    assert findings(tmp_path, capsys, {"model.py": text}) == []
