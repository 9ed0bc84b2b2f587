"""Programs that are run in numbers, from the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from shardlint.cli import main
from shardlint.evaluation.modules import NOT_READ
from shardlint.rules import all_rules, rule
from tests.evaluation.changes import CHANGES, PROGRAMS, source
from tests.support import run_python

pytestmark = pytest.mark.once  # JAX has no part in it

STEP = """
import jax.numpy as jnp
from jax import lax


def mean_square(x):
    return lax.psum(jnp.sum(x * x), "d") / {divisor}
"""
TRAIN = """
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from step import mean_square

if __name__ == "__main__":
    mesh = jax.make_mesh((4,), ("d",))
    print(jax.shard_map(mean_square, mesh=mesh, in_specs=P("d"), out_specs=P())(jnp.ones((8, 16))))
"""
NOTEBOOK = {
    "cells": [{"cell_type": "code", "metadata": {}, "source": "size = 8\n"}],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}
RIGHT, WRONG = 'lax.psum(x.size, "d")', "x.size"


def lint(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    status = main(["--format", "concise", "--jobs", "1", *args])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\n")
    (tmp_path / "step.py").write_text(STEP.format(divisor=WRONG))
    (tmp_path / "train.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_right_programs_have_no_finding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\n")
    for path in PROGRAMS.glob("*.py"):
        (tmp_path / path.name).write_text(path.read_text())
    status, out, err = lint(capsys, "--no-cache", "--select", "ST316", str(tmp_path))
    assert (status, out.strip()) == (0, "")
    assert "3 files checked" in err


@pytest.mark.parametrize("code", ["ST316", "ST318", "ST319"])
def test_the_example_of_the_rule(
    code: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    about = rule(code)
    assert about is not None
    for section, codes in (("Example", [code]), ("Use instead", [])):
        (tmp_path / "model.py").write_text(about.docs().program(section))
        _, out, _ = lint(capsys, "--no-cache", str(tmp_path / "model.py"))
        assert [
            line.split()[1] for line in out.splitlines() if "model.py" in line
        ] == codes


def test_the_examples_run_in_jax(tmp_path: Path) -> None:
    """What is to be used instead runs, and so does what is wrong in silence."""
    texts = []
    for about in all_rules():
        docs = about.docs()
        texts.append(docs.program("Use instead"))
        if about.code in ("ST316", "ST318"):
            texts.append(docs.program("Example"))
    programs = [text for text in texts if "__main__" in text]
    assert len(programs) >= 4
    for number, text in enumerate(programs):
        (tmp_path / f"program{number}.py").write_text(text)
    ended = run_python("-c", RUN_ALL, str(tmp_path))
    assert ended.returncode == 0, ended.stderr


RUN_ALL = """
import runpy, sys
from pathlib import Path
from tests.support import force_devices
force_devices(8)
for path in sorted(Path(sys.argv[1]).glob("*.py")):
    runpy.run_path(str(path), run_name="__main__")
