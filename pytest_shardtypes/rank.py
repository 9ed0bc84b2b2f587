"""One of the processes that ``--shardtypes-processes`` starts: it joins the others and sends back its reports."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_shardtypes import handed_options
from pytest_shardtypes.coverage import Coverage

VARIABLE = "SHARDTYPES_RANK"
# The process that starts the others ends them when it has waited long enough, in seconds in which they could work.
_NO_LIMIT_SECONDS = 86400


@dataclass(frozen=True)
class Rank:
    """Which process this is, where the first one listens, and where the reports go.

    ``options`` is the file with those of the run that started this one, ``lifeline`` the reading end of a pipe that
    ends when its process is gone.
    """

    number: int
    count: int
    coordinator: str
    reports: str
    options: str
    lifeline: int

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> Rank | None:
        """The rank that the environment names; None in a process that nobody started as one."""
        text = environ.get(VARIABLE)
        return None if text is None else cls(**json.loads(text))

    def to_environ(self) -> dict[str, str]:
        """The reverse of ``of``."""
        return {VARIABLE: json.dumps(asdict(self))}

    def join(self) -> None:
        """Connect with the other processes, and end when the one that started them is gone."""
        threading.Thread(
            target=self._follow, name="shardtypes-lifeline", daemon=True
        ).start()
        import jax

        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            self.coordinator,
            self.count,
            self.number,
            initialization_timeout=_NO_LIMIT_SECONDS,
        )

    def meet(self, place: str) -> None:
        """Wait until all processes are at a place, which they come to once.

        Their first communication fails where one comes to it 30 s before another, and each may be late with its tests.
        """
        from jax._src import distributed  # what is public meets by communicating

        client = distributed.global_state.client
        assert client is not None
        client.wait_at_barrier(place, _NO_LIMIT_SECONDS * 1000)

    def take_options(self, config: pytest.Config) -> None:
        """Have the options of the run that started this process, before any plugin looks at them."""
        vars(config.option).update(handed_options.read(Path(self.options)))

    def _follow(self) -> None:
        while os.read(self.lifeline, 1):
            pass
        # The process that would have removed it is gone.
        shutil.rmtree(Path(self.reports).parent, ignore_errors=True)
        # this process, which leads a group of its own, and what its tests started
        os.killpg(0, signal.SIGKILL)


class Reporter:
    """Writes each report, and with it what was counted so far, as lines of JSON."""

    def __init__(
        self, config: pytest.Config, rank: Rank, counted: Callable[[], Coverage]
    ) -> None:
        self._config = config
        self._rank = rank
        self._path = Path(rank.reports)
        self._counted = counted
        self._tests = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> None:
        """Begin each test when all processes have come to it."""
        self._tests += 1
        self._rank.meet(f"shardtypes test {self._tests}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send one report; with the last one of a test the counts, for this process may be ended after it."""
        if report.when == "teardown":
            self._write({"coverage": self._counted().to_json()})
        self._write(
            self._config.hook.pytest_report_to_serializable(
                config=self._config, report=report
            )
        )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Send what went wrong while collecting."""
        if report.failed:
            self._write({"collecting": str(report.longrepr)})

    def pytest_collection_finish(self) -> None:
        """Send that the tests begin."""
        self._write({"collected": True})

    def _write(self, data: Any) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(data) + "\n")
