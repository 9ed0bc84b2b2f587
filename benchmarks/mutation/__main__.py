"""``python -m benchmarks.mutation PATHS… [--peers ENVIRONMENT]``: a table of what each tool catches.

JAX decides which mutants are really wrong: every function is evaluated abstractly, with two assignments of distinct
primes to the dimension names of its annotations, and fails if JAX raises or if an annotation is not kept. Mutants of
shardings (``--family sharding``) run on eight CPU devices instead, and are wrong if JAX raises, if the numbers are not
those of a single device, or if parameters lie elsewhere. Mutants that are not shown to be wrong are left out. A tool
catches a mutant if it says something that it does not say of the original.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.findings import Finding
from benchmarks.mutation.cases import Case, lay_out
from benchmarks.mutation.evaluation import Baseline, Truth, run_time, truths
from benchmarks.mutation.mutants import mutants, programs
from benchmarks.mutation.report import RUN_TIME, Catch, Results, markdown
from benchmarks.tools import Tool, tools

_JOBS = 2


def main() -> None:
    """Run the benchmark and write its tables."""
    options = _options()
    started = time.perf_counter()
    found = programs(options.paths)
    made = [
        (p, m)
        for p in found
        for m in mutants(p, options.family, options.seed, options.each)
    ]
    if options.limit is not None and options.limit < len(made):
        kept = sorted(
            random.Random(options.seed).sample(range(len(made)), options.limit)
        )
        made = [made[i] for i in kept]
    cases: list[Case] = []
    for program in found:
        cases.append(Case(len(cases), program, None))
        for mutant in (m for p, m in made if p is program):
            cases.append(Case(len(cases), program, mutant))
    groups = _by_program(cases)
    _say(f"{len(found)} programs, {len(cases) - len(found)} mutants")
    way = "numbers" if "sharding" in options.family else "promises"
    judged: dict[int, Truth] = {}
    baselines: dict[str, Baseline] = {}
    with ThreadPoolExecutor(_JOBS) as pool:
        for (key, group), (first, verdicts) in zip(
            groups.items(),
            pool.map(lambda g: truths(g, way, options.timeout), groups.values()),
            strict=True,
        ):
            del group
            baselines[key] = first
            judged |= verdicts
    results = Results(found, cases, judged, baselines)
    _say(
        f"{len(results.wrong)} are really wrong ({time.perf_counter() - started:.0f} s)"
    )
    wanted = [c for c in cases if c.mutant is None] + results.wrong
    for tool in tools(options.peers):
        if options.tools and tool.name not in options.tools:
            continue
        begun = time.perf_counter()
        results.add(tool.name, run(tool, wanted))
        _say(f"{tool.name}: {time.perf_counter() - begun:.0f} s")
        _write(results, options)
    if options.run_time:
        _add_run_time(results, wanted, options.timeout)
    _write(results, options)
    print(markdown(results))


def _write(results: Results, options: argparse.Namespace) -> None:
    """What is known so far, so that a long run that is ended early was not in vain."""
    if options.json:
        options.json.write_text(json.dumps(results.to_json(), indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(results))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.mutation", description=__doc__)
    parser.add_argument(
        "paths",
        nargs="+",
        help="programs: files, folders of files, or folders with a package",
    )
    parser.add_argument(
        "--family",
        nargs="+",
        default=["shape", "dtype"],
        choices=["shape", "dtype", "sharding"],
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--each", type=int, default=2, help="mutants of one operator in one function"
    )
    parser.add_argument("--limit", type=int, help="a random sample of so many mutants")
    parser.add_argument(
        "--timeout", type=float, default=120, help="seconds for one evaluation"
    )
    parser.add_argument("--tools", nargs="+", help="only these")
    parser.add_argument(
        "--peers",
        type=Path,
        help="an environment with pyrefly, jax-pyrefly-stubs and jaxtyc",
    )
    parser.add_argument(
        "--run-time", action="store_true", help="jaxtyping and beartype, too"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _by_program(cases: Sequence[Case]) -> dict[str, list[Case]]:
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        groups[str(case.program.root / case.program.name)].append(case)
    return groups


def run(tool: Tool, cases: Sequence[Case]) -> dict[int, set[Finding]]:
    """What a tool says of the cases; programs with a configuration of their own are run by themselves, and so is each
    mutant of something at module level, such as a list of rules: the others' would count as rules of one project."""
    groups: dict[tuple[Path, int | None], list[Case]] = defaultdict(list)
    for case in cases:
        alone = case.mutant is not None and not case.mutant.function
        groups[case.program.root, case.number if alone else None].append(case)
    found: dict[int, set[Finding]] = {}
    for (root, _), group in groups.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            for settings in ("pyproject.toml", "shardlint.toml"):
                if (root / settings).exists():
                    shutil.copy(root / settings, folder)
            found |= lay_out(group, folder, tool.transform).findings(tool.run(folder))
    return found


def _add_run_time(results: Results, wanted: Sequence[Case], seconds: float) -> None:
    results.alarms[RUN_TIME] = []
    results.catches[RUN_TIME] = {}
    for key, group in _by_program(wanted).items():
        alarms, verdicts = run_time(group, results.baselines[key], seconds)
        results.alarms[RUN_TIME] += [f"{name}: {why}" for name, why in alarms.items()]
        for number, truth in verdicts.items():
            wrong = truth.verdict == "wrong"
            results.catches[RUN_TIME][number] = Catch(False, wrong, truth.why)


if __name__ == "__main__":
    main()
