"""What the plugin costs a run of mypy: cold, with nothing changed, and after an edit, beside mypy without it.

Usage: ``python -m benchmarks.mypy_cost [FOLDERS…] [--rounds 5]``. Times are seconds of the processor, and seconds that
one waits, medians of rounds in which both take turns (``benchmarks/timing.py``), with caches of their own; a share is
the median of the shares in each round. Waiting is shorter where the linter works beside mypy: it wants a machine that
does nothing else. *Cold* begins without any cache, so that mypy reads JAX as well; *cold, linter cached* keeps the
linter's. Without folders it measures the small programs, the transformer model and a project of 300 files made here.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.server_latency import program
from benchmarks.timing import Rounds, command_seconds, commands_in_turns, share

_ROOT = Path(__file__).resolve().parents[1]
_ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name != "PYTHONDONTWRITEBYTECODE"
}
_SETTINGS = "[mypy]\nignore_missing_imports = True\n"
_PLUGIN = "plugins = shardlint.mypy_plugin\n"
_WITH, _WITHOUT = "with", "without"
_LINTERS = ".shardlint_cache"
_FILES = 300


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.mypy_cost", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(
        "| project | lines | run | mypy | with the plugin | share | waiting for mypy | with the plugin | share |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    if options.folders:
        for folder in options.folders:
            _measure(folder.name, lambda to, f=folder: _copy(f, to), options.rounds)
        return
    programs = _ROOT / "benchmarks" / "programs"
    model = _ROOT / "fixtures" / "models" / "transformer"
    _measure("programs", lambda to: _copy(programs, to), options.rounds)
    _measure("transformer", lambda to: _copy(model, to), options.rounds)
    _measure(f"{_FILES} files", _many, options.rounds)


def _copy(source: Path, to: Path) -> None:
    hidden = shutil.ignore_patterns(".*", "__pycache__", "bugs", "tests")
    shutil.copytree(source, to, ignore=hidden)


def _many(to: Path) -> None:
    """Files of some 60 lines, each of which uses the one before."""
    to.mkdir()
    (to / "pyproject.toml").write_text("[tool.shardlint]\n")
    for index in range(_FILES):
        other = f"from part{index - 1} import block0 as other\n" if index else ""
        (to / f"part{index:03}.py").write_text(program(60, other))


def _measure(name: str, write: Callable[[Path], None], rounds: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        folders = {one: Path(place, one, "project") for one in (_WITH, _WITHOUT)}
        for one, folder in folders.items():
            folder.parent.mkdir()
            write(folder)
            settings = _SETTINGS + (_PLUGIN if one == _WITH else "")
            (folder / "mypy.ini").write_text(settings)
        files = sorted(folders[_WITH].rglob("*.py"))
        lines = sum(path.read_bytes().count(b"\n") for path in files)
        edited = files[len(files) // 2].relative_to(folders[_WITH])
        for run, begin in _runs(edited).items():
            cases = {one: _case(folders[one], begin) for one in folders}
            times = commands_in_turns(cases, rounds)
            used = {one: [pair[0] for pair in pairs] for one, pairs in times.items()}
            waited = {one: [pair[1] for pair in pairs] for one, pairs in times.items()}
            _row(f"{name} | {lines:,} | {run}", used, waited)


def _runs(edited: Path) -> dict[str, Callable[[Path], None]]:
    """What comes before each run, in a folder of the project."""

    def empty(folder: Path) -> None:
        shutil.rmtree(folder / ".mypy_cache", ignore_errors=True)
        shutil.rmtree(folder / _LINTERS, ignore_errors=True)

    def without_mypys(folder: Path) -> None:
        shutil.rmtree(folder / ".mypy_cache", ignore_errors=True)

    def nothing(folder: Path) -> None:
        pass

    def edit(folder: Path) -> None:
        with open(folder / edited, "a") as file:
            file.write("_EDITED = 1\n")

    return {
        "cold": empty,
        "cold, linter cached": without_mypys,
        "nothing changed": nothing,
        "one file edited": edit,
    }


def _case(
    folder: Path, begin: Callable[[Path], None]
) -> Callable[[], tuple[float, float]]:
    def run() -> tuple[float, float]:
        begin(folder)
        return command_seconds(
            [sys.executable, "-m", "mypy", "."], folder, _ENVIRONMENT
        )

    return run


def _row(label: str, *kinds: Rounds) -> None:
    cells = [label]
    for times in kinds:
        without, added = (statistics.median(times[one]) for one in (_WITHOUT, _WITH))
        of_it = share(times[_WITH], times[_WITHOUT])
        cells += [f"{without:.2f} s", f"{added:.2f} s", f"{of_it:.2f}"]
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
