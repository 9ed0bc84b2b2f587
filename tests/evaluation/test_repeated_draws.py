"""Random numbers that all devices draw alike, each for its own shard: reported where JAX gives repeated numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.evaluation.comparison import Allowance
from shardlint.evaluation.recording import Where
from shardlint.evaluation.repeated_draws import RepeatedDraw
from tests.evaluation.running import in_jax
from tests.evaluation.test_departures import judged
from tests.evaluation.test_entries import judged_as_program

MANUAL = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ('data', 'model'))

def local(key, x):
    {body}

def main():
    apply = jax.shard_map(local, mesh=mesh, in_specs=(P(), P({spec})), out_specs=P({out}), check_vma=False)
    return apply(jax.random.key(0), jnp.zeros((8, 6)))

main()
"""
STACKED = """
import jax
import jax.numpy as jnp
from jax import lax
from flax import jax_utils
from flax.training import common_utils

def local(key, x):
    {body}

def main():
    keys = {keys}
    return jax.pmap(local, axis_name='data')(keys, common_utils.shard(jnp.zeros((16, 6))))

main()
"""


NUMBERED = (
    "noise = lambda i: jax.random.normal(jax.random.fold_in(key, i), {shape}); "
    "rows = {first}jnp.arange(len(x)); return x + jax.vmap(noise)(rows){rest}"
)
OFFSET = "lax.axis_index('data') * len(x) + "


def manual(body: str, spec: str = "'data'", out: str | None = None) -> str:
    return MANUAL.format(body=body, spec=spec, out=spec if out is None else out)


def stacked(body: str, keys: str = "jax_utils.replicate(jax.random.PRNGKey(0))") -> str:
    return STACKED.format(body=body, keys=keys)


OWN = "key = jax.random.fold_in(key, lax.axis_index('data')); "
REPEATED = {
    "noise": (manual("return x + jax.random.normal(key, x.shape)"), "data"),
    "dropout": (
        manual("return jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x + 1, x)"),
        "data",
    ),
    "columns": (
        manual("return x + jax.random.normal(key, x.shape)", "None, 'model'"),
        "model",
    ),
    "folded along another axis": (
        manual(OWN + "return x + jax.random.normal(key, x.shape)", "'data', 'model'"),
        "model",
    ),
    "in a function of its own": (
        manual(
            "noise = lambda key, rows: jax.random.uniform(key, (rows, 1)); return x + noise(key, len(x))"
        ),
        "data",
    ),
    "a key for each row": (
        manual(
            "return x + jax.vmap(lambda k: jax.random.normal(k, (6,)))(jax.random.split(key, len(x)))"
        ),
        "data",
    ),
    "keys of local numbers": (
        manual(NUMBERED.format(shape="(6,)", first="", rest="")),
        "data",
    ),
    "a number for each row": (
        manual(NUMBERED.format(shape="()", first="", rest="[:, None]")),
        "data",
    ),
    "keys of local numbers under pmap": (
        stacked(NUMBERED.format(shape="(6,)", first="", rest="")),
        "data",
    ),
    "under pmap": (stacked("return x + jax.random.normal(key, x.shape)"), "data"),
    "in a function that is also called for each device": (
        stacked("return noisy(key, x)")
        .replace(
            "def local",
            "def noisy(key, x):\n    return x + jax.random.normal(key, x.shape)\n\ndef local",
        )
        .replace(
            "\nmain()\n",
            "\nmain()\n[noisy(jax.random.key(i), jnp.zeros((4, 6))) for i in range(jax.device_count())]\n",
        ),
        "data",
    ),
    "in a scan": (
        manual(
            "return lax.scan(lambda c, k: (c + jax.random.normal(k, c.shape), None), x, jax.random.split(key, 3))[0]"
        ),
        "data",
    ),
}
RIGHT = {
    "own keys": manual(OWN + "return x + jax.random.normal(key, x.shape)"),
    "of a size that is the same": manual("return x + jax.random.normal(key, (6,))"),
    "keys folded after they are split": manual(
        "fold = lambda k: jax.random.fold_in(k, lax.axis_index('data')); "
        "return x + jax.vmap(lambda k: jax.random.normal(fold(k), (6,)))(jax.random.split(key, len(x)))"
    ),
    **{
        f"for the whole, {name}": manual(
            f"own = len(x); whole = jax.random.normal(key, {shape}).reshape(-1, 6); "
            "return x + lax.dynamic_slice_in_dim(whole, lax.axis_index('data') * own, own)"
        )
        for name, shape in {
            "of axis_size": "(own * lax.axis_size('data'), 6)",
            "of psum": "(lax.psum(1, 'data') * own, 6)",
            "of the mesh": "(mesh.shape['data'] * own, 6)",
            "by devices": "(lax.axis_size('data'), own, 6)",
        }.items()
    },
    "keys of numbers in the whole": manual(
        NUMBERED.format(shape="(6,)", first=OFFSET, rest="")
    ),
    "keys of numbers in the whole under pmap": stacked(
        NUMBERED.format(shape="(6,)", first=OFFSET, rest="")
    ),
    "keys of columns": manual(
        "noise = lambda i: jax.random.normal(jax.random.fold_in(key, i), ()); "
        "return x + jax.vmap(noise)(jnp.arange(6))"
    ),
    "positions": manual("return x[jax.random.permutation(key, len(x))]"),
    "not used": manual("jax.random.normal(key, x.shape); return x"),
    "replicated rows": manual("return x + jax.random.normal(key, x.shape)", "", ""),
    "own keys under pmap": stacked(
        "return x + jax.random.normal(key, x.shape)",
        "jax.random.split(jax.random.PRNGKey(0), jax.device_count())",
    ),
    "noise for replicated weights under pmap": stacked(
        "return x @ (jnp.ones((6, 6)) + jax.random.normal(key, (6, 6)))"
    ),
}


