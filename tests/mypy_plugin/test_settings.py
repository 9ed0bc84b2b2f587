"""``[tool.shardlint]`` counts for mypy, too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mypy_plugin.cases import environment, found_by_file, run_mypy

pytestmark = pytest.mark.once

CODE = """\
from shardtypes import f32

def f(x: f32['batch/dd 10/t'], y: f32['B M']) -> f32['M B']:
    return y
"""
UNKNOWN = (3, "E", "no mesh has an axis 'dd' (axes: 'd', 't') [shardlint-ST103]")
INDIVISIBLE = (
    3,
    "E",
    "10 is not divisible by 4, the number of devices along 't' [shardlint-ST104]",
)
RETURNED = [
    (
        4,
        "E",
        "result of f: expected f32['M B'], got f32['B M']: dimension 0 is B, expected M (fails for B=2, M=3) "
        "[shardlint-ST201]",
    ),
    (4, "N", "line 3: declared f32['M B'] here"),
]


def checked(folder: Path, settings: str) -> list[tuple[int, str, str]]:
    (folder / "pyproject.toml").write_text(f"[tool.shardlint]\n{settings}\n")
    (folder / "code.py").write_text(CODE)
    return sorted(found_by_file(run_mypy(folder, "code.py")).get("code.py", []))


@pytest.mark.long
def test_changed_settings_reach_cached_files(project: Path) -> None:
    assert checked(project, "") == RETURNED
    assert checked(project, "mesh = { d = 2, t = 4 }") == sorted(
        [UNKNOWN, INDIVISIBLE, *RETURNED]
    )
    assert checked(project, "mesh = ['dd', 't']") == RETURNED
    assert checked(project, "mesh = { d = 2, t = 4 }\nignore = ['ST1']") == RETURNED
    assert checked(project, "mesh = { d = 2, t = 4 }\nselect = ['ST103']") == [UNKNOWN]
    ignored = (
        "mesh = { d = 2, t = 4 }\nper-file-ignores = { 'code.py' = ['ST104', 'ST201'] }"
    )
    assert checked(project, ignored) == [UNKNOWN]


def test_axes_that_code_makes_are_no_unknown_ones(project: Path) -> None:
    """Of another file, as for the linter."""
    (project / "train.py").write_text(
        "import jax\n\nstep = jax.pmap(print, axis_name='dd')\n"
    )
    assert checked(project, "mesh = { d = 2, t = 4 }") == sorted(
        [INDIVISIBLE, *RETURNED]
    )
    (project / "train.py").write_text("import jax\n")
    assert checked(project, "mesh = { d = 2, t = 4 }") == sorted(
        [UNKNOWN, INDIVISIBLE, *RETURNED]
    )


def test_comments_for_the_linter_count(project: Path) -> None:
    """On the line or above it, with the code of the rule; a comment that changes is seen in spite of the cache."""

    def found(comment: str, above: str = "") -> list[tuple[int, str, str]]:
        code = CODE.replace("    return y", f"{above}    return y{comment}")
        (project / "code.py").write_text(code)
        return found_by_file(run_mypy(project, "code.py")).get("code.py", [])

    assert found("  # shardlint: ignore[ST201] as it is") == []
    assert found("") == RETURNED
    unused = (
        "nothing to suppress: ST202 is not reported here; remove it [shardlint-ST901]"
    )
    assert found("  # shardlint: ignore[ST202]") == [*RETURNED, (4, "E", unused)]
    assert found("", "    # shardlint: ignore[ST201]\n") == []


def test_a_baseline_counts_and_one_that_is_missing_is_said(project: Path) -> None:
    missing = "shardlint: none.json: there is no such baseline; `shardlint baseline` writes one [shard-internal]"
    assert (1, "E", missing) in checked(project, 'baseline = "none.json"')
    command = [sys.executable, "-m", "shardlint", "baseline", "code.py"]
    subprocess.run(command, cwd=project, env=environment(), check=True)
    assert checked(project, 'baseline = "none.json"') == []


def test_code_of_the_command_line_has_no_file(project: Path) -> None:
    (project / "code.py").write_text(CODE)
    lines = run_mypy(project, arguments=("-c", "x: int = 'a'"))
    assert [line.partition(": ")[0] for line in lines] == ["<string>:1"]


def test_settings_are_found_where_mypys_own_lie(project: Path) -> None:
    inner = project / "inner"
    inner.mkdir()
    assert checked(project, "mesh = { d = 2, t = 4 }") == sorted(
        [UNKNOWN, INDIVISIBLE, *RETURNED]
    )
    (inner / "code.py").write_text(CODE)
    lines = run_mypy(
        inner,
        "code.py",
        arguments=("--config-file", "../mypy.ini", "--cache-dir", "../.mypy_cache"),
    )
    assert sorted(found_by_file(lines)["code.py"]) == sorted(
        [UNKNOWN, INDIVISIBLE, *RETURNED]
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "[tool.shardlint]\nmeshh = 3",
            "unknown key 'meshh' in the shardlint configuration; did you mean 'mesh'?",
        ),
        (
            "[tool.shardlint",
            "is not valid TOML: Expected ']' at the end of a table declaration (at end of document)",
        ),
    ],
)
def test_bad_settings_are_one_error(project: Path, text: str, problem: str) -> None:
    (project / "pyproject.toml").write_text(text)
    (project / "code.py").write_text(CODE)
    lines = run_mypy(project, "code.py", status=(2,))
    assert lines == [f"{project / 'pyproject.toml'}: error: {problem}"]
