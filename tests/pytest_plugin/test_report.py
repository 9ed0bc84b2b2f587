"""The HTML report: well-formed, without outside resources, and with every fact in its place."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pytest_shardtypes.coverage import Coverage, merge
from pytest_shardtypes.drawing import draw, is_split
from pytest_shardtypes.page import page
from pytest_shardtypes.report import NotWritten, write
from pytest_shardtypes.sources import Totals, files, totals_of
from tests.support import ROOT

SOURCE = """\
from shardtypes import f32

@decorated
def mlp(x: f32['B/d M'], w: "f32['M head//2/t/d']") -> f32['B/d F']:
    '''<b>é</b>'''
    return x @ w

def never(x: f32["B/d"]): ...
"""


@pytest.fixture
def coverage(tmp_path: Path) -> Coverage:
    (tmp_path / "m.py").write_text(SOURCE, encoding="utf-8")
    return Coverage(
        checks={"shape": 7, "sharding": 3},
        not_possible={"no mesh in force & more": 2},
        functions={"m.mlp": 4},
        declared={
            "m.mlp": f"{tmp_path}/m.py:3",
            "m.never": f"{tmp_path}/m.py:8",
            "m.gone": f"{tmp_path}/gone.py:1",
        },
        dimensions={
            ("m.mlp", "parameter 'x'", 0, "d"): True,
            ("m.mlp", "parameter 'w'", 1, "t"): False,
            ("m.mlp", "parameter 'w'", 1, "d"): True,
            ("m.mlp", "the result", 0, "d"): False,
            ("m.never", "parameter 'x'", 0, "d"): False,
        },
        layouts=(
            ("m.mlp", "parameter 'x'", "f32['B/d M']", "d=2, t=2"),
            ("m.mlp", "parameter 'x'", "f32['B/d']", "d=1"),
        ),
        too_early=(),
        never_imported=("other",),
        checking={"m.step": 3.5, "m.mlp": 0.0015},
        traced={"m.py::mlp": "passed", "m.py::never": "could not tell: <why>"},
        proved={"test_m.py::test_it::f": "refuted: off by 2\n  in <f>"},
        laws={"m.py::mlp[causal L]": "failed: it looks ahead"},
        compared=(("m.mlp", "parameter 'w'", 1, "t"),),
        missed={("m.never", "", "a <reason>"): 1},
        failures={("m.mlp", "parameter 'x'", "dimension 0 is 1"): 3},
        collectives={
            "test_m.py::test_it": (f"all_reduce over t, from {tmp_path / 'm.py'}:3",)
        },
        seconds={"test_m.py::test_it": 1.25, "test_m.py::test_slow": 20.5},
    )


class Tree(HTMLParser):
    """Fails at a tag that is closed out of turn; gathers the tags, their attributes and the text."""

    VOID = frozenset({"meta", "br", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.marks: list[tuple[str, str]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "mark":
            self.marks.append((str(dict(attrs)["class"]), str(dict(attrs)["title"])))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data


def read(text: str) -> Tree:
    tree = Tree()
    tree.feed(text)
    tree.close()
    assert not tree.open
    return tree


SIZE_1 = (
    "compared only on meshes where t has size 1: test it on one where it is larger, "
    "as by @pytest.mark.mesh(t=2)"
)


def test_page(coverage: Coverage, tmp_path: Path) -> None:
    tree = read(page(coverage, tmp_path))
    assert not {"script", "link", "img", "iframe"} & set(tree.tags)
    assert "src" not in {name for name, _ in tree.attributes}
    links = [str(value) for name, value in tree.attributes if name == "href"]
    anchors = {f"#{value}" for name, value in tree.attributes if name == "id"}
    assert (
        len(links) == 12 + 2 and set(links) <= anchors
    )  # sections and files, nothing outside
    assert ("name", "viewport") in tree.attributes
    assert tree.marks == [
        ("yes", "dimension 0 over d: verified"),
        ("no", f"dimension 1 over t: never verified: {SIZE_1}"),
        ("yes", "dimension 1 over d: verified"),
        (
            "no",
            "dimension 0 over d: never verified: called 4 times, and no array came there to compare",
        ),
        ("no", "dimension 0 over d: never verified: no test calls the function"),
    ]
    for words in (
        "2 of 5sharded dimensions verified",
        "1 of 3annotated functions that tests called",
        "1 of 2annotated functions that hold",
        "def mlp(x: f32['B/d✓ M'], w: \"f32['M head//2/t✗/d✓']\") -> f32['B/d✗ F']:",
        "'''<b>é</b>'''",
        "m.mlp 4 checked calls",
        "m.never never called by a test",
        "gone.py cannot be shown",
        "m.py::mlpholds",
        "m.py::nevercould not tell<why>",
        "test_m.py::test_it::frefutedoff by 2\n  in <f>",
        "m.py::mlp[causal L]failsit looks ahead",
        "m.mlpparameter 'x'dimension 0 is 13",
        "test_m.py::test_slow20.50",
        "m.step3500.00–",
        "m.mlp1.504",
        "no mesh in force & more2",
        "m.py1 of 2 (50%)2 of 5 (40%)",
        "gone.py0 of 1 (0%)none there",
        "all1 of 3 (33%)2 of 5 (40%)",
        "all_reduce over t, from m.py:3",
    ):
        assert words in tree.text, words
    drawn = "d0d1down: dimension 0 in 2 parts over 'd'; replicated over 't'"
    assert drawn in tree.text  # the mesh axis t holds copies


def test_what_is_complete_can_be_hidden(coverage: Coverage, tmp_path: Path) -> None:
    """By a rule of the page's style, which hides these classes while the box is checked."""
    ((path, functions), _) = sorted(files(coverage).items(), reverse=True)
    assert totals_of(functions.values(), coverage) == Totals(1, 2, 2, 5)
    assert "class=complete" not in page(coverage, tmp_path)
    names = {"m.mlp": f"{path}:3"}
    verified = {key: True for key in coverage.dimensions if key[0] == "m.mlp"}
    whole = replace(coverage, declared=names, dimensions=verified)
    text = page(whole, tmp_path)
    assert totals_of(names, whole) == Totals(1, 1, 4, 4)
    # the row of the file, its part of the sources, and the function in it
    assert len(re.findall("<(tr|div id=file-0|div) class=complete>", text)) == 3
    assert "body:has(#missing:checked) .complete { display: none; }" in text
    assert "<input type=checkbox id=missing>" in text


