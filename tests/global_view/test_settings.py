"""Axes that the settings declare explicit: programs that are given their mesh from elsewhere are judged as well."""

from __future__ import annotations

import pytest

from shardlint.config import Config
from shardlint.engine import analyze
from shardlint.lower import lower
from shardlint.project import Project

PROGRAM = """
import jax
from shardtypes import f32

def mlp(x: f32['B/d F/t'], w: f32['F/t M']):
    return jax.nn.gelu(x) @ w
"""
AUTOMATIC = "import jax\nmesh = jax.make_mesh((2, 4), ('d', 't'), axis_types=(jax.sharding.AxisType.Auto,) * 2)\n"


def codes(program: str, explicit: tuple[str, ...] | bool) -> list[str]:
    module = lower(program.encode(), "m", "m.py").module
    settings = Config(mesh={"d": 2, "t": 4}, explicit_axes=explicit)
    return [event.code for event in analyze(Project({"m": module}), module, settings)]


@pytest.mark.once
@pytest.mark.parametrize(
    ("explicit", "wanted"),
    [(True, ["ST310"]), (("d", "t"), ["ST310"]), (("d",), []), (False, []), ((), [])],
)
def test_the_declared_axes_are_followed(
    explicit: tuple[str, ...] | bool, wanted: list[str]
) -> None:
    assert codes(PROGRAM, explicit) == wanted


@pytest.mark.once
def test_a_mesh_in_the_program_wins() -> None:
    assert codes(AUTOMATIC + "jax.set_mesh(mesh)\n" + PROGRAM, True) == []
    assert codes(AUTOMATIC + PROGRAM, True) == ["ST310"]
