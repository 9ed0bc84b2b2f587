"""Which files are checked: folders, what settings and git leave out, links, and what is said of the rest."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint import run as running
from shardlint.cli import main
from shardlint.config import Config
from shardlint.discovery import Discovery
from shardlint.patterns import Ignored, matches
from shardlint.run import check

pytestmark = pytest.mark.once

WRONG = (
    "from shardtypes import f32\ndef f(x: f32['B M']) -> f32['M B']:\n    return x\n"
)
Write = Callable[[dict[str, str]], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return write


def names(folder: Path, *paths: str, **settings: object) -> list[str]:
    discovery = Discovery(lambda _: Config(root=folder).with_options(**settings))
    return [
        path.relative_to(folder).as_posix()
        for path in discovery.files(paths or (str(folder),))
    ]


def run(
    capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, list[str], list[str]]:
    """The status, where findings are, and what is said of the run."""
    status = main(["--no-cache", "--format", "concise", *arguments])
    captured = capsys.readouterr()
    return (
        status,
        [line.split(" ")[0] for line in captured.out.splitlines()],
        captured.err.splitlines(),
    )


@pytest.mark.parametrize(
    "folder", ["build", "dist", "lib", "env", ".github", "bin", "vendor"]
)
def test_packages_are_read_whatever_they_are_called(write: Write, folder: str) -> None:
    root = write(
        {
            f"{folder}/__init__.py": "",
            f"{folder}/a.py": "",
            "b.pyi": "",
            "c.ipynb": "",
            "d.txt": "",
        }
    )
    assert names(root) == [
        "b.pyi",
        "c.ipynb",
        f"{folder}/__init__.py",
        f"{folder}/a.py",
    ]


@pytest.mark.parametrize(
    "folder", [".git", ".venv", "__pycache__", "node_modules", ".tox"]
)
def test_folders_of_tools_hold_no_program(write: Write, folder: str) -> None:
    assert names(write({f"{folder}/a.py": "", "b.py": ""})) == ["b.py"]


def test_a_virtual_environment_is_known_by_its_file(write: Write) -> None:
    assert names(write({"some/pyvenv.cfg": "", "some/lib/a.py": "", "b.py": ""})) == [
        "b.py"
    ]


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("old", ["a/b.py", "a/c/d.py", "e.py"]),
        ("a/", ["e.py", "old/f.py"]),
        ("a/*.py", ["e.py", "old/f.py"]),
        ("a/*", ["e.py", "old/f.py"]),
        ("d.py", ["a/b.py", "e.py", "old/f.py"]),
        ("**/d.py", ["a/b.py", "e.py", "old/f.py"]),
        ("/e.py", ["a/b.py", "a/c/d.py", "old/f.py"]),
        ("?.py", []),
    ],
)
def test_patterns(write: Write, pattern: str, left: list[str]) -> None:
    root = write({"a/b.py": "", "a/c/d.py": "", "e.py": "", "old/f.py": ""})
    assert sorted(names(root, exclude=(pattern,))) == left
    assert sorted(names(root, extend_exclude=(pattern,))) == left


def test_patterns_of_a_rule_reach_below(write: Write) -> None:
    assert matches(Path("/r/tests/a/b.py"), ("tests/*",), Path("/r"))
    assert matches(Path("/r/tests/a/b.py"), ("tests/*.py",), Path("/r"))
    assert not matches(Path("/r/src/tests.py"), ("tests/*",), Path("/r"))


def test_what_is_named_is_checked_unless_forced(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a commit hook does, which names every file."""
    write(
        {
            "old/a.py": WRONG,
            "b.py": WRONG,
            "shardlint.toml": 'extend-exclude = ["old"]\n',
            ".gitignore": "/b.py\n",
        }
    )
    assert run(capsys, "old/a.py", "b.py")[:2] == (1, ["b.py:3:12:", "old/a.py:3:12:"])
    status, found, said = run(capsys, "--force-exclude", "old/a.py", "b.py")
    assert (status, found) == (0, [])
    assert said == [
        "shardlint: not checked: old/a.py (extend-exclude), b.py (.gitignore)"
    ]
    write(
        {
            "shardlint.toml": 'extend-exclude = ["old"]\nforce-exclude = true\nrespect-gitignore = false\n'
        }
    )
    assert run(capsys, "old/a.py", "b.py")[:2] == (1, ["b.py:3:12:"])


def test_git_decides_as_git_does(write: Write) -> None:
    """The oracle is git itself."""
    root = write({
        ".gitignore": "*.log.py\n/build/\n!keep.py\ndata*\n\n# a comment\n\\#odd.py\nsub/*/deep.py\n",
        "sub/.gitignore": "!a.log.py\ninner.py\n/top.py\n**/any.py\n",
        "a.log.py": "", "build/x.py": "", "keep.py": "", "data1/y.py": "", "#odd.py": "", "sub/a.log.py": "",
        "sub/inner.py": "", "sub/q/inner.py": "", "sub/top.py": "", "sub/q/top.py": "", "sub/q/deep.py": "",
        "sub/q/r/deep.py": "", "other/inner.py": "", "sub/build/z.py": "", "sub/q/r/any.py": "", "datax.py": "",
    })  # fmt: skip
    (root / ".git").rmdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".git" / "info" / "exclude").write_text("keep.py\n")
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard", "-z"],
        cwd=root, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    wanted = sorted(name for name in listed.split("\0") if name.endswith(".py"))
    assert sorted(names(root)) == wanted
    assert len(wanted) > 4


