"""Our language server beside those of the peers: what each answers, tried on a small project, and how long it takes
from a change to what it says of it.

Usage: ``python -m benchmarks.servers [--peers PEERS] [--rounds 5] [--only answers|latencies]``, with an environment in
which the peers are installed as docs/compared.md says. Programs are translated into the annotations of each. A server
has its turn while the others rest.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.servers.asked import OF_ARRAYS, OF_PYTHON, Row
from benchmarks.servers.client import Ended, Json, Refused
from benchmarks.servers.desk import Desk
from benchmarks.servers.latency import measure, sizes
from benchmarks.servers.setups import OURS, Setup, releases, setups


def main() -> None:
    """Ask, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("answers", "latencies"))
    options = parser.parse_args()
    try:
        found = setups(options.peers)
    except ValueError as error:
        parser.error(str(error))
    if options.peers is not None:
        print(f"The peers are {releases(options.peers)}.\n")
    try:
        if options.only != "latencies":
            for line in answers(found):
                print(line)
            print()
        if options.only != "answers":
            for line in latencies(found, options.rounds):
                print(line, flush=True)
    except Refused as error:
        parser.exit(1, f"{error}\n")


def answers(found: Sequence[Setup]) -> Iterator[str]:
    """A table of what each server answers, then what else others offer by their own word."""
    cells: dict[str, list[str]] = {}
    offered: dict[str, set[str]] = {}
    rows = [*OF_ARRAYS, *OF_PYTHON]
    for setup in found:
        with Desk(setup, whole=True) as desk:
            cells[setup.name] = column(desk, rows)
            offered[setup.name] = set(_names(desk.client.offered))
    for title, start, part in (
        ("of arrays", 0, OF_ARRAYS),
        ("of any Python", len(OF_ARRAYS), OF_PYTHON),
    ):
        yield _line([title, *cells])
        yield _line(["---"] * (len(cells) + 1))
        for index, row in enumerate(part, start):
            yield _line([row.name, *(cells[name][index] for name in cells)])
        yield ""
    ours = offered.pop(OURS)
    for name, theirs in offered.items():
        more = ", ".join(sorted(theirs - ours))
        yield f"- In its answer to `initialize` {name} offers, and {OURS} does not: {more or 'nothing'}."


def column(desk: Desk, rows: Sequence[Row]) -> list[str]:
    """The cells of one server; of what it was not asked, as it had ended, there is none."""
    cells: list[str] = []
    try:
        for row in rows:
            cells.append(row.ask(desk))
    except Ended:
        cells.append("ends the server")
    missing = len(rows) - len(cells)
    return cells + ["–"] * missing


def latencies(found: Sequence[Setup], rounds: int) -> Iterator[str]:
    """A table of medians, and why where there is none."""
    yield _line(
        [
            "edited",
            "server",
            "says it after",
            "processor until then",
            "processor until it rests",
            "rounds in which it said what is so",
            "memory",
        ]
    )
    yield _line(["---"] * 7)
    silent = []
    for size in sizes():
        for name, times in measure(found, size, rounds).items():
            yield _line([size.name, name, *times.row()])
            if not times.wall:
                why = (
                    ""
                    if times.opened
                    else ", nor had it done with the file as it was opened after 300 s"
                )
                silent.append(
                    f"- {name}, {size.name}: it said nothing of the changes within 60 s{why}."
                )
    if silent:
        yield ""
        yield from silent


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _names(offered: Json) -> Iterator[str]:
    """What a server offers, in words: ``callHierarchyProvider`` is the call hierarchy."""
    flat = {**offered, **offered.get("workspace", {})}
    for name, value in flat.items():
        if value in (None, False) or name in ("workspace", "positionEncoding"):
            continue
        if name == "fileOperations":
            yield from (_words(one) for one in value)
            continue
        yield _words(name.removesuffix("Provider"))


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


if __name__ == "__main__":
    main()
