"""Queues of which each device fills a part: their order depends on the mesh, and means nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from shardlint.cli import main
from shardlint.evaluation.comparison import Difference, compared
from shardlint.evaluation.mapping import Region
from tests.evaluation.running import NUMBERS, in_jax

PROGRAM = """
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P


class Queue(NamedTuple):
    keys: jax.Array
    at: jax.Array

    def push(self, keys):
        {push}


def step(w, queue, x):
    h = jnp.tanh(x @ w)
    score = lax.all_gather(h, "d", tiled=True) @ queue.keys.T
    loss = {loss}
    return loss, queue.push(h)


def main():
    mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
    parts = Queue(P("d"), P())
    mapped = jax.shard_map(
        step, mesh=mesh, in_specs=(P(), parts, P("d")), out_specs=(P(), parts), check_vma=False
    )
    rng = np.random.default_rng(0)
    w = rng.normal(size=(6, 4))
    queue = Queue(np.zeros((48, 4)), np.int32(0))
    losses = []
    for _ in range(3):
        loss, queue = jax.jit(mapped)(w, queue, rng.normal(size=(16, 6)))
        losses.append(loss)
    return jnp.stack(losses), queue.keys.sum(0)


if __name__ == "__main__":
    main()
"""
RING = (
    "after = (self.at + len(keys)) % len(self.keys); "
    "return Queue(lax.dynamic_update_slice(self.keys, keys, (self.at, 0)), after)"
)
ROLLED = "return Queue(jnp.concatenate([keys, self.keys[: -len(keys)]]), self.at)"
RIGHT, WRONG = 'lax.psum(jnp.exp(score).sum(), "d")', "jnp.exp(score).sum()"


@pytest.mark.parametrize("push", [RING, ROLLED], ids=["ring", "rolled"])
def test_their_order_is_not_reported(
    push: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for loss, codes in ((RIGHT, []), (WRONG, ["ST316"])):
        path = tmp_path / "program.py"
        path.write_text(PROGRAM.format(push=push, loss=loss))
        main(["--no-cache", "--format", "json", str(path)])
        findings = json.loads(capsys.readouterr().out)
        assert [one["code"] for one in findings] == codes


def test_they_give_the_same_on_one_device_in_jax(tmp_path: Path) -> None:
    texts = {
        f"{name} on {count}": PROGRAM.format(push=push, loss=RIGHT).replace(
            "(8,)", f"({count},)"
        )
        for name, push in {"ring": RING, "rolled": ROLLED}.items()
        for count in (8, 1)
    }
    given = in_jax(tmp_path, texts, NUMBERS)
    for name in ("ring", "rolled"):
        for one, other in zip(
            given[f"{name} on 8"], given[f"{name} on 1"], strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-5)


ROWS = np.arange(12.0).reshape(6, 2)
OTHERS = ROWS[[3, 4, 5, 0, 1, 2]]


def call(rows: np.ndarray, place: int | float) -> Region:
    arguments = ({"rows": ROWS * 0, "at": np.int32(0)},)
    results = ({"rows": rows, "at": np.array(place)},)
    return Region(None, arguments, results, None, {})


def test_an_object_with_rows_and_a_place_is_a_queue() -> None:
    assert compared([call(ROWS, 2)], [call(OTHERS, 4)], 0) is None
    assert isinstance(compared([call(ROWS, 2)], [call(ROWS, 4)], 0), Difference)
    assert isinstance(compared([call(ROWS, 2)], [call(OTHERS + 1, 4)], 0), Difference)
    assert isinstance(compared([call(ROWS, 2.0)], [call(OTHERS, 4.0)], 0), Difference)


NUMBERED = {"x": ROWS, "number": np.array([4, 0, -1, 7, -1, 2])}
ELSEWHERE = np.array([1, 3, 2, 0, 5, 4])


def members(**others: np.ndarray) -> Region:
    results = (NUMBERED | others,)
    return Region(None, ({"x": ROWS * 0},), results, None, {})


def moved(**others: np.ndarray) -> dict[str, np.ndarray]:
    """The same members in other places, and something else where there is none."""
    x = np.where(NUMBERED["number"][:, None] < 0, 99.0, ROWS)
    found = {"x": x, "number": NUMBERED["number"]} | others
    return {name: rows[ELSEWHERE] for name, rows in found.items()}


def test_members_that_a_number_tells_apart_may_be_anywhere() -> None:
    assert compared([members()], [members(**moved())], 0) is None


@pytest.mark.parametrize(
    "others",
    [
        {"x": ROWS + 1},
        {"number": np.array([4, 0, -1, 7, -1, 3])},
        {"number": np.array([4, 0, -1, 4, -1, 2])},
        {"number": NUMBERED["number"] * 1.0},
    ],
    ids=["others", "other numbers", "a number twice", "no integers"],
)
def test_others_may_not(others: dict[str, np.ndarray]) -> None:
    found = compared([members()], [members(**moved(**others))], 0)
    assert isinstance(found, Difference)


def test_items_of_a_tuple_have_an_order() -> None:
    one, two = NUMBERED, moved()
    regions = [
        Region(None, (ROWS * 0,), (each["x"], each["number"]), None, {})
        for each in (one, two)
    ]
    assert isinstance(compared(regions[:1], regions[1:], 0), Difference)


def test_another_difference_is_told_first() -> None:
    """At one place are different members, so that their numbers are apart anyway."""
    one = Region(None, (ROWS * 0,), (NUMBERED, np.array([1.0])), None, {})
    two = Region(None, (ROWS * 0,), (moved(x=ROWS + 1), np.array([2.0])), None, {})
    found = compared([one], [two], 0)
    assert isinstance(found, Difference) and found.path == "1"