def test_without_a_repository_only_the_project_says_what_is_ignored(
    tmp_path: Path,
) -> None:
    (tmp_path / ".gitignore").write_text("*\n")
    inner = tmp_path / "project"
    inner.mkdir()
    assert not Ignored()(inner / "a.py", False, inner)
    (inner / ".gitignore").write_text("a.py\n")
    assert Ignored()(inner / "a.py", False, inner)


def test_links(write: Write, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Everything once, circles included; what a link leads to outside is read through it."""
    root = write({"a/b.py": "", "c.py": ""})
    outside = tmp_path_factory.mktemp("outside")
    (outside / "d.py").write_text("")
    (outside / "back").symlink_to(root)
    (root / "a" / "self").symlink_to(root / "a")
    (root / "a" / "up").symlink_to(root)
    (root / "twice").symlink_to(root / "a")
    (root / "again.py").symlink_to(root / "c.py")
    (root / "out").symlink_to(outside)
    (root / "out2").symlink_to(outside)
    assert names(root) == ["c.py", "a/b.py", "out/d.py"]
    assert names(root, str(root / "again.py")) == ["again.py"]


def test_unreadable_folders_are_told(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write({"a.py": WRONG})
    (root / "gone").symlink_to(root / "gone")  # leads to itself
    (root / "gone.py").symlink_to(root / "gone.py")
    status, found, said = run(capsys)
    assert (status, found) == (1, ["a.py:3:12:"])
    assert "shardlint: not checked: gone.py (a link to nothing)" in said


def test_links_to_nothing_are_no_failure(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    """Editors leave some behind as locks. One that is named itself is."""
    root = write({"a.py": ""})
    (root / ".#a.py").symlink_to("somebody@host.1:2")
    (root / "b.ipynb").symlink_to("moved.ipynb")
    status, _, said = run(capsys)
    assert status == 0
    what = ".#a.py (a link to nothing), b.ipynb (a link to nothing)"
    assert f"shardlint: not checked: {what}" in said
    assert run(capsys, "b.ipynb")[0] == 2


def test_scripts_are_found_by_their_first_line(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write(
        {
            "window.pyw": WRONG,
            "bin/train": "#!/usr/bin/env python3\n" + WRONG,
            "bin/run": "#! /usr/bin/python -u\n" + WRONG,
            "bin/in_env": "#!/usr/bin/env -S uv run --script\n" + WRONG,
            "bin/start": "#!/bin/sh\n" + WRONG,
            "bin/start_in_env": "#!/usr/bin/env -S uv run sh\n" + WRONG,
            "bin/notes": WRONG,
            "bin/.hidden": "#!/usr/bin/python\n" + WRONG,
            "bin/data": "",
        }
    )
    (root / "bin" / "pipe.py").write_text("")
    os.mkfifo(root / "bin" / "waits")
    assert names(root) == [
        "window.pyw",
        "bin/in_env",
        "bin/pipe.py",
        "bin/run",
        "bin/train",
    ]
    assert run(capsys)[1] == [
        "bin/in_env:4:12:",
        "bin/run:4:12:",
        "bin/train:4:12:",
        "window.pyw:3:12:",
    ]


def test_what_has_no_suffix_is_not_imported(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        {
            "train": "#!/usr/bin/python\nimport jax.numpy as jnp\nX = jnp.ones((2, 3))\n",
            "a.py": "import train\nimport jax.numpy as jnp\ntrain.X + jnp.ones(4)\n",
        }
    )
    assert run(capsys)[:2] == (0, [])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_folders_without_permission_are_told(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write({"closed/a.py": WRONG})
    (root / "closed").chmod(0)
    try:
        assert (
            run(capsys)[2][0]
            == "shardlint: closed: cannot be read: Permission denied; the other files were checked"
        )
    finally:
        (root / "closed").chmod(0o755)


def test_settings_lie_beside_the_file(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the working directory have no say over files with their own."""
    write({
        "pyproject.toml": "[tool.shardlint]\nignore = ['ST2']\n", "a.py": WRONG,
        "one/shardlint.toml": "", "one/a.py": WRONG,
        "two/pyproject.toml": "[project]\nname = 'two'\n", "two/a.py": WRONG,
        "three/pyproject.toml": "[tool.shardlint]\nextend-exclude = ['b.py']\n", "three/a.py": WRONG, "three/b.py": "",
        "three/four/shardlint.toml": "ignore = ['ST201']\n", "three/four/a.py": WRONG,
    })  # fmt: skip
    wanted = ["one/a.py:3:12:", "three/a.py:3:12:"]
    assert run(capsys, ".")[:2] == (1, wanted)
    assert run(capsys, "three", "one")[:2] == (1, wanted)
    every = ["a.py", "one/a.py", "two/a.py", "three/a.py", "three/four/a.py"]
    assert run(capsys, *every)[:2] == (1, wanted)
    assert run(capsys, "--config", "pyproject.toml", ".")[:2] == (0, [])
    assert run(capsys, "--select", "ST201", "a.py")[:2] == (0, [])


def test_the_end_of_a_run_says_what_was_not_checked(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    write({
        "shardlint.toml": 'exclude = ["old", "notes"]\n', ".gitignore": "made/\n", "notes/a.txt": "", "a.py": WRONG,
        "old/a.py": "", "made/b/c.py": "", "empty/logs.txt": "", "r.ipynb": '{"cells": [], "metadata": '
        '{"kernelspec": {"language": "R"}}, "nbformat": 4}',
    })  # fmt: skip
    assert run(capsys, ".")[2] == [
        "shardlint: not checked: made (.gitignore), old (exclude), r.ipynb (a notebook of r)",
        "shardlint: 1 file checked",
    ]
    write({f"sub{n}/old/a.py": "" for n in range(3)})
    assert run(capsys, ".")[2][0].endswith(" and 3 more, named by --statistics")
    assert "sub2/old (exclude)" in run(capsys, ".", "--statistics")[2][0]


def test_the_share_of_known_arrays(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        {
            "a.py": "import jax.numpy as jnp\nimport q\na = jnp.ones(3)\nb = a * 2\nc = q.f(a)\nn = 3\n"
        }
    )
    said = "shardlint: 1 file checked; the ranks of 2 of 3 values that are or may be arrays are known (66%)"
    assert run(capsys, ".")[2] == [said]


NAMED = "from shardtypes import f32\n{}\n\n\ndef f(x: f32['B M']) -> f32['B M']:\n    return {}\n"
PROJECT = {
    "pyproject.toml": "[project]\nname = 'x'\n",
    "space/tools/norms.py": "from .. import common\n\ndef norm(x):\n    return common.turn(x)\n",
    "space/common.py": "import jax.numpy as jnp\n\ndef turn(x):\n    return jnp.transpose(x)\n",
    "space/use.py": NAMED.format("from .tools.norms import norm", "norm(x)"),
    "space/dotted.py": NAMED.format("import space.common", "space.common.turn(x)"),
    "script/common.py": "def turn(x):\n    return x[0]\n",
    "script/run.py": NAMED.format("from common import turn", "turn(x)"),
    "script/other.py": NAMED.format(
        "from space import tools\nfrom space.tools import norms", "tools.norms.norm(x)"
    ),
    "jax/like.py": NAMED.format("from .other import turn", "turn(x)"),
    "jax/other.py": "def turn(x):\n    return x.T\n",
    "model.py": """\
import flax.linen as nn
from shardtypes import f32


class Model:
    size = 4

    def f(self, x: f32['B M']):
        return nn.with_logical_constraint(x.reshape(x.shape[0] * self.size, -1), ('batch', 'embd'))
""",
    "other.py": """\
import flax.linen as nn
from model import Model

nn.set_logical_axis_rules([('batch', 'd')])
Model().size = 3
""",
    "mesh.py": "import jax\nmesh = jax.make_mesh((2, 4), ('d', 't'))\n",
    "axes.py": "from shardtypes import f32\n\ndef f(x: f32['B/d M/tt'], y: f32['6/t']):\n    return x\n",
}


def test_a_file_alone_has_the_findings_that_it_has_among_all(write: Write) -> None:
    """Folders without ``__init__.py``, scripts of one name, what other files set up: a commit hook names some files."""
    write(PROJECT)
    paths = [name for name in PROJECT if name.endswith(".py")]

    def found(*given: str) -> list[str]:
        report = check(given, cache=False)
        assert report.problems == []
        return [f"{d.place.path}:{d.place.line}: {d.code}" for d in report.diagnostics]

    whole = found(".")
    assert whole == [
        "axes.py:3: ST103", "axes.py:3: ST104", "jax/like.py:6: ST201", "model.py:9: ST401", "script/other.py:7: ST201",
        "script/run.py:6: ST201", "space/dotted.py:6: ST201", "space/use.py:6: ST201",
    ]  # fmt: skip
    assert [one for path in sorted(paths) for one in found(path)] == whole
    assert found(*reversed(paths)) == whole
    assert found(*paths[::2]) == [
        one for one in whole if one.partition(":")[0] in paths[::2]
    ]


def test_a_project_that_is_too_large_is_told(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running, "MAX_FILES", 3)
    write(PROJECT)
    status, found, said = run(capsys, "space/use.py")
    assert (status, found) == (1, ["space/use.py:6:12:"])
    assert said[0] == (
        "shardlint: not checked: . (more than 3 files: only those that were asked for, and what they import, were read)"
    )


def test_a_folder_of_no_project_is_not_read_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in PROJECT.items():
        if name.endswith(".py"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    report = check(["axes.py", "model.py"], cache=False)
    assert report.diagnostics == []
    assert {Path(path).name for path in report.texts} == {"axes.py", "model.py"}
