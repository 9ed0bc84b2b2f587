"""What the linter says about whole checkouts: findings in their context, time, memory, and what it could not follow.

Usage: ``python -m benchmarks.public_code CHECKOUT… [--output FOLDER]``. Every checkout is checked by a process of its
own, without the cache, from its own root, as a user would do it. One that crashes, hangs or grows is a line of the
report; the others are still checked. The report is written as ``report.md`` and ``report.json`` after each checkout, so
that an interrupted run loses nothing. Exit status 1: the linter failed somewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.op_coverage import LIBRARIES
from shardlint import decoding, messages, notebooks
from shardlint.discovery import Discovery

_WITHOUT_A_MODEL = messages.unmodelled("")
#: What every run says of itself at its end.
_NOTE = re.compile(r"^shardlint: (?:\d+ files? checked|not checked: )")
_CUT_OFF = messages.cut_off("", "").partition(":")[0]


@dataclass
class Result:
    """One checkout. Times are seconds, memory is in MiB; ``status`` is the exit status, negative for a signal."""

    checkout: str
    files: int = 0
    lines: int = 0
    wall: float = 0.0
    cpu: float = 0.0
    peak: float = 0.0
    status: int | None = None
    findings: list[dict[str, Any]] = field(default_factory=list)
    unmodelled: dict[str, int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    gaps: dict[str, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """The linter itself did not do its work."""
        return self.status not in (0, 1) or bool(self.complaints)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check all checkouts and write the report."""
    options = _options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    results = []
    for checkout in options.checkouts:
        results.append(check(checkout, options.jobs, options.timeout, options.context))
        _write(options.output, results)
        print(_row(results[-1]), flush=True)
    return 1 if any(result.failed for result in results) else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.public_code", description=__doc__)
    parser.add_argument("checkouts", nargs="+", type=Path, metavar="CHECKOUT")
    parser.add_argument(
        "--output", type=Path, default=Path("public_code"), help="folder for the report"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="processes of one run; peak memory is that of the largest",
    )
    parser.add_argument(
        "--timeout", type=float, default=1800, help="seconds that one checkout may take"
    )
    parser.add_argument(
        "--context", type=int, default=4, help="lines to show around a finding"
    )
    return parser.parse_args(arguments)


def check(
    checkout: Path, jobs: int = 1, timeout: float = 1800, context: int = 4
) -> Result:
    """Run the linter over one checkout; whatever goes wrong is part of the result."""
    result = Result(str(checkout))
    if not checkout.is_dir():
        result.complaints.append("no such folder")
        return result
    result.files, result.lines = _size(checkout)
    out, err = _run(checkout, jobs, timeout, result)
    try:
        whole = json.loads(out) if out else {"findings": [], "statistics": {}}
        result.findings = whole["findings"]
        for text, count in whole["statistics"].get("gaps", {}).items():
            _read_gap(text, count, result)
    except json.JSONDecodeError as error:
        result.complaints.append(f"the output is no JSON: {error}")
    for line in filter(str.strip, err.splitlines()):
        if _NOTE.search(line) or messages.is_compared_share(line):
            result.notes.append(line)
        else:
            result.complaints.append(line)
    for finding in result.findings:
        finding["context"] = _context(checkout / finding["path"], finding, context)
    return result


def _size(checkout: Path) -> tuple[int, int]:
    count = lines = 0
    for path in Discovery().walk(checkout.absolute()):
        count += 1
        try:
            lines += path.read_bytes().count(b"\n")
        except OSError:
            continue  # a dangling link: the linter says so itself
    return count, lines


def _run(checkout: Path, jobs: int, timeout: float, result: Result) -> tuple[str, str]:
    """Both outputs of the linter. They go to files: a full pipe would make it wait for us."""
    command = [
        sys.executable,
        "-P",  # a checkout may have a folder named libcst or numpy: that is read, never run
        "-m",
        "shardlint",
        "--no-cache",
        "--statistics",
        "--traceback",
        "--format",
        "json",
    ]
    command += ["--jobs", str(jobs), "."]
    here = str(Path(__file__).resolve().parents[1])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            p for p in (here, os.environ.get("PYTHONPATH")) if p
        ),
    }
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        process = subprocess.Popen(
            command, cwd=checkout, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment,
            start_new_session=True,
        )  # fmt: skip
        usage = _wait(process, start + timeout)
        result.wall = round(time.monotonic() - start, 2)
        if usage is None:
            result.complaints.append(f"not done after {timeout:g} s")
        else:
            result.status = process.returncode
            result.cpu = round(usage.ru_utime + usage.ru_stime, 2)
            # ru_maxrss is in bytes there, in KiB elsewhere
            unit = 1 if sys.platform == "darwin" else 1024
            result.peak = round(usage.ru_maxrss * unit / 2**20, 1)
        out.seek(0)
        err.seek(0)
        return out.read().decode("utf-8", "replace"), err.read().decode(
            "utf-8", "replace"
        )


