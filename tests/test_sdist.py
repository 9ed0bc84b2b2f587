"""The source distribution holds all that its own tests need: every file of the tree, and tests of each kind run."""

from __future__ import annotations

import os
import sys
import tarfile
from pathlib import Path

import pytest

from scripts.choose_tests import ALWAYS, AREAS, chosen
from tests.support import ROOT, run

pytestmark = pytest.mark.once

FOLDERS = (
    "benchmarks",
    "docs",
    "editors",
    "fixtures",
    "pytest_shardtypes",
    "scripts",
    "shardlint",
    "shardtypes",
    "tests",
)
#: Tests that read files beside the packages: documentation, fixtures, benchmarks, scripts, settings.
SOME = (
    "tests/test_packaging.py::test_the_hook_is_the_command",
    "tests/test_packaging.py::test_a_named_interpreter_is_used",
    "tests/test_release.py::test_the_next_release_is_on_top_of_the_changelog",
    "tests/test_docs.py::test_the_page_of_rules_is_what_the_rules_say",
    "tests/lint/test_command.py",
    "tests/lang/test_unify.py",
    "tests/models/test_bug_files.py",
)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of this tree, unpacked in an empty folder."""
    folder = tmp_path_factory.mktemp("sdist")
    done = run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def pytest_from(folder: Path, *arguments: str) -> str:
    """What a run of pytest in that folder prints; nothing of this tree is on its path."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTEST_ADDOPTS")
    }
    environment["PYTHONPATH"] = str(folder)
    done = run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        folder,
        environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files_of_the_tree() -> set[str]:
    """What git keeps; where there is no git, what lies in the folders of the distribution, without caches."""
    if (ROOT / ".git").exists():
        listed = run(["git", "ls-files"], ROOT)
        if listed.returncode == 0:
            return set(listed.stdout.splitlines())
    paths = (
        path.relative_to(ROOT)
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.*")
        if path.is_file()
    )
    return {path.as_posix() for path in paths if "__pycache__" not in path.parts}


def test_every_file_is_in_it(unpacked: Path) -> None:
    files = files_of_the_tree()
    assert sum(name.startswith("tests/") for name in files) > 100
    assert {name for name in files if not (unpacked / name).is_file()} == set()


@pytest.mark.long
def test_tests_run_from_it(unpacked: Path) -> None:
    code = (
        "import shardtypes, shardlint; print(shardtypes.__file__, shardlint.__file__)"
    )
    places = run(
        [sys.executable, "-c", code],
        unpacked,
        {**os.environ, "PYTHONPATH": str(unpacked)},
    ).stdout
    assert places.count(str(unpacked)) == 2
    assert " passed" in pytest_from(unpacked, *SOME)


@pytest.mark.long
def test_it_installs(unpacked: Path, tmp_path: Path) -> None:
    """As a wheel that is built from it, with the metadata of this project."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--target",
    ]
    done = run([*command, tmp_path, unpacked])
    assert done.returncode == 0, done.stdout + done.stderr
    program = tmp_path / "a.py"
    program.write_text(
        "from shardtypes import f32\ndef f(x: f32['B M']) -> f32['M B']:\n    return x\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    linted = run(
        [
            sys.executable,
            "-m",
            "shardlint",
            "--no-cache",
            "--format",
            "concise",
            program,
        ],
        tmp_path,
        environment,
    )
    assert (linted.returncode, linted.stdout.count("ST201")) == (1, 1), linted.stderr


# --- the tests for every day ------------------------------------------------------------------------------------


def test_every_area_names_tests_that_exist() -> None:
    named = {name for tests in AREAS.values() for name in tests} | set(ALWAYS)
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_what_changed_chooses_the_tests() -> None:
    assert chosen([]) == list(ALWAYS)
    assert chosen(["tests/ops/test_fft.py", "tests/ops/oracle.py", "tests/gone/test_x.py"]) == [
        *ALWAYS, "tests/ops/test_fft.py",
    ]  # fmt: skip
    assert chosen(["shardlint/config.py"]) == [
        "tests/lang",
        "tests/test_imports.py",
        "tests/lint",
    ]
    assert "tests/global_view" in chosen(["shardlint/engine/sharding/meshes.py"])
