"""A cache of JAX's stubs that every test here starts from, for mypy takes seconds to analyse them."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tests.mypy_plugin.cases import run_mypy

WARM = """\
import jax
import jax.numpy as jnp
import jaxtyping
from shardtypes import f32

def f(x: f32['B']) -> f32['B']:
    return jnp.sin(x)
"""

LOG = "log.txt"
"""What mypy tells of that run, beside the cache."""


@pytest.fixture(scope="session")
def warm_cache(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A ``.mypy_cache`` that knows JAX, made once for all worker processes of a run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "warm_mypy"
    try:
        folder.mkdir()
    except FileExistsError:  # another process makes it
        # However long that takes on a busy machine; it says so too where it fails.
        while not (folder / "done").exists():
            assert not (folder / "failed").exists(), (
                "the warm mypy cache could not be made: see the other process"
            )
            time.sleep(0.2)
        return folder / ".mypy_cache"
    try:
        (folder / "warm.py").write_text(WARM)
        lines = run_mypy(folder, "warm.py", arguments=("-v",))
        assert not [line for line in lines if "warm.py:" in line]
        (folder / LOG).write_text("\n".join(lines))
        (folder / "done").touch()
    except BaseException:
        (folder / "failed").touch()
        raise
    return folder / ".mypy_cache"


@pytest.fixture
def project(tmp_path: Path, warm_cache: Path) -> Path:
    """An empty folder with a warm cache, for ``run_mypy``."""
    shutil.copytree(warm_cache, tmp_path / ".mypy_cache")
    return tmp_path
