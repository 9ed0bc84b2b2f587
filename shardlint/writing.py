"""What a check writes: the findings to standard output or a file, and what there is to say of the run to standard
error."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint import messages
from shardlint.discovery import shown
from shardlint.problems import Problem
from shardlint.render import FOR_READING, Outcome, github, json, renderer
from shardlint.render.style import PLAIN, Style, style_of
from shardlint.render.types import render_types
from shardlint.run import Report
from shardlint.whole_files import write_whole

if TYPE_CHECKING:
    from shardlint.costing.changes import CostChanges

#: So many reasons of one kind are listed for people.
_MOST = 20
#: So many of the files that took most time.
_DEAREST = 10
#: Less is not worth a line, in seconds.
_LONG = 0.2
#: Formats that have the changes of costs.
WITH_COSTS = ("json", "github")


def write_findings(
    report: Report, options: argparse.Namespace, costs: CostChanges | None = None
) -> None:
    """The findings in the format that was asked for, with the statistics and changes of costs, to where they were asked
    for. A file that cannot be written is a problem of the report."""
    style = PLAIN
    if options.output_file is None:
        style = style_of(sys.stdout, options.color)
    text = _rendered(report, options, style, costs)
    if options.statistics:
        statistics = "".join(_statistics(report))
        if options.format in FOR_READING:
            text += statistics
        elif options.format != "json":
            sys.stderr.write(statistics)
    elif not options.quiet:
        cut = sorted(filter(messages.is_cut_off, report.gaps))
        sys.stderr.write(messages.cut_short(cut))
    if options.format == "full" and not options.quiet:
        text += _summary(report)
    if options.output_file is None:
        sys.stdout.write(text)
        return
    try:
        _write_file(Path(options.output_file), text.encode("utf-8", "surrogateescape"))
    except OSError as error:
        reason = error.strerror or str(error)
        problem = messages.no_output_file(options.output_file, reason)
        report.problems.append(Problem(problem, options.output_file))


def _rendered(
    report: Report,
    options: argparse.Namespace,
    style: Style,
    costs: CostChanges | None,
) -> str:
    more: dict[str, object] = {}
    if options.format == "json":
        more = _more_in_json(report, options, costs)
    outcome = Outcome(report.diagnostics, report.lines, report.problems, style)
    if more:
        return json.render_with(outcome, more)
    text = ""
    if options.show_types:
        text += render_types(report.types, options.format)
    text += renderer(options.format)(outcome)
    if costs is not None and options.format == "github":
        text += "".join(map(github.notice_of_cost, costs.changed))
    return text


def _more_in_json(
    report: Report, options: argparse.Namespace, costs: CostChanges | None
) -> dict[str, object]:
    """What stands beside the findings."""
    more: dict[str, object] = {}
    if options.show_types:
        more["types"] = json.types(report.types)
    if costs is not None:
        more["costs"] = [one.to_json() for one in costs.changed]
    if options.statistics:
        known = report.known
        more["statistics"] = {
            "files": report.checked,
            "arrays": known.shares(),
            "not_known": dict(_ranked(dict(known.reasons))),
            "rules": dict(_by_rule(report)),
            "gaps": dict(_ranked(report.gaps)),
            "seconds": dict(_dearest(report)),
        }
    return more


def _summary(report: Report) -> str:
    fixable = sum(
        d.fix is not None and d.fix.applicability == "safe" for d in report.diagnostics
    )
    total = len(report.diagnostics)
    return messages.summary(total, report.checked, fixable) + "\n"


def _write_file(path: Path, data: bytes) -> None:
    """Raises ``OSError``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if (
        path.exists() and not path.is_file()
    ):  # a pipe, which nothing can take the place of
        path.write_bytes(data)
    else:
        write_whole(path, data)


def _statistics(report: Report) -> Iterator[str]:
    names = {d.code: d.name for d in report.diagnostics}
    for code, count in _by_rule(report):
        yield f"{count:5} {code} {names[code]}\n"
    unmodelled = {
        text: count
        for text, count in report.gaps.items()
        if messages.is_unmodelled(text)
    }
    others = {
        text: count for text, count in report.gaps.items() if text not in unmodelled
    }
    for text, count in _ranked(others):
        yield f"{count:5} {text}\n"
    yield from _most_frequent(unmodelled)
    known = report.known
    if known.arrays:
        for share, count in known.shares().items():
            yield f"{count:5} {messages.how_well_known(share)}\n"
    yield from _most_frequent(
        {messages.why_not_known(why): count for why, count in known.reasons}
    )
    for path, seconds in _dearest(report)[:_DEAREST]:
        if seconds >= _LONG:
            yield f"{messages.took(seconds, path)}\n"


def _most_frequent(counts: Mapping[str, int]) -> Iterator[str]:
    """The first lines of a long list, and how many are left out."""
    ranked = _ranked(counts)
    for text, count in ranked[:_MOST]:
        yield f"{count:5} {text}\n"
    rest = ranked[_MOST:]
    if rest:
        times = sum(count for _, count in rest)
        yield f"{times:5} {messages.more_reasons(len(rest))}\n"


def _dearest(report: Report) -> list[tuple[str, float]]:
    """Files and their processor time, those that took most first."""
    rounded = ((path, round(spent, 3)) for path, spent in report.seconds.items())
    return sorted(rounded, key=lambda item: (-item[1], item[0]))


def _by_rule(report: Report) -> list[tuple[str, int]]:
    return _ranked(Counter(d.code for d in report.diagnostics))


def _ranked(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Most frequent first."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def say(lines: Iterable[object]) -> None:
    """Lines about the run, to standard error."""
    sys.stderr.writelines(f"shardlint: {line}\n" for line in lines)


def about_the_run(
    report: Report, paths: Sequence[str], say_all_skipped: bool
) -> list[str]:
    """What was not checked and why, what is hidden, and how much was known of what was checked."""
    skipped = [(shown(one.path), one.reason) for one in report.skipped]
    most = None if say_all_skipped else 3
    lines = [messages.not_checked(skipped, most)] if skipped else []
    lines += _about_baselines(report)
    if report.checked:
        known = report.known
        files, dependents = report.checked, report.dependents
        share = messages.known_share(files, dependents, known.ranks, known.arrays)
        lines.append(share)
        uncompared = _count(report, messages.is_not_compared)
        meant = _count(report, messages.is_meant)
        if uncompared or meant:
            lines.append(messages.compared_share(uncompared, meant))
    elif not skipped and not report.problems:
        lines.append(messages.nothing_to_check(paths))
    return lines


def _about_baselines(report: Report) -> list[str]:
    lines = []
    for path, baseline in report.baselines.items():
        gone = baseline.gone(report.judged)
        if baseline.hidden:
            lines.append(messages.hidden(shown(path), baseline.hidden))
        if gone:
            lines.append(messages.gone_from_baseline(shown(path), gone))
    return lines


def _count(report: Report, is_one: Callable[[str], bool]) -> int:
    """How many of the gaps of a run are of one kind."""
    return sum(count for text, count in report.gaps.items() if is_one(text))
