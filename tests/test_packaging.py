"""What the distribution promises: metadata, entry points, typed packages, and a hook that pre-commit can install."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import shardtypes
from tests.support import ROOT, run

PACKAGES = ("shardtypes", "shardlint", "pytest_shardtypes")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_base_needs_little(project: dict[str, Any]) -> None:
    assert [d.split(">")[0] for d in project["project"]["dependencies"]] == [
        "libcst", "numpy", "packaging", "pathspec",
    ]  # fmt: skip


def test_extras(project: dict[str, Any]) -> None:
    extras = project["project"]["optional-dependencies"]
    assert set(extras) == {
        "completion",
        "jax",
        "mcp",
        "pytest",
        "mypy",
        "server",
        "watch",
        "all",
    }
    assert {d.split(">")[0] for d in extras["jax"]} == {
        "jax", "jaxlib", "numpy", "typeguard",
    }  # fmt: skip
    assert extras["all"] == ["shardtypes[completion,jax,mcp,mypy,pytest,server,watch]"]


def test_the_installed_metadata_is_this_project(project: dict[str, Any]) -> None:
    installed = importlib.metadata.metadata("shardtypes")
    assert installed["Version"] == shardtypes.__version__
    assert installed["Requires-Python"] == project["project"]["requires-python"]
    assert set(installed.get_all("Provides-Extra") or ()) == set(
        project["project"]["optional-dependencies"]
    )


def test_entry_points_exist(project: dict[str, Any]) -> None:
    assert project["project"]["scripts"] == {"shardlint": "shardlint.cli:main"}
    assert project["project"]["entry-points"] == {
        "pytest11": {"shardtypes": "pytest_shardtypes.plugin"},
        "typeguard.checker_lookup": {
            "shardtypes": "shardtypes.typeguard_plugin:lookup"
        },
    }
    assert callable(importlib.import_module("shardlint.cli").main)
    assert callable(importlib.import_module("shardtypes.typeguard_plugin").lookup)
    importlib.import_module("pytest_shardtypes.plugin")


def test_the_installed_command_runs() -> None:
    command = Path(sys.executable).with_name("shardlint")
    done = run([command, "--help"])
    assert done.returncode == 0, done.stderr
    assert "explain" in done.stdout


def test_pytest_finds_the_plugin() -> None:
    done = run([sys.executable, "-m", "pytest", "--help"])
    assert "--shardtypes-devices" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_typed_and_shipped(package: str, project: dict[str, Any]) -> None:
    assert (ROOT / package / "py.typed").is_file()
    assert package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]


MODULES = sorted(
    path.relative_to(ROOT) for name in PACKAGES for path in (ROOT / name).rglob("*.py")
)


@pytest.mark.once
@pytest.mark.parametrize("path", MODULES, ids=str)
def test_every_module_says_what_it_is(path: Path) -> None:
    """A docstring, in a rule's file that of the rule, and postponed annotations: nothing is evaluated at import."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    rule = path.parent.name == "rules" and any(
        ast.get_docstring(n) for n in tree.body if isinstance(n, ast.ClassDef)
    )
    assert ast.get_docstring(tree) or rule, f"{path} has no docstring"
    futures = [
        a.name
        for n in tree.body
        if isinstance(n, ast.ImportFrom) and n.module == "__future__"
        for a in n.names
    ]
    has_code = any(not isinstance(n, ast.Expr | ast.ImportFrom) for n in tree.body)
    assert "annotations" in futures or not has_code, (
        f"{path}: from __future__ import annotations"
    )


# --- the interpreter that make uses -----------------------------------------------------------------------------


