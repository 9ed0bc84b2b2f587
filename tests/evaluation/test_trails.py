"""A departure names where what its culprit was given begins, and what comes after it on the way to the result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluation.running import NUMBERS, findings, in_jax

_MAIN = """

def main():
    mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(
        program, mesh=mesh, in_specs=P("d"), out_specs=({out}), check_vma=False
    )
    return mapped(jax.random.normal(jax.random.key(0), (16, 16)))


if __name__ == "__main__":
    main()
"""

_HEAD = """import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec as P

"""

BEGUN = (
    _HEAD
    + """
def length(x):
    return {total}


def step(x, name):
    sizes = {{one.__name__: one for one in (length,)}}
    size = 0.01 * sizes[name](x)
    return jnp.sum(jnp.tanh(size) * x)


def program(x):
    return jax.lax.psum(step(x, "length"), "d")
"""
    + _MAIN.format(out="P()")
)

SENT = (
    _HEAD
    + """
def best(x):
    return jax.lax.top_k(x.T, 2)[0]


def program(x):
    found, n = best(x), jax.lax.axis_size("d")
    found = found.reshape(n, -1, 2)
    found = jax.lax.all_to_all(found, "d", 0, 0)
    found = {joined}
    return jax.lax.top_k(found, 2)[0]
"""
    + _MAIN.format(out='P("d")')
)

RIGHT = {
    "begun": BEGUN.format(total='jax.lax.psum(jnp.sum(x * x), "d")'),
    "sent": SENT.format(joined="found.swapaxes(0, 1).reshape(-1, 2 * n)"),
}
WRONG = {
    "begun": (
        BEGUN.format(total="jnp.sum(x * x)"),
        [
            (17, "called here"),
            (7, "it becomes a partial result here"),
            (12, "called here"),
        ],
    ),
    "sent": (
        SENT.format(joined="found.reshape(-1, 2 * n)"),
        [
            (11, "called here"),
            (12, "then .reshape here"),
            (13, "then lax.all_to_all here"),
            (14, "then .reshape here"),
        ],
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_have_no_finding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    assert findings(capsys, tmp_path, RIGHT[name]) == []


@pytest.mark.usefixtures("no_changes_tried")
@pytest.mark.parametrize("name", WRONG)
def test_notes_name_the_places_before_and_after(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    name: str,
) -> None:
    text, notes = WRONG[name]
    (finding,) = findings(capsys, tmp_path, text)
    assert finding["code"] == "ST316"
    related = finding["related"]
    assert isinstance(related, list)
    found = [(note["line"], note["message"]) for note in related]
    assert found == notes


@pytest.mark.once
def test_jax_computes_something_else(tmp_path: Path) -> None:
    wrong = {name: text for name, (text, _) in WRONG.items()}
    right, other = (in_jax(tmp_path, one, NUMBERS) for one in (RIGHT, wrong))
    assert all(right[name] != other[name] for name in RIGHT)
