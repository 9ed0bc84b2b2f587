"""The table of language servers: rows say yes of a server that answers, and no of one that does not."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from benchmarks.server_latency import program
from benchmarks.servers.__main__ import column
from benchmarks.servers.asked import NO, OF_ARRAYS, OF_PYTHON, YES
from benchmarks.servers.client import Client, Refused
from benchmarks.servers.desk import MODEL, Desk
from benchmarks.servers.latency import Size, changed, measure
from benchmarks.servers.setups import MESH, Setup, setups

pytestmark = pytest.mark.once

(OURS,) = setups(None)
ROWS = {row.name: row for row in (*OF_ARRAYS, *OF_PYTHON)}

#: What our server answers without much waiting, and what it says then.
ANSWERED = {
    "a wrong shape is reported while typing": YES,
    "a forgotten `psum`": YES,
    "hover on a local shows its shape": YES,
    "hover shows what one device has of it": YES,
    "hover shows the bytes": YES,
    "inlay hints with shapes": YES,
    "inlay hints with shardings": YES,
    "completion of mesh axes inside an annotation": YES,
    "definition of a dimension": YES,
    "references of a dimension": YES,
    "rename of a dimension": YES,
    "rename of a mesh axis": YES,
    "semantic tokens inside an annotation": YES,
    "signature help with the sizes that a call binds": YES,
    "code lens with collectives": YES,
    "call hierarchy": NO,
    "type hierarchy": NO,
}

#: A server that starts, and has an answer to nothing.
SILENT = r"""
import json, sys

while line := sys.stdin.buffer.readline():
    length = int(line.split(b":")[1])
    sys.stdin.buffer.readline()
    asked = json.loads(sys.stdin.buffer.read(length))
    if asked["method"] == "exit":
        break
    if "id" in asked:
        answer = {"capabilities": {}} if asked["method"] == "initialize" else None
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}).encode()
        sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        sys.stdout.buffer.flush()
"""


def test_our_server_answers() -> None:
    with Desk(OURS) as desk:
        assert desk.findings() == []
        cells = column(desk, [ROWS[name] for name in ANSWERED])
    assert dict(zip(ANSWERED, cells, strict=True)) == ANSWERED


def test_a_server_that_says_nothing_has_nothing() -> None:
    command = (sys.executable, "-c", SILENT)
    silent = Setup("silent", command, str, None)
    with Desk(silent, still=0.0) as desk:
        cells = column(desk, list(ROWS.values()))
    assert dict(zip(ROWS, cells, strict=True)) == dict.fromkeys(ROWS, NO)


def test_a_server_that_ends_is_asked_no_more() -> None:
    ending = SILENT.replace('== "exit"', 'in ("exit", "textDocument/hover")')
    setup = Setup("ending", (sys.executable, "-c", ending), str, None)
    names = (
        "inlay hints with shapes",
        "hover on a local shows its shape",
        "call hierarchy",
    )
    with Desk(setup, still=0.0) as desk:
        cells = column(desk, [ROWS[name] for name in names])
    assert cells == [NO, "ends the server", "–"]


def test_changes_are_told_and_taken_back() -> None:
    size = Size("short", {"model.py": program(60)}, "model.py")
    times = measure([OURS], size, 2)[OURS.name]
    assert (times.rounds, times.told) == (2, 2)
    assert len(times.wall) == 2 and min(times.wall) > 0
    assert sum(times.processor) <= sum(times.rest)
    assert times.memory > 1e7


def test_a_server_that_says_nothing_of_a_change_has_no_time() -> None:
    silent = Setup("silent", (sys.executable, "-c", SILENT), str, None)
    size = Size("short", {"model.py": program(60)}, "model.py")
    times = measure([silent], size, 1)["silent"]
    assert times.row()[:2] == ["–", "–"] and times.row()[3] == "0 of 1"


def test_changes_are_of_one_function_and_each_another_one() -> None:
    text = program(200)
    texts = [changed(text, version) for version in range(4)]
    assert len(set(texts)) == 4
    for one in texts:
        ast.parse(one)
        differing = [
            (old, new)
            for old, new in zip(text.splitlines(), one.splitlines(), strict=True)
            if old != new
        ]
        assert len(differing) == 1


def test_a_server_that_ends_is_told_of(tmp_path: Path) -> None:
    client = Client((sys.executable, "-c", "pass"), tmp_path)
    with pytest.raises(Refused, match="does not start: the server has ended"):
        client.__enter__()


def test_peers_that_are_not_there_are_told_of(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no .*python; install the peers"):
        setups(tmp_path)


def test_programs_are_written_as_each_server_reads_them(tmp_path: Path) -> None:
    for name in ("python", "pyrefly", "jaxtyc"):
        program_ = tmp_path / "bin" / name
        program_.parent.mkdir(exist_ok=True)
        program_.touch()
    ours, pyrefly, jaxtyc = (one.written(MODEL) for one in setups(tmp_path))
    assert ours == MODEL
    assert 'Float32[Array, "8|d 32|None"]' in jaxtyc and '"M F"' in jaxtyc
    assert 'Float32[Array, "8 32"]' in pyrefly and '"M F"' in pyrefly
    assert MESH == {"d": 2, "t": 4} and "AbstractMesh((2, 4)" in MODEL