def _wait(
    process: subprocess.Popen[bytes], end: float
) -> resource.struct_rusage | None:
    """What the process and its children used; None if it had to be stopped."""
    pause = 0.002
    while time.monotonic() < end:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage
        time.sleep(pause)
        pause = min(0.1, pause * 2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return None


def _read_gap(text: str, count: int, result: Result) -> None:
    """What the statistics count."""
    if text.startswith(_WITHOUT_A_MODEL):
        result.unmodelled[text.removeprefix(_WITHOUT_A_MODEL)] = count
    elif text.startswith(_CUT_OFF):
        result.cut[text.removeprefix(f"{_CUT_OFF}: ")] = count
    else:
        result.gaps[text] = count


def _context(path: Path, finding: dict[str, Any], around: int) -> list[str]:
    first, last, cell = finding["line"], finding["end_line"], finding["cell"]
    try:
        source = path.read_bytes()
    except OSError as error:
        return [f"(not readable: {error})"]
    text = (
        notebooks.read(source, path.name).lines(source, cell)
        if cell
        else decoding.lines(decoding.decoded(source))
    )
    shown = range(max(1, first - around), min(len(text), last + around) + 1)
    return [
        f"{'>' if first <= number <= last else ' '}{number:5} {text[number - 1]}"
        for number in shown
    ]


def _write(folder: Path, results: Sequence[Result]) -> None:
    (folder / "report.json").write_text(
        json.dumps([asdict(r) for r in results], indent=1), encoding="utf-8"
    )
    (folder / "report.md").write_text(render(results), encoding="utf-8")


def _row(result: Result) -> str:
    rate = f"{result.lines / result.cpu:.0f}" if result.cpu else "-"
    size = result.lines / 1000
    return (
        f"| {Path(result.checkout).resolve().name} | {result.files} | {result.lines} | {result.wall:.1f} | {rate} "
        f"| {result.peak:.0f} | {result.peak / size if size else 0:.1f} | {len(result.findings)} "
        f"| {sum(result.unmodelled.values())} | {len(result.cut)} | {'FAILED' if result.failed else ''} |"
    )


def render(results: Sequence[Result]) -> str:
    """The report in Markdown."""
    text = [
        "| checkout | files | lines | wall s | lines/s of CPU | peak MiB | MiB per 1000 lines | findings "
        "| not modelled | cut off | |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
        *map(_row, results),
    ]
    for result in results:
        if not (result.findings or result.complaints or result.cut):
            continue
        text += ["", f"## {Path(result.checkout).resolve().name}"]
        text += ["", *result.notes]
        if result.complaints:
            text += ["", "The linter failed:", "", *_block(result.complaints)]
        for finding in result.findings:
            place = f"{finding['path']}:{finding['line']}:{finding['column']}"
            text += ["", f"### {finding['code']} `{place}`", "", finding["message"]]
            if finding["witness"]:
                text.append(
                    "fails for "
                    + ", ".join(
                        f"{name}={size}" for name, size in finding["witness"].items()
                    )
                )
            text += [
                f"- {r['path']}:{r['line']}: {r['message']}" for r in finding["related"]
            ]
            text += ["", *_block(finding["context"])]
        if result.cut:
            text += ["", "Cut off after the bound of steps:", ""]
            text += [f"- {name} ({count}x)" for name, count in result.cut.items()]
    missing: Counter[str] = Counter()
    for result in results:
        missing.update(result.unmodelled)
    arrays = Counter(
        {
            name: n
            for name, n in missing.items()
            if name.split(".")[0] in LIBRARIES or " method " in name
        }
    )
    for title, counts in (
        ("JAX, NumPy and einops", arrays),
        ("everything else", missing - arrays),
    ):
        text += [
            "",
            f"## Calls without a model: {title}",
            "",
            "| calls | function |",
            "|--:|---|",
        ]
        text += [f"| {count} | `{name}` |" for name, count in counts.most_common(60)]
    return "\n".join(text) + "\n"


def _block(lines: Sequence[str]) -> list[str]:
    fence = "`" * max(
        3,
        1
        + max(
            (len(run) for line in lines for run in re.findall("`+", line)), default=0
        ),
    )
    return [fence, *lines, fence]


if __name__ == "__main__":
    raise SystemExit(main())
