"""The results as data and as Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.findings import Finding, statements
from benchmarks.mutation.cases import Case
from benchmarks.mutation.evaluation import Baseline, Truth
from benchmarks.mutation.mutants import Program

RUN_TIME = "jaxtyping + beartype at run time"
PEERS = ("pyrefly", "jaxtyc")


@dataclass(frozen=True)
class Catch:
    """Whether a tool said something new: in the changed statement or one where the program fails, or anywhere; the
    first thing it said; and whether a finding is there, or names a place there."""

    place: bool
    anywhere: bool
    said: str = ""
    named: bool = False


@dataclass
class Results:
    """Everything that a run found. ``alarms`` are findings on the originals."""

    programs: list[Program]
    cases: list[Case]
    truths: dict[int, Truth]
    baselines: dict[str, Baseline]
    catches: dict[str, dict[int, Catch]] = field(default_factory=dict)
    alarms: dict[str, list[str]] = field(default_factory=dict)

    @property
    def wrong(self) -> list[Case]:
        """The mutants that are really wrong."""
        return [
            c
            for c in self.cases
            if c.mutant and self.truths[c.number].verdict == "wrong"
        ]

    def add(self, tool: str, findings: dict[int, set[Finding]]) -> None:
        """Compare what a tool said of each mutant with what it said of the original."""
        originals = {
            str(c.program.root / c.program.name): findings.get(c.number, set())
            for c in self._originals()
        }
        self.alarms[tool] = [
            f"{f.module}:{f.line}: {f.message}"
            for said in originals.values()
            for f in sorted(said)
            if not f.related
        ]
        caught = self.catches[tool] = {}
        for case in self.wrong:
            assert case.mutant is not None
            said = (
                findings.get(case.number, set())
                - originals[str(case.program.root / case.program.name)]
            )
            new = {f for f in said if not f.related}
            places = [(case.mutant.module, *case.mutant.lines)]
            places += statements(case.sources, self.truths[case.number].lines)
            near = [
                f
                for f in sorted(said)
                if any(m == f.module and a <= f.line <= b for m, a, b in places)
            ]
            here = [f for f in near if not f.related]
            texts = [f"{f.module}:{f.line}: {f.message}" for f in here or sorted(new)]
            caught[case.number] = Catch(
                bool(here), bool(new), texts[0] if texts else "", bool(near and new)
            )

    def _originals(self) -> Iterable[Case]:
        return (c for c in self.cases if c.mutant is None)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "programs": {
                p.name: {
                    "evaluated": sorted(self.baselines[str(p.root / p.name)].runs),
                    "not evaluated": dict(self.baselines[str(p.root / p.name)].failed),
                }
                for p in self.programs
            },
            "mutants": [
                {
                    "program": c.program.name,
                    "function": c.mutant.function,
                    "lines": c.mutant.lines,
                    "operator": c.mutant.operator,
                    "family": c.mutant.family,
                    "what": c.mutant.what,
                    "verdict": self.truths[c.number].verdict,
                    "why": self.truths[c.number].why,
                    "caught": {
                        tool: {
                            "place": k.place,
                            "named": k.named,
                            "anywhere": k.anywhere,
                            "said": k.said,
                        }
                        for tool, catches in self.catches.items()
                        if (k := catches.get(c.number)) is not None
                    },
                }
                for c in self.cases
                if c.mutant
            ],
            "findings on the originals": self.alarms,
        }


def markdown(results: Results) -> str:
    """The tables: tools, then operators."""
    lines = []
    families = sorted(
        {c.mutant.family for c in results.wrong if c.mutant}, reverse=True
    )
    for family in families:
        wrong = [c for c in results.wrong if c.mutant and c.mutant.family == family]
        lines += _tools(family, wrong, results)
        if family == "sharding":
            lines += _groups(wrong, results)
        lines += _operators(wrong, results)
    return "\n".join(lines)


def _tools(family: str, wrong: list[Case], results: Results) -> list[str]:
    made = sum(1 for c in results.cases if c.mutant and c.mutant.family == family)
    evaluated = sum(len(b.runs) for b in results.baselines.values())
    lines = [
        f"**{len(wrong)} really wrong {family} mutants** of {made} made, in {evaluated} functions"
        f" of {len(results.programs)} programs.",
        "",
        "| tool | caught in place | caught at all | findings on the originals |",
        "|---|---|---|---|",
    ]
    for tool, catches in results.catches.items():
        at = (
            "–"
            if tool == RUN_TIME
            else _share(wrong, lambda c, k=catches: k[c.number].place)
        )
        anywhere = _share(wrong, lambda c, k=catches: k[c.number].anywhere)
        lines.append(f"| {tool} | {at} | {anywhere} | {len(results.alarms[tool])} |")
    peers = [results.catches[t] for t in PEERS if t in results.catches]
    if len(peers) > 1:
        at = _share(wrong, lambda c: any(k[c.number].place for k in peers))
        anywhere = _share(wrong, lambda c: any(k[c.number].anywhere for k in peers))
        lines.append(f"| {' and '.join(PEERS)} together | {at} | {anywhere} | |")
    return [*lines, ""]


def _groups(wrong: list[Case], results: Results) -> list[str]:
    """The same of annotations and of everything else by themselves, with the places that findings name."""
    lines = [
        "| tool | mutants of | wrong | in place | in place, or named by the finding | caught at all |"
    ]
    lines.append("|---|---|---|---|---|---|")
    for tool, catches in results.catches.items():
        for what, of_annotations in (("annotations", True), ("anything else", False)):
            cases = [
                c
                for c in wrong
                if c.mutant and ("annotated" in c.mutant.operator) == of_annotations
            ]
            shares = [
                _share(cases, lambda c, k=catches: k[c.number].place),
                _share(cases, lambda c, k=catches: k[c.number].named),
                _share(cases, lambda c, k=catches: k[c.number].anywhere),
            ]
            lines.append(f"| {tool} | {what} | {len(cases)} | {' | '.join(shares)} |")
    return [*lines, ""]


def _operators(wrong: list[Case], results: Results) -> list[str]:
    tools = list(results.catches)
    lines = [
        f"| operator | wrong | {' | '.join(tools)} |",
        f"|---|---|{'---|' * len(tools)}",
    ]
    for operator in sorted({c.mutant.operator for c in wrong if c.mutant}):
        cases = [c for c in wrong if c.mutant and c.mutant.operator == operator]
        counts = [
            str(sum(results.catches[t][c.number].anywhere for c in cases))
            for t in tools
        ]
        lines.append(f"| {operator} | {len(cases)} | {' | '.join(counts)} |")
    return [*lines, ""]


def _share(cases: list[Case], caught: Callable[[Case], bool]) -> str:
    count = sum(map(caught, cases))
    return f"{count} ({100 * count / len(cases):.1f}%)" if cases else "–"
