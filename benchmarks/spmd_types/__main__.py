"""``python -m benchmarks.spmd_types [PROGRAM…]``: what Meta's spmd_types and the linter catch in the same programs.

Each program is written twice: in torch with spmd_types, and in JAX with ``shard_map``. Where the first asserts the
type of its result, the second annotates its shape. Mistakes are made in both. A mistake is wrong if the JAX program
raises on eight forced devices, or gives other numbers than on one; ``--verify`` records that in ``outcomes.json``.
``--peers VENV`` is an environment with torch and spmd_types: the programs run in it under its type checking, and what
it raises is recorded, too. The linter reads the JAX programs without running them. Exit status 1: a right program has a
finding.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.spmd_types.cases import Case, cases
from benchmarks.tools import shardlint

_HERE = Path(__file__).parent
RECORD = _HERE / "outcomes.json"
_FLAGS = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"


@dataclass(frozen=True)
class Outcome:
    """``truth``: right, wrong or raises. ``peer``: what spmd_types raises, its first line. ``digest``: of the texts."""

    truth: str
    peer: str
    digest: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables. The exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks.spmd_types", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="PROGRAM", help="all if none is named"
    )
    parser.add_argument(
        "--peers", type=Path, help="an environment with torch and spmd_types"
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="run all on eight CPU devices, record the outcomes",
    )
    options = parser.parse_args(arguments)
    chosen = cases(options.names)
    if options.verify:
        if options.peers is None:
            parser.error("--verify needs --peers VENV")
        verify(chosen, options.peers)
    known = recorded()
    old = [
        case.name
        for case in chosen
        if case.name not in known or known[case.name].digest != digest(case)
    ]
    if old:
        parser.error(
            f"not recorded as they are now: {', '.join(old)}; run --verify --peers VENV"
        )
    return report(chosen, known, findings(chosen))


def digest(case: Case) -> str:
    """Tells whether an outcome is of the present texts."""
    return hashlib.sha256((case.jax + case.torch).encode()).hexdigest()[:16]


def recorded() -> dict[str, Outcome]:
    """What was recorded, by the name of the case."""
    if not RECORD.exists():
        return {}
    return {
        name: Outcome(**one) for name, one in json.loads(RECORD.read_text()).items()
    }


def verify(chosen: Sequence[Case], peers: Path) -> None:
    """Run all in JAX and under spmd_types, and record what comes of it."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": _FLAGS}
    devices = [sys.executable, "-m", "benchmarks.spmd_types.devices"]
    truths = _run(chosen, lambda case: case.jax, devices, environment)
    said = _run(
        chosen,
        lambda case: case.torch,
        [f"{peers}/bin/python", str(_HERE / "peer.py")],
        dict(os.environ),
    )
    found = recorded()
    for case in chosen:
        first = said[case.name].partition("\n")[0]
        found[case.name] = Outcome(truths[case.name], first, digest(case))
    known = {case.name for case in cases()}
    data = {name: asdict(found[name]) for name in sorted(found) if name in known}
    RECORD.write_text(json.dumps(data, indent=1) + "\n")


def _run(
    chosen: Sequence[Case],
    text: Callable[[Case], str],
    command: list[str],
    environment: dict[str, str],
) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        _write(chosen, text, Path(folder))
        done = subprocess.run(
            [*command, folder],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    answers: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return answers


def _write(chosen: Sequence[Case], text: Callable[[Case], str], folder: Path) -> None:
    for case in chosen:
        (folder / f"{case.name}.py").write_text(text(case))


def findings(chosen: Sequence[Case]) -> dict[str, list[str]]:
    """What the linter says, by the name of the case."""
    found: dict[str, list[str]] = {case.name: [] for case in chosen}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        (folder / "pyproject.toml").write_text("[tool.shardlint]\n")
        _write(chosen, lambda case: case.jax, folder)
        for path, line, message, related in shardlint(folder):
            if not related:
                found[path.stem].append(f"{line}: {message}")
    return found


def report(
    chosen: Sequence[Case], known: dict[str, Outcome], found: dict[str, list[str]]
) -> int:
    """Print the table by class, then where the tools differ. The exit status."""
    right = [case for case in chosen if not case.mistake]
    mistakes = [case for case in chosen if case.mistake]
    wrong = [case for case in mistakes if known[case.name].truth != "right"]
    print(f"{len(wrong)} wrong programs of {len(mistakes)} with a mistake\n")
    print("| class of error | wrong | spmd_types | shardlint |")
    print("|---|---|---|---|")
    for kind in sorted({case.kind for case in wrong}):
        _row(kind, [case for case in wrong if case.kind == kind], known, found)
    _row("all", wrong, known, found)
    _row("right programs with an alarm", right, known, found)
    print()
    for case in wrong:
        if bool(known[case.name].peer) != bool(found[case.name]):
            who = "spmd_types" if known[case.name].peer else "shardlint"
            print(f"only {who}: {case.name} ({case.kind}; {known[case.name].truth})")
    for case in wrong:
        if not known[case.name].peer and not found[case.name]:
            print(f"neither: {case.name} ({case.kind}; {known[case.name].truth})")
    for case in mistakes:
        if case not in wrong:
            said = "; ".join([known[case.name].peer, *found[case.name]])
            print(f"right in numbers: {case.name} ({case.kind}): {said}")
    alarms = [
        case
        for case in chosen
        if known[case.name].truth == "right" and found[case.name]
    ]
    for case in alarms:
        print(f"alarm of shardlint: {case.name}: {'; '.join(found[case.name])}")
    return 1 if alarms else 0


def _row(
    title: str,
    here: Sequence[Case],
    known: dict[str, Outcome],
    found: dict[str, list[str]],
) -> None:
    peer = sum(bool(known[case.name].peer) for case in here)
    linter = sum(bool(found[case.name]) for case in here)
    print(f"| {title} | {len(here)} | {peer} | {linter} |")


if __name__ == "__main__":
    raise SystemExit(main())
