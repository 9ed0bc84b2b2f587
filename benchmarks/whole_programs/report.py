"""The results as Markdown tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.findings import Finding
from benchmarks.tools import LINTER
from benchmarks.whole_programs.cases import Change, Program
from benchmarks.whole_programs.catches import Catch
from benchmarks.whole_programs.outcomes import Outcome
from benchmarks.whole_programs.test_runs import TEST_RUN

JAX = "JAX itself, on eight devices"

Key = tuple[str, str]
"""A program and a change of it."""


@dataclass(frozen=True)
class Mistake:
    """A change of a program, and what becomes of it on eight devices."""

    program: Program
    change: Change
    outcome: Outcome

    @property
    def key(self) -> Key:
        return self.program.name, self.change.name


@dataclass
class Results:
    """Everything that a run found. ``alarms`` are findings on the correct programs, by tool and program."""

    programs: Sequence[Program]
    mistakes: Sequence[Mistake]
    catches: dict[str, dict[Key, Catch]] = field(default_factory=dict)
    alarms: dict[str, dict[str, list[Finding]]] = field(default_factory=dict)

    def of(self, program: Program | None, *outcomes: str) -> list[Mistake]:
        """The mistakes with these outcomes, in one program or in all."""
        inside = (m for m in self.mistakes if program is None or m.program == program)
        return [m for m in inside if m.outcome.outcome in outcomes]

    def left_by(self, tool: str, program: Program) -> list[Mistake]:
        """The silent mistakes of a program of which a tool finds nothing."""
        found = self.catches[tool]
        silent = self.of(program, "differs")
        return [one for one in silent if not found[one.key].anywhere]

    def wrong(self, program: Program | None = None) -> list[Mistake]:
        """The mistakes that give wrong numbers or none."""
        return self.of(program, "raises", "differs", "hangs")


def markdown(results: Results) -> str:
    """The tables: tools, then programs and rules of the linter."""
    tables = [_tools(results)]
    if LINTER in results.catches:
        tables += [_programs(results), _rules(results)]
    return "\n\n".join("\n".join(table) for table in tables)


def _tools(results: Results) -> Iterator[str]:
    wrong, raised, slow = (
        results.wrong(),
        results.of(None, "raises"),
        results.of(None, "slow"),
    )
    silent = results.of(None, "differs", "hangs")
    everywhere = [mistake for mistake in silent if mistake.outcome.alone == "differs"]
    meshes = [mistake for mistake in wrong if mistake not in everywhere]
    yield (
        f"**{len(wrong)} mistakes that are wrong on eight devices**, in {len(results.programs)} programs: JAX raises"
        f" for {len(raised)}, {len(silent)} give other numbers in silence. {len(everywhere)} of these give other"
        f" numbers on a mesh of one device, too; {len(meshes)} are wrong by the mesh. {len(slow)} more are only slower,"
        f" {len(results.of(None, 'agrees'))} make no difference there."
    )
    yield ""
    yield (
        "| tool | in place | in place, near, or named | found at all"
        " | of those that are wrong by the mesh: in place, near, or named | found at all"
        " | of those that JAX raises for | of the silent ones | of the slow ones | findings on the correct programs |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for tool, caught in results.catches.items():
        place = {key for key, one in caught.items() if one.place}
        near = {key for key, one in caught.items() if one.near}
        anywhere = {key for key, one in caught.items() if one.anywhere}
        shares = [
            _share(wrong, place),
            _share(wrong, near),
            _share(wrong, anywhere),
            _share(meshes, near),
        ]
        shares += [_share(group, anywhere) for group in (meshes, raised, silent, slow)]
        yield f"| {tool} | {' | '.join(shares)} | {sum(map(len, results.alarms[tool].values()))} |"
    wrongs, *others = [
        _share(group, {m.key for m in raised})
        for group in (wrong, meshes, raised, silent, slow)
    ]
    yield f"| {JAX} | – | – | {wrongs} | – | {' | '.join(others)} | 0 |"
    for tool, caught in results.catches.items():
        ended = [
            f"{program}: {change}"
            for (program, change), one in caught.items()
            if one.ended
        ]
        if ended:
            yield f"\n{tool} was ended for taking too long at {', '.join(ended)}."


def _programs(results: Results) -> Iterator[str]:
    """Of every tool what it finds at all; of the linter more."""
    others = [tool for tool in results.catches if tool != LINTER]
    yield (
        f"| program | wrong | {LINTER}: in place | in place, near, or named | found at all | slow | found"
        f" | findings on the program |{''.join(f' {tool} |' for tool in others)} JAX raises |"
    )
    yield f"|---|---|---|---|---|---|---|---|{'---|' * len(others)}---|"
    caught = results.catches[LINTER]
    for program in results.programs:
        wrong, slow = results.wrong(program), results.of(program, "slow")
        counts = [
            len(wrong),
            sum(caught[m.key].place for m in wrong),
            sum(caught[m.key].near for m in wrong),
            sum(caught[m.key].anywhere for m in wrong),
            len(slow),
            sum(caught[m.key].anywhere for m in slow),
            len(results.alarms[LINTER][program.name]),
            *(
                sum(results.catches[tool][m.key].anywhere for m in wrong)
                for tool in others
            ),
            len(results.of(program, "raises")),
        ]
        yield f"| `{program.name}` | {' | '.join(map(str, counts))} |"


def _rules(results: Results) -> Iterator[str]:
    """A mistake that several rules report counts for each."""
    caught = results.catches[LINTER]
    alarms = [finding for found in results.alarms[LINTER].values() for finding in found]
    codes = {_code(message) for one in caught.values() for message in one.messages}
    codes |= {_code(finding.message) for finding in alarms}
    yield "| rule | wrong mistakes it reports | slow ones | findings on the correct programs |"
    yield "|---|---|---|---|"
    for code in sorted(codes):
        wrong, slow = (
            sum(code in map(_code, caught[mistake.key].messages) for mistake in some)
            for some in (results.wrong(), results.of(None, "slow"))
        )
        yield f"| {code} | {wrong} | {slow} | {sum(_code(finding.message) == code for finding in alarms)} |"


def together(results: Results) -> str:
    """What the linter finds of the silent mistakes, and what a test that calls the program finds of the others."""
    silent = results.of(None, "differs")
    by_mesh = [one for one in silent if one.outcome.alone != "differs"]
    everywhere = [one for one in silent if one.outcome.alone == "differs"]
    groups = {
        "wrong by the mesh": by_mesh,
        "wrong on one device, too": everywhere,
        "all silent ones": silent,
    }
    by_linter, by_test = results.catches[LINTER], results.catches[TEST_RUN]
    linted = {key for key, one in by_linter.items() if one.anywhere}
    tested = {key for key, one in by_test.items() if one.anywhere}
    caught = by_linter | by_test
    place = {key for key, one in caught.items() if one.place}
    near = {key for key, one in caught.items() if one.near}
    rows = [
        "| silent mistakes | | the linter | a test run, of the others | together"
        " | in the changed statement | there, near, or named |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, mistakes in groups.items():
        others = [one for one in mistakes if one.key not in linted]
        shares = [
            _share(mistakes, linted),
            _share(others, tested),
            _share(mistakes, linted | tested),
            _share(mistakes, place),
            _share(mistakes, near),
        ]
        rows.append(f"| {name} | {len(mistakes)} | {' | '.join(shares)} |")
    alarms = results.alarms[TEST_RUN]
    failed = sorted(name for name, found in alarms.items() if found)
    rows += [
        "",
        f"Of {len(alarms)} correct programs the test fails for {', '.join(failed) or 'none'}.",
    ]
    return "\n".join(rows)


def _code(message: str) -> str:
    return message.partition(" ")[0]


def missed(results: Results, tool: str) -> str:
    """The wrong mistakes that a tool says nothing of, and those that it reports somewhere else, a line each."""
    caught = results.catches[tool]
    silent = [f"Not found by {tool}:", ""]
    elsewhere = [f"Found by {tool}, but neither near the change nor naming it:", ""]
    for mistake in results.wrong():
        one = caught[mistake.key]
        change = mistake.change
        line = f"- `{mistake.program.name}` {change.name} ({mistake.outcome.outcome}): {change.what}"
        if not one.anywhere:
            silent.append(line)
        elif not one.near:
            elsewhere.append(line)
            elsewhere += [f"  - {message}" for message in one.messages]
    return "\n".join([*silent, "", *elsewhere, ""])


def _share(mistakes: Sequence[Mistake], found: Collection[Key]) -> str:
    count = sum(mistake.key in found for mistake in mistakes)
    return f"{count} ({100 * count / len(mistakes):.1f}%)" if mistakes else "–"
