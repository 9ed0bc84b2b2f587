"""Programs that fill up what they are given until their devices can share it out, and what that may change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardlint.cli import main
from shardlint.evaluation.comparison import Difference, Incomparable, compared
from shardlint.evaluation.mapping import Region
from tests.evaluation.running import NUMBERS, in_jax

PROGRAM = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P

ROWS = 43


def pad(x, count):
    extra = -len(x) % count
    return np.pad(x, [(0, extra)] + [(0, 0)] * (x.ndim - 1))


def scores(w, x, y, real):
    error = jnp.square(x @ w - y)
    total = lax.psum({total}, "data")
    return lax.psum({summed}, "data") / total, x @ w


def main():
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(ROWS, 5)), rng.normal(size=ROWS)
    real = np.ones(ROWS, bool)
    rows = P("data")
    mapped = jax.shard_map(
        scores, mesh=mesh, in_specs=(P(), rows, rows, rows), out_specs=(P(), rows), check_vma=False
    )
    score, predicted = jax.jit(mapped)(
        np.ones(5), *(pad(one, mesh.size) for one in (x, y, real))
    )
    return score, predicted[:ROWS]


if __name__ == "__main__":
    main()
"""
RIGHT = {"total": "real.sum()", "summed": "jnp.sum(jnp.where(real, error, 0.0))"}
ALSO_RIGHT = {"total": "real.sum()", "summed": "jnp.sum(error * real)"}
WRONG = {
    "padding is counted": {**RIGHT, "total": "real.size"},
    "padding is added": {**RIGHT, "summed": "jnp.sum(jnp.exp(-error))"},
}


def found(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str
) -> tuple[list[dict[str, Any]], str]:
    """The findings in a program, and what is said besides them."""
    path = folder / "program.py"
    path.write_text(text)
    main(["--no-cache", "--format", "json", str(path)])
    out, errors = capsys.readouterr()
    return json.loads(out), errors


@pytest.mark.parametrize("parts", [RIGHT, ALSO_RIGHT])
def test_what_leaves_padding_out_is_compared(
    parts: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    findings, errors = found(tmp_path, capsys, PROGRAM.format(**parts))
    assert findings == []
    assert "not run on other numbers of devices" not in errors


@pytest.mark.parametrize("name", WRONG)
def test_what_reads_padding_depends_on_the_devices(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    findings, _ = found(tmp_path, capsys, PROGRAM.format(**WRONG[name]))
    assert [one["code"] for one in findings] == ["ST316"]
    assert "scores's result 0" in findings[0]["message"]


def test_the_programs_are_right_and_wrong_in_jax(tmp_path: Path) -> None:
    texts = {"right": PROGRAM.format(**RIGHT)}
    texts |= {name: PROGRAM.format(**parts) for name, parts in WRONG.items()}
    texts |= {
        f"{name} on one": text.replace("(8,)", "(1,)") for name, text in texts.items()
    }
    scores = {name: one[0] for name, one in in_jax(tmp_path, texts, NUMBERS).items()}
    assert scores["right"] == pytest.approx(scores["right on one"], rel=1e-5)
    for name in WRONG:
        assert scores[name] != pytest.approx(scores[f"{name} on one"], rel=1e-3)


def call(rows: Any, results: Any, rounds: tuple[int, ...] = ()) -> Region:
    return Region(None, (rows,), results, None, {}, rounds=rounds)


SHORT = np.arange(1.0, 15.0).reshape(7, 2)
LONG = np.pad(SHORT, ((0, 1), (0, 0)))


def test_what_lies_beyond_may_be_anything() -> None:
    beyond = np.pad(SHORT * 2, ((0, 1), (0, 0)), constant_values=5.0)
    assert compared([call(LONG, beyond)], [call(SHORT, SHORT * 2)], 0) is None
    result = compared([call(LONG, beyond + 1)], [call(SHORT, SHORT * 2)], 0)
    assert isinstance(result, Difference)


@pytest.mark.parametrize(
    "longer",
    [
        np.pad(SHORT, ((0, 1), (0, 0)), mode="reflect"),  # other examples
        np.pad(SHORT, ((0, 1), (0, 0))) + 1.0,
        np.pad(SHORT, ((0, 7), (0, 0))),  # a row for each of more devices
    ],
    ids=["examples", "others", "devices"],
)
def test_more_rows_are_no_padding(longer: Any) -> None:
    one, two = call(longer, np.ones(3)), call(SHORT, np.ones(3))
    assert isinstance(compared([one], [two], 0), Incomparable)


def test_loops_that_end_elsewhere_leave_another_error() -> None:
    near = SHORT * (1 + 1e-5)
    one, two = call(SHORT, SHORT, (6,)), call(SHORT, near, (7,))
    assert compared([one], [two], 0) is None
    assert isinstance(compared([one], [call(SHORT, SHORT * 1.1, (7,))], 0), Difference)
    assert isinstance(compared([one], [call(SHORT, near, (6,))], 0), Difference)
