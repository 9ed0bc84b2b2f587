"""A test that calls a program and nothing else, under ``pytest --shardtypes --shardtypes-prove``, as a tool."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.findings import Said

TEST_RUN = "a test that calls the program"
_TEST = "import {name}\n\n\ndef test_program():\n    {name}.main()\n"
_SECTION = re.compile(r"^_{3,} .* _{3,}$", re.MULTILINE)
_PLACE = re.compile(r"^(?P<indent> *)(?P<path>\w+\.py):(?P<line>\d+): (?P<what>.*)$")
_FAILED = 1


def test_run(folder: Path, *, seconds: float) -> Iterator[Said]:
    """What fails in a folder with one module, on eight forced devices.

    Raises:
        RuntimeError: the run neither passed nor failed.
    """
    (module,) = folder.glob("*.py")
    test = folder / f"test_{module.stem}.py"
    test.write_text(_TEST.format(name=module.stem))
    command = [
        *(sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"),
        *("--shardtypes", "--shardtypes-prove", "--shardtypes-devices=8", test.name),
    ]
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode not in (0, _FAILED):
        raise RuntimeError(
            f"pytest ended with {done.returncode}: {done.stdout[-2000:]}"
        )
    if done.returncode == _FAILED:
        yield from failures(done.stdout, folder, module.name)


def failures(report: str, folder: Path, module: str) -> Iterator[Said]:
    """The places that each failure names: of a traceback the last line of the program, of a comparison the line that
    is to blame, and those that have to do with it."""
    _, _, details = report.partition("= FAILURES =")
    details, _, _ = details.partition("= shardtypes =")
    for section in _SECTION.split(details)[1:]:
        lines = section.strip().splitlines()
        raised = [line[4:] for line in lines if line.startswith("E   ")]
        message = raised[0] if raised else lines[0]
        places = [found for found in map(_PLACE.match, lines) if found is not None]
        own = [found for found in places if found["path"] == module]
        if raised:
            own = own[-1:]
        if not own:
            yield folder / module, 1, message, False
        for number, found in enumerate(own):
            yield folder / module, int(found["line"]), message, number > 0
