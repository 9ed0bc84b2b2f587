"""``python -m benchmarks.whole_programs [NAME…]``: tables of what each tool finds in programs of real size.

68 programs of 200 to 350 lines, which train, search or serve on eight devices, with ten mistakes each or more. What
a mistake does is recorded in ``outcomes.json``: JAX raises, the numbers differ from those of one device, the
program is only slower, or it makes no difference. ``--verify`` runs everything again and writes that file. Otherwise
tools read each program, as it is and with each mistake, in a folder of its own. A tool finds a mistake if it says
something that it does not say of the program as it is. Each program ends with a comparison of its results with those
of a reference, which tools read only ``--with-checks``: most programs that people write hold none. ``--test-runs``
calls the programs in a test, as they are and with the mistakes that change numbers in silence and that the linter does
not find: what all moments find together. ``--keep FILE`` writes down what each tool finds, and takes it from there: a
run that was cut off goes on.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.findings import Finding
from benchmarks.tools import LINTER, PLUGIN, Tool, tools
from benchmarks.whole_programs.cases import Change, Program, programs, without_check
from benchmarks.whole_programs.catches import Catch, catch, read
from benchmarks.whole_programs.kept import Kept
from benchmarks.whole_programs.outcomes import Outcomes, record, recorded, stale, verify
from benchmarks.whole_programs.report import (
    Key,
    Mistake,
    Results,
    markdown,
    missed,
    together,
)
from benchmarks.whole_programs.test_runs import TEST_RUN, test_run


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, or record what happens on eight devices."""
    options = _options(arguments)
    try:
        chosen = programs(options.names)
        kept = Kept(options.keep) if options.keep else None
    except ValueError as error:
        sys.exit(f"benchmarks.whole_programs: {error}")
    if options.verify:
        _verify(chosen, options.timeout)
        return
    results = Results(chosen, _mistakes(chosen, recorded()))
    # mypy takes half a minute for each folder that imports JAX, and its plugin sees less than the linter.
    wanted = [
        tool for tool in tools(options.peers, options.timeout) if tool.name != PLUGIN
    ]
    if kept is not None:
        wanted = [kept.around(tool) for tool in wanted]
    for tool in wanted:
        measure(tool, results, options.jobs, options.with_checks)
        if options.missed:
            print(missed(results, tool.name), flush=True)
    print(markdown(results))
    if options.test_runs:
        tool = Tool(TEST_RUN, partial(test_run, seconds=options.timeout))
        if kept is not None:
            tool = kept.around(tool)
        measure(tool, results, options.jobs, left_by=LINTER)
        print(f"\n{together(results)}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks.whole_programs", description=__doc__
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="programs; all if none is named"
    )
    parser.add_argument(
        "--peers",
        type=Path,
        help="an environment with pyrefly, jax-pyrefly-stubs and jaxtyc",
    )
    parser.add_argument(
        "--with-checks",
        action="store_true",
        help="have tools read the comparison with the reference that ends a program, too",
    )
    parser.add_argument(
        "--missed",
        action="store_true",
        help="list what is not found or found elsewhere, too",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="run all on eight CPU devices, record the outcomes",
    )
    parser.add_argument(
        "--test-runs",
        action="store_true",
        help="call programs in a test, too, with what the linter does not find",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="write what each tool finds to this file, and read nothing again that is in it; of one state of the tools",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="how many texts a tool reads at once; one for each processor if not given",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=600,
        help="seconds that one run of a tool or program may take",
    )
    return parser.parse_args(arguments)


def _verify(chosen: Sequence[Program], seconds: float) -> None:
    for program in chosen:
        found = verify(program, seconds)
        record(program.name, found)
        for name, outcome in found.items():
            _say(
                f"{program.name} {name or 'as it is'}: {outcome.outcome} {outcome.detail}"
            )


def _mistakes(chosen: Sequence[Program], known: Outcomes) -> list[Mistake]:
    found = []
    for program in chosen:
        outcomes = known.get(program.name, {})
        old = stale(program, outcomes)
        if old:
            sys.exit(
                f"benchmarks.whole_programs: what is recorded of {program.name} is not of its present text"
                f" ({', '.join(name or 'as it is' for name in old)}): run --verify {program.name}"
            )
        found += [
            Mistake(program, change, outcomes[change.name])
            for change in program.changes
        ]
    return found


def measure(
    tool: Tool,
    results: Results,
    jobs: int = 1,
    with_checks: bool = False,
    left_by: str = "",
) -> None:
    """Have a tool read everything, ``jobs`` texts at once, and add what it finds to the results. Only ``with_checks``
    it reads what programs compare themselves with. Of mistakes it reads all, or the silent ones that are ``left_by``
    another tool, which finds nothing of them."""
    alarms: dict[str, list[Finding]] = {}
    caught: dict[Key, Catch] = {}
    with ThreadPoolExecutor(jobs) as pool:
        for one in results.programs:
            program = one
            if not with_checks:
                program = replace(one, source=without_check(one.source))
            before = read(tool, program.name, program.source)
            alarms[program.name] = [
                finding for finding in sorted(before) if not finding.related
            ]
            caught_of = partial(_caught, tool, program, before)
            changes = program.changes
            if left_by:
                changes = tuple(one.change for one in results.left_by(left_by, one))
            for change, found in zip(
                changes, pool.map(caught_of, changes), strict=True
            ):
                caught[program.name, change.name] = found
            _say(f"{tool.name}: {program.name}")
    results.alarms[tool.name] = alarms
    results.catches[tool.name] = caught


def _caught(
    tool: Tool, program: Program, before: set[Finding], change: Change
) -> Catch:
    """What a tool finds of a mistake."""
    changed = change.apply(program.source)
    try:
        after = read(tool, program.name, changed)
    except subprocess.TimeoutExpired:
        return Catch(ended=True)
    return catch(program.source, changed, before, after)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
