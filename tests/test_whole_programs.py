"""The benchmark of whole programs: its changes, its outcomes, and how it counts."""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.findings import Finding, Said, statements
from benchmarks.tools import LINTER, Tool, tools
from benchmarks.whole_programs.__main__ import main
from benchmarks.whole_programs.cases import (
    Change,
    Edit,
    Program,
    digest,
    programs,
    without_check,
)
from benchmarks.whole_programs.catches import Catch, catch, changed_lines, read
from benchmarks.whole_programs.compiled import costs, difference
from benchmarks.whole_programs.kept import Kept
from benchmarks.whole_programs.outcomes import (
    ORIGINAL,
    Outcome,
    record,
    recorded,
    stale,
    verify,
)
from benchmarks.whole_programs.report import Mistake, Results, markdown, missed
from benchmarks.whole_programs.worker import compare

pytestmark = pytest.mark.once

PROGRAMS = {program.name: program for program in programs()}
CHANGES = [
    pytest.param(program, change, id=f"{name}-{change.name}")
    for name, program in PROGRAMS.items()
    for change in program.changes
]
(SHARDLINT,) = (tool for tool in tools(None) if tool.name == LINTER)


HARMLESS = {
    # JAX does not take over a donated batch that no result has the shape of, so it may still be read.
    "llama_fsdp": {"batch_donated_too"},
    # There are as many groups as heads in each, so that nothing changes.
    "causal_ring": {"heads_grouped_in_other_order"},
    # What is gathered is normalized alike on all devices, and costs as much.
    "mla_decoder": {"latent_norm_after_gather"},
    # As in the first.
    "rule_seq2seq": {"batch_donated"},
    # Metrics are ratios, of which the factor cancels.
    "linen_ema_windows": {"metrics_averaged"},
    # The devices share the rows that are held out without padding.
    "tempering_posterior": {"score_counts_padding"},
    # Each of eight devices has one head of keys, so that both orders of the groups are one.
    "paged_serving": {"group_order"},
}


def test_there_are_68_programs_with_at_least_ten_changes_each() -> None:
    counts = [len(program.changes) for program in PROGRAMS.values()]
    assert len(counts) == 68
    assert min(counts) == 10


@pytest.mark.parametrize(("program", "change"), CHANGES)
def test_a_change_alters_the_lines_it_names_and_gives_valid_python(
    program: Program, change: Change
) -> None:
    changed = change.apply(program.source)
    ast.parse(changed)
    named: set[int] = set()
    for edit in change.edits:
        first = program.source[: program.source.index(edit.old)].count("\n") + 1
        for other in change.edits:  # those above move it
            above = program.source.index(other.old) < program.source.index(edit.old)
            first += above * (other.new.count("\n") - other.old.count("\n"))
        named |= set(range(first, first + edit.new.count("\n") + 1))
    lines = changed_lines(program.source, changed)
    assert lines
    assert set(lines) <= named
    assert change.kind and change.what.endswith(".")


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_outcomes_are_of_the_texts_as_they_are(program: Program) -> None:
    found = recorded()[program.name]
    assert stale(program, found) == []
    assert found.keys() == {ORIGINAL, *(change.name for change in program.changes)}
    assert found[ORIGINAL].outcome == "agrees"
    harmless = {
        name for name, outcome in found.items() if name and outcome.outcome == "agrees"
    }
    assert harmless == HARMLESS.get(program.name, set())
    assert {outcome.outcome for outcome in found.values()} <= {
        "agrees",
        "raises",
        "differs",
        "slow",
    }
    assert all(
        outcome.detail for outcome in found.values() if outcome.outcome != "agrees"
    )


def test_an_outcome_of_another_text_is_stale() -> None:
    program = PROGRAMS["knn_index"]
    found = recorded()["knn_index"]
    edited = Program("knn_index", program.source + "\n", program.changes[:1])
    assert stale(edited, found) == [ORIGINAL, program.changes[0].name]
    assert stale(
        program, {name: outcome for name, outcome in found.items() if name}
    ) == [ORIGINAL]


def test_an_edit_whose_lines_are_not_there_once_is_refused() -> None:
    change = Change("twice", "", "", (Edit("x = 1\n", "x = 2\n"),))
    with pytest.raises(
        ValueError, match=r"twice: these lines occur 2 times, not once:\nx = 1"
    ):
        change.apply("x = 1\nx = 1\n")
    with pytest.raises(ValueError, match="occur 0 times"):
        change.apply("y = 1\n")


def test_an_unknown_program_is_named_with_those_there_are() -> None:
    with pytest.raises(
        SystemExit,
        match=r"no program is named vit; there are a2c_pmap, adafactor_forecast,",
    ):
        main(["vit"])


