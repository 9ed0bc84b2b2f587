"""What ``shardlint cost`` says by annotations, against what a trace says of the same programs."""

from __future__ import annotations

import importlib
import re
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import jax
import jax.numpy as jnp
import pytest

import shardtypes
from benchmarks.cost.__main__ import mapped_by_hand, shapes_of_arguments
from shardlint.config import find
from shardlint.costing.counting import Analysed, analysed, cost_of
from shardlint.costing.report import Cost
from shardlint.run import opened
from shardtypes.costing import Cost as Traced
from tests.support import ROOT

pytestmark = pytest.mark.once  # of what the engine does, another JAX changes nothing

MESH = {"d": 2, "t": 4}
PROGRAMS = dict(mapped_by_hand())
#: These have annotations without axes, and say in specs how arrays lie,
BY_SPECS = {"manual.by_specs", "manual.statistics", "parallel.cluster"}
#: and this one sends what it slices at places that are computed.
SLICED = {"parallel.halo"}


@cache
def _file(module: str) -> Analysed:
    path = ROOT / f"benchmarks/programs/sharded/{module}.py"
    return analysed(opened(str(path), find), MESH)


def _sizes(by_annotations: Cost, traced: Traced) -> Iterator[tuple[str, int]]:
    """What the names in annotations are in a trace."""
    for own, row in zip(by_annotations.arguments, traced.arguments, strict=True):
        written = re.findall(r"[^' ]+(?=[^']*'\])", own.array)
        actual = re.findall(r"(\d+)(?:/\w+)*(?=[,\]])", row.array.partition("[")[2])
        for name, size in zip(written, actual, strict=True):
            if name.partition("/")[0].isidentifier():
                yield name.partition("/")[0], int(size)


def both(name: str) -> tuple[Cost, Traced]:
    """By annotations, for the sizes of the trace; and by a trace."""
    f = PROGRAMS[name]
    arrays = shapes_of_arguments(f)
    module, function = name.split(".")
    traced = shardtypes.cost(f, *arrays, mesh=MESH)
    said = cost_of(_file(module), function, {})
    sizes = dict(_sizes(said, traced))
    return cost_of(_file(module), function, sizes), traced


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_formulas_are_those_of_the_trace(name: str) -> None:
    said, traced = both(name)
    assert said.missing([*said.held, *said.sent]) == []
    sent = said.total(said.sent)
    why = [reason for _, reason in said.uncounted]
    if name in SLICED:
        assert [row.sent for row in said.moved] == [None, None]
    else:
        # each row of a line is rounded up for itself in a trace
        assert sent is not None
        assert 0 <= traced.bytes_moved - sent <= len(traced.moved)
    if name in BY_SPECS:
        assert why == ["what the compiler, or JAX's types, send outside of shard_map"]
        assert (said.total(said.held) or 0) > traced.bytes_held
    else:
        assert said.total(said.held) == traced.bytes_held


def test_most_programs_are_counted_whole() -> None:
    assert len(PROGRAMS) == 61
    assert PROGRAMS.keys() >= BY_SPECS | SLICED


def test_a_collective_of_what_is_not_known_is_said_to_be_so() -> None:
    text = str(both("parallel.halo")[0])
    assert "ppermute over 't'  not known" in text
    assert "  sent: not known" in text


SPEC_STRINGS = """
import jax
import jax.numpy as jnp
from jax import lax
import elsewhere
import ops
from shardtypes import f32, typed_shard_map


@typed_shard_map(check_vma=False)
def layers(x: f32["B/d M/t"], ws: f32["layers M/d/t F"], v: f32["F M"]) -> f32["B/d M/t"]:
    def layer(x, w):
        whole = ops.all_gather("B/d M/t -> B/d M", x)
        hidden = whole @ ops.all_gather("M/d/t F -> M F", w)
        part = hidden @ v / lax.axis_size("t")
        return ops.psum_scatter("B/d M -> B/d M/t", part), None

    return lax.scan(layer, x, ws)[0]


@typed_shard_map(check_vma=False)
def exchanged(x: f32["B/d M/t"]) -> f32["B/d/t M"]:
    return elsewhere.all_to_all("B/d M/t -> B/d/t M", x)


@typed_shard_map(check_vma=False)
def looked_up(table: f32["V/t M"], ids: f32["B/d"]) -> f32["B/d M"]:
    part = ops.index_unreduced("[V/t] M, B/d -> B/d M", table, ids)
    return elsewhere.psum("B/d M -> B/d M", part)


@typed_shard_map(check_vma=False)
def not_followed(x: f32["B/d M/t"]) -> f32["B/d M/t"]:
    return elsewhere.smoothed(x) + jnp.sin(x)
"""


@pytest.fixture
def spec_strings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module with collectives that are told by specs; those of ``elsewhere`` are not there."""
    source = ROOT / "fixtures/models/transformer/transformer/collectives.py"
    shutil.copy(source, tmp_path / "ops.py")
    (tmp_path / "spec_strings.py").write_text(SPEC_STRINGS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "elsewhere", ModuleType("elsewhere"))
    for name in ("ops", "spec_strings"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path / "spec_strings.py"


def test_collectives_by_spec_strings(spec_strings: Path) -> None:
    """Over two axes one is gathered after the other, which sends as much as both at once."""
    file = analysed(opened(str(spec_strings), find), MESH)
    sizes = {"B": 8, "M": 16, "F": 6, "layers": 3}
    said = cost_of(file, "layers", sizes)
    assert [str(row.sent) for row in said.moved] == [
        "4*B*M*(t-1)*layers/(d*t)",
        "4*M*F*(d*t-1)*layers/(d*t)",
        "4*B*M*(t-1)*layers/(d*t)",
    ]
    assert said.uncounted == ()
    shapes = [(8, 16), (3, 16, 6), (6, 16)]
    arrays = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    program = importlib.import_module("spec_strings").layers
    traced = shardtypes.cost(program, *arrays, mesh=MESH)
    assert said.total(said.sent) == traced.bytes_moved > 0
    moved = cost_of(file, "exchanged", {}).moved
    assert [(row.axes, str(row.sent)) for row in moved] == [
        (("t",), "4*B*M*(t-1)/(d*t*t)")
    ]


def test_what_is_not_followed_is_listed(spec_strings: Path) -> None:
    """Who is called in manual code may talk to others; functions that only compute do not."""
    file = analysed(opened(str(spec_strings), find), MESH)
    lines = SPEC_STRINGS.splitlines()
    for name, code, why in (
        ("looked_up", "elsewhere.psum(", "psum of 'B/d M -> B/d M'"),
        ("not_followed", "elsewhere.smoothed(", "elsewhere.smoothed is not followed"),
    ):
        said = cost_of(file, name, {})
        (line,) = (at for at, text in enumerate(lines, 1) if code in text)
        assert said.uncounted == ((f"{spec_strings}:{line}", why),)
        assert "  sent: not known" in str(said)