"""


def test_a_finding_is_in_the_file_where_the_results_depart(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    status, out, _ = lint(capsys, "--no-cache", "train.py")
    assert status == 1
    assert out.startswith(
        "step.py:7:12: ST316 mean_square's result depends on the number of devices along 'd' (4 and 2"
    )


def test_a_package_beside_a_notebook_of_its_name_is_imported_from(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    package = tmp_path / "layers"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "step.py").write_text(STEP.format(divisor=WRONG))
    program = TRAIN.replace("from step import mean_square", "from layers import step")
    program = program.replace("(mean_square,", "(step.mean_square,")
    (tmp_path / "train.py").write_text(program)
    (tmp_path / "layers.ipynb").write_text(json.dumps(NOTEBOOK))
    status, out, err = lint(capsys, "--no-cache", "--statistics", str(tmp_path))
    assert "not run on other numbers of devices" not in err
    assert status == 1
    assert out.startswith(f"{package / 'step.py'}:7:12: ST316 "), out


def test_it_is_found_anew_when_an_imported_file_changes(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    found = []
    for divisor in (WRONG, WRONG, RIGHT, RIGHT, WRONG):
        (project / "step.py").write_text(STEP.format(divisor=divisor))
        found.append("ST316" in lint(capsys, ".")[1])
    assert found == [True, True, False, False, True]


def test_it_can_be_switched_off(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    assert "ST316" not in lint(capsys, "--no-cache", "--no-evaluate", ".")[1]
    (project / "pyproject.toml").write_text("[tool.shardlint]\nevaluate = false\n")
    assert "ST316" not in lint(capsys, "--no-cache", ".")[1]


def test_a_program_that_cannot_be_run_is_named_with_the_reason(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    (project / "step.py").write_text(
        "import torch\n" + STEP.format(divisor="torch.tensor(2.0)")
    )
    _, out, _ = lint(capsys, "--no-cache", "--statistics", ".")
    assert (
        "not run on other numbers of devices: train.py: torch.tensor, which is not evaluated"
        in out
    )


@pytest.mark.filterwarnings("error")
def test_a_program_that_an_event_loop_runs_is_named(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    """None of its coroutines is made: Python would say on standard error that nobody waited for it."""
    program = TRAIN.replace('if __name__ == "__main__":', "async def serve(size=8):")
    ending = "\n\nif __name__ == '__main__':\n    print(serve())\n"
    (project / "train.py").write_text(program + ending)
    _, out, err = lint(capsys, "--no-cache", "--statistics", ".")
    assert "train.py: a function that an event loop runs" in out
    assert "never awaited" not in err


ALONE = """\
import functools
import jax
from jax import lax
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("d",))

@functools.partial(jax.shard_map, mesh=mesh, in_specs=P("d"), out_specs=P())
def loss(x):
    return lax.psum((x ** 2).mean(), "d")
"""


def test_what_is_not_reported_of_functions_alone_is_counted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "alone.py").write_text(ALONE)
    _, out, err = lint(capsys, "--no-cache", "--statistics", str(tmp_path))
    assert "loss's result depends on the number of devices along 'd'" in out
    assert "alone.py:10: " in out and "as its callers may mean" in out
    assert (
        "1 function's result depends on the number of devices, as its callers may mean"
        in err
    )


def test_a_module_of_a_newer_python_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    body = TRAIN.replace(
        "if __name__",
        "def step(x):\n    return jax.shard_map(mean_square)(x)\n\nif __name__",
    )
    (tmp_path / "train.py").write_text(f"type Pair = tuple[int, int]\n{body}")
    _, out, err = lint(capsys, "--no-cache", "--statistics", str(tmp_path))
    assert "failed" not in err
    assert (
        f"train.py: {NOT_READ}" in out
        if sys.version_info < (3, 12)
        else "step: its argument x" in out
    )


def test_a_line_can_suppress_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    change = next(one for one in CHANGES if one.name == "local_size")
    old = '    total = lax.psum(jnp.sum(table * table), "rows") / table.shape[0]'
    (tmp_path / "model.py").write_text(
        change.text.replace(old, f"{old}  # shardlint: ignore[ST316] as published")
    )
    assert source(change.program) != change.text
    assert (
        "ST"
        not in lint(capsys, "--no-cache", "--select", "ST", str(tmp_path / "model.py"))[
            1
        ]
    )


def test_a_line_of_an_imported_file_can_suppress_it(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    marked = f"{STEP.format(divisor=WRONG).rstrip()}  # shardlint: ignore[ST316] a part of them\n"
    (project / "step.py").write_text(marked)
    # Whoever checks the changed file alone, as a commit does, is not told that the comment is in vain.
    for asked in (".", "step.py", "train.py"):
        assert "ST" not in lint(capsys, "--no-cache", "--select", "ST", asked)[1]
    (project / "step.py").write_text(marked.replace(WRONG, RIGHT))
    assert "step.py:7:67: ST901" in lint(capsys, "--no-cache", "--select", "ST", ".")[1]
    assert "ST" not in lint(capsys, "--no-cache", "--select", "ST", "step.py")[1]


def test_a_comment_is_not_called_unused_where_nothing_is_run(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    (project / "step.py").write_text(
        f"{STEP.format(divisor=RIGHT).rstrip()}  # shardlint: ignore[ST316] why\n"
    )
    (project / "pyproject.toml").write_text("[tool.shardlint]\nevaluate = false\n")
    assert "ST" not in lint(capsys, "--no-cache", "--select", "ST", ".")[1]