def test_what_is_kept_is_not_read_again(tmp_path: Path) -> None:
    read_by: list[str] = []

    def run(folder: Path) -> Iterator[Said]:
        (module,) = folder.glob("*.py")
        read_by.append(module.read_text())
        yield module, 2, "wrong", False

    path = tmp_path / "kept.jsonl"
    texts = ["x = 1\n", "x = 2\n", "x = 1\n"]
    for _ in range(2):
        tool = Kept(path).around(Tool("linter", run))
        found = [read(tool, "model", text) for text in texts]
        assert found == [{Finding("model", 2, "wrong")}] * 3
    assert read_by == ["x = 1\n", "x = 2\n"]
    other = Kept(path).around(Tool("another", run))
    read(other, "model", "x = 2\n")
    assert read_by[2:] == ["x = 2\n"]


def test_nothing_is_kept_of_a_run_that_took_too_long(tmp_path: Path) -> None:
    def run(folder: Path) -> Iterator[Said]:
        raise subprocess.TimeoutExpired(str(folder), 1)

    path = tmp_path / "kept.jsonl"
    with pytest.raises(subprocess.TimeoutExpired):
        read(Kept(path).around(Tool("linter", run)), "model", "x = 1\n")
    assert not path.exists()


def test_a_file_of_another_kind_is_not_taken_for_what_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_text("some text\n")
    with pytest.raises(SystemExit, match=r"kept.jsonl:1: .* take another file"):
        main(["beam_translate", "--keep", str(path)])
    assert path.read_text() == "some text\n"


@functools.cache
def said_of(name: str) -> set[Finding]:
    return read(SHARDLINT, name, PROGRAMS[name].source)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_told_from_its_check(name: str) -> None:
    source = PROGRAMS[name].source
    text = without_check(source)
    assert text.endswith(":\n    main()\n")
    assert source.startswith(text.removesuffix("    main()\n"))
    assert len(ast.parse(text).body) == len(ast.parse(source).body)


def test_what_follows_a_check_is_refused() -> None:
    with pytest.raises(ValueError, match="ends with what it does as a script"):
        without_check('if __name__ == "__main__":\n    main()\nprint(1)\n')
    with pytest.raises(ValueError, match="ends with what it does as a script"):
        without_check("main()\n")


@pytest.mark.parametrize("name", ["linen_encoder", "llama_fsdp"])
def test_the_linter_is_silent_on_a_correct_program(name: str) -> None:
    assert said_of(name) == set()


def test_the_linter_finds_more_logical_names_than_dimensions() -> None:
    program = PROGRAMS["linen_encoder"]
    (change,) = (
        change for change in program.changes if change.name == "names_longer_than_rank"
    )
    changed = change.apply(program.source)
    result = catch(
        program.source,
        changed,
        said_of(program.name),
        read(SHARDLINT, program.name, changed),
    )
    assert result.anywhere
    assert result.messages[0].startswith("ST404 ")


# --- counting ---------------------------------------------------------------------------------------------------------

BEFORE = """\
def f(x):
    a = g(x)
    b = g(
        a,
        axis=0,
    )
    c = g(b)
    d = g(c)
    e = g(d)
    return g(e)
"""
AFTER = BEFORE.replace("    a = g(x)\n", "    y = x\n    a = g(y)\n").replace(
    "axis=0", "axis=1"
)


def found(line: int, message: str = "ST302 here", related: bool = False) -> Finding:
    return Finding("m", line, message, related)


def test_lines_that_are_new_or_stand_where_others_were() -> None:
    assert changed_lines(BEFORE, AFTER) == [2, 3, 6]
    assert changed_lines(BEFORE, BEFORE.replace("    c = g(b)\n", "")) == [7]
    assert changed_lines(BEFORE, BEFORE.replace("    return g(e)\n", "")) == [9]
    assert changed_lines(BEFORE, BEFORE) == []


@pytest.mark.parametrize(
    ("after", "place", "near", "anywhere"),
    [
        ([], False, False, False),
        ([found(3)], True, True, True),
        # the statement begins there, the changed argument is on line 6
        ([found(4)], True, True, True),
        ([found(10)], False, True, True),
        ([found(11)], False, False, True),
        ([found(11), found(6, related=True)], False, True, True),
        ([found(11), found(8, related=True)], False, False, True),
        ([found(6, related=True)], False, False, False),  # a place without a finding
    ],
)
def test_how_near_a_finding_is(
    after: list[Finding], place: bool, near: bool, anywhere: bool
) -> None:
    result = catch(BEFORE, AFTER, [], after)
    assert (result.place, result.near, result.anywhere) == (place, near, anywhere)


