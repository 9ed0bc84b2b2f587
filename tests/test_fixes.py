"""The benchmark of fixes of public projects: its data, and how findings before and after a fix are compared."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.fixes.__main__ import main
from benchmarks.fixes.entries import DATA, Fix, chosen, fixes
from benchmarks.fixes.histories import (
    MissingHistoryError,
    changed_files,
    checked_out,
    history,
)
from benchmarks.fixes.judging import (
    FOUND,
    IN_PLACE,
    NEARBY,
    NOTHING,
    Said,
    judge,
    only_first,
    outcome_of,
    wrong_places,
)
from benchmarks.fixes.report import markdown, missed, remaining

pytestmark = pytest.mark.once

FIXES = fixes()
MINUTE = 60.0

#: The size that is summed over is another in each operand; one comes from a file that is not changed.
WRONG = """\
import jax.numpy as jnp

from sizes import WIDTH


def weights(scale: float):
    table = jnp.zeros((4, WIDTH))
    return scale * table @ jnp.ones((WIDTH + 1, 2))
"""
RIGHT = WRONG.replace("WIDTH + 1", "WIDTH")
#: Is reported before and after, on another line.
UNCHANGED = "\n\ndef unchanged():\n    return jnp.ones((2, 3)) + jnp.ones((2, 4))\n"


@pytest.fixture
def project(tmp_path: Path) -> tuple[Path, Fix]:
    """A project of which the second commit mends the sizes of a product, and that commit."""
    repository = tmp_path / "someone+project"
    repository.mkdir()
    _git(repository, "init", "--quiet")
    (repository / "sizes.py").write_text("WIDTH = 8\n")
    _commit(repository, WRONG + UNCHANGED)
    commit = _commit(repository, RIGHT.replace("import", "\nimport", 1) + UNCHANGED)
    fix = Fix("someone/project", commit, "model.py", (8,), "sizes", "Wrong.", True, "")
    return repository, fix


def _commit(repository: Path, text: str) -> str:
    (repository / "model.py").write_text(text)
    (repository / "test_model.py").write_text(f"# {len(text)}\n")
    _git(repository, "add", "--all")
    _git(repository, "commit", "--quiet", "--message", "A change")
    return _git(repository, "rev-parse", "HEAD").strip()


def _git(repository: Path, *arguments: str) -> str:
    person = ["-c", "user.name=Someone", "-c", "user.email=someone@example.org"]
    command = ["git", "-C", str(repository), *person, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# --- the data -------------------------------------------------------------------------------------------------------


def test_there_are_enough_fixes_and_not_too_many_of_one_project() -> None:
    assert len(FIXES) >= 45
    assert max(Counter(fix.project for fix in FIXES).values()) <= 8


@pytest.mark.parametrize("fix", FIXES, ids=lambda fix: fix.name)
def test_a_fix_is_well_formed(fix: Fix) -> None:
    assert re.fullmatch("[0-9a-f]{40}", fix.commit)
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", fix.project)
    assert fix.file.endswith(".py")
    assert fix.lines and min(fix.lines) > 0
    assert list(fix.lines) == sorted(set(fix.lines))
    assert fix.kind
    assert fix.wrong.endswith(".")
    assert bool(fix.reason) is not fix.certain


def test_names_are_different() -> None:
    assert len({fix.name for fix in FIXES}) == len(FIXES)
    assert len({(fix.project, fix.commit) for fix in FIXES}) == len(FIXES)


def test_an_unknown_key_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "fixes.toml"
    path.write_text(DATA.read_text().replace("kind =", "sort ="))
    with pytest.raises(TypeError, match="sort"):
        fixes(path)


def test_fixes_are_chosen_by_the_beginnings_of_their_names() -> None:
    first = FIXES[0]
    assert chosen(FIXES, [first.name[:-3]]) == [first]
    assert chosen(FIXES, []) == FIXES
    with pytest.raises(ValueError, match="nothing-like-it"):
        chosen(FIXES, ["nothing-like-it"])


# --- histories ------------------------------------------------------------------------------------------------------


def test_a_tree_holds_what_the_linter_reads(
    project: tuple[Path, Fix], tmp_path: Path
) -> None:
    repository, fix = project
    checked_out(repository, f"{fix.commit}^", tmp_path / "tree")
    written = {path.name for path in (tmp_path / "tree").iterdir()}
    assert written == {"model.py", "sizes.py", "test_model.py"}
    assert (tmp_path / "tree" / "model.py").read_text() == WRONG + UNCHANGED


def test_files_of_tests_are_not_asked_for(project: tuple[Path, Fix]) -> None:
    repository, fix = project
    assert changed_files(repository, fix.commit) == ["model.py"]


def test_a_clone_may_be_bare_and_lie_in_its_folder(
    project: tuple[Path, Fix], tmp_path: Path
) -> None:
    repository, fix = project
    bare = tmp_path / "bare" / fix.folder / "repo"
    bare.parent.mkdir(parents=True)
    _git(tmp_path, "clone", "--quiet", "--bare", str(repository), str(bare))
    assert history(tmp_path / "bare", fix.folder) == bare
    assert history(tmp_path, fix.folder) == repository


def test_a_missing_clone_is_named_with_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(MissingHistoryError, match="git clone"):
        history(tmp_path, "google+flax")
    assert main([str(tmp_path), "flax", "optax"]) == 2
    said = capsys.readouterr().err
    assert f"git clone --bare https://github.com/google/flax {tmp_path}" in said
    assert "https://github.com/google-deepmind/optax" in said


def test_a_missing_commit_is_an_error(project: tuple[Path, Fix]) -> None:
    repository, _ = project
    with pytest.raises(MissingHistoryError, match="0123456"):
        checked_out(repository, "0123456" * 5, repository.parent / "tree")


# --- findings before and after --------------------------------------------------------------------------------------


def test_what_only_the_parent_has_is_found_in_place(
    project: tuple[Path, Fix],
) -> None:
    repository, fix = project
    verdict = judge(fix, repository, MINUTE)
    (gone,) = verdict.gone
    assert (gone.path, gone.line, gone.code) == ("model.py", 8, "ST204")
    assert verdict.outcome == IN_PLACE
    (left,) = verdict.remaining
    assert left.line == WRONG.count("\n") + 5
    assert not verdict.new
    text = markdown([verdict])
    assert "| all | 1 | 1 (100.0%) | 1 (100.0%) | 1 (100.0%) | 1 | 0 |" in text
    assert not list(missed([verdict]))
    assert list(remaining([verdict])) == [f"{fix.name}: remains: {left}"]


def test_the_command_reads_another_list(
    project: tuple[Path, Fix], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, fix = project
    data = tmp_path / "other.toml"
    entry = {"project": fix.project, "commit": fix.commit, "file": fix.file}
    entry |= {"kind": fix.kind, "wrong": fix.wrong}
    lines = [f'{key} = "{value}"' for key, value in entry.items()]
    lines += ["lines = [3]", "certain = true"]
    data.write_text("\n".join(["[[fix]]", *lines]))
    assert main([str(tmp_path), "--data", str(data), "--gone", "--missed"]) == 0
    printed = capsys.readouterr().out
    assert "**1 fixes** of 1 projects." in printed
    assert f"{fix.name}: {FOUND}: model.py:8: ST204" in printed


def test_no_name_of_a_fix_begins_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["somewhere", "nothing-like-it"]) == 2
    assert "nothing-like-it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("finding", "outcome"),
    [
        (Said("model.py", 8, "ST204", "no"), IN_PLACE),
        (Said("model.py", 5, "ST204", "no"), NEARBY),
        (Said("model.py", 4, "ST204", "no"), FOUND),
        (Said("other.py", 8, "ST204", "no"), FOUND),
        (Said("other.py", 1, "ST204", "no", (("model.py", 8),)), NEARBY),
        (Said("other.py", 1, "ST204", "no", (("other.py", 8),)), FOUND),
    ],
)
def test_how_near_a_finding_is(finding: Said, outcome: str) -> None:
    assert outcome_of([finding], "model.py", [(8, 8)]) == outcome


def test_nothing_that_both_have_is_found() -> None:
    same = [Said("model.py", line, "ST204", "no") for line in (3, 9)]
    moved = [Said("model.py", line, "ST204", "no") for line in (4, 12)]
    assert only_first(same, moved) == []
    assert only_first(same, moved[:1]) == [same[1]]
    assert outcome_of([], "model.py", [(3, 3)]) == NOTHING


def test_a_line_stands_for_its_statement() -> None:
    fix = Fix("a/b", "0" * 40, "model.py", (2,), "sizes", "Wrong.", True, "")
    assert wrong_places(fix, b"x = f(\n    1,\n)\n") == [(1, 3)]
    assert wrong_places(fix, b"print 'x'\nexec y\n") == [(2, 2)]
