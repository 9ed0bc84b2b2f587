"""The mutation benchmark itself: edits that keep lines, a truth that can say both, a translation for the peers."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.findings import Finding
from benchmarks.mutation.__main__ import run
from benchmarks.mutation.cases import Case
from benchmarks.mutation.evaluation import Baseline, Truth, truths
from benchmarks.mutation.mutants import Mutant, Program, mutants
from benchmarks.mutation.report import Results
from benchmarks.mutation.worker import Session
from benchmarks.tools import Tool, shardlint
from benchmarks.translate import translate

pytestmark = pytest.mark.once

SOURCE = '''"""A program."""

import jax.numpy as jnp
from shardtypes import f32


def scores(
    q: f32["B Q D"],
    k: f32["B K D"],
) -> f32["B Q K"]:
    out = jnp.einsum("bqd,bkd->bqk", q, k)
    return out / jnp.sum(out, axis=-1, keepdims=True)
'''


@pytest.fixture
def program(tmp_path: Path) -> Program:
    path = tmp_path / "scored.py"
    path.write_text(SOURCE)
    return Program("scored", tmp_path, {"scored": path})


def by_change(program: Program) -> dict[str, Mutant]:
    return {m.what: m for m in mutants(program, ["shape"], 0, 100)}


def test_mutants_keep_lines_and_are_the_same_every_time(program: Program) -> None:
    first, second = (
        mutants(program, ["shape", "dtype"], 0, 2),
        mutants(program, ["shape", "dtype"], 0, 2),
    )
    assert first == second
    assert {m.operator for m in first} >= {
        "einsum letters",
        "einsum operands",
        "axis",
        "drop keepdims",
        "annotation",
    }
    for mutant in first:
        assert mutant.apply(SOURCE.encode()).count(b"\n") == SOURCE.count("\n")
    assert by_change(program)['"B Q D" -> "Q B D"'].lines == (7, 12)
    assert by_change(program)["q, k -> k, q"].lines == (11, 11)


def test_truth_tells_wrong_mutants_from_equivalent_ones(program: Program) -> None:
    session = Session("promises", program.sources)
    assert session.baseline() == {"runs": {"scored.scores": ["scores"]}, "failed": {}}

    def verdict(change: str) -> tuple[str, list[tuple[str, int]]]:
        case = Case(1, program, by_change(program)[change])
        found, _, lines = session.judge(case.sources, ["scored.scores"])
        return found, lines

    # Both orders of a symmetric einsum are wrong only where the sizes of Q and K differ.
    assert verdict("q, k -> k, q") == ("wrong", [("scored", 12)])
    assert verdict('"B Q D" -> "Q B D"') == ("wrong", [("scored", 11)])
    assert verdict('"bqd,bkd->bqk" -> "bqd,bkd->bkq"')[0] == "wrong"
    assert verdict("-1 -> -2")[0] == "right"


SHARDED = '''"""A sharded program."""

from jax import lax
from shardtypes import f32, pytree_dataclass, typed_shard_map


@pytree_dataclass
class Weights:
    up: f32["M F/t"]
    down: f32["F/t M"]


@typed_shard_map
def layer(x: f32["B/d M"], w: Weights) -> f32["B/d M"]:
    hidden: f32["B/d F/t"] = x @ w.up
    return x + lax.psum(hidden @ w.down, "t")
'''


def test_truth_of_shardings_is_what_one_device_computes(tmp_path: Path) -> None:
    path = tmp_path / "sharded.py"
    path.write_text(SHARDED)
    program = Program("sharded", tmp_path, {"sharded": path})
    made = {m.what: m for m in mutants(program, ["sharding"], 0, 100)}
    changes = [
        'lax.psum(hidden @ w.down, "t") -> (hidden @ w.down)',
        'x + lax.psum(hidden @ w.down, "t") -> lax.psum(hidden @ w.down + x, "t")',
        '"B/d F/t" -> "B/d F"',
        '"F/t M" -> "F M/t"',
    ]
    cases = [
        Case(0, program, None),
        *(Case(1 + i, program, made[what]) for i, what in enumerate(changes)),
    ]
    first, verdicts = truths(cases, "numbers", 120)
    assert first.runs == {"sharded.layer": ["layer"]}
    assert [verdicts[case.number].verdict for case in cases[1:]] == ["wrong"] * 4
    # Nothing is computed wrongly here, but the annotation is not kept.
    assert verdicts[3].why.startswith("BrokenPromise")


def test_translation_for_each_peer() -> None:
    for form in ("pyrefly", "jaxtyc", "runtime"):
        translated = translate(SOURCE.encode(), form)
        assert 'q: Float32[Array, "B Q D"]' in translated.text
        where = (
            translated.text.splitlines().index(
                '    out = jnp.einsum("bqd,bkd->bqk", q, k)'
            )
            + 1
        )
        assert translated.original(where) == 11
    assert '@static_jaxtyping("B Q D K")' in translate(SOURCE.encode(), "pyrefly").text
    assert (
        "@jaxtyping.jaxtyped(typechecker=beartype.beartype)"
        in translate(SOURCE.encode(), "runtime").text
    )
    assert (
        'Float32[Array, "B_d L"]'
        in translate(
            b'from shardtypes import f32\nT = f32["B/d L {U:t}"]\n', "jaxtyc"
        ).text
    )


def test_a_catch_is_new_and_in_place(program: Program) -> None:
    original, mutant = (
        Case(0, program, None),
        Case(1, program, by_change(program)["q, k -> k, q"]),
    )
    key = str(program.root / program.name)
    results = Results(
        [program],
        [original, mutant],
        {1: Truth("wrong", "", (("scored", 12),))},
        {key: Baseline({}, {})},
    )
    known = Finding("scored", 3, "an alarm")
    results.add("old", {0: {known}, 1: {known}})
    results.add("far", {0: set(), 1: {Finding("scored", 3, "new")}})
    results.add("near", {0: set(), 1: {Finding("scored", 12, "new")}})
    results.add(
        "names",
        {
            0: set(),
            1: {
                Finding("scored", 3, "new"),
                Finding("scored", 12, "new: see here", True),
            },
        },
    )
    tools = ("old", "far", "near", "names")
    assert [
        (c.place, c.named, c.anywhere)
        for tool in tools
        for c in results.catches[tool].values()
    ] == [
        (False, False, False),
        (False, False, True),
        (True, True, True),
        (False, True, True),
    ]
    assert results.alarms["old"] == ["scored:3: an alarm"]


RULES = """import flax.linen as nn
from shardtypes import f32

RULES = (("batch", "d"), ("embed", "t"))


def placed(x: f32["batch embed"]) -> f32["batch embed"]:
    with nn.logical_axis_rules(RULES):
        return nn.with_logical_constraint(x, ("batch", "embed"))
"""


def test_a_list_of_rules_is_judged_by_itself(tmp_path: Path) -> None:
    """Beside the original, which has the rule, no name would be missing."""
    path = tmp_path / "ruled.py"
    path.write_text(RULES)
    program = Program("ruled", tmp_path, {"ruled": path})
    dropped = [
        m for m in mutants(program, ["sharding"], 0, 100) if m.operator == "drop rule"
    ]
    cases = [
        Case(0, program, None),
        *(Case(1 + i, program, mutant) for i, mutant in enumerate(dropped)),
    ]
    found = run(Tool("shardlint", shardlint), cases)
    assert [{f.message[:5] for f in found.get(case.number, ())} for case in cases] == [
        set(),
        {"ST401"},
        {"ST401"},
    ]