def draws(text: str) -> tuple[RepeatedDraw, ...]:
    return judged_as_program(text).repeated


@pytest.mark.parametrize("name", REPEATED)
def test_repeated_draws_are_found(name: str) -> None:
    text, axis = REPEATED[name]
    (found,) = draws(text)
    assert found.axis == axis
    assert "jax.random" in text.splitlines()[found.draw.place[0] - 1]


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_left_alone(name: str) -> None:
    assert not draws(RIGHT[name])


@pytest.mark.parametrize("steps", sorted({*range(20, 400, 20), *range(130, 145)}))
def test_runs_may_end_anywhere(steps: int) -> None:
    """Where the allowance ends before another number of devices is tried, nothing is told."""
    text, _ = REPEATED["under pmap"]
    found = judged(text, Allowance(steps)).repeated
    assert len(found) <= 1


def shown(text: str, one: Where | None) -> str:
    assert one is not None
    line, start, _, end = one.place
    return text.splitlines()[line - 1][start:end]


def test_the_way_of_the_key_is_told() -> None:
    body = "noise = lambda k: jax.random.normal(jax.random.fold_in(k, 1), x.shape)"
    text = manual(f"{body}; return x + noise(jax.random.fold_in(key, 2))")
    (found,) = draws(text)

    assert (
        shown(text, found.draw)
        == "jax.random.normal(jax.random.fold_in(k, 1), x.shape)"
    )
    assert [shown(text, one) for one in found.keys] == [
        "jax.random.fold_in(k, 1)",
        "jax.random.fold_in(key, 2)",
        "jax.random.key(0)",
    ]
    assert shown(text, found.where) == "noise(jax.random.fold_in(key, 2))"
    assert found.calls == (found.where,)
    assert shown(text, found.given) == "apply(jax.random.key(0), jnp.zeros((8, 6)))"


#: Rows are numbered alike on all devices; some numbers beside them are what they are to be.
_ROWS = {
    "in a function of each row": manual(
        NUMBERED.format(shape="(6,)", first="", rest="")
    ),
    "for all rows at once": manual(
        "rows = jnp.arange(len(x)); keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(rows); "
        "return x + jax.vmap(lambda k: jax.random.normal(k, (6,)))(keys)"
    ),
    "beside a device's number along another axis": manual(
        "rows = jnp.arange(len(x)) + 8 * lax.axis_index('model'); "
        "fold = lambda i: jax.random.fold_in(key, i); "
        "return x + jax.vmap(lambda i: jax.random.normal(fold(i), (6,)))(rows)"
    ),
    "in steps": manual(
        "fold = lambda i, t: jax.random.fold_in(jax.random.fold_in(key, i), t); "
        "draw = lambda t: jax.vmap(lambda i: jax.random.normal(fold(i, t), (6,)))(jnp.arange(len(x))); "
        "return lax.scan(lambda c, t: (c + draw(t), None), x, jnp.arange(3))[0]"
    ),
    "under pmap": stacked(NUMBERED.format(shape="(6,)", first="", rest="")),
}


@pytest.mark.parametrize("name", _ROWS)
def test_where_rows_are_numbered_is_told(name: str) -> None:
    text = _ROWS[name]
    (found,) = draws(text)
    assert [shown(text, one) for one in found.numbers] == ["jnp.arange(len(x))"]


def test_numbers_of_steps_are_no_rows() -> None:
    text, _ = REPEATED["in a scan"]
    (found,) = draws(text)
    assert not found.numbers


def test_draws_repeat_in_jax(tmp_path: Path) -> None:
    """What is reported gives fewer different numbers than the same program with keys of each device's own."""
    judged = "def judged(leaves):\n    return len(np.unique(np.asarray(leaves[0])))\n"
    names = ("noise", "columns", "under pmap")
    programs = {name: REPEATED[name][0] for name in names}
    own = {
        "own " + name: text.replace(
            "+ jax.random.normal(key,",
            f"+ jax.random.normal(jax.random.fold_in(key, lax.axis_index('{axis}')),",
        )
        for name, (text, axis) in REPEATED.items()
        if name in names
    }
    counted = in_jax(tmp_path, {**programs, **own}, judged)
    for name in names:
        assert counted[name] < counted["own " + name], name
