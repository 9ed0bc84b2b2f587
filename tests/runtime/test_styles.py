"""Right models in the styles that people write them in run without an alarm, under each of our ways of checking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
from typeguard import TypeCheckError

from tests.runtime.loading import OURS, WAYS, load, outcome
from tests.support import run_pytest

STYLES = Path(__file__).resolve().parents[2] / "fixtures" / "styles"
NAMES = sorted(path.stem for path in STYLES.glob("*.py"))


def test_all_are_here() -> None:
    assert len(NAMES) >= 6


@pytest.mark.parametrize("way", OURS)
@pytest.mark.parametrize("name", NAMES)
def test_a_right_model_runs(tmp_path: Path, name: str, way: str) -> None:
    load(tmp_path, (STYLES / f"{name}.py").read_text(), way).run()


@pytest.mark.once
@pytest.mark.long
def test_right_models_run_under_pytest(tmp_path: Path) -> None:
    # Tracing is another way of checking: here the programs themselves run.
    options = "[tool.pytest.ini_options]\nshardtypes_trace = false\n"
    (tmp_path / "pyproject.toml").write_text(
        f'[project]\nname = "styles"\nversion = "1"\n\n{options}'
    )
    package = tmp_path / "styles"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name in NAMES:
        text = (STYLES / f"{name}.py").read_text()
        lines = text.splitlines()
        assert "    @checked" in lines or "@checked" in lines
        (package / f"{name}.py").write_text(
            "\n".join(line for line in lines if line.strip() != "@checked") + "\n"
        )
    tests = "".join(
        f"from styles import {name}\ndef test_{name}(): {name}.run()\n"
        for name in NAMES
    )
    (tmp_path / "test_styles.py").write_text(tests)
    done = run_pytest("-q", "--shardtypes", "-p", "no:cacheprovider", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert f"{len(NAMES)} passed" in done.stdout


# A class of each kind whose names are its own, and what a function with two of them is given.
OWN = """
import dataclasses
import flax.struct
import jax
from shardtypes import f32, pytree_dataclass
from typing import NamedTuple

@{kind}
class Linear{base}:
    w: f32["I O"]
    b: f32["O"]

@dataclasses.dataclass
class Net:
    first: Linear
    rest: list[Linear]
    named: dict[str, Linear]

@checked
def forward(layers: list[Linear], x: f32["B I"]) -> f32["B O"]:
    y = x
    for layer in layers:
        y = apply(layer, y)
    return y

@checked
def apply(layer: Linear, x: f32["B I"]) -> f32["B O"]:
    return x @ layer.w + layer.b

@checked
def compose(a: Linear, b: Linear, x: f32["B I"]) -> f32["B O"]:
    return apply(b, apply(a, x))

@checked
def of_net(net: Net, x: f32["B I"]) -> f32["B O"]:
    return forward([net.first, *net.rest, *net.named.values()], x)

@checked
def before(x: f32["B I"], layer: Linear) -> None: ...
"""
KINDS = {
    "dataclass": ("dataclasses.dataclass", ""),
    "flax": ("flax.struct.dataclass", ""),
    "registered": ("jax.tree_util.register_dataclass\n@dataclasses.dataclass", ""),
    "named tuple": ("(lambda cls: cls)", "(NamedTuple)"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_names_in_a_value_are_its_own(tmp_path: Path, kind: str, way: str) -> None:
    decorator, base = KINDS[kind]
    module = load(tmp_path, OWN.format(kind=decorator, base=base), way)

    def linear(i: int, o: int, b: int | None = None) -> Any:
        return module.Linear(w=jnp.ones((i, o)), b=jnp.ones(b or o))

    x = jnp.ones((2, 3))
    a, b, c = linear(3, 4), linear(4, 5), linear(5, 6)
    assert module.compose(a, b, x).shape == (2, 5)
    assert module.forward([a, b, c], x).shape == (2, 6)
    assert module.of_net(module.Net(a, [b], {"c": c}), x).shape == (2, 6)
    assert outcome(lambda: module.before(x, a)) == "silence"
    assert outcome(lambda: module.before(x, b)) == "count"
    assert outcome(lambda: module.before(x, linear(3, 4, 5))) == "alarm"
    assert outcome(lambda: module.forward([a], x)) == "silence"
    with pytest.raises(TypeCheckError):
        module.forward([a, linear(4, 5, 6)], x)
