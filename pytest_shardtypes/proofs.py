"""Functions that map over devices, compared with one device: each call that a test makes is an item of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_shardtypes.dependences import files_behind
from pytest_shardtypes.mapped_calls import Call, MappedCalls, unwrapped
from pytest_shardtypes.summary import COULD_NOT_TELL, NOT_COMPARED
from shardtypes._stats import uncounted
from shardtypes.lang import kept_verdicts
from shardtypes.lang.kept_verdicts import KeptVerdict
from shardtypes.mesh_dependence import dependence_of
from shardtypes.switches import enabled

if TYPE_CHECKING:
    from shardtypes.proving import Proof

AGREES = "agrees in numbers"
_MARK = "mesh_dependent"


class Proving:
    """The hooks that note calls, and with ``compares`` compare them after the test that made them; with ``follows``
    they keep how the arrays moved over the mesh."""

    def __init__(self, root: Path, compares: bool, follows: bool) -> None:
        self.calls = MappedCalls(keeps=compares)
        self.verdicts: dict[str, str] = {}
        self.intermediates: dict[str, tuple[tuple[str, ...], ...]] = {}
        self._follows = follows
        self._root = root
        self._kept: list[KeptVerdict] = []
        self._made: Counter[str] = Counter()
        self._compared_before: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Listen while the test runs."""
        self.calls.listening = True
        try:
            yield
        finally:
            self.calls.listening = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item
    ) -> Generator[None, object, object]:
        """Compare what the test called once its meshes are out of force."""
        result = yield
        for call in self.calls.take():
            if call.key not in self._compared_before:
                report = self._report(item, call)
                item.ihook.pytest_runtest_logreport(report=report)
        return result

    def _report(self, item: pytest.Item, call: Call) -> pytest.TestReport:
        reason = _exemption(item, call)
        proof = None if reason else self._compared(call)
        path, line = call.place or (str(item.path), 1)
        file = Path(path)
        shown = (
            str(file.relative_to(self._root))
            if file.is_relative_to(self._root)
            else path
        )
        verdict, text = (NOT_COMPARED, reason) if proof is None else _verdict(proof)
        longrepr: Any = None
        if verdict == "refuted":
            longrepr = text
        elif verdict in (COULD_NOT_TELL, NOT_COMPARED):
            longrepr = (path, line, f"{verdict}: {text}")
        name = f"{item.nodeid}::{call.name}"
        self._made[name] += 1
        number = self._made[name]
        report = pytest.TestReport(
            # so that a failure is run again with its test, and xdist knows it
            nodeid=item.nodeid,
            location=(shown, line - 1, f"{call.name} on many devices and on one"),
            keywords={},
            outcome=_OUTCOMES[verdict],
            longrepr=longrepr,
            when="call",
        )
        vars(report)["shardtypes_proof"] = (
            verdict if longrepr is None else f"{verdict}: {text}"
        )
        vars(report)["shardtypes_call"] = name if number == 1 else f"{name}[{number}]"
        vars(report)["shardtypes_kept"] = self._to_keep(
            call, shown, line, verdict, proof
        )
        if proof is not None and self._follows:
            vars(report)["shardtypes_intermediates"] = self._rows(proof)
        return report

    def _to_keep(
        self, call: Call, file: str, line: int, verdict: str, proof: Proof | None
    ) -> dict[str, Any]:
        """What editors may show above the function."""
        function = unwrapped(call.function)
        culprit = ""
        if proof is not None and proof.ok is False and proof.culprit is not None:
            culprit = str(proof.culprit.place)
        kept = KeptVerdict(
            Path(file).as_posix(),
            getattr(function, "__qualname__", "").replace("<locals>.", ""),
            line,
            verdict,
            culprit=culprit,
            read=files_behind(function, self._root),
        )
        return asdict(kept)

    def keep(self, folder: Path) -> None:
        """Keep what was said of functions in a folder.

        Raises:
            OSError: it cannot be written.
        """
        if self._kept:
            kept_verdicts.write(folder, self._kept, self._root)

    def _rows(self, proof: Proof) -> list[list[str]]:
        with self.calls.paused(), enabled(False), uncounted():
            return [list(each.row) for each in proof.intermediates]

    def _compared(self, call: Call) -> Proof:
        """The verdict on one call, on the mesh that was in force. What goes wrong in it is no failure of the test."""
        from shardtypes.proving import Proof, prove_call  # takes its time to import

        self._compared_before.add(call.key)
        with self.calls.paused(), enabled(False), uncounted():
            try:
                return prove_call(call.function, call.args, call.kwargs, call.mesh)
            except Exception as error:  # noqa: BLE001 - the user's function may raise anything on other meshes
                first = str(error).partition("\n")[0]
                return Proof(None, f"{type(error).__name__}: {first}", {})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember the verdicts, those of xdist's workers too."""
        verdict = getattr(report, "shardtypes_proof", None)
        if verdict is not None:
            name = getattr(report, "shardtypes_call", report.nodeid)
            self.verdicts[name] = verdict
            rows = getattr(report, "shardtypes_intermediates", ())
            if rows:
                self.intermediates[name] = tuple(tuple(row) for row in rows)
        kept = getattr(report, "shardtypes_kept", None)
        if kept is not None and kept["function"]:
            self._kept.append(KeptVerdict(**kept))

    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> tuple[str, str, str] | None:
        """The verdict and the function in the list of ``-v``; what could not be told is counted apart, as ``?``."""
        verdict = getattr(report, "shardtypes_proof", "").partition(":")[0]
        if not verdict:
            return None
        category, letter = (
            (COULD_NOT_TELL, "?")
            if verdict == COULD_NOT_TELL
            else _STATUS[report.outcome]
        )
        name = getattr(report, "shardtypes_call", "").removeprefix(f"{report.nodeid}::")
        return category, letter, f"{verdict.upper()}: {name}"


_STATUS = {
    "passed": ("passed", "."),
    "failed": ("failed", "F"),
    "skipped": ("skipped", "s"),
}
_OUTCOMES: dict[str, Any] = {
    "proved": "passed",
    AGREES: "passed",
    "refuted": "failed",
    COULD_NOT_TELL: "skipped",
    NOT_COMPARED: "skipped",
}


def _verdict(proof: Proof) -> tuple[str, str]:
    """The word for a proof, and what to say of it."""
    if proof.ok is not None:
        return ("proved" if proof.ok else "refuted"), str(proof)
    if proof.agrees:
        return AGREES, proof.reason
    return COULD_NOT_TELL, proof.reason


def _exemption(item: pytest.Item, call: Call) -> str:
    """Why the numbers may depend on the mesh, if the test or the function says so."""
    for marker in item.iter_markers(_MARK):
        return (
            str(marker.args[0]) if marker.args else "its test is marked mesh_dependent"
        )
    return dependence_of(call.function)
