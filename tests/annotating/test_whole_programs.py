"""Programs that others wrote stay right when they are annotated: no finding appears, and they run with every annotation
checked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support import ROOT, run_linter, run_pytest

pytestmark = pytest.mark.long

PROGRAMS = ROOT / "benchmarks/whole_programs/programs"
#: Those that run with every annotation checked: equinox, manual code of annotated functions, and a recurrent model.
RUN = ("eqx_vit", "megatron_sp", "vocab_parallel_lru")

CALLS = """
import importlib

import pytest


@pytest.mark.parametrize("name", {names!r})
def test_program(name):
    importlib.import_module(name).main()
"""


def test_nothing_is_found_that_was_not_before(tmp_path: Path) -> None:
    for path in PROGRAMS.glob("*.py"):
        shutil.copy(path, tmp_path)
    done = run_linter("annotate", "--no-cache", ".", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    changed = [
        path
        for path in PROGRAMS.glob("*.py")
        if (tmp_path / path.name).read_text() != path.read_text()
    ]
    assert len(changed) >= 30


def test_annotated_programs_run_with_their_annotations_checked(tmp_path: Path) -> None:
    for name in RUN:
        shutil.copy(PROGRAMS / f"{name}.py", tmp_path)
    done = run_linter("annotate", ".", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    (tmp_path / "test_programs.py").write_text(CALLS.format(names=RUN))
    ran = run_pytest("-q", "--shardtypes", "test_programs.py", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert f"{len(RUN)} passed" in ran.stdout