def find_python(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", str(ROOT / "scripts" / "find_python.sh"), *args]
    return run(command, env=env)


@pytest.mark.once
def test_a_named_interpreter_is_used() -> None:
    done = find_python(PATH="/nowhere", HOME="/nowhere", PYTHON=sys.executable)
    assert (done.returncode, done.stdout.strip()) == (0, sys.executable), done.stderr


@pytest.mark.once
def test_no_usable_interpreter_is_one_clear_message(tmp_path: Path) -> None:
    done = find_python(PATH=str(tmp_path), HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "found no Python 3.11 or newer" in done.stderr
    assert "make PYTHON=" in done.stderr
    done = find_python(PATH=str(tmp_path), HOME=str(tmp_path), PYTHON="/bin/false")
    assert (done.returncode, done.stdout) == (1, "")
    assert "PYTHON=/bin/false is not" in done.stderr


@pytest.mark.once
def test_the_second_interpreter_is_another_version_or_none(tmp_path: Path) -> None:
    assert (
        find_python(
            "second", sys.executable, PATH=str(tmp_path), HOME=str(tmp_path)
        ).stdout
        == ""
    )
    # A name is not believed: this one runs, but is the version that we have already.
    (
        tmp_path / ("python3.12" if sys.version_info[:2] == (3, 13) else "python3.13")
    ).symlink_to(sys.executable)
    assert (
        find_python(
            "second", sys.executable, PATH=str(tmp_path), HOME=str(tmp_path)
        ).stdout
        == ""
    )


# --- pre-commit -------------------------------------------------------------------------------------------------


def test_the_hook_is_the_command() -> None:
    (hook,) = yaml.safe_load(
        (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    )
    assert hook["id"] == "shardlint"
    assert hook["language"] == "python"
    options = ["--force-exclude", "--with-dependents"]
    assert hook["entry"].split() == ["shardlint", "check", *options]
    assert hook["types_or"] == ["python", "pyi", "jupyter"]
    assert hook["require_serial"] is True


WRONG = """from __future__ import annotations

import jax.numpy as jnp
from shardtypes import f32


def project(x: f32['B/d L M'], w: f32['M F/t']) -> f32['B/d F/t L']:
    return jnp.einsum('blm,mf->blf', x, w)
"""
RIGHT = WRONG.replace("'B/d F/t L'", "'B/d L F/t'")
USE = """from __future__ import annotations

from model import project
from shardtypes import f32

def layer(x: f32['B/d L M'], w: f32['M F/t']) -> f32['B/d L F/t']:
    return project(x, w)
"""


def git(*args: str, cwd: Path) -> str:
    identity = [
        "-c",
        "user.name=Test",
        "-c",
        "user.email=test@example.org",
        "-c",
        "commit.gpgsign=false",
    ]
    done = subprocess.run(
        ["git", *identity, *args], cwd=cwd, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit_all(repository: Path) -> str:
    git("init", "--quiet", "--initial-branch=main", cwd=repository)
    git("add", "--all", "--force", cwd=repository)
    git("commit", "--quiet", "--message=All", cwd=repository)
    return git("rev-parse", "HEAD", cwd=repository)


@pytest.mark.long
@pytest.mark.once
def test_pre_commit_installs_and_runs_the_hook(tmp_path: Path) -> None:
    """Another repository names this one in its pre-commit configuration, as a user would."""
    ours = tmp_path / "shardtypes"
    ours.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        shutil.copy(ROOT / name, ours / name)
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, ours / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    revision = commit_all(ours)

    theirs = tmp_path / "model"
    theirs.mkdir()
    (theirs / "model.py").write_text(WRONG)
    (theirs / "notes.txt").write_text("not Python\n")
    (theirs / "old").mkdir()
    (theirs / "old" / "model.py").write_text(WRONG)
    (theirs / "shardlint.toml").write_text('extend-exclude = ["old"]\n')
    (theirs / ".pre-commit-config.yaml").write_text(
        yaml.safe_dump(
            {
                "repos": [
                    {"repo": str(ours), "rev": revision, "hooks": [{"id": "shardlint"}]}
                ]
            }
        )
    )
    commit_all(theirs)

    def pre_commit(*chosen: str) -> subprocess.CompletedProcess[str]:
        # A pre-commit that runs these tests sets GIT_DIR and the like for its own repository.
        env = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith("GIT_") and k != "PYTHONPATH"
        }
        env |= {"PRE_COMMIT_HOME": str(tmp_path / "home"), "PRE_COMMIT_COLOR": "never"}
        return run([sys.executable, "-m", "pre_commit", "run", *chosen], theirs, env)

    failing = pre_commit("--all-files")
    assert failing.returncode == 1, failing.stdout + failing.stderr
    assert "model.py:8:" in failing.stdout
    assert "ST201" in failing.stdout
    assert "--> old/" not in failing.stdout

    (theirs / "model.py").write_text(RIGHT)
    (theirs / "use.py").write_text(USE)
    git("add", "model.py", "use.py", cwd=theirs)
    passing = pre_commit("--all-files")
    assert passing.returncode == 0, passing.stdout + passing.stderr
    assert "Passed" in passing.stdout

    # the file with the call is not part of the commit
    git("commit", "--quiet", "--no-verify", "--message=Use", cwd=theirs)
    (theirs / "model.py").write_text(
        RIGHT.replace("'M F/t'", "'F/t M'").replace("mf", "fm")
    )
    git("add", "model.py", cwd=theirs)
    commit = pre_commit()
    assert commit.returncode == 1, commit.stdout + commit.stderr
    assert "use.py:7:" in commit.stdout
    assert "2 files checked, 1 of them because it uses the others" in commit.stdout
    installed = next(
        (tmp_path / "home").glob("repo*/py_env-*/lib/python*/site-packages")
    )
    assert (installed / "numpy").exists()
    assert not (installed / "jax").exists()