def test_drawing() -> None:
    tree = read(draw("f32['B/t/d M {U:p}']", "d=2, t=2, p=2"))
    assert tree.text == (
        "f32['B/t/d M {U:p}'] on d=2, t=2, p=2"
        "t0 d0t0 d1t1 d0t1 d1"
        "down: dimension 0 in 4 parts over 't' and 'd'; a partial sum over 'p'"
    )
    # axes that are not on this mesh, or of one device
    tree = read(draw("f32['B/d M/x']", "d=1, t=2"))
    assert tree.text.endswith("all devicesreplicated over 't'")
    assert is_split("f32['B/d']", "d=2")
    assert not is_split("f32['B/d']", "d=1, t=4")
    assert not is_split("f32['B']", "")


def test_json_and_back(coverage: Coverage, tmp_path: Path) -> None:
    assert Coverage.from_json(coverage.to_json()) == coverage
    other = replace(
        coverage,
        dimensions={("m.mlp", "the result", 0, "d"): True},
        functions={"m.mlp": 1},
        never_imported=(),
    )
    both = merge([coverage, other])
    assert both.dimensions["m.mlp", "the result", 0, "d"]
    assert not both.dimensions["m.mlp", "parameter 'w'", 1, "t"]
    assert (both.functions, both.never_imported) == ({"m.mlp": 5}, ())
    assert (
        write(coverage, tmp_path / "new" / "r.json", tmp_path)
        == f"report: {tmp_path / 'new' / 'r.json'}"
    )
    (tmp_path / "file").write_text("")
    with pytest.raises(
        NotWritten,
        match=r"report not written: .*/r.html: .*another place with --shardtypes-report",
    ):
        write(coverage, tmp_path / "file" / "r.html", tmp_path)


FULL = """
import resource, signal

def pytest_sessionfinish():
    # As on a disk that is full: from now on no file grows beyond this.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
"""


@pytest.mark.once
def test_a_full_disk_is_told_and_takes_nothing(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(FULL)
    pytester.makepyfile(test_it="def test_it(): pass")
    report = pytester.path / "r.json"
    report.write_text("the last one")
    options = [
        "-p",
        "pytest_shardtypes.plugin",
        "--shardtypes",
        "--shardtypes-report=r.json",
        "-p",
        "no:cacheprovider",
    ]
    command = [sys.executable, "-m", "pytest", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    # Over pipes, which are no files.
    done = subprocess.run(
        command,
        cwd=pytester.path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.INTERNAL_ERROR, done.stdout
    assert "1 passed" in done.stdout
    assert re.search(
        "report not written: .*r.json: File too large; make room or name another place",
        done.stdout,
    )
    assert report.read_text() == "the last one"
    assert not list(pytester.path.glob(".r.json*"))
