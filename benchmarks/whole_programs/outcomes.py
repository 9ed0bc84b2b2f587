"""What becomes of every program on eight devices, and the file that keeps it, which only the command writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

from benchmarks.whole_programs.cases import Program, digest
from benchmarks.whole_programs.compiled import costs, difference

RECORD = Path(__file__).parent / "outcomes.json"
ORIGINAL = ""
"""The name of the correct program among the outcomes of its changes."""

_ROOT = Path(__file__).parents[2]
_FLAGS = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"


@dataclass(frozen=True)
class Outcome:
    """``raises``: JAX says so. ``differs``: the numbers are not those of one device. ``slow``: they are, but what is
    compiled costs something else. ``agrees``: the compiled program, too, costs the same. ``hangs``: not done in time.
    ``alone`` is what becomes of a program that differs on meshes of one device: ``agrees`` where only the mesh makes it
    wrong; empty where the correct program itself does not run on one device.
    """

    outcome: str
    detail: str
    digest: str
    jax: str
    alone: str = ""


Outcomes = Mapping[str, Mapping[str, Outcome]]
"""By program, then by change."""


def recorded(path: Path = RECORD) -> dict[str, dict[str, Outcome]]:
    """What was recorded; nothing if nothing was yet."""
    if not path.exists():
        return {}
    data = json.loads(path.read_text())
    return {
        program: {name: Outcome(**said) for name, said in found.items()}
        for program, found in data.items()
    }


def record(program: str, found: Mapping[str, Outcome], path: Path = RECORD) -> None:
    """Replace what is recorded of one program; a run that is ended early leaves the file whole."""
    known = {**recorded(path), program: found}
    data = {
        name: {change: _fields(outcome) for change, outcome in known[name].items()}
        for name in sorted(known)
    }
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps(data, indent=1) + "\n")
    os.replace(fresh, path)


def _fields(outcome: Outcome) -> dict[str, str]:
    return {
        name: value
        for name, value in asdict(outcome).items()
        if value or name != "alone"
    }


def stale(program: Program, found: Mapping[str, Outcome]) -> list[str]:
    """Changes of which no outcome is recorded, or one of another text."""
    texts = sources(program)
    return [
        name
        for name, text in texts.items()
        if name not in found or found[name].digest != digest(text)
    ]


def sources(program: Program) -> dict[str, str]:
    """The correct program and every changed one."""
    return {ORIGINAL: program.source} | {
        change.name: change.apply(program.source) for change in program.changes
    }


def verify(program: Program, seconds: float) -> dict[str, Outcome]:
    """Run the program and all its changes, each for at most so many seconds.

    Raises:
        RuntimeError: the correct program does not give the numbers of its own reference.
    """
    with tempfile.TemporaryDirectory() as folder:
        runs = _Runs(program.name, Path(folder), seconds)
        original = runs.numbers(program.source)
        if original.outcome != "agrees":
            raise RuntimeError(
                f"{program.name} itself {original.outcome}: {original.detail}"
            )
        runs_alone = runs.alone(program.source) == "agrees"
        found = {ORIGINAL: original}
        for change in program.changes:
            changed = change.apply(program.source)
            outcome = _judge(runs, program.source, changed)
            if runs_alone and outcome.outcome == "differs":
                outcome = replace(outcome, alone=runs.alone(changed))
            found[change.name] = outcome
    return found


def _judge(runs: _Runs, original: str, changed: str) -> Outcome:
    outcome = runs.numbers(changed)
    if outcome.outcome != "agrees":
        return outcome
    dearer = difference(runs.compiled(original), runs.compiled(changed))
    return replace(outcome, outcome="slow", detail=dearer) if dearer else outcome


class _Runs:
    """Runs of one program and its changes, which share a reference and what JAX compiled."""

    def __init__(self, name: str, folder: Path, seconds: float) -> None:
        self.program = folder / f"{name}.py"
        self.reference = folder / "reference.npz"
        self.cache = folder / "compiled"
        self.seconds = seconds
        self.costs: dict[str, Counter[str]] = {}

    def numbers(self, source: str) -> Outcome:
        """What comes of a run, beside the reference."""
        cache = {
            "JAX_COMPILATION_CACHE_DIR": str(self.cache),
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        said = self._run(source, _FLAGS, cache)
        return Outcome(said["outcome"], said["detail"], digest(source), version("jax"))

    def alone(self, source: str) -> str:
        """What comes of a run on meshes of one device."""
        return self._run(source, _FLAGS, {}, "alone")["outcome"]

    def compiled(self, source: str) -> Counter[str]:
        """What the compiled programs of a run cost."""
        if source not in self.costs:
            with tempfile.TemporaryDirectory() as dump:
                flags = f"{_FLAGS} --xla_dump_to={dump} --xla_dump_hlo_as_text"
                said = self._run(source, flags, {})
                if said["outcome"] != "agrees":  # not all of it was compiled
                    raise RuntimeError(
                        f"{self.program.stem} {said['outcome']} where its costs are counted: {said['detail']}"
                    )
                self.costs[source] = costs(Path(dump))
        return self.costs[source]

    def _run(
        self, source: str, flags: str, settings: Mapping[str, str], *options: str
    ) -> dict[str, str]:
        self.program.write_text(source)
        answer = self.program.with_name("answer.json")
        answer.unlink(missing_ok=True)
        paths = (self.program, self.reference, answer)
        command = [
            sys.executable,
            "-m",
            "benchmarks.whole_programs.worker",
            *map(str, paths),
            *options,
        ]
        own = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("JAX_", "XLA_"))
        }
        own |= {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, **settings}
        run = partial(
            subprocess.run,
            cwd=_ROOT,
            env=own,
            capture_output=True,
            text=True,
            check=False,
        )
        try:
            done = run(command, timeout=self.seconds)
        except subprocess.TimeoutExpired:
            return {
                "outcome": "hangs",
                "detail": f"not done after {self.seconds:.0f} s",
            }
        if answer.exists():
            said: dict[str, str] = json.loads(answer.read_text())
            return said
        if done.returncode > 0:
            raise RuntimeError(
                f"the worker failed for {self.program.stem}:\n{done.stderr[-2000:]}"
            )
        return {
            "outcome": "raises",
            "detail": f"the process was ended by signal {-done.returncode}",
        }
