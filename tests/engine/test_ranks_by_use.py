"""What the use of something unknown tells of it: that it is an array, and of which rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.test_cases import found, project
from tests.engine.test_refused_by_jax import Mistake

_HEADS = "def heads(layer, x):\n    y = layer(x)\n    y = y.reshape(3, 4, -1)\n    return y + jnp.ones("
MISTAKES = {
    "a reshape of something unknown": Mistake(
        "ST204", f"{_HEADS}⟨(2, 4, 1)⟩)\nheads(jnp.sin, jnp.ones((2, 6)))", "(3, 4, 1)"
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_jax_refuses_it(name: str) -> None:
    mistake = MISTAKES[name]
    with pytest.raises((TypeError, ValueError)):
        _run(mistake.source(wrong=True))
    _run(mistake.source(wrong=False))


def _run(source: str) -> None:
    exec(compile(source, "case", "exec", dont_inherit=True), {"__name__": "case"})


@pytest.mark.parametrize("name", MISTAKES)
def test_is_found(name: str, tmp_path: Path) -> None:
    mistake = MISTAKES[name]
    path = tmp_path / "wrong.py"
    path.write_text(mistake.source(wrong=True))
    assert (mistake.place(), mistake.code) in found(project(tmp_path), path)


@pytest.mark.parametrize("name", MISTAKES)
def test_right_twin_is_silent(name: str, tmp_path: Path) -> None:
    path = tmp_path / "right.py"
    path.write_text(MISTAKES[name].source(wrong=False))
    assert not found(project(tmp_path), path)


def test_of_other_libraries_nothing_is_told(tmp_path: Path) -> None:
    path = tmp_path / "mixed.py"
    path.write_text(f"import jax.numpy as jnp\nimport torch\n\n{_HEADS}(2, 4, 1))\n")
    assert not found(project(tmp_path), path)
