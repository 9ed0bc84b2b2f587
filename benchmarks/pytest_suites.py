"""What ``--shardtypes`` costs a suite that exists: which tests pass, and the processor's time, without it and with it.

Usage: ``python -m benchmarks.pytest_suites FOLDER TEST…``, with a checkout of a project and tests to run in it, in an
environment that has what they need. ``--set NAME=VALUE`` compares an environment variable instead. All runs take turns;
times are medians of so many rounds as ``--rounds`` says, of pytest and all its processes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.timing import Rounds, commands_in_turns, processor_seconds

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = ("-p", "pytest_shardtypes.plugin")


def main() -> int:
    """Run both ways and print them. Status 1 where they have other outcomes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--set", default="", help="NAME=VALUE to compare instead")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    name, _, value = given.set.partition("=")
    ways: dict[str, tuple[Sequence[str], Mapping[str, str]]] = {"without": ((), {})}
    if name:
        ways["with"] = (), {name: value}
    else:
        ways["with"] = ("--shardtypes",), {}
    outcomes = {
        way: outcome(given.folder, given.tests, *more) for way, more in ways.items()
    }
    found: Rounds = commands_in_turns(
        {
            way: (lambda more=more: seconds(given.folder, given.tests, *more))
            for way, more in ways.items()
        },
        given.rounds,
    )
    for way, spent in found.items():
        print(f"{way:8} {outcomes[way]}, {statistics.median(spent):.1f} s")
    return 0 if len(set(outcomes.values())) == 1 else 1


def command(tests: Sequence[str], options: Sequence[str]) -> list[str]:
    """A run of pytest that traces no functions, which would be tests of their own."""
    traces = ["--no-shardtypes-trace"] if options else []
    quiet = ["-q", "-p", "no:cacheprovider"]
    return [sys.executable, "-m", "pytest", *PLUGIN, *quiet, *options, *traces, *tests]


def environment(more: Mapping[str, str]) -> dict[str, str]:
    return {"JAX_PLATFORMS": "cpu", **os.environ, "PYTHONPATH": str(ROOT), **more}


def outcome(
    folder: Path, tests: Sequence[str], options: Sequence[str], more: Mapping[str, str]
) -> str:
    """How many tests pass, and how many do not."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "report.xml")
        subprocess.run(
            [*command(tests, options), f"--junitxml={report}"],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            env=environment(more),
            check=False,
        )
        suite = ElementTree.parse(report).getroot().find("testsuite")
    assert suite is not None
    count, *others = (
        int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")
    )
    return f"{count - sum(others)} pass, {others[0] + others[1]} fail"


def seconds(
    folder: Path, tests: Sequence[str], options: Sequence[str], more: Mapping[str, str]
) -> float:
    """What such a run takes of the processor."""
    return processor_seconds(command(tests, options), folder, environment(more))


if __name__ == "__main__":
    sys.exit(main())
