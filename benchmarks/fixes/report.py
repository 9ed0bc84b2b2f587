"""The verdicts in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.fixes.judging import FOUND, IN_PLACE, NEARBY, Said, Verdict


def markdown(verdicts: Sequence[Verdict]) -> str:
    """The totals, then every fix."""
    return "\n".join([*_totals(verdicts), "", *_kinds(verdicts), "", *_rows(verdicts)])


def _totals(verdicts: Sequence[Verdict]) -> Iterator[str]:
    projects = {verdict.fix.project for verdict in verdicts}
    certain = [verdict for verdict in verdicts if verdict.fix.certain]
    others = [verdict for verdict in verdicts if not verdict.fix.certain]
    yield f"**{len(verdicts)} fixes** of {len(projects)} projects."
    yield ""
    yield "| fixes | | in place | in place or near | found at all | findings that remain | that only the fix has |"
    yield "|---|---|---|---|---|---|---|"
    yield _total("all", verdicts)
    yield _total("those that the code alone tells", certain)
    yield _total("the others", others)


def _total(name: str, verdicts: Sequence[Verdict]) -> str:
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    near = outcomes[IN_PLACE] + outcomes[NEARBY]
    counts = (outcomes[IN_PLACE], near, near + outcomes[FOUND])
    shares = " | ".join(_share(count, len(verdicts)) for count in counts)
    remaining = sum(len(verdict.remaining) for verdict in verdicts)
    new = sum(len(verdict.new) for verdict in verdicts)
    return f"| {name} | {len(verdicts)} | {shares} | {remaining} | {new} |"


def _share(count: int, whole: int) -> str:
    return f"{count} ({100 * count / max(whole, 1):.1f}%)"


def _kinds(verdicts: Sequence[Verdict]) -> Iterator[str]:
    certain = [verdict for verdict in verdicts if verdict.fix.certain]
    whole = Counter(verdict.fix.kind for verdict in certain)
    found = Counter(verdict.fix.kind for verdict in certain if verdict.is_found)
    yield "| of those that the code alone tells, about | | found |"
    yield "|---|---|---|"
    for kind, count in sorted(whole.items(), key=lambda item: (-item[1], item[0])):
        yield f"| {kind} | {count} | {found[kind]} |"


def _rows(verdicts: Sequence[Verdict]) -> Iterator[str]:
    yield "| fix | what was wrong | the code tells | linter | rules |"
    yield "|---|---|---|---|---|"
    for verdict in verdicts:
        fix = verdict.fix
        tells = "yes" if fix.certain else fix.reason
        codes = ", ".join(sorted({one.code for one in verdict.gone}))
        yield (
            f"| [{fix.name}]({fix.address}) | {fix.wrong} | {tells} | {verdict.outcome} | {codes} |"
        )


def missed(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The fixes before which nothing is found that is not found after them, by what it would take."""
    left = [verdict.fix for verdict in verdicts if not verdict.is_found]
    reasons = Counter(fix.reason for fix in left)
    for reason in sorted(reasons, key=lambda reason: (reason != "", -reasons[reason])):
        yield f"{reasons[reason]} missed: {reason or 'the code alone tells'}"
        for fix in left:
            if fix.reason == reason:
                yield f"  {fix.name} {fix.file}:{fix.lines[0]}: {fix.wrong}"


def gone(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """What is found before fixes and not after them."""
    for verdict in verdicts:
        yield from _listed(verdict.fix.name, verdict.outcome, verdict.gone)


def remaining(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """What is found after fixes: to be read, as it may be wrong."""
    for verdict in verdicts:
        yield from _listed(verdict.fix.name, "remains", verdict.remaining)
        yield from _listed(verdict.fix.name, "only after the fix", verdict.new)


def _listed(name: str, what: str, findings: Sequence[Said]) -> Iterator[str]:
    for finding in findings:
        yield f"{name}: {what}: {finding}"
