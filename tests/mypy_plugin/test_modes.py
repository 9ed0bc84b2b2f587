"""The same messages in every mode of mypy: parallel, both parsers, without a cache, as a daemon."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mypy_plugin.cases import configure, environment, found_by_file, run_mypy
from tests.mypy_plugin.test_incremental import LIBRARY, USER

CODE = """\
from __future__ import annotations

import jax.numpy as jnp
from library import project
from shardtypes import f32

def lone(x: f32['batch'], w: f32['batch out']) -> f32['batch']:
    y: f32['batch'] = jnp.sin(x)
    if x.size:
        return project(x, w)
    undefined
    return x

class Holder:
    field: f32['embed']

    def method(self, x: 'f32["out"]') -> f32['out']:
        return self.field

def letters(größe: f32['B M']) -> None:
    "日本語日本語"; reveal_type(größe.T)  # parsers count columns each in its way
"""
FOUND = [
    (
        10,
        "E",
        "result of lone: expected f32['batch'], got f32['out']: dimension 0 is out, expected batch "
        "(fails for batch=2, out=3) [shardlint-ST201]",
    ),
    (10, "N", "line 7: declared f32['batch'] here"),
    (11, "E", 'Name "undefined" is not defined [name-defined]'),
    (21, "N", "Revealed type is \"Array[f32, dims[Literal['M B']]]\""),
]
MODES = [
    pytest.param([], id="plain"),
    pytest.param(["-n", "2"], id="parallel"),
    # options that make the warm cache void, in one run for it takes seconds
    pytest.param(
        ["--no-native-parser", "--no-incremental", "--python-version", "3.12"],
        id="other parser and version",
        marks=pytest.mark.long,
    ),
]


def write_program(folder: Path) -> None:
    (folder / "library.py").write_text(LIBRARY)
    (folder / "user.py").write_text(USER)
    (folder / "code.py").write_text(CODE)


@pytest.mark.once
@pytest.mark.parametrize("arguments", MODES)
def test_modes_agree(project: Path, arguments: list[str]) -> None:
    write_program(project)
    assert found_by_file(run_mypy(project, "code.py", arguments=tuple(arguments))) == {
        "code.py": FOUND
    }


@pytest.mark.once
@pytest.mark.long
def test_workers_see_a_changed_dependency(project: Path) -> None:
    write_program(project)
    parallel = ("-n", "2")
    assert (
        found_by_file(run_mypy(project, "code.py", "user.py", arguments=parallel))[
            "code.py"
        ]
        == FOUND
    )
    (project / "library.py").write_text(LIBRARY.replace("f32['out']", "f32['batch']"))
    assert found_by_file(run_mypy(project, "code.py", arguments=parallel)) == {
        "code.py": FOUND[2:]
    }
    assert found_by_file(run_mypy(project, "code.py")) == {"code.py": FOUND[2:]}


def daemon(folder: Path, *arguments: str) -> list[str]:
    command = [sys.executable, "-m", "mypy.dmypy", *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1) or arguments == ("stop",), (
        done.stdout + done.stderr
    )
    return [line for line in done.stdout.splitlines() if ".py:" in line]


@pytest.mark.once
def test_daemon_follows_edits(project: Path) -> None:
    write_program(project)
    configure(project)
    flags = (
        "--no-error-summary",
        "--use-fine-grained-cache",
        "--config-file",
        "mypy.ini",
    )
    try:
        assert (
            found_by_file(daemon(project, "run", "--", *flags, "code.py"))["code.py"]
            == FOUND
        )
        (project / "library.py").write_text(
            LIBRARY.replace("f32['out']", "f32['batch']")
        )
        assert found_by_file(daemon(project, "recheck")) == {"code.py": FOUND[2:]}
        (project / "library.py").write_text(LIBRARY)
        assert found_by_file(daemon(project, "recheck"))["code.py"] == FOUND
        (project / "code.py").write_text(CODE.replace("project(x, w)", "x"))
        assert found_by_file(daemon(project, "recheck")) == {"code.py": FOUND[2:]}
    finally:
        daemon(project, "stop")
