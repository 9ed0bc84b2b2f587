"""What a check writes: the findings to standard output or a file, and what there is to say of the run to standard
error."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from shardlint import messages
from shardlint.discovery import shown
from shardlint.render import FOR_READING, Outcome, renderer
from shardlint.render.json import render_with_types
from shardlint.render.style import PLAIN, Style, style_of
from shardlint.render.types import render_types
from shardlint.run import Report
from shardlint.whole_files import write_whole

#: Formats that say so themselves where the work could not be done.
TELL_OF_FAILURE = ("junit", "sarif")


def write_findings(report: Report, options: argparse.Namespace) -> None:
    """The findings in the format that was asked for, with the statistics, to where they were asked for. A file that
    cannot be written is a problem of the report."""
    style = PLAIN
    if options.output_file is None:
        style = style_of(sys.stdout, options.color)
    text = _rendered(report, options, style)
    is_read = options.format in FOR_READING
    if options.statistics:
        statistics = "".join(_statistics(report))
        if is_read:
            text += statistics
        else:
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
        report.problems.append(messages.no_output_file(options.output_file, reason))


def _rendered(report: Report, options: argparse.Namespace, style: Style) -> str:
    if options.show_types and options.format == "json":
        return render_with_types(report.diagnostics, report.types)
    types = render_types(report.types, options.format) if options.show_types else ""
    outcome = Outcome(report.diagnostics, report.lines, report.problems, style)
    return types + renderer(options.format)(outcome)


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


def _statistics(report: Report) -> list[str]:
    counts = Counter(d.code for d in report.diagnostics)
    names = {d.code: d.name for d in report.diagnostics}
    codes = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    gaps = sorted(report.gaps.items(), key=lambda item: (-item[1], item[0]))
    return [
        *(f"{count:5} {code} {names[code]}\n" for code, count in codes),
        *(f"{count:5} {text}\n" for text, count in gaps),
    ]


def say(lines: Sequence[str]) -> None:
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
        lines.append(messages.known_share(report.checked, report.known, report.arrays))
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
