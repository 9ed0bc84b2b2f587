"""Which numbers in the text of a program may stand for a number of devices."""

from __future__ import annotations

import ast

import pytest

from shardlint.evaluation.other_meshes import DEVICES
from shardlint.evaluation.plain_numbers import plain_numbers
from tests.evaluation.test_departures import judged, program
from tests.evaluation.test_suspects import END, HEAD

pytestmark = pytest.mark.once  # JAX has no part in it


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("x**2 + 3 * y**-3", ["2", "3"]),
        ("Layout(dims=(2, 4))", []),
        ("2**n", []),
        ("x.ndim - 2 + 3", ["2"]),
        ("2 * np.pi / 4", ["2"]),
        ("2 * cfg.size", []),
        ("jnp.sum(x, axis=(2, -3)) / 4", ["2", "3"]),
        ("x[..., 2] + x[:4]", ["2"]),
        ("x.reshape(2, -1)", []),
    ],
)
def test_what_counts_no_devices(text: str, plain: list[str]) -> None:
    found = [
        ast.unparse(number)
        for node in ast.walk(ast.parse(text))
        for number in plain_numbers(node)
        if isinstance(number, ast.Constant) and isinstance(number.value, int)
    ]
    assert sorted(found) == plain


TOTAL = """
def total(x):
    return lax.psum((x**2).sum(axis=1).sum(), "rows") / {count}


def main():
    mapped = jax.shard_map(total, mesh=mesh(rows=2), in_specs=P("rows"), out_specs=P(), check_vma=False)
    return mapped(numbers(8, 3))
"""


def test_only_what_may_count_devices_is_tried_as_such() -> None:
    text = HEAD + TOTAL.format(count=2) + END
    run = program(text).run(DEVICES)
    lines = text.splitlines()
    written = {lines[line - 1][start:end] for (_, (line, start, _, end)) in run.written}
    twos = [where for where, value in run.written.items() if value == 2]
    assert "2" in written
    assert len(twos) == 2  # the size of the mesh, and what the sum is divided by


def test_a_number_that_stands_for_the_size_of_the_mesh_is_meant() -> None:
    assert judged(HEAD + TOTAL.format(count=2) + END).departures == ()
    assert judged(HEAD + TOTAL.format(count="lax.axis_size('rows')") + END).departures
