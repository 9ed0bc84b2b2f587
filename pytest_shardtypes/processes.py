"""``--shardtypes-processes=2``: marked tests in several processes of this machine that compute together.

The processes run the marked tests in one order, each by itself as pytest does, over ``jax.distributed``. This process
waits for the reports of all of them, and makes one report of each test. After a failure the processes are ended and new
ones go on, for one that has left a test early would answer the others' next communication.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest

from pytest_shardtypes import handed_options
from pytest_shardtypes.fair_clock import FairClock
from pytest_shardtypes.rank import Rank

_Phase: TypeAlias = Literal["setup", "call", "teardown"]

MARK = "processes"
# All of these are seconds of a FairClock.
TEST_SECONDS = 120.0
START_SECONDS = 180.0
# How long the others get once one has failed or is gone.
GRACE_SECONDS = 5.0
END_SECONDS = 20.0
_POLL_SECONDS = 0.05
_LAST_LINES = 25


@dataclass
class Member:
    """One process and what it has sent so far."""

    process: subprocess.Popen[bytes]
    reports: Path
    log: Path
    read: int = 0
    sent: dict[str, list[pytest.TestReport]] = field(default_factory=dict)
    ready: bool = False
    problems: list[str] = field(default_factory=list)
    coverage: dict[str, Any] | None = None

    def has_finished(self, node: str) -> bool:
        """Whether all reports of a test are here."""
        return any(report.when == "teardown" for report in self.sent.get(node, ()))

    def has_failed(self, node: str) -> bool:
        """Whether a test went wrong in this process."""
        return any(report.failed for report in self.sent.get(node, ()))

    def update(self, config: pytest.Config) -> None:
        """Read what was written since the last time."""
        if not self.reports.exists():
            return
        with self.reports.open("rb") as file:
            file.seek(self.read)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # still being written
                self.read += len(line)
                data = json.loads(line)
                if "coverage" in data:
                    self.coverage = data["coverage"]
                elif "collected" in data:
                    self.ready = True
                elif "collecting" in data:
                    self.problems.append(data["collecting"])
                else:
                    report = config.hook.pytest_report_from_serializable(
                        config=config, data=data
                    )
                    self.sent.setdefault(report.nodeid, []).append(report)

    def last_words(self) -> str:
        """Why it did not finish, as far as is known, and the end of its output."""
        status = self.process.poll()
        state = (
            "was still running, and was ended"
            if status is None
            else f"is gone, with exit status {status}"
        )
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[
            -_LAST_LINES:
        ]
        return "\n".join([f"did not finish: it {state}", *self.problems, *lines])


class Group:
    """The processes that run one list of tests together."""

    def __init__(
        self,
        config: pytest.Config,
        count: int,
        devices: int | None,
        nodes: Sequence[str],
    ) -> None:
        self._config = config
        self._folder = tempfile.TemporaryDirectory(prefix="shardtypes-")
        self.nodes = frozenset(nodes)
        reading, self._lifeline = os.pipe()
        coordinator = f"127.0.0.1:{_free_port()}"
        self.members = []
        options = self._file("options")
        handed_options.write(config.option, options)
        try:
            for number in range(count):
                rank = Rank(
                    number,
                    count,
                    coordinator,
                    str(self._file(f"reports{number}")),
                    str(options),
                    reading,
                )
                self.members.append(self._start(rank, _command(config, devices, nodes)))
        finally:
            os.close(reading)
        self._clock = FairClock([member.process.pid for member in self.members])

    def wait(self, node: str, seconds: float) -> None:
        """Until all have run a test, or one has not and the others had their time."""
        now = self._clock.seconds
        end = now() + START_SECONDS
        begun = shortened = False
        while now() < end:
            gone = [member.process.poll() is not None for member in self.members]
            for member in self.members:
                member.update(self._config)
            if (
                not begun
                and not shortened
                and all(member.ready for member in self.members)
            ):
                end, begun = now() + seconds, True
            unfinished = [not member.has_finished(node) for member in self.members]
            if not any(unfinished):
                return
            lost = any(
                left and is_gone for left, is_gone in zip(unfinished, gone, strict=True)
            )
            if not shortened and (
                lost or any(member.has_failed(node) for member in self.members)
            ):
                end, shortened = min(end, now() + GRACE_SECONDS), True
            time.sleep(_POLL_SECONDS)

    def end(self, seconds: float = 0.0) -> list[dict[str, Any]]:
        """Let the processes finish for so long, end those that have not, and return what they counted."""
        try:
            until = self._clock.seconds() + seconds
            while seconds and self._runs() and self._clock.seconds() < until:
                time.sleep(_POLL_SECONDS)
        finally:  # also where the user does not want to wait
            self._kill()
        for member in self.members:
            member.process.wait()
            member.update(self._config)
        os.close(self._lifeline)
        self._folder.cleanup()
        return [
            member.coverage for member in self.members if member.coverage is not None
        ]

    def _runs(self) -> bool:
        return any(member.process.poll() is None for member in self.members)

    def _kill(self) -> None:
        """Each process with what its tests started; one that is gone may have left that."""
        for member in self.members:
            with suppress(ProcessLookupError):
                os.killpg(member.process.pid, signal.SIGKILL)

    def _start(self, rank: Rank, command: Sequence[str]) -> Member:
        log = self._file(f"log{rank.number}")
        environ = {**os.environ, **rank.to_environ()}
        environ.pop("PYTEST_ADDOPTS", None)
        environ.pop("PYTEST_XDIST_WORKER", None)
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self._config.invocation_params.dir,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[rank.lifeline],
                start_new_session=True,  # so that it is ended with what it has started
            )
        return Member(process, Path(rank.reports), log)

    def _file(self, name: str) -> Path:
        return Path(self._folder.name) / name


class Processes:
    """The hooks that hand marked tests to a group."""

    def __init__(self, config: pytest.Config, count: int, devices: int | None) -> None:
        self._config = config
        self._count = count
        self._devices = devices
        self._group: Group | None = None
        self.coverage: list[dict[str, Any]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        """Report a marked test as the processes found it; all others run here as ever."""
        marker = item.get_closest_marker(MARK)
        if marker is None:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        group = self._group_for(item)
        group.wait(item.nodeid, float(marker.kwargs.get("timeout", TEST_SECONDS)))
        reports = list(_merged(item, group.members))
        if any(report.failed for report in reports):
            self._end(0.0)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        # What the test before this one left set up for the module or the class that both are in.
        item.session._setupstate.teardown_exact(nextitem)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """End them at once where the run is interrupted: nobody waits for what they would still say.

        Here rather than in ``pytest_keyboard_interrupt``, which a second Ctrl-C keeps pytest from calling.
        """
        try:
            return (yield)
        except (KeyboardInterrupt, pytest.exit.Exception):
            with interrupts_later():
                self._end(0.0)
            raise

    def pytest_sessionfinish(self) -> None:
        """Leave no process behind."""
        self._end(END_SECONDS)

    def _group_for(self, item: pytest.Item) -> Group:
        if self._group is None or item.nodeid not in self._group.nodes:
            self._end(END_SECONDS)
            items = item.session.items
            rest = [
                other.nodeid
                for other in items[items.index(item) :]
                if other.get_closest_marker(MARK)
            ]
            self._group = Group(self._config, self._count, self._devices, rest)
        return self._group

    def _end(self, seconds: float) -> None:
        group, self._group = self._group, None
        if group is not None:
            self.coverage += group.end(seconds)


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Let a Ctrl-C that comes meanwhile count afterwards."""
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if before is None or not is_main:  # it interrupts something else
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def _merged(
    item: pytest.Item, members: Sequence[Member]
) -> Iterator[pytest.TestReport]:
    """One report for each phase: failed if it failed in one process, skipped if it was in one and failed in none."""
    phases: tuple[_Phase, ...] = ("setup", "call", "teardown")
    for when in phases:
        reports = [
            (number, report)
            for number, member in enumerate(members)
            for report in member.sent.get(item.nodeid, ())
            if report.when == when
        ]
        failures = [
            (number, _failure(report)) for number, report in reports if report.failed
        ]
        if when == "call":
            failures += [
                (number, member.last_words())
                for number, member in enumerate(members)
                if not member.has_finished(item.nodeid)
            ]
        if reports or failures:
            texts = [
                f"process {number} of {len(members)}: {text}"
                for number, text in sorted(failures)
            ]
            yield _merged_phase(item, when, reports, "\n".join(texts))


