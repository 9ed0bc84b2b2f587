"""Numbers in a program that only make other data are tried without running what is mapped; those that may stand for the
number of devices are tried to the end."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from shardlint.evaluation.comparison import Outcome, Program
from shardlint.evaluation.judgements import Judgement, judge
from tests.evaluation.test_departures import judged, program
from tests.evaluation.test_suspects import END, HEAD

pytestmark = pytest.mark.once  # JAX has no part in it


class Watched(Program):
    """A program that keeps what its runs with other numbers in its text gave."""

    changed: ClassVar[list[tuple[set[int], Outcome]]] = []

    def run(self, devices: int, literals: Any = None, **options: Any) -> Outcome:
        outcome = super().run(devices, literals, **options)
        lines = {place[0] for _, place in literals or {}}
        Watched.changed.append((lines, outcome))
        return outcome


def watched(text: str) -> tuple[Judgement, list[tuple[set[int], Outcome]]]:
    Watched.changed.clear()
    found = program(text)
    judgement = judge(Watched(found.find, found.entry, found.steps))
    return judgement, Watched.changed


def tried_at(text: str, part: str) -> tuple[Judgement, list[Outcome]]:
    """What is found in a program, and what its runs gave with another number in the line with this part."""
    judgement, runs = watched(text)
    (place,) = (i for i, one in enumerate(text.splitlines(), start=1) if part in one)
    return judgement, [outcome for lines, outcome in runs if place in lines]


DATA = """
def total(x):
    return {total}


def rows():
    return {rows}


def main():
    mapped = jax.shard_map(total, mesh=mesh(rows=4), in_specs=P("rows"), out_specs=P(), check_vma=False)
    return mapped(rows())
"""


@pytest.mark.parametrize(
    "rows",
    [
        "numbers(8, 3) + 4",
        "np.where(np.arange(24).reshape(8, 3) % 4 == 0, 0.5, numbers(8, 3))",
        "{'a': numbers(8, 3), 'b': numbers(8) / (4 + np.arange(8))}",
    ],
)
def test_other_data_end_a_run_before_what_is_mapped(rows: str) -> None:
    total = "jax.tree.map(lambda a: a.sum(), x)"
    text = HEAD + DATA.format(total=total, rows=rows) + END
    judgement, tried = tried_at(text, "return " + rows[:10])
    assert len(judgement.departures) == 1
    assert tried
    assert all(not outcome.regions for outcome in tried)


STRIDED = """
def total(x):
    positions = lax.axis_index("rows") + lax.axis_size("rows") * jnp.arange(x.shape[0])
    return lax.psum((positions[:, None] * x).sum(), "rows")


def main():
    mapped = jax.shard_map(total, mesh=mesh(rows=4), in_specs=P("rows"), out_specs=P(), check_vma=False)
    rows = numbers(8, 3).reshape(-1, 4, 3).swapaxes(0, 1).reshape(8, 3)
    return mapped(rows)
"""


def test_rows_in_an_order_for_the_devices_are_compared() -> None:
    text = HEAD + STRIDED + END
    judgement, tried = tried_at(text, "rows = numbers")
    assert not judgement.departures
    assert any(outcome.regions for outcome in tried)


MEANT = """
def total(x, weight):
    return lax.psum((x * weight).sum(axis=1).mean(), "rows") / 4


def main():
    mapped = jax.shard_map(total, mesh=mesh(rows=4), in_specs=(P("rows"), P()), out_specs=P(), check_vma=False)
    return mapped(numbers(8, 3), numbers(3))
"""


def test_a_number_in_what_is_mapped_is_tried_to_the_end() -> None:
    text = HEAD + MEANT + END
    judgement, tried = tried_at(text, "/ 4")
    assert not judgement.departures
    assert any(outcome.regions for outcome in tried)


NESTED = """
def inner(x):
    return {total}


def outer(x, scale):
    mapped = jax.shard_map(inner, mesh=MESH, in_specs=P("rows"), out_specs=P(), axis_names={{"rows"}}, check_vma=False)
    return mapped(x) * scale


def main():
    mapped = jax.shard_map(
        outer, mesh=MESH, in_specs=(P(), P()), out_specs=P(), axis_names={{"model"}}, check_vma=False
    )
    return mapped(numbers(8, 3), numbers(3) * 1.0)


MESH = mesh(rows=4, model=2)
"""


def test_mapped_functions_in_mapped_functions_are_told_apart_by_their_code() -> None:
    wrong = HEAD + NESTED.format(total="x.sum(axis=0)") + END
    right = HEAD + NESTED.format(total='lax.psum(x.sum(axis=0), "rows")') + END
    assert judged(wrong).departures
    assert not judged(right).departures
