"""``make demo``: its driver says so when a tool does not do what it should, and the whole of it passes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.models.examples import copy
from tests.support import ROOT, run_python

SCRIPT = ROOT / "fixtures" / "demo" / "run.py"


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("shardtypes_demo", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["shardtypes_demo"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.once
def test_a_silent_linter_fails_the_demo(demo: ModuleType, tmp_path: Path) -> None:
    """The bugs are looked for in a model that has none."""
    seeded = demo.seed(copy(demo.MODEL, tmp_path / "buggy"))
    verdict = demo.lint(copy(demo.MODEL, tmp_path / "correct"), seeded)
    assert verdict.said.startswith(f"found 0 of {len(seeded)} ")
    assert len(verdict.wrong) == len(seeded) + 1
    assert verdict.wrong[-1] == "exit status 0, not 1"


@pytest.mark.once
def test_findings_are_read_in_both_orders(demo: ModuleType, tmp_path: Path) -> None:
    """mypy writes the code after the place, full reports may write it before."""
    one = demo.seed(copy(demo.MODEL, tmp_path))[0]
    place = f"{one.bug.file}:{one.line}:"
    assert demo.reports(f"{place}7: error: wrong  [shard-axes]", one, "shard-axes")
    assert demo.reports(f"ST102 duplicate-mesh-axis\n  --> {place}7\n", one, "ST102")
    assert not demo.reports(f"{place}7: error: wrong  [shard-axes]", one, "ST102")
    assert not demo.reports(
        f"{one.bug.file}:{one.line + 1}:7: ST102 wrong", one, "ST102"
    )


@pytest.mark.long
@pytest.mark.once
def test_the_demo_passes() -> None:
    done = run_python(str(SCRIPT))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout.rpartition("== Summary ==")[2]
