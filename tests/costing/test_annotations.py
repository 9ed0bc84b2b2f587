"""What ``shardlint cost`` says by annotations, against what a trace says of the same programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest
from jax.sharding import AxisType

import shardtypes
from benchmarks.cost.__main__ import by_hand
from shardlint.config import find
from shardlint.costing.counting import Analysed, analysed, cost_of
from shardlint.costing.report import Cost
from shardlint.run import opened
from shardtypes.costing import Cost as Traced
from tests.support import ROOT

MESH = {"d": 2, "t": 4}
PROGRAMS = {name: (f, arrays) for name, f, arrays, _ in by_hand()}
#: Of these the gradients send something, which is listed as not counted,
GRADIENTS = {"trainers.fully_sharded", "advanced.custom_gradients"}
#: these have annotations without axes, and say in specs how arrays lie,
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
    f, arrays = PROGRAMS[name]
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
    if name in GRADIENTS:
        assert why == ["value_and_grad: what gradients send"]
        assert sent is not None and sent < traced.bytes_moved
    elif name in SLICED:
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
    assert all(kind == AxisType.Auto for *_, kind in by_hand())
    assert PROGRAMS.keys() >= GRADIENTS | BY_SPECS | SLICED


def test_a_collective_of_what_is_not_known_is_said_to_be_so() -> None:
    text = str(both("parallel.halo")[0])
    assert "ppermute over 't'  not known" in text
    assert "  sent: 0, and what is not known" in text
