"""Keys made of numbers of rows that overlap between devices: some rows get the draws of others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardlint.cli import main
from tests.evaluation.running import in_jax
from tests.evaluation.test_departures import judged
from tests.evaluation.test_suspects import END, HEAD

ROWS = """
def numbers_of(size):
    return {numbers}


def noisy(key, x):
    rows = numbers_of(len(x))
    draw = lambda i: jax.random.normal(jax.random.fold_in(key, i), (3,))
    return x + jax.vmap(draw)(rows)


def main():
    mapped = jax.shard_map(noisy, mesh=mesh(d=4), in_specs=(P(), P("d")), out_specs=P("d"), check_vma=False)
    return mapped(jax.random.key(0), jnp.zeros((16, 3)))
"""
TILES = """
def numbers_of(rows, columns):
    first, left = lax.axis_index("r") * rows, lax.axis_index("c") * columns
    return (first + jnp.arange(rows))[:, None] * {stride} + left + jnp.arange(columns)


def noisy(key, x):
    cells = numbers_of(*x.shape)
    keys = jax.vmap(functools.partial(jax.random.fold_in, key))(cells.ravel())
    return x + jax.vmap(jax.random.normal)(keys).reshape(x.shape)


def main():
    mapped = jax.shard_map(
        noisy, mesh=mesh(r=4, c=2), in_specs=(P(), P("r", "c")), out_specs=P("r", "c"), check_vma=False
    )
    return mapped(jax.random.key(0), jnp.zeros((8, 4)))
"""
INDEX = 'lax.axis_index("d")'
OVERLAPPING = (
    ROWS.replace("{numbers}", f"{INDEX} + jnp.arange(size)"),
    ROWS.replace("{numbers}", f"{INDEX} * (size - 1) + jnp.arange(size)"),
    TILES.replace("{stride}", "columns"),
)
DIFFERENT = (
    ROWS.replace("{numbers}", f"{INDEX} * size + jnp.arange(size)"),
    # of which results depend on the number of devices as well
    ROWS.replace("{numbers}", f"{INDEX} * 1000 + jnp.arange(size)"),
    ROWS.replace("{numbers}", f'jnp.arange(size) * lax.axis_size("d") + {INDEX}'),
    TILES.replace("{stride}", 'columns * lax.axis_size("c")'),
    TILES.replace("{stride}", "100"),
)

DRAWS = """
def judged(leaves):
    (drawn,) = leaves
    return [drawn.size, np.unique(np.asarray(drawn)).size]
"""


@pytest.mark.once
@pytest.mark.parametrize("program", OVERLAPPING)
def test_numbers_that_overlap(program: str) -> None:
    text = HEAD + program + END
    found = judged(text).repeated
    assert found and all(one.overlaps for one in found)
    line = text.splitlines()[found[0].where.place[0] - 1]
    assert line.strip().startswith("return") and "jnp.arange(" in line


@pytest.mark.once
@pytest.mark.parametrize("program", DIFFERENT)
def test_numbers_that_do_not(program: str) -> None:
    assert judged(HEAD + program + END).repeated == ()


@pytest.mark.once
def test_halos_have_the_numbers_of_their_rows() -> None:
    """A row of the next device's is drawn for as that device does, and nothing depends on the mesh."""
    program = """
def smoothed(key, x):
    first = lax.axis_index("d") * len(x)
    rows = (first + jnp.arange(len(x) + 1)) % (lax.axis_size("d") * len(x))
    noise = jax.vmap(lambda i: jax.random.normal(jax.random.fold_in(key, i), (3,)))(rows)
    return x + noise[1:] - noise[:-1]


def main():
    mapped = jax.shard_map(smoothed, mesh=mesh(d=4), in_specs=(P(), P("d")), out_specs=P("d"), check_vma=False)
    return mapped(jax.random.key(0), jnp.zeros((16, 3)))
"""
    assert judged(HEAD + program + END).repeated == ()


def test_jax_draws_the_same(tmp_path: Path) -> None:
    """Of the programs that are found, and of no others."""
    programs = {str(i): HEAD + one for i, one in enumerate((*OVERLAPPING, *DIFFERENT))}
    found = in_jax(tmp_path, programs, DRAWS)
    for i, (count, different) in found.items():
        assert (different < count) is (int(i) < len(OVERLAPPING))


@pytest.mark.once
def test_the_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "program.py"
    path.write_text(HEAD + OVERLAPPING[0] + END)
    main(["--no-cache", "--format", "json", str(path)])
    (finding,) = json.loads(capsys.readouterr().out)
    assert finding["code"] == "ST318"
    assert finding["message"] == (
        "jax.random.normal draws the same numbers for different rows on devices along 'd': what its keys are made of "
        "overlaps: begin with lax.axis_index('d') times how many each device has"
    )
    assert "drawn here" in [one["message"] for one in finding["related"]]
