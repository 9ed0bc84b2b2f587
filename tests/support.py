"""Helpers that several test folders use."""

from __future__ import annotations

import atexit
import json
import mmap
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import files
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: How long a process may do nothing at all before it hangs. A busy machine makes one slow, never still for so long.
_STILL_SECONDS = 300


class Progress:
    """Whether a process and its children still work, by the processor's time that they have used: how long that takes
    depends on what else the machine has to do, so tests have no limits in seconds."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used = self._look()
        self._since = time.monotonic()

    def hangs(self) -> bool:
        """It has used nothing for a long while."""
        used = self._look()
        if used != self._used or used is None:  # None: this system does not tell
            self._used, self._since = used, time.monotonic()
        return time.monotonic() - self._since > _STILL_SECONDS

    def _look(self) -> dict[int, str] | None:
        stats = {}
        try:
            entries = [entry for entry in os.listdir("/proc") if entry.isdigit()]
        except FileNotFoundError:
            return None
        for entry in entries:
            try:
                fields = (
                    Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
                )
            except OSError:  # it has ended meanwhile
                continue
            stats[int(entry)] = (int(fields[1]), f"{fields[11]} {fields[12]}")
        mine = {self._pid}
        size = 0
        while size != len(mine):
            size = len(mine)
            mine |= {pid for pid, (parent, _) in stats.items() if parent in mine}
        return {pid: used for pid, (_, used) in stats.items() if pid in mine}


def wait_for(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process ends by itself, however long it works.

    Raises:
        TimeoutError: it hangs, and was killed.
    """
    progress = Progress(process.pid)
    while True:
        try:
            process.wait(1)
            return
        except subprocess.TimeoutExpired:
            if progress.hangs():
                process.kill()
                process.wait()
                command = process.args
                raise TimeoutError(f"{command} does nothing any more") from None


def run(
    command: Sequence[str | Path],
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    together: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; the caller judges the exit status. With ``together`` both outputs are one.

    Raises:
        TimeoutError: it hangs.
    """
    # a pipe that is full would make it wait
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdout=out,
            stderr=subprocess.STDOUT if together else err,
        )
        wait_for(process)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    return subprocess.CompletedProcess(command, process.returncode, *texts)


def run_python(
    *args: str, cwd: Path = ROOT, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run this interpreter with ``args``, on this source tree; the caller judges the exit status."""
    merged = {**os.environ, **(env or {})}
    merged["PYTHONPATH"] = os.pathsep.join(
        p for p in (str(ROOT), merged.get("PYTHONPATH", "")) if p
    )
    return run([sys.executable, *args], cwd, merged)


class Warm:
    """Commands in processes of their own, forked from one that has imported what they need."""

    def __init__(self, module: str, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            cwd=ROOT,
            env={**env, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        atexit.register(self._process.kill)

    def run(
        self, *arguments: str, cwd: Path, env: Mapping[str, str], together: bool
    ) -> subprocess.CompletedProcess[str]:
        """The command with these arguments.

        Raises:
            TimeoutError: it hangs.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with (
            tempfile.NamedTemporaryFile() as out,
            tempfile.NamedTemporaryFile() as err,
        ):
            command = {
                "arguments": arguments,
                "cwd": str(cwd),
                "env": dict(env),
                "stdout": out.name,
                "stderr": out.name if together else err.name,
            }
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
            progress = Progress(self._process.pid)
            while not select.select([self._process.stdout], [], [], 1)[0]:
                if progress.hangs():
                    self._process.kill()
                    raise TimeoutError(f"{arguments} does nothing any more")
            status = int(self._process.stdout.readline())
            texts = [file.read().decode("utf-8", "replace") for file in (out, err)]
        return subprocess.CompletedProcess(arguments, status, *texts)


#: What a run of pytest may set for itself: it is read where the run needs it.
_READ_LATER = ("JAX_NUM_CPU_DEVICES", "JAX_PLATFORMS", "PYTHONPATH", "PYTHONSAFEPATH")


@cache
def warm(module: str, variables: frozenset[tuple[str, str]]) -> Warm:
    """The one of this process with what interpreters and libraries read from the environment when they start."""
    # threads that computed before would be missing in the children
    fixed = {"OPENBLAS_NUM_THREADS": "1"}
    others = {
        name: value
        for name, value in os.environ.items()
        if not _read_at_start(name) and name not in _READ_LATER
    }
    return Warm(module, {**others, **dict(variables), **fixed})


def _read_at_start(name: str) -> bool:
    if name in _READ_LATER:
        return False
    return name.startswith(("JAX_", "PYTHON", "LANG", "LC_"))


def _run_warm(
    module: str,
    arguments: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    together: bool,
) -> subprocess.CompletedProcess[str]:
    variables = frozenset(one for one in env.items() if _read_at_start(one[0]))
    forked = warm(module, variables)
    return forked.run(*arguments, cwd=cwd, env=env, together=together)


def run_linter(
    *arguments: str,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    together: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run ``shardlint`` with these arguments, on this source tree; the caller judges the exit status. With ``together``
    both outputs are one."""
    merged = {**os.environ, **(env or {})}
    return _run_warm("tests.warm_linter", arguments, cwd, merged, together)


def run_pytest(
    *arguments: str,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    together: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m pytest`` with these arguments, on this source tree; the caller judges the exit status. With
    ``together`` both outputs are one."""
    merged = {**os.environ, **(env or {})}
    merged["PYTHONPATH"] = os.pathsep.join(
        path for path in (str(ROOT), merged.get("PYTHONPATH", "")) if path
    )
    return _run_warm("tests.warm_pytest", arguments, cwd, merged, together)


def force_devices(count: int = 8) -> None:
    """That many devices on the CPU; to be called before anything in this process starts JAX's backend."""
    flag = "--xla_force_host_platform_device_count"
    if flag not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = (
            f"{os.environ.get('XLA_FLAGS', '')} {flag}={count}".strip()
        )


@cache
def quick_xla_flags() -> str:
    """What makes XLA compile small programs quickly: the emitters of fused loops are over half of its time in JAX 0.10.

    A jaxlib that does not know a flag ends the process, so the library is asked first; 0.12 does not have this one.
    """
    flag = "xla_cpu_use_fusion_emitters"
    known = any(
        _contains(Path(str(file.locate())), f"{flag}\0".encode())
        for file in files("jaxlib") or ()
        if file.name.startswith("libjax_common.")
    )
    return f"--{flag}=false" if known else ""


def _contains(path: Path, text: bytes) -> bool:
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return content.find(text) >= 0
