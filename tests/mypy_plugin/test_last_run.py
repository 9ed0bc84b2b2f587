"""A run in which nothing has changed does without the linter; any other one says what a cold one does."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mypy_plugin.cases import configure, environment, found_by_file, run_mypy

pytestmark = pytest.mark.once

LIBRARY = """\
import jax
from shardtypes import f32

def project(x: f32['batch'], w: f32['batch out']) -> f32['out']: ...
def total(x: jax.Array) -> jax.Array: ...
"""
MIDDLE = """\
import library
import jax
import jax.numpy as jnp

def made() -> jax.Array:
    return jnp.zeros((3, 4))
"""
USER = """\
from library import project
from middle import made
from shardtypes import f32

def use(x: f32['B'], w: f32['B/t O']) -> f32['O']:
    reveal_type(project(x, w))
    reveal_type(made())
    return x

def wrong() -> f32['3 5']:
    return made()
"""
TRAIN = "import jax\n\nstep = jax.pmap(print, axis_name='t')\n"
SETTINGS = "[tool.shardlint]\nmesh = { d = 2 }\n"
ASKED = ("user.py", "middle.py")

#: What files may be; None is no file. Nobody imports train.py, and mypy is not asked to check it.
VERSIONS: dict[str, tuple[str | None, ...]] = {
    "library.py": (
        LIBRARY,
        LIBRARY.replace("f32['out']", "f32['out batch']"),
        LIBRARY.replace("jax.Array: ...", "int: ..."),
        LIBRARY + "later = 1\n",
    ),
    "middle.py": (
        MIDDLE,
        MIDDLE.replace("3, 4", "3, 5"),
        MIDDLE.replace("-> jax.Array", "-> int"),
    ),
    "user.py": (
        USER,
        USER.replace("return x", "return project(x, w)"),
        USER.replace("return x", "return x  # type: ignore[return-value]"),
    ),
    "train.py": (TRAIN, None, TRAIN.replace("'t'", "'u'")),
    "pyproject.toml": (
        SETTINGS,
        SETTINGS + "ignore = ['ST201']\n",
        SETTINGS.replace("d = 2", "d = 2, t = 4"),
    ),
}


def write(folder: Path, state: dict[str, str | None]) -> None:
    for name, text in state.items():
        path = folder / name
        if text is None:
            path.unlink(missing_ok=True)
        elif not path.exists() or path.read_text() != text:
            path.write_text(text)


def as_it_is_now(
    folder: Path, state: dict[str, str | None], warm_cache: Path
) -> list[str]:
    """What mypy says where nothing is known of these files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copytree(warm_cache, folder / ".mypy_cache")
    write(folder, state)
    return run_mypy(folder, *ASKED)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_after_edits_as_from_nothing(
    project: Path,
    tmp_path_factory: pytest.TempPathFactory,
    warm_cache: Path,
    seed: int,
) -> None:
    """Files are edited, taken back, written again, deleted and made, also those that mypy does not check."""
    draw = random.Random(seed)
    cold = tmp_path_factory.mktemp("cold") / "project"
    state = {name: texts[0] for name, texts in VERSIONS.items()}
    for _ in range(7):
        write(project, state)
        os.utime(project / "user.py")
        found = run_mypy(project, *ASKED)
        assert found == run_mypy(project, *ASKED)
        assert found == as_it_is_now(cold, state, warm_cache)
        for name in draw.sample(sorted(VERSIONS), draw.choice((1, 1, 2))):
            state[name] = VERSIONS[name][draw.randrange(len(VERSIONS[name]))]


IMPORTED = """\
import sys
import mypy.main

try:
    mypy.main.main(args=sys.argv[1:], stdout=sys.stdout, stderr=sys.stderr, clean_exit=True)
except SystemExit:
    pass
print("imported:", *sorted({"shardlint.run", "shardlint.mypy_plugin.hooks"} & set(sys.modules)))
"""


def imported(folder: Path, *arguments: str) -> list[str]:
    """What of the linter a run of mypy imports."""
    command = [sys.executable, "-c", IMPORTED, "--config-file", "mypy.ini"]
    done = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    *_, last = done.stdout.splitlines()
    return last.split()[1:]


def test_nothing_is_imported_where_nothing_has_changed(project: Path) -> None:
    """Also where a file was only written again, and where fewer files are asked for than before."""
    configure(project)
    write(project, {name: texts[0] for name, texts in VERSIONS.items()})
    assert imported(project, *ASKED)
    assert imported(project, *ASKED) == []
    os.utime(project / "library.py")
    assert imported(project, *ASKED) == []
    assert imported(project, "middle.py") == []
    (project / "notes.txt").write_text("of no interest")
    assert imported(project, *ASKED) == []
    (project / "more.py").write_text(TRAIN)
    assert imported(project, *ASKED)


@pytest.mark.long
def test_a_run_that_was_ended_is_not_relied_on(project: Path) -> None:
    """It wrote some files into the cache, and the others are as an earlier run left them."""
    write(project, {name: texts[0] for name, texts in VERSIONS.items()})
    before = found_by_file(run_mypy(project, *ASKED))
    (kept,) = (project / ".mypy_cache").glob("shardlint-*.json")
    lines = kept.read_text().splitlines(keepends=True)
    assert '"written"' in lines[-1]
    kept.write_text("".join(lines[:-1]))
    assert imported(project, *ASKED)
    kept.write_text("".join(lines)[:-10])
    assert imported(project, *ASKED)
    assert found_by_file(run_mypy(project, *ASKED)) == before


@pytest.mark.long
def test_workers_and_other_caches_leave_nothing_to_rely_on(project: Path) -> None:
    """Workers see some of the files; a folder without a cache has nothing to keep."""
    write(project, {name: texts[0] for name, texts in VERSIONS.items()})
    run_mypy(project, *ASKED)
    run_mypy(project, *ASKED, arguments=("-n", "2"))
    assert not list((project / ".mypy_cache").glob("shardlint-*.json"))
    run_mypy(project, "middle.py", arguments=("--cache-dir", os.devnull))
    assert imported(project, *ASKED)
