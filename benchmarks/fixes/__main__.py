"""Lint public projects before and after commits that fix a shape, an axis, a dtype or a sharding.

Usage: ``python -m benchmarks.fixes HISTORIES [NAME…] [--missed] [--gone] [--remaining]``. HISTORIES is a folder of
clones, bare or not, each named OWNER+NAME, or holding the clone as ``repo``. NAME is the beginning of a fix's name,
such as ``flax`` or ``flax-9aa8``. Nothing of the projects is run. Exit status 1: the linter failed, or took too long;
2: a clone or a commit is missing, or there is no such fix.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fixes.entries import DATA, Fix, chosen, fixes
from benchmarks.fixes.histories import MissingHistoryError, history
from benchmarks.fixes.judging import Verdict, judge
from benchmarks.fixes.report import gone, markdown, missed, remaining


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the fixes and print the tables."""
    options = _options(arguments)
    try:
        wanted = chosen(fixes(options.data), options.names)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    repositories = _repositories(options.histories, wanted)
    if repositories is None:
        return 2
    verdicts: list[Verdict] = []
    failures = 0
    for number, fix in enumerate(wanted, 1):
        print(f"{number}/{len(wanted)} {fix.name}", file=sys.stderr, flush=True)
        try:
            verdicts.append(judge(fix, repositories[fix.folder], options.timeout))
        except MissingHistoryError as error:
            print(error, file=sys.stderr)
            return 2
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"{fix.name}: {error}", file=sys.stderr)
            failures += 1
    print(markdown(verdicts))
    lists = {missed: options.missed, gone: options.gone, remaining: options.remaining}
    for lines, is_wanted in lists.items():
        if is_wanted:
            print("", *lines(verdicts), sep="\n")
    return 1 if failures else 0


def _repositories(folder: Path, wanted: Sequence[Fix]) -> dict[str, Path] | None:
    """The clones of all projects; None, having said which are missing, unless all are there."""
    found: dict[str, Path] = {}
    is_missing = False
    for name in sorted({fix.folder for fix in wanted}):
        try:
            found[name] = history(folder, name)
        except MissingHistoryError as error:
            print(error, file=sys.stderr)
            is_missing = True
    return None if is_missing else found


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.fixes", description=__doc__)
    parser.add_argument("histories", type=Path, metavar="HISTORIES")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--missed", action="store_true", help="list what is not found")
    parser.add_argument("--gone", action="store_true", help="list what is found")
    parser.add_argument(
        "--remaining", action="store_true", help="list what is found after the fixes"
    )
    parser.add_argument("--data", type=Path, default=DATA, help="another list of fixes")
    parser.add_argument(
        "--timeout", type=float, default=900.0, help="seconds that one run may take"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
