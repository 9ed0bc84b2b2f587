"""``--since REV``: the findings that the files have and the revision has not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.lint.adopting import (
    HEAD,
    MODEL,
    NORM,
    RIGHT,
    SWAPPED,
    concise,
    lint,
    project,
)
from tests.test_packaging import commit_all, git

pytestmark = pytest.mark.once  # JAX has no part in it


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository whose one file has both findings."""
    (tmp_path / "repo").mkdir()
    project(tmp_path / "repo", {"pkg/model.py": MODEL, ".gitignore": ".*_cache\n"})
    (tmp_path / "repo" / ".git").rmdir()
    commit_all(tmp_path / "repo")
    return tmp_path / "repo"


def test_what_was_there_is_not_shown(folder: Path) -> None:
    done = lint(folder, "--since", "HEAD")
    assert (done.returncode, done.stdout) == (0, "No findings in 1 file.\n")
    head = git("rev-parse", "HEAD", cwd=folder)
    line = f"shardlint: 2 findings were there in HEAD ({head[:10]}) already"
    assert done.stderr.splitlines()[0] == line
    by_hash = lint(folder, "--since", head[:12])
    assert "2 findings were there in" in by_hash.stderr


def test_what_is_new_is_shown(folder: Path) -> None:
    """Changed, untracked and staged files; code that only moved is not new."""
    before = git("status", "--porcelain", cwd=folder)
    model = folder / "pkg" / "model.py"
    model.write_text(f"{HEAD}{RIGHT}\n\n{SWAPPED}\n\n{NORM}\n\n{NORM}")
    (folder / "new.py").write_text(f"{HEAD}{NORM}")
    expected = ["new.py:6:12 ST204", "pkg/model.py:20:12 ST204"]
    assert concise(folder, "--since", "HEAD") == expected
    assert concise(folder, "--since", "HEAD", "new.py") == expected[:1]
    assert concise(folder / "pkg", "--since", "HEAD") == ["model.py:20:12 ST204"]
    git("add", "--all", cwd=folder)
    assert concise(folder, "--since", "HEAD") == expected
    git("commit", "--quiet", "--message=More", cwd=folder)
    assert concise(folder, "--since", "HEAD") == []
    assert concise(folder, "--since", "HEAD~1") == expected
    assert git("status", "--porcelain", cwd=folder) == before == ""
    assert git("worktree", "list", cwd=folder).count("\n") == 0


def two_branches(folder: Path) -> None:
    """``topic``, which is checked out, adds a mistake; ``other`` has mended those of before."""
    git("checkout", "--quiet", "-b", "topic", cwd=folder)
    (folder / "own.py").write_text(f"{HEAD}{NORM}")
    commit_all(folder)
    git("checkout", "--quiet", "-b", "other", "HEAD~1", cwd=folder)
    (folder / "pkg" / "model.py").write_text(f"{HEAD}{RIGHT}")
    git("commit", "--quiet", "--all", "--message=Mended", cwd=folder)
    git("checkout", "--quiet", "topic", cwd=folder)


def test_what_others_have_mended_since_is_not_new(folder: Path) -> None:
    """A branch is compared with where it began."""
    two_branches(folder)
    assert concise(folder, "--since", "other") == ["own.py:6:12 ST204"]
    # nothing in common
    git("checkout", "--quiet", "--orphan", "alone", cwd=folder)
    git("commit", "--quiet", "--message=Alone", cwd=folder)
    assert "pkg/model.py" in "".join(concise(folder, "--since", "other"))


def test_ranges_are_those_of_git(folder: Path) -> None:
    """Three dots compare with where the branch began, two with the commit itself, as in `git diff`."""
    two_branches(folder)
    own = ["own.py:6:12 ST204"]
    for since in ("other...", "other...HEAD", "other...topic"):
        assert concise(folder, "--since", since) == own, since
    mended = concise(folder, "pkg")
    assert len(mended) == 2
    for since in ("other..", "other..HEAD", "other..topic"):
        assert concise(folder, "--since", since) == [*own, *mended], since
    for since in ("..", "...", "..HEAD", "...topic"):
        assert concise(folder, "--since", since) == [], since
    done = lint(folder, "--since", "other...HEAD")
    base = git("rev-parse", "HEAD~1", cwd=folder)[:10]
    line = f"shardlint: 2 findings were there in other ({base}) already"
    assert done.stderr.splitlines()[0] == line


@pytest.mark.parametrize("dots", ["..", "..."])
def test_a_range_that_ends_elsewhere(folder: Path, dots: str) -> None:
    """Its files are not there to be checked."""
    (folder / "own.py").write_text(f"{HEAD}{NORM}")
    commit_all(folder)
    git("branch", "other", "HEAD~1", cwd=folder)
    done = lint(folder, "--since", f"HEAD{dots}other")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"shardlint: --since: HEAD{dots}other ends at other, and the files that are checked are those of what is "
        f"checked out: git switch other first, or leave the end out (--since HEAD{dots})\n"
    )


def test_a_file_that_was_renamed(folder: Path) -> None:
    git("mv", "pkg/model.py", "pkg/other.py", cwd=folder)
    assert concise(folder, "--since", "HEAD") == []


def test_a_finding_of_another_file(folder: Path) -> None:
    """What is imported has changed, the file with the finding has not."""
    (folder / "sizes.py").write_text("N = 6\n")
    (folder / "use.py").write_text(
        "import jax.numpy as jnp\nfrom sizes import N\n"
        "y = jnp.zeros((2, 3)).reshape(N)\n"
    )
    git("add", "--all", cwd=folder)
    git("commit", "--quiet", "--message=Use", cwd=folder)
    assert concise(folder, "--since", "HEAD") == []
    (folder / "sizes.py").write_text("N = 7\n")
    (found,) = concise(folder, "--since", "HEAD")
    assert found.startswith("use.py:3:")


