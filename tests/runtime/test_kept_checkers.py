"""Compiled checkers are kept beside the bytecode of modules that the import hook loads; each test starts processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import run_python

pytestmark = pytest.mark.once  # JAX has no part in it

LAYERS = """
from shardtypes import f32


def scaled(x: f32["B M"], by: f32["M"]) -> f32["B M"]:
    return x * by


def summed(x: f32["B M"]) -> f32["B"]:
    return x.sum({axis})
"""
PROGRAM = """
import builtins
import sys

sys.path.insert(0, "")
sys.dont_write_bytecode = {quiet}
made = []
compile = builtins.compile


def seen(source, file, *args, **options):
    if "<checks of" in str(file):
        made.append(file)
    return compile(source, file, *args, **options)


builtins.compile = seen
import jax.numpy as jnp
import shardtypes

with shardtypes.install_import_hook("layers"):
    import layers
for _ in range(12):
    layers.scaled(jnp.ones((2, 3)), jnp.ones(3))
    layers.summed(jnp.ones((2, 3)))
try:
    layers.scaled(jnp.ones((2, 3)), jnp.ones(2))
except shardtypes.ShapeError as error:
    print(len(made), str(error).splitlines()[0])
print(shardtypes.source(layers.scaled).splitlines()[0])
"""
WRONG = "scaled: parameter 'by': dimension 0 is 2, expected M = 3"


def run(folder: Path, quiet: bool = False) -> tuple[int, str]:
    """How many checkers a process compiled, and what it says of a wrong call."""
    (folder / "program.py").write_text(PROGRAM.format(quiet=quiet))
    done = run_python("program.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    count, _, error = done.stdout.splitlines()[0].partition(" ")
    return int(count), error


def kept(folder: Path) -> list[Path]:
    return [*folder.glob("__pycache__/layers.*checks.pyc")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "layers.py").write_text(LAYERS.format(axis=1))
    return tmp_path


def test_a_later_process_compiles_none(folder: Path) -> None:
    assert run(folder) == (2, WRONG)
    assert len(kept(folder)) == 1
    assert run(folder) == (0, WRONG)


def test_what_changed_is_compiled_anew(folder: Path) -> None:
    run(folder)
    (folder / "layers.py").write_text(LAYERS.format(axis="axis=1"))
    assert run(folder) == (2, WRONG)
    assert run(folder) == (0, WRONG)


def test_a_damaged_file_is_written_anew(folder: Path) -> None:
    run(folder)
    (file,) = kept(folder)
    file.write_bytes(file.read_bytes()[:-40])
    assert run(folder) == (2, WRONG)
    assert run(folder) == (0, WRONG)


def test_nothing_is_written_where_python_writes_none(folder: Path) -> None:
    assert run(folder, quiet=True) == (2, WRONG)
    assert kept(folder) == []
