"""The script that runs the linter over checkouts: it reports what was found, and survives whatever it meets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import public_code

pytestmark = pytest.mark.once

WRONG = """\
import jax
from shardtypes import f32


def f(x: f32["B M"]) -> f32["M B"]:
    jax.no_such_function(x)
    return x
"""


NOT_RUN = """\
import jax


def total(x, config):
    return jax.pmap(lambda part: part + config.size, axis_name="d")(x)
"""


def test_a_checkout_and_one_that_is_not_there(tmp_path: Path) -> None:
    """In a process of its own: the peak of a child on Linux is at least what its parent had when it was started."""
    checkout = tmp_path / "project"
    checkout.mkdir()
    (checkout / "a.py").write_text(WRONG)
    (checkout / "gone.py").symlink_to(checkout / "nothing")
    output = tmp_path / "report"
    command = [sys.executable, "-m", "benchmarks.public_code"]
    roots = [str(tmp_path / "nowhere"), str(checkout)]
    run = subprocess.run(
        [*command, *roots, "--output", str(output)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stderr
    missing, found = json.loads((output / "report.json").read_text())
    assert missing["complaints"] == ["no such folder"]
    assert [(f["code"], f["path"], f["line"]) for f in found["findings"]] == [
        ("ST201", "a.py", 7)
    ]
    assert found["findings"][0]["context"][-1] == ">    7     return x"
    assert found["unmodelled"] == {"jax.no_such_function": 1}
    assert found["status"] == 1
    assert "shardlint: not checked: gone.py (a link to nothing)" in found["notes"]
    assert found["lines"] == 7
    assert 1 < found["peak"] < 1000
    assert found["wall"] > 0
    text = (output / "report.md").read_text()
    assert "### ST201 `a.py:7:12`" in text
    assert "| 1 | `jax.no_such_function` |" in text
    assert run.stdout.count("FAILED") == 1


def test_modules_of_a_checkout_are_not_imported(tmp_path: Path) -> None:
    """What is in the folder has the names of what the linter itself imports, as in ``site-packages``."""
    (tmp_path / "libcst").mkdir()
    for name in ("libcst/__init__.py", "numpy.py", "json.py", "shardlint.py"):
        (tmp_path / name).write_text("raise ImportError('a module of the checkout')\n")
    (tmp_path / "a.py").write_text(WRONG)
    result = public_code.check(tmp_path)
    assert result.complaints == []
    assert [f["code"] for f in result.findings] == ["ST201"]


def test_what_is_not_run_in_numbers_is_a_note(tmp_path: Path) -> None:
    """A function of which the linter says that it was not run is no fault of the linter."""
    (tmp_path / "a.py").write_text(NOT_RUN)
    result = public_code.check(tmp_path)
    assert not result.failed, result.complaints
    assert result.notes[1:] == [
        "shardlint: 1 program or function was not run on other numbers of devices: "
        "--statistics says which and why"
    ]
    (gap,) = result.gaps
    assert gap.startswith("not run on other numbers of devices: a.py: total: ")


def test_a_run_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(WRONG)
    result = public_code.check(tmp_path, timeout=0.01)
    assert result.failed
    assert result.complaints == ["not done after 0.01 s"]
