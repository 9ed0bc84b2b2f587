"""Programs that map rows with ``pmap``, with the number of rows written in them: it is changed with the devices."""

from __future__ import annotations

import pytest

from tests.evaluation.test_entries import judged_as_program

pytestmark = pytest.mark.once  # JAX has no part in it

HEAD = """
from functools import partial
import jax
import jax.numpy as jnp
import optax

ROWS, WIDTH, RATE = 16, 8, 0.1
tx = optax.adam(RATE)


def loss(w, x):
    return jnp.mean(jnp.square(x @ w))


@partial(jax.pmap, axis_name="dev")
def step(w, state, x):
    value, grads = jax.value_and_grad(loss)(w, x)
    grads = GRADS
    updates, state = tx.update(grads, state)
    return optax.apply_updates(w, updates), state, jax.lax.pmean(value, "dev")
"""
SPLIT = """
def main(dev=8):
    w = jnp.ones((WIDTH,))
    copies = lambda tree: jax.tree.map(lambda one: jnp.broadcast_to(one, (dev, *jnp.shape(one))), tree)
    x = jax.random.normal(jax.random.key(0), (ROWS, WIDTH)).reshape(dev, ROWS // dev, WIDTH)
    w, state, value = step(copies(w), copies(tx.init(w)), x)
    return w, value


main()
"""
#: Each device has rows of its own: more devices see more of them.
GROWING = SPLIT.replace(
    "(ROWS, WIDTH)).reshape(dev, ROWS // dev, WIDTH)", "(dev, 4, WIDTH))"
)
MEAN = 'jax.lax.pmean(grads, "dev")'


@pytest.mark.parametrize("main", [SPLIT, GROWING], ids=["split", "growing"])
def test_means_over_rows_agree(main: str) -> None:
    assert judged_as_program(HEAD.replace("GRADS", MEAN) + main).departures == ()


def test_the_number_of_rows_is_changed() -> None:
    right = judged_as_program(HEAD.replace("GRADS", MEAN) + SPLIT)
    assert right.compared == ("dev",)


def test_sums_of_gradients_are_found() -> None:
    wrong = HEAD.replace("GRADS", 'jax.lax.psum(grads, "dev")').replace("adam", "sgd")
    departures = judged_as_program(wrong + SPLIT).departures
    assert [one.axis for one in departures] == ["dev"]


STATISTICS = """
import jax
import jax.numpy as jnp
import numpy as np


def update(stats, x):
    count, mean, squares = stats
    n = N
    new = jax.lax.psum(x.sum(0), "dev") / n
    squares = squares + SQUARES + (new - mean) ** 2 * count
    total = count + n
    return total, mean + (new - mean) * n / total, squares


def normalized(stats, x):
    return (x - stats[1]) / jnp.sqrt(stats[2] + 1.0)


def step(stats, w, x):
    stats = update(stats, x)
    grads = jax.grad(lambda w: jnp.mean(jnp.square(normalized(stats, x) @ w)))(w)
    return stats, w - 0.1 * jax.lax.pmean(grads, "dev")


def main(dev=8):
    x = np.random.default_rng(0).standard_normal((dev, 16 // dev, 3))
    x = np.sort(x.reshape(16, 3), 0).reshape(dev, 16 // dev, 3)
    stats = (jnp.ones((dev,)), jnp.zeros((dev, 3)), jnp.zeros((dev, 3)))
    return jax.pmap(step, axis_name="dev")(stats, jnp.ones((dev, 3)), x)


main()
"""
ALL = 'jax.lax.psum(x.shape[0], "dev")'
SUMMED = 'jax.lax.psum(jnp.square(x - new).sum(0), "dev")'


@pytest.mark.parametrize(
    ("n", "squares", "line"),
    [
        ("x.shape[0]", SUMMED, "/ n"),
        ("len(x)", SUMMED, "/ n"),
        (ALL, "jnp.square(x - new).sum(0)", "squares ="),
    ],
    ids=["local size", "local length", "squares of each device"],
)
def test_statistics_of_some_rows_are_found_beside_averaged_gradients(
    n: str, squares: str, line: str
) -> None:
    """The gradients are averages of each device's own, which may be meant; the statistics are not."""
    right = STATISTICS.replace("N\n", f"{ALL}\n").replace("SQUARES", SUMMED)
    assert judged_as_program(right).departures == ()
    text = STATISTICS.replace("N\n", f"{n}\n").replace("SQUARES", squares)
    (found,) = judged_as_program(text).departures
    where = found.culprit.step.value.key[0]
    assert line in text.splitlines()[where.place[0] - 1]
