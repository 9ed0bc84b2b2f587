"""How long servers take from a change to what they say of it."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.server_latency import program
from benchmarks.servers.client import Client, Json, Published, Refused, same_file
from benchmarks.servers.setups import Setup

#: How long a server may take to open a project, and to say something of a change, in seconds.
_OPENS, _SAYS = 300.0, 60.0
_CONDITION = "    if x.shape[0] > 4:\n        total = "
_RETURNED = "    return total + x\n"


@dataclass(frozen=True)
class Size:
    """A project of which one file is edited."""

    name: str
    texts: Mapping[str, str]
    edited: str


def sizes() -> list[Size]:
    """Files of some lengths, and a file among many."""
    found = []
    for lines in (200, 1_000, 4_000):
        texts = {"model.py": _program(lines)}
        found.append(Size(f"{lines:,} lines", texts, "model.py"))
    texts = {}
    for index in range(100):
        other = f"from part{index - 1} import block0 as other\n" if index else ""
        lines = 200 if index == 99 else 60
        texts[f"part{index}.py"] = _program(lines, other)
    found.append(Size("200 lines, 100 files", texts, "part99.py"))
    return found


def _program(lines: int, imported: str = "") -> str:
    """As ``benchmarks.server_latency`` has it, without a condition on a size, which jaxtyc does not trace."""
    return program(lines, imported).replace(_CONDITION, "    total = ")


def changed(text: str, version: int) -> str:
    """The text with the function in its middle changed, each time in another way: right if the version is even, and
    with the shape of something else if it is odd."""
    place = text.rindex(_RETURNED, 0, len(text) // 2 + len(program(1)))
    value = "x @ w" if version % 2 else "total + x"
    end = place + len(_RETURNED)
    return f"{text[:place]}    return ({value}) * {version + 2}.0\n{text[end:]}"


@dataclass
class Times:
    """Of one server on one project, a number for each round, in seconds: until what it says is so, in all and of the
    processor, and of the processor until it has nothing left to do. ``told`` are the rounds in which it said what is
    so, or took back what was so no more, ``memory`` bytes at the end."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    rest: list[float] = field(default_factory=list)
    rounds: int = 0
    told: int = 0
    memory: int = 0
    opened: bool = True

    def row(self) -> list[str]:
        """Medians."""
        told = f"{self.told} of {self.rounds}"
        memory = f"{self.memory / 1e6:.0f} MB"
        return [
            _median(self.wall),
            _median(self.processor),
            _median(self.rest),
            told,
            memory,
        ]


def _median(found: Sequence[float]) -> str:
    return f"{statistics.median(found):.2f} s" if found else "–"


class _Session:
    """A server that has a project open."""

    def __init__(
        self, setup: Setup, size: Size, folder: Path, client: Client, times: Times
    ):
        self._setup, self._size, self._client = setup, size, client
        self._path = folder / size.edited
        self.times = times
        self._usual: set[str] = set()
        self._is_known_wrong = False

    def open(self) -> None:
        """Open it, and keep what is said of the right text."""
        text = self._text(0)
        self._client.open(self._path, text)
        self.times.opened = self._client.settle(_OPENS)
        self._usual = {_key(one) for one in self._client.findings(self._path)}

    def round(self, version: int) -> None:
        """Change the function, and wait for what is said of it."""
        text = self._text(version)
        first, last = _function(text, f" * {version + 2}.0\n")
        client = self._client
        client.published.clear()
        before = client.used()
        start = time.perf_counter()
        number = client.change(self._path, text)

        def is_so() -> bool:
            said = [one for one in client.published if self._is_of(one, number)]
            if not said:
                return False
            found = [
                one
                for one in said[-1].findings
                if _key(one) not in self._usual
                and first <= one["range"]["start"]["line"] <= last
            ]
            return bool(found) == bool(version % 2)

        client.settle(_SAYS, is_so)
        used = client.used() - before
        said = [one for one in client.published if self._is_of(one, number)]
        times = self.times
        times.rounds += 1
        was_known_wrong = self._is_known_wrong
        self._is_known_wrong = is_so() and bool(version % 2)
        if is_so() and (self._is_known_wrong or was_known_wrong):
            times.told += 1
            times.wall.append(said[-1].arrived - start)
            times.processor.append(used)
        client.settle(_SAYS)
        times.rest.append(client.used() - before)
        times.memory = client.resident()

    def _text(self, version: int) -> str:
        return self._setup.written(
            changed(self._size.texts[self._size.edited], version)
        )

    def _is_of(self, one: Published, number: int) -> bool:
        return same_file(one.uri, self._path) and one.version in (None, number)


def measure(setups: Sequence[Setup], size: Size, rounds: int) -> dict[str, Times]:
    """Of each server, by its name. All are started and then rest but for the one whose turn it is."""
    found = {}
    with ExitStack() as stack:
        sessions = []
        for setup in setups:
            name = stack.enter_context(
                tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            )
            folder = Path(name).resolve()
            setup.prepare(folder, size.texts)
            client = stack.enter_context(setup.start(folder))
            times = found[setup.name] = Times()
            session = _Session(setup, size, folder, client, times)
            session.open()
            sessions.append(session)
        for version in range(1, rounds + 1):
            for session in sessions:
                try:
                    session.round(version)
                except Refused:  # it has ended: nothing is told
                    session.times.rounds += 1
    return found


def _function(text: str, edited: str) -> tuple[int, int]:
    """The first and last line of the function that ends in what was edited."""
    last = text.count("\n", 0, text.index(edited))
    lines = text.splitlines()
    first = last
    while not lines[first].startswith("def "):
        first -= 1
    while lines[first - 1].startswith("@"):
        first -= 1
    return first, last


def _key(finding: Json) -> str:
    return f"{finding['range']['start']['line']}: {finding['message']}"