def _merged_phase(
    item: pytest.Item,
    when: _Phase,
    reports: Sequence[tuple[int, pytest.TestReport]],
    failure: str,
) -> pytest.TestReport:
    """The report of one phase, from those of the processes by number."""
    skipped = [report for _, report in reports if report.skipped]
    outcome: Literal["failed", "skipped", "passed"] = "passed"
    longrepr: Any = None
    if failure:
        outcome, longrepr = "failed", failure
    elif skipped:
        outcome, longrepr = "skipped", _skip_reason(skipped[0])
    merged = pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords=dict.fromkeys(item.keywords, 1),
        outcome=outcome,
        longrepr=longrepr,
        when=when,
        sections=[
            (f"process {number}: {title}", text)
            for number, report in reports
            for title, text in report.sections
        ],
        duration=max((report.duration for _, report in reports), default=0.0),
        user_properties=[
            entry for _, report in reports for entry in report.user_properties
        ],
    )
    expected = [report.wasxfail for _, report in reports if hasattr(report, "wasxfail")]
    if expected and not failure:
        merged.wasxfail = expected[0]
    return merged


def _failure(report: pytest.TestReport) -> str:
    """What went wrong, in one line first, which is what a summary shows, and then in full."""
    crash = getattr(getattr(report.longrepr, "reprcrash", None), "message", "")
    return "\n".join([*crash.splitlines()[:1], str(report.longrepr)])


def _skip_reason(report: pytest.TestReport) -> Any:
    """File, line and words, as a tuple: JSON, through which the report came, has lists only."""
    return (
        tuple(report.longrepr) if isinstance(report.longrepr, list) else report.longrepr
    )


def _command(
    config: pytest.Config, devices: int | None, nodes: Sequence[str]
) -> list[str]:
    """The same configuration for these tests only, without what writes files or starts workers."""
    option = config.option
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--rootdir",
        str(config.rootpath),
        "-o",
        "addopts=",
        "-x",
    ]
    if config.inipath is not None:
        command += ["-c", str(config.inipath)]
    for setting in option.override_ini or ():
        command += ["-o", setting]
    for plugin in option.plugins or ():
        command += ["-p", plugin]
    command += [
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        f"--import-mode={option.importmode}",
    ]
    command += ["--capture=tee-sys"]  # what a process said before it died is in its log
    command += ["--shardtypes", "--no-shardtypes-trace", "--shardtypes-processes=1"]
    command += [f"--shardtypes-devices={devices or 0}"]
    for name in ("mesh", "packages"):
        value = getattr(option, f"shardtypes_{name}", None)
        command += [] if value is None else [f"--shardtypes-{name}={value}"]
    return [*command, *(f"{config.rootpath}{os.sep}{node}" for node in nodes)]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
