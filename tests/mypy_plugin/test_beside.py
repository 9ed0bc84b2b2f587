"""The linter in a process beside mypy's finds what it finds in mypy's own, and mypy does without it where it ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import mypy.api
import pytest

from shardlint.mypy_plugin import beside, findings
from tests.mypy_plugin.cases import ROOT, configure, environment, found_by_file

pytestmark = pytest.mark.once

FILES = {
    "conftest.py": "import sys\n\nPATH = sys.path\n",
    "model/__init__.py": "",
    "model/layers.py": """\
import jax
import jax.numpy as jnp
from shardtypes import f32

GRÖSSE = 3

def project(x: f32['B M'], w: f32['M O']) -> f32['B O']:
    ü = x; reveal_type(ü @ w)
    return x @ w.T

def plain(x: jax.Array) -> jax.Array:
    return jnp.zeros((2, 3)) @ jnp.zeros((2, 3))
""",
    "model/names.py": "from .layers import project\n\nreveal_type(project)\n",
    "model/numbers.py": "import numpy as np\n\nx = np.zeros((2, 3)) @ np.zeros((2, 3))\n",
    "tests/test_layers.py": """\
from model.layers import plain, project

def test_plain() -> None:
    reveal_type(project(plain(1), 2))
""",
}
_RUN = """\
import sys
from shardlint.mypy_plugin import beside
asks = sys.argv.pop(1) == "beside"
beside.is_worth_it = lambda: asks
from mypy.__main__ import console_entry
console_entry()
"""


def write(folder: Path) -> None:
    configure(folder)
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def forget(folder: Path, warm_cache: Path) -> None:
    """Let the next run be cold but for JAX."""
    shutil.rmtree(folder / ".mypy_cache")
    shutil.rmtree(folder / ".shardlint_cache", ignore_errors=True)
    shutil.copytree(warm_cache, folder / ".mypy_cache")


def run(folder: Path, where: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, where, "--no-error-summary", "."],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.long
def test_both_say_the_same(project: Path, warm_cache: Path) -> None:
    write(project)
    found = run(project, "beside")
    assert {"model/layers.py", "model/numbers.py"} <= found_by_file(found).keys()
    assert "ST" in "".join(found)
    assert run(project, "beside") == found  # from mypy's cache
    forget(project, warm_cache)
    assert run(project, "inside") == found


def test_a_process_that_ends_is_done_without(
    project: Path, warm_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project)
    monkeypatch.chdir(project)
    monkeypatch.setattr(findings, "is_worth_it", lambda: False)
    expected, _, _ = mypy.api.run(["--no-error-summary", "model"])
    forget(project, warm_cache)
    started: list[subprocess.Popen[bytes]] = []

    def ends() -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [sys.executable, "-c", ""], stdin=pipe, stdout=pipe, stderr=pipe
        )
        started.append(process)
        return process

    monkeypatch.setattr(findings, "is_worth_it", lambda: True)
    monkeypatch.setattr(beside, "_started", ends)
    found, errors, _ = mypy.api.run(["--no-error-summary", "model"])
    assert started
    assert (found, errors) == (expected, "")
    assert "ST" in found


def test_the_process_ends_with_its_input() -> None:
    done = subprocess.run(
        [sys.executable, "-m", beside.__name__],
        input=b"",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == (b"", b"")
