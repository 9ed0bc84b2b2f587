"""Tests in two processes that compute together: all outcomes, in one run, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_shardtypes.processes import interrupts_later

from .conftest import ROOT, Run, until, until_gone

TESTS = """
import os, signal, subprocess, time
import jax, jax.numpy as jnp, numpy as np, pytest
from jax.sharding import PartitionSpec as P
from model import twice
from shardtypes import f32

together = pytest.mark.processes(timeout=20)
X = np.arange(16, dtype='float32').reshape(2, 8)

def test_alone():
    assert jax.process_count() == 1

@together
@pytest.mark.mesh(d=2, t=4)
def test_sum(shard):
    assert (jax.process_count(), len(jax.local_devices()), len(jax.devices())) == (2, 4, 8)
    x = shard(X, f32['B/d M/t'])
    assert not x.is_fully_addressable
    assert float(jax.jit(lambda x: x.sum())(twice(x))) == 240

@together
@pytest.mark.mesh(d=2)
def test_small_mesh_has_devices_of_both(mesh):
    assert {device.process_index for device in mesh.devices.flat} == {0, 1}

@together
def test_has_the_options_of_the_project(pytestconfig):
    assert (pytestconfig.getoption("layers"), pytestconfig.getoption("color_of_logs")) == (3, ["red", "blue"])

@together
def test_skipped():
    pytest.skip("not here")

@together
@pytest.mark.xfail(strict=True, reason="known")
def test_expected(record_property):
    record_property("rank", jax.process_index())
    assert False

@together
def test_one_fails():
    print("said by", jax.process_index())
    assert jax.process_index() == 0

@together
@pytest.mark.mesh(d=8)
def test_one_dies(mesh):
    if jax.process_index() == 1:
        child = subprocess.Popen(["sleep", "300"])
        print("last words", child.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    ones = jax.jit(lambda: jnp.ones(8), out_shardings=jax.NamedSharding(mesh, P('d')))()
    print(float(jax.jit(lambda x: x.sum())(ones)))

@pytest.mark.processes(timeout=3)
def test_one_hangs():
    if jax.process_index() == 0:
        time.sleep(300)
"""

CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--layers", type=int, default=1)
    parser.addoption("--color-of-logs", action="append")
"""


def test_outcomes(pytester: pytest.Pytester, run_anew: Run) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_it=TESTS, test_later="def test_in_another_module(): pass")
    (pytester.path / "model.py").write_text(
        "from __future__ import annotations\nfrom shardtypes import f32\n"
        "def twice(x: f32['B/d M/t']) -> f32['B/d M/t']:\n    return x * 2\n"
    )
    pytester.makeini(
        "[pytest]\nshardtypes = true\nshardtypes_processes = 2\npythonpath = .\n"
        "addopts = --strict-markers --layers=3 --color-of-logs=red"
    )
    result = run_anew(
        "--no-shardtypes-trace",
        "--color-of-logs=blue",
        "--junitxml=only_one.xml",
        "-k",
        "not absent",
    )
    result.assert_outcomes(passed=5, failed=3, skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "process 1 of 2: assert 1 == 0",
            "E       assert 1 == 0",
            "*- process 0: Captured stdout call -*",
            "said by 0",
            "*- process 1: Captured stdout call -*",
            "said by 1",
            "process 0 of 2: did not finish: it *",
            "process 1 of 2: did not finish: it is gone, with exit status -9",
            "*last words *",
            "process 0 of 2: did not finish: it was still running, and was ended",
            "annotated functions reached: 1 of 1",
            "sharded dimensions verified where their axis is larger than 1: 4 of 4",
            "FAILED test_it.py::test_one_fails - process 1 of 2: assert 1 == 0",
        ]
    )
    xml = (pytester.path / "only_one.xml").read_text()
    assert xml.count("test_sum") == 1
    assert xml.count('<property name="rank"') == 2
    (left,) = {line.split()[-1] for line in result.outlines if "last words " in line}
    assert not Path("/proc", left).exists()


@pytest.fixture
def environ() -> dict[str, str]:
    """The environment of a command that runs pytest on this source tree."""
    names = ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES", "JAX_PLATFORMS", "PYTEST_ADDOPTS")
    return {
        **{name: value for name, value in os.environ.items() if name not in names},
        "PYTHONPATH": str(ROOT),
    }


COMMAND = [
    sys.executable,
    "-m",
    "pytest",
    "-p",
    "pytest_shardtypes.plugin",
    "--shardtypes",
]


WAITING = """
import os, pathlib, pytest, time

@pytest.mark.processes
def test_waits():
    pathlib.Path({folder!r}, str(os.getpid())).touch()
    time.sleep(3000)
"""


@pytest.mark.long
@pytest.mark.once
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_when_the_first_process_ends(
    pytester: pytest.Pytester,
    environ: dict[str, str],
    tmp_path: Path,
    how: signal.Signals,
) -> None:
    """Neither a process nor a folder, and nobody waits for tests that are interrupted."""
    started, temporary = tmp_path / "started", tmp_path / "temporary"
    started.mkdir()
    temporary.mkdir()
    pytester.makepyfile(WAITING.format(folder=str(started)))
    environ["TMPDIR"] = str(temporary)
    command = [*COMMAND, "--shardtypes-processes=2", "-p", "no:cacheprovider"]

    # What a shell runs in the background ignores interrupts, and so would the processes that it starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        command, env=environ, cwd=pytester.path, stdout=subprocess.DEVNULL
    ) as parent:
        signal.signal(signal.SIGINT, before)
        until(lambda: len(list(started.iterdir())) == 2, parent)
        ranks = [entry.name for entry in started.iterdir()]
        assert list(temporary.glob("shardtypes-*"))
        parent.send_signal(how)
    until_gone(ranks)
    assert not list(temporary.glob("shardtypes-*"))


