"""``--add-ignore``: a comment for each finding, in a file that otherwise stays byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardlint import messages
from shardlint.ignoring import left
from shardlint.run import Report
from shardtypes.lang.diagnostics import Diagnostic, Place
from tests.lint.adopting import HEAD, MODEL, NORM, SWAPPED, concise, lint, project

pytestmark = pytest.mark.once  # JAX has no part in it

LINE = "    return x / jnp.sqrt(jnp.mean(x * x, axis=-1)) * scale"
MARK = "# shardlint: ignore[ST204]"


def write(folder: Path, data: bytes, *arguments: str) -> bytes:
    """What the file becomes; a second run finds nothing and changes nothing."""
    project(folder, {})
    (folder / "a.py").write_bytes(data)
    first = lint(folder, "--add-ignore", "a.py", *arguments)
    assert first.returncode == 0, first.stdout + first.stderr
    after = (folder / "a.py").read_bytes()
    assert concise(folder) == []
    again = lint(folder, "--add-ignore", "a.py", *arguments)
    assert (again.returncode, again.stdout) == (0, "No findings in 1 file.\n")
    assert "written" not in again.stderr
    assert (folder / "a.py").read_bytes() == after
    return after


def test_a_comment_for_each_finding(tmp_path: Path) -> None:
    project(tmp_path, {"a.py": MODEL})
    done = lint(tmp_path, "--add-ignore=to be looked at", "a.py")
    assert (done.returncode, done.stdout) == (0, "No findings in 1 file.\n")
    assert done.stderr.splitlines()[0] == (
        "shardlint: comments were written for 2 findings in 1 file"
    )
    expected = MODEL.replace(LINE, f"{LINE}  {MARK} to be looked at").replace(
        "jnp.exp(\n",
        "jnp.exp(  # shardlint: ignore[ST201] to be looked at\n",
    )
    assert (tmp_path / "a.py").read_text() == expected


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_lines_end_as_they_did(tmp_path: Path, ending: str, mark: str) -> None:
    text = f"{mark}{HEAD}{NORM}"
    expected = text.replace(LINE, f"{LINE}  {MARK}")
    found = write(tmp_path, text.replace("\n", ending).encode())
    assert found == expected.replace("\n", ending).encode()


def test_a_file_without_a_last_line_end(tmp_path: Path) -> None:
    text = f"{HEAD}{NORM}".rstrip("\n")
    assert write(tmp_path, text.encode()) == f"{text}  {MARK}".encode()


def test_another_encoding(tmp_path: Path) -> None:
    text = f"# coding: latin-1\n# é\n{HEAD}{NORM}"
    expected = text.replace(LINE, f"{LINE}  {MARK} später")
    found = write(tmp_path, text.encode("latin-1"), "--add-ignore=später")
    assert found == expected.encode("latin-1")
    (tmp_path / "a.py").write_bytes(text.encode("latin-1"))
    done = lint(tmp_path, "--add-ignore=→", "a.py")
    assert (done.returncode, done.stderr.splitlines()[-2]) == (
        2,
        "shardlint: a.py: its encoding, iso-8859-1, has no room for what would be written",
    )
    assert (tmp_path / "a.py").read_bytes() == text.encode("latin-1")


def test_a_line_with_a_comment_gets_one_above(tmp_path: Path) -> None:
    text = f"{HEAD}{NORM}".replace(LINE, f"{LINE}  # type: ignore")
    expected = text.replace(LINE, f"    {MARK}\n{LINE}")
    assert write(tmp_path, text.encode()) == expected.encode()


def test_a_suppression_that_is_there_gets_the_code(tmp_path: Path) -> None:
    """Of the line or above it, with its reason as it is."""
    body = (
        "def f(x: f32['B L'], y: f32['B M']) -> f32['L B']:\n"
        "    return jnp.exp(jnp.sum(x + y, axis=4))\n"
    )
    found = write(tmp_path, f"{HEAD}{body}".encode()).decode()
    codes = found.partition("ignore[")[2].partition("]")[0].split(",")
    assert codes
    kept = codes[0]
    for text in (
        body.replace("axis=4))", f"axis=4))  # shardlint: ignore[{kept}] why not"),
        body.replace("    ret", f"    # shardlint: ignore[{kept}] why not\n    ret"),
    ):
        expected = text.replace(f"[{kept}]", f"[{','.join(codes)}]")
        assert write(tmp_path, f"{HEAD}{text}".encode()) == f"{HEAD}{expected}".encode()


def test_a_line_that_goes_on(tmp_path: Path) -> None:
    """After a backslash there is no room for a comment."""
    body = NORM.replace("    return x / ", "    return \\\n        x / ")
    expected = body.replace("* scale\n", f"* scale  {MARK}\n")
    assert write(tmp_path, f"{HEAD}{body}".encode()) == f"{HEAD}{expected}".encode()


def test_in_a_string_of_several_lines(tmp_path: Path) -> None:
    """Where neither the line nor the one before it has room, the end of the statement has."""
    body = 'def f(x: f32["""\n  B L\n  B M) M\n"""]):\n    return x\n'
    done = write(tmp_path, f"{HEAD}{body}".encode()).decode()
    assert done.count("shardlint: ignore[") == 1
    assert done.replace("\r", "").startswith(HEAD)


def test_a_difference_writes_nothing(tmp_path: Path) -> None:
    project(tmp_path, {"a.py": f"{HEAD}{NORM}"})
    done = lint(tmp_path, "--add-ignore", "--diff", "--quiet", "--format", "concise")
    assert f"+{LINE}  {MARK}\n" in done.stdout
    assert (tmp_path / "a.py").read_text() == f"{HEAD}{NORM}"


CELL = {
    "cell_type": "code",
    "metadata": {},
    "outputs": [],
    "execution_count": None,
    "source": f"{HEAD}{NORM}",
}
NOTEBOOK = {"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
#: A program, and what is said of the finding that stays in it.
LEFT = {
    "a comment that silences nothing": (
        {"a.py": "x = 1  # shardlint: ignore[ST201]\n"},
        "a.py:1:8: no comment silences ST901; remove the comment that silences nothing, as --fix does",
    ),
    "no Python": (
        {"a.py": "x = (\n"},
        "a.py:1:5: no comment silences ST902; mend the file, or leave it out with `exclude` in the settings",
    ),
    "a code that there is not": (
        {"a.py": "x = 1  # shardlint: ignore[ST299]\n"},
        "a.py:1:8: no comment silences ST903; write a code that exists (`shardlint rules` lists them), or remove it",
    ),
    "a code in the settings": (
        {"a.py": "", "shardlint.toml": 'ignore = ["ST299"]\n'},
        "shardlint.toml:1:11: no comment silences ST903; write a code that exists (`shardlint rules` lists them), or "
        "remove it",
    ),
    "a notebook": (
        {"a.ipynb": json.dumps(NOTEBOOK)},
        "a.ipynb:cell 1:6:12: notebooks are not changed; write `# shardlint: ignore[CODE]` into the cell in the editor",
    ),
    "no room": (
        {"a.py": f'{HEAD}text = """\n"""; x = jnp.ones(2) @ jnp.ones(3)  # one\n'},
        "a.py:6:10: the line has no room for one, as in a string; write the statement in another way, or hide the "
        "finding with `per-file-ignores` or `shardlint baseline`",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_no_comment_silences_is_said(tmp_path: Path, name: str) -> None:
    """With what to do instead; the files stay, and it is no success."""
    files, message = LEFT[name]
    project(tmp_path, files)
    done = lint(tmp_path, "--add-ignore")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == f"shardlint: nothing written for {message}"
    for path, text in files.items():
        assert (tmp_path / path).read_text() == text
    # a comment beside it is no reason to say less
    (tmp_path / "other.py").write_text(f"{HEAD}{NORM}")
    again = lint(tmp_path, "--add-ignore")
    assert again.returncode == 1
    assert again.stderr.splitlines()[:2] == [
        "shardlint: comments were written for 1 finding in 1 file",
        f"shardlint: nothing written for {message}",
    ]


def test_what_stays_is_told_by_reason(tmp_path: Path) -> None:
    files = {f"{name}.py": "x = (\n" for name in "abcde"}
    project(tmp_path, {**files, "f.py": "x = 1  # shardlint: ignore[ST201]\n"})
    done = lint(tmp_path, "--add-ignore")
    first, second = done.stderr.splitlines()[:2]
    assert first.startswith(
        "shardlint: nothing written for a.py:1:5, b.py:1:5, c.py:1:5 and 2 more: no comment silences ST902; "
    )
    assert second.startswith(
        "shardlint: nothing written for f.py:1:8: no comment silences ST901;"
    )


def test_a_finding_in_a_file_that_was_not_asked_for() -> None:
    """As running a program that imports it finds them."""
    found = Diagnostic(
        "ST316", "device-count-dependence", "…", Place("b.py", 3, 5, 3, 6)
    )
    report = Report([found], judged={"a.py": lambda _: True})
    (line,) = left(report)
    assert line == f"nothing written for b.py:3:5: {messages.NOT_ASKED_FOR}"


def test_a_file_that_was_not_asked_for_stays(tmp_path: Path) -> None:
    project(tmp_path, {"a.py": f"{HEAD}{NORM}", "b.py": f"{HEAD}{SWAPPED}"})
    assert lint(tmp_path, "--add-ignore", "b.py").returncode == 0
    assert (tmp_path / "a.py").read_text() == f"{HEAD}{NORM}"
    assert concise(tmp_path) == ["a.py:6:12 ST204"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--add-ignore", "--fix"], "--add-ignore and --fix do not go together"),
        (["--add-ignore=a\nb"], "--add-ignore: a reason is one line"),
    ],
)
def test_bad_usage(tmp_path: Path, arguments: list[str], message: str) -> None:
    project(tmp_path, {"a.py": MODEL})
    done = lint(tmp_path, *arguments)
    assert (done.returncode, done.stderr) == (2, f"shardlint: {message}\n")


def test_the_value_is_no_path(tmp_path: Path) -> None:
    """``--add-ignore a.py`` is about a.py, not for the reason 'a.py'."""
    project(tmp_path, {"a.py": f"{HEAD}{NORM}"})
    assert lint(tmp_path, "--add-ignore", "a.py").returncode == 0
    assert f"{LINE}  {MARK}\n" in (tmp_path / "a.py").read_text()
