"""The tools, each run as its documentation says. A tool reads a folder of cases and says (path, line, message)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.findings import Said
from benchmarks.translate import Transform, translate
from shardlint import run
from shardlint.config import Config

_JOBS = 2

HALF_AN_HOUR = 30 * 60.0
LINTER, PLUGIN = "shardlint", "shardlint's mypy plugin"


@dataclass(frozen=True)
class Tool:
    """``run`` gets the folder; the program's own pyproject.toml lies in it, if it has one."""

    name: str
    run: Callable[[Path], Iterator[Said]]
    transform: Transform | None = None


def _output(
    command: list[str], folder: Path, seconds: float, accepted: tuple[int, ...] = (0, 1)
) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode not in accepted:
        raise RuntimeError(
            f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}"
        )
    return done.stdout


def shardlint(folder: Path, *, seconds: float = HALF_AN_HOUR) -> Iterator[Said]:
    """Our linter."""
    said = _output(
        [
            sys.executable,
            "-P",
            "-m",
            "shardlint",
            "--no-cache",
            "--format",
            "json",
            ".",
        ],
        folder,
        seconds,
    )
    for one in json.loads(said):
        yield (
            folder / one["path"],
            one["line"],
            f"{one['code']} {one['message']}",
            False,
        )
        for place in one["related"]:
            yield (
                folder / place["path"],
                place["line"],
                f"{one['code']} {one['message']}: {place['message']}",
                True,
            )


def lint_here(checkout: str) -> None:
    """Lint a checkout from its own root, in this process and from nothing, so that what the engine does can be seen."""
    with chdir(checkout):
        run.check(["."], Config(root=Path.cwd(), jobs=1), cache=False)


def mypy(folder: Path, *, seconds: float = HALF_AN_HOUR) -> Iterator[Said]:
    """mypy with our plugin."""
    (folder / "mypy.ini").write_text(
        "[mypy]\nplugins = shardlint.mypy_plugin:plugin\nignore_missing_imports = True\ncheck_untyped_defs = True\n"
    )
    said = _output(
        [
            sys.executable,
            "-m",
            "mypy",
            "--no-error-summary",
            "--hide-error-context",
            "--config-file",
            "mypy.ini",
            ".",
        ],
        folder,
        seconds,
    )
    yield from _matches(
        folder,
        said,
        r"^(?P<path>[^:\n]+\.py):(?P<line>\d+)(?::\d+)*: error: (?P<message>.*)$",
    )


def pyrefly(
    folder: Path, *, environment: Path, seconds: float = HALF_AN_HOUR
) -> Iterator[Said]:
    """pyrefly, with its stubs for JAX installed beside it; every annotated definition declares its dimensions."""
    (folder / "pyrefly.toml").write_text(
        f'python-interpreter-path = "{environment}/bin/python"\n'
    )
    command = [
        f"{environment}/bin/pyrefly",
        "check",
        "--output-format",
        "min-text",
        "--threads",
        str(_JOBS),
    ]
    said = _output(command, folder, seconds)
    yield from _matches(
        folder,
        said,
        r"^ERROR (?P<path>[^:\n]+\.py):(?P<line>\d+):[\d:-]*: (?P<message>.*)$",
    )


def jaxtyc(
    folder: Path, *, environment: Path, seconds: float = HALF_AN_HOUR
) -> Iterator[Said]:
    """jaxtyc, which imports each file and evaluates its annotated functions with symbolic sizes."""
    command = [f"{environment}/bin/jaxtyc", "check", "--format", "concise"]
    entries = sorted(
        p.name for p in folder.iterdir() if p.is_dir() or p.suffix == ".py"
    )
    with ThreadPoolExecutor(_JOBS) as pool:
        shares = [share for share in (entries[i::_JOBS] for i in range(_JOBS)) if share]
        for said in pool.map(
            lambda share: _output([*command, *share], folder, seconds), shares
        ):
            yield from _matches(
                folder,
                said,
                r"^(?P<path>[^:\n]+\.py):(?P<line>\d+):\d+: (?P<message>.*)$",
            )


def _matches(folder: Path, said: str, pattern: str) -> Iterator[Said]:
    for found in re.finditer(pattern, said, re.MULTILINE):
        yield folder / found["path"], int(found["line"]), found["message"], False


def tools(peers: Path | None, seconds: float = HALF_AN_HOUR) -> list[Tool]:
    """Ours, and the peers that are installed in the environment ``peers``; a run may take so many seconds, and raises
    ``subprocess.TimeoutExpired`` if it takes more."""
    found = [
        Tool(LINTER, partial(shardlint, seconds=seconds)),
        Tool(PLUGIN, partial(mypy, seconds=seconds)),
    ]
    if peers is not None:
        run_pyrefly = partial(pyrefly, environment=peers, seconds=seconds)
        run_jaxtyc = partial(jaxtyc, environment=peers, seconds=seconds)
        found += [
            Tool("pyrefly", run_pyrefly, partial(translate, form="pyrefly")),
            Tool("jaxtyc", run_jaxtyc, partial(translate, form="jaxtyc")),
        ]
    return found