def test_imports_by_the_name_of_the_folder(folder: Path) -> None:
    (folder / "__init__.py").write_text("")
    (folder / "sizes.py").write_text("N = 7\n")
    (folder / "use.py").write_text(
        "import jax.numpy as jnp\nfrom repo.sizes import N\n"
        "y = jnp.zeros((2, 3)).reshape(N)\n"
    )
    git("add", "--all", cwd=folder)
    git("commit", "--quiet", "--message=Use", cwd=folder)
    assert len(concise(folder)) == 3
    assert concise(folder, "--since", "HEAD") == []


def test_settings_are_those_of_now(folder: Path) -> None:
    """A rule that is switched on makes no finding new; a baseline hides what it hides."""
    (folder / "shardlint.toml").write_text('ignore = ["ST2"]\n')
    git("add", "--all", cwd=folder)
    git("commit", "--quiet", "--message=Off", cwd=folder)
    (folder / "shardlint.toml").write_text('src = ["."]\n')
    assert concise(folder, "--since", "HEAD") == []
    (folder / "new.py").write_text(f"{HEAD}{NORM}")
    assert lint(folder, "baseline").returncode == 0
    name = "shardlint-baseline.json"
    assert concise(folder, "--since", "HEAD", "--baseline", name) == []


def test_attributes_and_other_work_trees(folder: Path, tmp_path: Path) -> None:
    """Files that an archive would leave out are compared, too; and a linked work tree is one."""
    (folder / ".gitattributes").write_text("pkg export-ignore\n")
    git("add", "--all", cwd=folder)
    git("commit", "--quiet", "--message=Attributes", cwd=folder)
    assert concise(folder, "--since", "HEAD") == []
    git("worktree", "add", "--quiet", str(tmp_path / "linked"), cwd=folder)
    (tmp_path / "linked" / "new.py").write_text(f"{HEAD}{NORM}")
    found = concise(tmp_path / "linked", "--since", "HEAD")
    assert found == ["new.py:6:12 ST204"]


def test_a_submodule_is_as_it_is_now(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "inner.py").write_text(f"{HEAD}{NORM}")
    commit_all(tmp_path / "inner")
    source = str(tmp_path / "inner")
    allowed = ("-c", "protocol.file.allow=always")
    git(*allowed, "submodule", "--quiet", "add", source, "sub", cwd=folder)
    git("commit", "--quiet", "--message=Sub", cwd=folder)
    assert len(concise(folder)) == 3
    assert concise(folder, "--since", "HEAD") == []


def test_standard_input_has_no_place_in_a_revision(folder: Path) -> None:
    done = lint(folder, "--since", "HEAD", "--stdin-filename", "pkg/model.py")
    assert (done.returncode, done.stdout) == (0, "No findings in 1 file.\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no-such", "'no-such' is no commit of this repository; a shallow clone lacks old ones (git fetch gets them)"),
        ("HEAD...gone", "'gone' is no commit of this repository; a shallow clone lacks old ones (git fetch gets them)"),
        ("gone..HEAD", "'gone' is no commit of this repository; a shallow clone lacks old ones (git fetch gets them)"),
        ("--help", "'--help' is no commit of this repository; a shallow clone lacks old ones (git fetch gets them)"),
    ],
)  # fmt: skip
def test_a_revision_that_is_missing(folder: Path, name: str, message: str) -> None:
    done = lint(folder, f"--since={name}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"shardlint: --since: {message}\n"


def test_without_git_and_without_a_repository(folder: Path, tmp_path: Path) -> None:
    done = lint(tmp_path, "--since", "HEAD")
    assert (done.returncode, done.stdout) == (2, "")
    start = (
        "shardlint: --since: the current folder is in no git repository with files: "
    )
    assert done.stderr.startswith(start)
    no_git = lint(folder, "--since", "HEAD", env={"PATH": os.devnull})
    message = "shardlint: --since: there is no git to ask for the files of a revision\n"
    assert (no_git.returncode, no_git.stderr) == (2, message)
    (tmp_path / "out.py").write_text(f"{HEAD}{NORM}")
    outside = lint(folder, "--since", "HEAD", "../out.py")
    assert outside.returncode == 2
    assert (
        "../out.py is outside of the repository of the current folder" in outside.stderr
    )


def test_a_revision_that_cannot_be_read_whole(folder: Path) -> None:
    """Its findings are not known, so those of now may not be new."""
    (folder / "link.py").symlink_to("nowhere.py")
    git("add", "--all", cwd=folder)
    git("commit", "--quiet", "--message=Link", cwd=folder)
    (folder / "link.py").unlink()
    (folder / "link.py").write_text("x = 1\n")
    done = lint(folder, "--since", "HEAD", "link.py", "pkg")
    assert done.returncode == 2
    head = git("rev-parse", "HEAD", cwd=folder)[:10]
    line = f"shardlint: in HEAD ({head}): link.py: cannot be read: No such file or directory"
    assert done.stderr.splitlines()[1].startswith(line)


def test_an_empty_revision(folder: Path) -> None:
    shutil.rmtree(folder / "pkg")
    git("add", "--all", cwd=folder)
    git("commit", "--quiet", "--message=Gone", cwd=folder)
    project_again = {"pkg/model.py": f"{HEAD}{NORM}"}
    for name, text in project_again.items():
        (folder / name).parent.mkdir()
        (folder / name).write_text(text)
    assert concise(folder, "--since", "HEAD", "pkg") == ["pkg/model.py:6:12 ST204"]
