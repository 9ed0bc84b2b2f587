"""How fast the linter is: cold, warm and after an edit, beside libcst's parse of the same files, and beside its peers.

Usage: ``python -m benchmarks.lint_speed [PATHS…] [--peers ENVIRONMENT]``. Times are seconds of CPU of one process with
one job, medians of ``--rounds`` in which all take turns (``benchmarks/timing.py``). The files are copied under new
names until there are enough lines. Python keeps its bytecode, as it does for users: where the environment says else
(``PYTHONDONTWRITEBYTECODE``) that is taken out, and a first run that is not counted writes it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.timing import commands_in_turns, processor_seconds, share
from benchmarks.translate import translate

_ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name != "PYTHONDONTWRITEBYTECODE"
}
_PARSE = """
import sys, time
from pathlib import Path
import libcst
files = [p.read_bytes() for p in sorted(Path(".").rglob("*.py"))]
libcst.parse_module(b"x = 1")
start = time.process_time()
for text in files:
    libcst.parse_module(text)
print(time.process_time() - start)
"""


def main() -> None:
    """Measure and print."""
    options = _options()
    sources = [p for path in options.paths for p in _files(Path(path))]
    for copies in (1, 2, 4):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            lines = _copy(sources, folder, copies * options.copies)
            _report(folder, lines, options)
    if options.peers:
        _peers(sources, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.lint_speed", description=__doc__)
    here = Path(__file__).parent
    right = str(here.parent / "fixtures" / "lint" / "right")
    parser.add_argument(
        "paths",
        nargs="*",
        default=[str(here / "programs"), right],
        help="files and folders",
    )
    parser.add_argument(
        "--copies", type=int, default=4, help="of every file, in the smallest run"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--peers", type=Path, help="an environment with pyrefly and jaxtyc"
    )
    return parser.parse_args()


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.glob("*.py"))


def _copy(sources: Sequence[Path], folder: Path, copies: int, form: str = "") -> int:
    """Write every source ``copies`` times; the number of lines."""
    lines = 0
    for path in sources:
        text = (
            path.read_bytes()
            if not form
            else translate(path.read_bytes(), form).text.encode()
        )  # type: ignore[arg-type]  # one of its forms
        for number in range(copies):
            (folder / f"{path.stem}_{number}.py").write_bytes(
                text + f"\nNUMBER = {number}\n".encode()
            )
            lines += text.count(b"\n") + 2
    return lines


def _report(folder: Path, lines: int, options: argparse.Namespace) -> None:
    lint = [sys.executable, "-P", "-m", "shardlint", "--jobs", "1", "--exit-zero", "."]

    def cold() -> float:
        shutil.rmtree(folder / ".shardlint_cache", ignore_errors=True)
        return _cpu(lint, folder)

    def edited() -> float:
        path = min(folder.glob("*.py"))
        path.write_text(path.read_text() + "NUMBER += 1\n")
        return _cpu(lint, folder)

    cold()  # writes bytecode
    times = commands_in_turns(
        {
            "parse": lambda: float(_said([sys.executable, "-c", _PARSE], folder)),
            "start": lambda: _cpu([*lint[:-1], "--no-cache", "--version"], folder),
            "cold": cold,
            "warm": lambda: _cpu(lint, folder),
            "edited": edited,
        },
        options.rounds,
    )
    parse, start, first, warm, edit = (
        statistics.median(each) for each in times.values()
    )
    of_parse, of_cold = (
        share(times["cold"], times["parse"]),
        share(times["edited"], times["cold"]),
    )
    print(f"{lines} lines in {len(list(folder.glob('*.py')))} files")
    print(f"  libcst parses them in    {parse:7.2f} s  {lines / parse:8.0f} lines/s")
    print(
        f"  cold                     {first:7.2f} s  {lines / first:8.0f} lines/s  {of_parse:5.2f} of the parse"
    )
    print(f"  warm                     {warm:7.2f} s")
    print(f"  one file edited          {edit:7.2f} s  {100 * of_cold:7.0f}% of cold")
    print(f"  start of the program     {start:7.2f} s", flush=True)


def _peers(sources: Sequence[Path], options: argparse.Namespace) -> None:
    commands = {
        "pyrefly": [f"{options.peers}/bin/pyrefly", "check", "--threads", "1"],
        "jaxtyc": [f"{options.peers}/bin/jaxtyc", "check", "--format", "concise", "."],
    }
    with tempfile.TemporaryDirectory() as place:
        folders = {name: Path(place, name) for name in commands}
        lines = {}
        for name, folder in folders.items():
            folder.mkdir()
            lines[name] = _copy(sources, folder, options.copies, name)
            (folder / "pyrefly.toml").write_text(
                f'python-interpreter-path = "{options.peers}/bin/python"\n'
            )
        cases = {
            name: (lambda n=name: _cpu(commands[n], folders[n])) for name in commands
        }
        for name, spent in commands_in_turns(cases, options.rounds).items():
            seconds = statistics.median(spent)
            print(f"{name}: {seconds:.2f} s, {lines[name] / seconds:.0f} lines/s")


def _cpu(command: Sequence[str], folder: Path) -> float:
    return processor_seconds(command, folder, _ENVIRONMENT)


def _said(command: Sequence[str], folder: Path) -> str:
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env=_ENVIRONMENT,
    ).stdout


if __name__ == "__main__":
    main()