LATE = """
import jax, pathlib, pytest, time

@pytest.mark.processes
def test_that_one_takes_longer_for():
    if jax.process_index() == 1:
        time.sleep(1)
        pathlib.Path("late").touch()

@pytest.mark.processes
def test_that_all_begin_together():
    assert pathlib.Path("late").exists()
"""


@pytest.mark.once
@pytest.mark.long
def test_all_processes_begin_each_test_together(
    pytester: pytest.Pytester, run_anew: Run
) -> None:
    """The first communication of those that come to it 30 s apart fails."""
    pytester.makepyfile(LATE)
    run_anew("--shardtypes", "--shardtypes-processes=2").assert_outcomes(passed=2)


INTERRUPTED_AGAIN = """
import os, pathlib, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_keyboard_interrupt():
    raise KeyboardInterrupt  # as by a second Ctrl-C, while pytest tells of the first

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish():
    folder = pathlib.Path({folder!r})
    if not (folder / str(os.getpid())).exists():
        alive = [rank for rank in folder.iterdir() if pathlib.Path("/proc", rank.name).exists()]
        print("still waited for:", len(alive))
"""

BETWEEN = """
import os, pathlib, pytest, time

@pytest.mark.processes
def test_together():
    pass

def test_alone():
    while len(list(pathlib.Path({folder!r}).iterdir())) < 2:
        time.sleep(0.1)
    raise KeyboardInterrupt

@pytest.mark.processes
def test_waits():
    pathlib.Path({folder!r}, str(os.getpid())).touch()
    time.sleep(3000)
"""

DURING = """
import os, pathlib, pytest, signal, time

@pytest.mark.processes
def test_waits():
    folder = pathlib.Path({folder!r})
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) < 2:
        time.sleep(0.1)
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(3000)
"""


@pytest.mark.long
@pytest.mark.once
@pytest.mark.parametrize("tests", [BETWEEN, DURING], ids=["between", "during"])
def test_a_second_interrupt_waits_for_nobody_either(
    pytester: pytest.Pytester, run_anew: Run, tmp_path: Path, tests: str
) -> None:
    """Whether the first comes while a test runs in the processes or here, between two of theirs."""
    started = tmp_path / "started"
    started.mkdir()
    pytester.makeconftest(INTERRUPTED_AGAIN.format(folder=str(started)))
    pytester.makepyfile(tests.format(folder=str(started)))
    result = run_anew("--shardtypes", "--shardtypes-processes=2", "-s")
    result.stdout.fnmatch_lines(["*still waited for: 0"])
    assert len(list(started.iterdir())) == 2


@pytest.fixture(autouse=True)
def python_handles_interrupts() -> Iterator[None]:
    """What starts the tests in the background may have interrupts ignored, by what these start as well."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_does_not_keep_processes_from_being_ended() -> None:
    done = []

    def interrupted() -> None:
        with interrupts_later():
            signal.raise_signal(signal.SIGINT)
            done.append("ended")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["ended"]
    with interrupts_later():
        done.append("without")
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_another_thread_ends_processes_as_well() -> None:
    done = []

    def end() -> None:
        with interrupts_later():
            done.append("ended")

    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    assert done == ["ended"]


@pytest.mark.once
def test_processes_of_a_launcher(
    pytester: pytest.Pytester, environ: dict[str, str]
) -> None:
    """As SLURM starts them: each runs the tests itself, and one of them writes the report. Alone it is an error."""
    pytester.makepyfile(
        """
        import jax, numpy as np, pytest
        from shardtypes import f32

        @pytest.mark.processes
        @pytest.mark.mesh(d=4)
        def test_sum(shard):
            assert jax.process_count() == 2
            assert float(jax.jit(lambda x: x.sum())(shard(np.ones(8, "float32"), f32["B/d"]))) == 8
        """
    )
    command = [
        *COMMAND,
        "--shardtypes-processes=0",
        "--shardtypes-devices=2",
        "--shardtypes-report=r.json",
    ]
    slurm = {
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_STEP_NODELIST": "127.0.0.1",
        "SLURM_NTASKS": "2",
    }
    started = [
        subprocess.Popen(
            command,
            env={
                **environ,
                **slurm,
                "SLURM_PROCID": str(rank),
                "SLURM_LOCALID": str(rank),
            },
            cwd=pytester.path,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [process.communicate()[0] for process in started]
    assert all("1 passed" in output for output in outputs), outputs
    assert sorted("report: " in output for output in outputs) == [False, True]
    alone = subprocess.run(
        command,
        env=environ,
        cwd=pytester.path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert alone.returncode == pytest.ExitCode.USAGE_ERROR
    assert "joins the processes of a launcher, and there is none" in alone.stderr
