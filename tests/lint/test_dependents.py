"""``--with-dependents``: a change of a file is checked in the files that use it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shardlint import check_paths
from tests.lint.adopting import concise, lint, project
from tests.test_packaging import commit_all, git

pytestmark = pytest.mark.once  # JAX has no part in it

LAYERS = """\
from shardtypes import f32


def dense(x: f32["B M"], w: f32["M F"]) -> f32["B F"]:
    return x @ w
"""
TURNED = LAYERS.replace('w: f32["M F"]', 'w: f32["F M"]').replace("@ w", "@ w.T")
OWN = """\

def own(x: f32["B M"]) -> f32["M B"]:
    return x
"""
FILES = {
    "pkg/__init__.py": "from pkg.layers import dense\n",
    "pkg/layers.py": TURNED,
    # no annotations: what it gives and takes is what its callee does
    "pkg/helper.py": "from pkg import dense\n\n\ndef twice(x, w):\n    return 2 * dense(x, w)\n",
    "pkg/data.py": LAYERS.replace("dense", "load"),
    "train.py": 'from pkg.helper import twice\nfrom shardtypes import f32\n\n\n'
    'def step(x: f32["B M"], w: f32["M F"]):\n    return twice(x, w)\n',
    # in the same package, and of something else
    "other.py": f"from pkg.data import load\nfrom shardtypes import f32\n\n{OWN}",
}  # fmt: skip
CALL = "train.py:6:12 ST202"
WITH = "--with-dependents"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return project(tmp_path, FILES)


def test_a_call_in_a_file_that_did_not_change(folder: Path) -> None:
    """Through a package that hands the function on and a helper; the second run takes its answers from the cache."""
    assert concise(folder, "pkg/layers.py") == []
    for _ in range(2):
        assert concise(folder, WITH, "pkg/layers.py") == [CALL]
    assert concise(folder, WITH, "--no-cache", "pkg/layers.py") == [CALL]
    assert concise(folder, WITH, "--without-dependents", "pkg/layers.py") == []


def test_the_run_says_how_many_files_are_checked_and_why(folder: Path) -> None:
    done = lint(folder, "--format", "concise", WITH, "pkg/layers.py")
    assert done.returncode == 1
    said = "3 files checked, 2 of them because they use the others"
    assert said in done.stderr


def test_only_files_that_use_what_was_named(folder: Path) -> None:
    """``other.py`` imports a package that imports the layers, and uses nothing of them."""
    assert concise(folder, WITH, "pkg/data.py") == []
    assert "other.py:5:12 ST201" not in concise(folder, WITH, "pkg/layers.py")
    every = concise(folder)
    assert concise(folder, WITH, ".") == every
    assert len(every) == 2


def test_what_a_comment_or_the_settings_leave_out(folder: Path) -> None:
    settings = folder / "shardlint.toml"
    settings.write_text('extend-exclude = ["train.py"]\n')
    assert concise(folder, WITH, "pkg/layers.py") == []
    settings.write_text("")
    call = FILES["train.py"].replace("w)\n", "w)  # shardlint: ignore[ST202] known\n")
    (folder / "train.py").write_text(call)
    assert concise(folder, WITH, "pkg/layers.py") == []


def test_a_constant(folder: Path) -> None:
    """A file that can have no finding itself."""
    (folder / "sizes.py").write_text("N = 7\n")
    use = "import jax.numpy as jnp\nfrom sizes import N\n\ny = jnp.zeros((2, 3)).reshape(N)\n"
    (folder / "use.py").write_text(use)
    (found,) = concise(folder, WITH, "sizes.py")
    assert found.startswith("use.py:4:")


def test_what_they_had_before_is_not_new(folder: Path) -> None:
    """With ``--since``, as a hook with that among its arguments."""
    (folder / ".git").rmdir()
    (folder / ".gitignore").write_text(".*_cache\n")
    (folder / "pkg" / "layers.py").write_text(LAYERS)
    (folder / "train.py").write_text(FILES["train.py"] + "\n" + OWN)
    commit_all(folder)
    (folder / "pkg" / "layers.py").write_text(TURNED)
    git("add", "--all", cwd=folder)
    before = "train.py:10:12 ST201"
    assert concise(folder, WITH, "pkg/layers.py") == [CALL, before]
    assert concise(folder, WITH, "--since", "HEAD", "pkg/layers.py") == [CALL]


def test_outside_of_a_project(folder: Path) -> None:
    (folder / ".git").rmdir()
    done = lint(folder, WITH, "pkg/layers.py")
    assert done.returncode == 2
    said = "--with-dependents: which files use those in . is not known, for it is in no project: run in one that has"
    assert said in done.stderr


def test_from_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    path = os.path.join("pkg", "layers.py")
    assert check_paths(path, cache=False).findings == ()
    result = check_paths(path, cache=False, with_dependents=True)
    assert [(one.path, one.code) for one in result.findings] == [("train.py", "ST202")]
    assert result.checked == 3