def test_what_is_said_of_the_correct_program_does_not_count() -> None:
    before = [found(2), found(8, "ST204 elsewhere")]
    assert (
        catch(BEFORE, AFTER, before, [found(3), found(9, "ST204 elsewhere")]) == Catch()
    )
    assert catch(
        BEFORE, AFTER, before, [found(2), found(8, "ST204 elsewhere")]
    ).messages == ("ST204 elsewhere",)
    assert catch(
        BEFORE, AFTER, before, [found(3, "ST301 new"), found(9, "ST301 new")]
    ).messages == (
        "ST301 new",
        "ST301 new",
    )


def test_a_decorator_belongs_to_its_definition() -> None:
    source = b"def f():\n    @jit\n    @partial(g, n=1)\n    def h():\n        return 1\n    return h\n\n\n"
    lines = [("m", line) for line in (3, 5, 6, 8)]
    assert list(statements({"m": source}, lines)) == [
        ("m", 2, 4),
        ("m", 5, 5),
        ("m", 6, 6),
        ("m", 8, 8),
    ]


def results() -> Results:
    changes = [
        Change(name, "kind", f"What {name} does.", ())
        for name in ("loud", "silent", "second", "slow", "ended")
    ]
    program = Program("model", BEFORE, tuple(changes))
    outcomes = ["raises", "differs", "differs", "slow", "differs"]
    alone = {"silent": "agrees", "second": "differs"}
    mistakes = [
        Mistake(
            program, change, Outcome(outcome, "", "", "", alone.get(change.name, ""))
        )
        for change, outcome in zip(changes, outcomes, strict=True)
    ]
    said = {
        "loud": Catch(False, True, True, ("ST301 a", "ST302 b", "ST302 c")),
        "silent": Catch(True, True, True, ("ST302 b",)),
        "second": Catch(),
        "slow": Catch(False, False, True, ("ST303 d",)),
        "ended": Catch(ended=True),
    }
    caught = {("model", name): one for name, one in said.items()}
    peer = {("model", change.name): Catch() for change in changes} | {
        ("model", "loud"): Catch(False, False, True, ("no",))
    }
    alarms = {"model": [found(1, "ST202 e")]}
    return Results(
        [program],
        mistakes,
        {LINTER: caught, "peer": peer},
        {LINTER: alarms, "peer": {"model": []}},
    )


def test_the_tables_count() -> None:
    lines = markdown(results()).splitlines()
    assert lines[0].startswith(
        "**4 mistakes that are wrong on eight devices**, in 1 programs: JAX raises for 1, 3 give"
    )
    assert (
        "1 of these give other numbers on a mesh of one device, too; 3 are wrong by the mesh."
        in lines[0]
    )
    shares = ["1 (25.0%)", "2 (50.0%)", "2 (50.0%)", "2 (66.7%)", "2 (66.7%)"]
    shares += ["1 (100.0%)", "1 (33.3%)", "1 (100.0%)"]
    assert f"| shardlint | {' | '.join(shares)} | 1 |" in lines
    shares = ["1 (33.3%)", "1 (100.0%)", "0 (0.0%)", "0 (0.0%)"]
    assert (
        f"| peer | 0 (0.0%) | 0 (0.0%) | 1 (25.0%) | 0 (0.0%) | {' | '.join(shares)} | 0 |"
        in lines
    )
    assert (
        f"| JAX itself, on eight devices | – | – | 1 (25.0%) | – | {' | '.join(shares)} | 0 |"
        in lines
    )
    assert "shardlint was ended for taking too long at model: ended." in lines
    assert "| `model` | 4 | 1 | 2 | 2 | 1 | 1 | 1 | 1 | 1 |" in lines
    assert lines[-4:] == [
        "| ST202 | 0 | 0 | 1 |",
        "| ST301 | 1 | 0 | 0 |",
        "| ST302 | 2 | 0 | 0 |",
        "| ST303 | 0 | 1 | 0 |",
    ]


def test_what_is_missed_is_listed() -> None:
    text = missed(results(), LINTER)
    assert "- `model` second (differs): What second does." in text
    assert [line.split()[2] for line in text.splitlines() if line.startswith("- ")] == [
        "second",
        "ended",
    ]


def test_what_is_found_elsewhere_is_listed_with_its_messages() -> None:
    _, found_elsewhere = missed(results(), "peer").split("Found by peer, but")
    assert found_elsewhere.splitlines()[2:4] == [
        "- `model` loud (raises): What loud does.",
        "  - no",
    ]
    assert "- `model`" not in missed(results(), LINTER).split("Found by")[1]


# --- outcomes ---------------------------------------------------------------------------------------------------------


