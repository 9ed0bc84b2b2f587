"""Cells of a real session of IPython, checked as they are run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import run_python

pytestmark = pytest.mark.once

SESSION = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell

sys.stderr = sys.stdout
shell = InteractiveShell.instance(colors="nocolor")
for number, cell in enumerate(json.loads(sys.argv[1]), 1):
    print(f"<{number}>", flush=True)
    shell.run_cell(cell, store_history=True)
"""


def outputs(cells: Sequence[str], folder: Path) -> list[str]:
    """What a session prints for each cell, run after ``%load_ext shardlint``."""
    session = json.dumps(["%load_ext shardlint", *cells])
    home = {"IPYTHONDIR": str(folder / ".ipython")}
    done = run_python("-c", SESSION, session, cwd=folder, env=home)
    assert done.returncode == 0, done.stderr
    first, *found = done.stdout.split("<1>")[1].split("\n<")
    assert first.strip() == ""
    return [text.partition(">")[2].strip() for text in found]


MADE = "import numpy as np\nw = np.ones((3, 4))"
WRONG = "x = np.ones((5, 2)) @ w"
UNCALLED = "def product():\n    return np.ones((5, 2)) @ w"


def test_a_cell_is_checked_before_it_runs(tmp_path: Path) -> None:
    made, wrong, right = outputs([MADE, WRONG, "(np.ones((5, 3)) @ w).shape"], tmp_path)
    assert made == ""
    assert wrong.startswith(
        "ST204 [operator-mismatch] @: cannot contract '5 2' with '3 4': 2 against 3\n"
        "  --> session.ipynb:cell 3:1:5\n"
    )
    assert "ValueError: matmul" in wrong  # it ran, as it would have
    assert right == "Out[4]: (5, 4)"


def test_what_failed_defines_nothing(tmp_path: Path) -> None:
    """``w`` stays what the cell before made of it: the one that was to change it ended before."""
    failed, used = outputs(
        [MADE, "1 / 0\nw = np.ones(7)", "(w + np.ones((3, 4))).shape"], tmp_path
    )[1:]
    assert "ZeroDivisionError" in failed
    assert used == "Out[4]: (3, 4)"


def test_magics(tmp_path: Path) -> None:
    found = outputs(
        [
            MADE,
            "%shardlint",
            "%shardlint off",
            UNCALLED,
            "%shardlint on",
            "%shardlint",
            "%%shardlint\nw + np.ones(7)",
            "%%shardlint\nw + np.ones(4)",
            "%shardlint now",
            "%unload_ext shardlint",
            "%shardlint",
        ],
        tmp_path,
    )
    assert found[1] == "1 cell, no findings"
    assert found[2:5] == ["", "", ""]
    assert "cannot contract '5 2' with '3 4'" in found[5]
    assert "cell 5:2:12" in found[5]
    assert "shapes '3 4' and '7' do not broadcast" in found[6]
    assert "ValueError" not in found[6]  # it did not run
    assert found[7] == "no findings"
    assert found[8].startswith("UsageError: %shardlint now: %shardlint checks")
    assert found[10] == "UsageError: Line magic function `%shardlint` not found."


def test_settings_and_what_cannot_be_read(tmp_path: Path) -> None:
    """Settings are those of the folder; that a cell is no Python is IPython's to say, once."""
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\nignore = ['ST204']\n")
    ignored, broken = outputs([MADE + "\nw.shape", "def f(:"], tmp_path)
    assert ignored == "Out[2]: (3, 4)"
    assert broken.count("SyntaxError") == 1 and "ST9" not in broken
    silent = outputs(
        [MADE, f"try:\n    {WRONG}\nexcept ValueError:\n    pass"], tmp_path
    )
    assert silent == ["", ""]
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\nignore = 3\n")
    (told,) = outputs(["1 + 1"], tmp_path)
    assert told.startswith("shardlint: ") and "ignore" in told
    assert told.endswith("Out[2]: 2")
