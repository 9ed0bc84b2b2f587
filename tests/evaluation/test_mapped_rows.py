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