def test_numbers_are_compared_with_those_of_one_device() -> None:
    wanted = {"a": np.array([1.0, 2.0]), "b": np.array(3.0)}
    assert compare(wanted, wanted) == ("agrees", "")
    assert compare({**wanted, "b": np.array(3.0003)}, wanted) == ("agrees", "")
    assert compare(
        {**wanted, "b": np.array(3.5), "a": np.array([1.0, 2.25])}, wanted
    ) == ("differs", "by 0.5 in b")
    assert compare({**wanted, "a": np.array([np.nan, 2.0])}, wanted) == (
        "differs",
        "by nan in a",
    )
    assert compare({**wanted, "a": np.array([1.0])}, wanted) == (
        "differs",
        "a has shape (1,), on one device (2,)",
    )
    assert compare({"a": wanted["a"]}, wanted)[0] == "differs"


HLO = """\
HloModule jit_step, is_scheduled=true, entry_computation_layout={(f32[4,8]{1,0}, s32[])->(bf16[4]{0})}, num_partitions=8
  %all-reduce.1 = f32[4]{0} all-reduce(f32[4]{0} %x), replica_groups={}
  ROOT %dot.2 = (f32[2,2]{1,0}, pred[3]{0}) dot(f32[2,4]{1,0} %a, f32[4,2]{1,0} %b)
"""


def test_what_a_compiled_program_costs(tmp_path: Path) -> None:
    (tmp_path / "module_0001.jit_step.cpu_after_optimizations.txt").write_text(HLO)
    (tmp_path / "module_0002.one.cpu_after_optimizations.txt").write_text(
        HLO.replace("num_partitions=8", "x=1")
    )
    (tmp_path / "module_0001.jit_step.before_optimizations.txt").write_text(HLO)
    found = costs(tmp_path)
    wanted = {
        "argument bytes": 132,
        "result bytes": 8,
        "all-reduce": 1,
        "all-reduce bytes": 16,
        "dot bytes": 19,
    }
    assert dict(found) == wanted
    (tmp_path / "module_0003.jit_step.cpu_after_optimizations.txt").write_text(
        HLO.replace("all-reduce", "all-gather")
    )
    assert difference(found, costs(tmp_path)).startswith(
        "all-gather 0 -> 1, all-gather bytes 0 -> 16, argument bytes 132"
    )
    assert difference(found, found) == ""


def test_outcomes_are_kept_by_program(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.json"
    assert recorded(path) == {}
    first = {ORIGINAL: Outcome("agrees", "", digest("a"), "0.12.0")}
    second = {
        ORIGINAL: Outcome("agrees", "", digest("b"), "0.12.0"),
        "c": Outcome("raises", "why", digest("c"), "0.12.0"),
    }
    record("late", second, path)
    record("early", first, path)
    record("late", second, path)
    assert recorded(path) == {"early": first, "late": second}
    assert [p.name for p in tmp_path.iterdir()] == ["outcomes.json"]


MEAN = """\
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

x = jnp.arange(16.0)


def main():
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    mean = lambda x: jax.lax.pmean(jnp.mean(x), "d")
    return {"mean": jax.jit(jax.shard_map(mean, mesh=mesh, in_specs=P("d"), out_specs=P()))(x)}


def reference():
    return {"mean": jnp.mean(x)}
"""


@pytest.mark.long
def test_programs_run_on_eight_devices() -> None:
    changes = {
        "sum": (Edit("lax.pmean", "lax.psum"),),
        "twice": (Edit("jnp.mean(x), ", "2 * jnp.mean(x), "),),
        "name": (Edit("lax.pmean", "lax.pmeans"),),
        "whole": (Edit('in_specs=P("d")', "in_specs=P()"),),
        "sum on a Mesh": (
            Edit("lax.pmean", "lax.psum"),
            Edit(
                'jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))',
                'Mesh(jax.devices(), "d")',
            ),
            Edit("import PartitionSpec as P", "import Mesh, PartitionSpec as P"),
        ),
    }
    program = Program(
        "mean",
        MEAN,
        tuple(Change(name, "", "", edits) for name, edits in changes.items()),
    )
    found = verify(program, 300)
    assert {name: outcome.outcome for name, outcome in found.items()} == {
        ORIGINAL: "agrees",
        "sum": "differs",
        "twice": "differs",
        "name": "raises",
        "whole": "slow",
        "sum on a Mesh": "differs",
    }
    assert {
        name: outcome.alone for name, outcome in found.items() if outcome.alone
    } == {
        "sum": "agrees",
        "twice": "differs",
        "sum on a Mesh": "agrees",
    }
    assert found["sum"].detail == "by 52.5 in ['mean']"
    assert (
        found["name"].detail
        == "AttributeError: module 'jax.lax' has no attribute 'pmeans'"
    )
    assert "argument bytes 8 -> 64" in found["whole"].detail
    assert stale(program, found) == []


def test_a_run_that_takes_too_long_hangs() -> None:
    slow = Program(
        "mean",
        MEAN.replace("import jax\n", "import jax, time\ntime.sleep(600)\n", 1),
        (),
    )
    with pytest.raises(RuntimeError, match="mean itself hangs: not done after 1 s"):
        verify(slow, 1)
