"""``python -m benchmarks.mutation.proofs PATHS…``: what ``shardtypes.prove`` says of programs and of their mutants.

Each function of a program, and of each mutant of its shardings, is proved with drawn arguments on an abstract mesh of 2
by 4, once as it stands and once with the original as the reference. That is held against eight forced CPU devices:
``wrong by the mesh`` are mutants that do not compute there what they compute on one device themselves, ``wrong in
numbers`` those that do not compute what the original computes. A wrong proof is a function that is proved and that
eight devices contradict.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax

from benchmarks.mutation import numbers
from benchmarks.mutation.cases import Case
from benchmarks.mutation.evaluation import Baseline, Process, calls_of, sources_of
from benchmarks.mutation.mutants import Program, mutants, programs
from benchmarks.mutation.proof_questions import Question, questions
from benchmarks.mutation.worker import (
    Session,
    compiled_quickly,
    encoded,
    first_job,
    imported,
    limit,
)
from shardtypes.proving import Proof, prove

_SECONDS = 90
_HEADS = {True: "proved", False: "refuted", None: "could not tell"}


@dataclass(frozen=True)
class Said:
    """What was said of a function; ``raised`` if JAX refuses it. ``end`` is the line at which it is refuted, or where
    knowledge ends."""

    ok: bool | None = None
    agrees: bool | None = None
    reason: str = ""
    line: int = 0
    end: str = ""
    related: tuple[int, ...] = ()
    raised: str = ""
    seconds: float = 0.0

    @property
    def head(self) -> str:
        if self.raised:
            return "raises"
        return (
            "agrees in numbers" if self.ok is None and self.agrees else _HEADS[self.ok]
        )


@dataclass(frozen=True)
class Facts:
    """The truth about a function: whether eight devices give the original's numbers (``right``, ``wrong`` or
    ``raises``), and whether they give those of the function itself on one device."""

    original: str
    alone: str


@dataclass(frozen=True)
class Answer:
    """One function of an original or of a mutant. ``beside`` is what is said of it beside the original, if it has to be
    asked."""

    case: str
    program: str
    operator: str
    lines: tuple[int, int]
    name: str
    facts: Facts
    said: Said
    beside: Said | None = None

    @property
    def best(self) -> Said:
        """What is said with the original at hand."""
        return self.said if self.beside is None else self.beside

    @property
    def is_wrong_proof(self) -> bool:
        return (
            self.said.ok is True
            and not self.said.raised
            and self.facts.alone == "wrong"
        )

    @property
    def in_place(self) -> bool:
        """Whether the culprit, or a place beside it, is in the changed statement."""
        return self.lines[0] <= self.said.line <= self.lines[1]


# --- in a process of its own ----------------------------------------------------------------------------------------


class Prover:
    """Answers for one program and its mutants."""

    def __init__(self, originals: Mapping[str, bytes], on_devices: bool) -> None:
        self.originals = originals
        self.session = Session("numbers" if on_devices else "promises", originals)
        self.on_devices = on_devices

    def baseline(self) -> dict[str, Any]:
        """The functions that can be asked about, with the functions that each runs."""
        if self.on_devices:
            return self.session.baseline()
        with imported(self.originals, None) as modules:
            return {"runs": {name: [] for name in questions(modules)}, "failed": {}}

    def facts(
        self, sources: Mapping[str, bytes], names: Sequence[str]
    ) -> dict[str, Facts]:
        """What eight devices do."""
        if not self.on_devices:
            return dict.fromkeys(names, Facts("not run", "not run"))
        found = {}
        with imported(sources, None) as modules:
            ready, tolerance = numbers.runs(modules)
            for name in names:
                if name in ready:
                    found[name] = self._facts(
                        ready[name], self.session.wanted[name], tolerance
                    )
        return found

    def _facts(
        self, run: numbers.Run, wanted: numbers.Outcome, tolerance: float
    ) -> Facts:
        many = _attempt(lambda: run(2, 4))
        if isinstance(many, Exception):
            return Facts("raises", "raises")
        one = _attempt(lambda: run(1, 1))
        original = "right" if _agree(many, wanted, tolerance) else "wrong"
        if isinstance(one, Exception):
            return Facts(original, "raises")
        return Facts(original, "right" if _agree(many, one, tolerance) else "wrong")

    def said(
        self,
        sources: Mapping[str, bytes],
        names: Sequence[str],
        wanted: Mapping[str, Any] | None,
    ) -> dict[str, Said]:
        """What ``prove`` says, beside the original functions ``wanted`` if there are any."""
        found = {}
        with imported(sources, None) as modules:
            asked = questions(modules)
            for name in names:
                if name in asked:
                    reference = None if wanted is None else wanted[name].f
                    found[name] = _said(asked[name], reference)
        return found

    def answer(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """What is asked of one version of the program."""
        sources, calls = encoded(job["sources"]), job["calls"]
        limit(4 * _SECONDS)
        try:
            facts = job["facts"]
            if facts is None:
                facts = {
                    name: asdict(one)
                    for name, one in self.facts(sources, calls).items()
                }
            said = self.said(sources, calls, None)
            # What is wrong on one device, too, shows beside the original alone.
            left = [
                name
                for name in said
                if facts[name]["original"] == "wrong" and said[name].ok is not False
            ]
            beside: dict[str, Said] = {}
            if left and job["reference"]:
                with imported(self.originals, None) as modules:
                    wanted = questions(modules)
                beside = self.said(sources, left, wanted)
        except Exception as error:  # noqa: BLE001 - the import of a mutant raises what JAX raises
            return {"failed": f"{type(error).__name__}: {error}"[:300]}
        finally:
            limit(0)
        told = {name: asdict(one) for name, one in said.items()}
        return {
            "facts": facts,
            "said": told,
            "beside": {name: asdict(one) for name, one in beside.items()},
        }


def _attempt(call: Callable[[], numbers.Outcome]) -> Any:
    limit(_SECONDS)
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - whatever JAX raises is the answer
        return error
    finally:
        limit(0)


def _agree(found: numbers.Outcome, wanted: numbers.Outcome, tolerance: float) -> bool:
    try:
        numbers.compare((found[0], []), (wanted[0], []), tolerance)
    except numbers.Differs:
        return False
    return True


def _said(asked: Question, reference: Any) -> Said:
    start = time.perf_counter()
    limit(_SECONDS)
    try:
        with nullcontext() if asked.mesh is None else jax.set_mesh(asked.mesh):
            proof = prove(asked.f, *asked.arguments, reference=reference)
    except Exception as error:  # noqa: BLE001 - a mutant that JAX refuses
        text = " ".join(str(error).split())[:200]
        return Said(
            raised=f"{type(error).__name__}: {text}",
            seconds=time.perf_counter() - start,
        )
    finally:
        limit(0)
    return _summary(proof, time.perf_counter() - start)


def _summary(proof: Proof, seconds: float) -> Said:
    where = proof.culprit
    if where is None:
        return Said(proof.ok, proof.agrees, proof.reason, seconds=seconds)
    related = tuple(place.line for place, _ in where.related)
    return Said(
        proof.ok,
        proof.agrees,
        proof.reason,
        where.line,
        f"{where.operation}: {where.what}",
        related,
        "",
        seconds,
    )


def serve() -> None:
    """Answer jobs until the input ends; the first one brings the original program."""
    first = first_job()
    with compiled_quickly():
        prover = Prover(encoded(first["sources"]), first["on devices"])
        print(json.dumps(prover.baseline()), flush=True)
        for count, line in enumerate(sys.stdin):
            print(json.dumps(prover.answer(json.loads(line))), flush=True)
            if count % 20 == 19:
                jax.clear_caches()  # each mutant is another program; they would pile up


# --- all of them ----------------------------------------------------------------------------------------------------


def answers(
    program: Program,
    cases: Sequence[Case],
    known: dict[str, Any],
    options: argparse.Namespace,
) -> Iterator[Answer]:
    """What is said of one program, one function after another."""
    process = Process("benchmarks.mutation.proofs")
    first: Baseline | None = None
    try:
        for case in cases:
            if not process.running:
                process.start()
                began = process.ask(
                    {
                        "sources": sources_of(cases[0], "numbers"),
                        "on devices": not options.originals,
                    },
                    3600,
                )
                if began is None:
                    print(f"{program.name}: no answer", file=sys.stderr)
                    return
                first = Baseline(began["runs"], began["failed"])
            assert first is not None
            yield from _answers(process, case, first, known, options)
    finally:
        process.close()


def _answers(
    process: Process,
    case: Case,
    first: Baseline,
    known: dict[str, Any],
    options: argparse.Namespace,
) -> Iterator[Answer]:
    mutant = case.mutant
    text = (
        "the original"
        if mutant is None
        else f"{mutant.function}:{mutant.lines[0]} {mutant.operator} {mutant.what}"
    )
    key = f"{case.program.name} {'' if mutant is None else mutant.name}"
    calls = calls_of(case, first)
    job = {
        "sources": sources_of(case, "numbers"),
        "calls": calls,
        "facts": known.get(key),
        "reference": options.reference and mutant is not None,
    }
    found = process.ask(job, 1200 + 200 * len(calls))
    if found is None or "failed" in found:
        print(
            f"{case.program.name} {text}: {'no answer' if found is None else found['failed']}",
            flush=True,
        )
        return
    known[key] = found["facts"]
    for name, said in found["said"].items():
        beside = found["beside"].get(name)
        yield Answer(
            text,
            case.program.name,
            "" if mutant is None else mutant.operator,
            (0, 0) if mutant is None else mutant.lines,
            name,
            Facts(**known[key][name]),
            _told(said),
            None if beside is None else _told(beside),
        )


def _told(said: dict[str, Any]) -> Said:
    return Said(**{**said, "related": tuple(said["related"])})


def main() -> None:
    """Ask, and print the table."""
    options = _options()
    known: dict[str, Any] = {}
    if options.truths and options.truths.exists():
        known = json.loads(options.truths.read_text())
    found: list[Answer] = []
    for program in programs(options.paths):
        made = (
            []
            if options.originals
            else mutants(program, ["sharding"], options.seed, options.each)
        )
        cases = [
            Case(number, program, mutant) for number, mutant in enumerate([None, *made])
        ]
        for answer in answers(program, cases, known, options):
            found.append(answer)
            _show(answer, options.full)
        if options.truths:
            options.truths.write_text(json.dumps(known))
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=1))
    print(table(found))
    sys.exit(1 if any(one.is_wrong_proof for one in found) else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks.mutation.proofs", description=__doc__
    )
    parser.add_argument(
        "paths",
        nargs="+",
        help="programs: files, folders of files, or folders with a package",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--each", type=int, default=1, help="mutants of one operator in one function"
    )
    parser.add_argument(
        "--originals",
        action="store_true",
        help="without mutants, and without running anything",
    )
    parser.add_argument(
        "--reference", action="store_true", help="mutants beside the original, too"
    )
    parser.add_argument("--full", action="store_true", help="print every answer")
    parser.add_argument(
        "--truths", type=Path, help="a file that keeps what eight devices do"
    )
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def _show(one: Answer, full: bool) -> None:
    silent = (
        one.said.ok is True
        if one.case == "the original"
        else one.said.ok is False or one.facts.alone != "wrong"
    )
    if silent and not full and not one.is_wrong_proof:
        return
    wrong = "WRONG PROOF: " if one.is_wrong_proof else ""
    said = one.said.raised or f"{one.said.reason} | {one.said.line}: {one.said.end}"
    print(
        f"{wrong}{one.name}, {one.case}: {one.said.head} ({one.said.seconds:.1f} s): {said}",
        flush=True,
    )


def table(found: Sequence[Answer]) -> str:
    """The counts, and what stands in the way of proofs of the originals."""
    originals = [one for one in found if not one.operator]
    changed = [one for one in found if one.operator]
    by_mesh = [one for one in changed if one.facts.alone == "wrong"]
    in_numbers = [one for one in changed if one.facts.original == "wrong"]
    heads = Counter(one.said.head for one in originals)
    lines = [
        "| | functions | proved | agree in numbers only | could not tell | refuted | JAX raises |",
        "|---|---|---|---|---|---|---|",
        _row("originals", originals),
        _row(
            "mutants that are right",
            [
                one
                for one in changed
                if one.facts.original == one.facts.alone == "right"
            ],
        ),
        _row("mutants wrong by the mesh", by_mesh),
        _row("mutants wrong in numbers", in_numbers),
    ]
    if any(one.beside is not None for one in in_numbers):
        lines.append(_row("the same beside the original", in_numbers, beside=True))
    here = sum(one.said.ok is False and one.in_place for one in by_mesh)
    refuted = sum(one.said.ok is False for one in by_mesh)
    share = 100 * heads["proved"] / max(len(originals), 1)
    lines += [
        "",
        f"originals proved: {share:.1f}%; refuted mutants whose culprit is the changed statement: {here} of {refuted}; "
        f"wrong proofs: {sum(one.is_wrong_proof for one in found)}",
        "",
    ]
    reasons = Counter(
        _reason(one.said) for one in originals if one.said.head != "proved"
    )
    lines += [f"{count} × {why}" for why, count in reasons.most_common()]
    return "\n".join(lines)


def _row(title: str, chosen: Sequence[Answer], *, beside: bool = False) -> str:
    heads = Counter((one.best if beside else one.said).head for one in chosen)
    names = ("proved", "agrees in numbers", "could not tell", "refuted", "raises")
    return (
        f"| {title} | {len(chosen)} | "
        + " | ".join(str(heads[name]) for name in names)
        + " |"
    )


def _reason(said: Said) -> str:
    return (
        re.sub(r"^\S+: knowledge ends at ", "", said.end) or said.raised or said.reason
    )


if __name__ == "__main__":
    if len(sys.argv) == 1:
        serve()
    else:
        main()
