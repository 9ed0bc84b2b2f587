"""Under ``pmap``, copies of one state for all devices: told from examples of each device's own where something is
divided among the devices."""

from __future__ import annotations

import pytest

from shardlint.evaluation.judgements import Judgement, judge
from tests.evaluation.test_departures import program

pytestmark = pytest.mark.once  # JAX has no part in it

# Evolution strategies: the members of a population are divided among the devices, its mean is copied to all.
POPULATION = """
import jax
import jax.numpy as jnp
from jax import lax

MEMBERS = 16


def fitness(x):
    return -jnp.sum(jnp.square(x - 1))


def step(mean, scales, key):
    count = len(scales)
    ids = lax.axis_index("pop") * count + jnp.arange(count)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, ids)
    noise = jax.vmap(lambda k: jax.random.normal(k, mean.shape))(keys)
    scores = jax.vmap(fitness)(mean + scales[:, None] * noise)
    everyone = {gathered}
    ranks = jnp.argsort(jnp.argsort(everyone))
    mine = lax.dynamic_slice_in_dim(ranks, {first}, count)
    total = {total}
    return mean + 0.1 * total / MEMBERS, scales


def main():
    count = jax.device_count()
    mean = jnp.broadcast_to(jnp.zeros(3), (count, 3))
    scales = jnp.broadcast_to(jnp.full(MEMBERS // count, 0.5), (count, MEMBERS // count))
    run = jax.pmap(step, axis_name="pop", in_axes=(0, 0, None))
    for i in range(3):
        mean, scales = run(mean, scales, jax.random.fold_in(jax.random.key(0), i))
    return mean[0]


if __name__ == "__main__":
    main()
"""
RIGHT = {
    "gathered": 'lax.all_gather(scores, "pop", tiled=True)',
    "first": 'lax.axis_index("pop") * count',
    "total": 'lax.psum(mine @ noise, "pop")',
}
MISTAKES = {
    "gathered": ("scores", "argsort"),
    "first": ("0", "mine @ noise"),
    "total": ('lax.pmean(mine @ noise, "pop")', "lax.pmean"),
}


def written(**changed: str) -> str:
    text = POPULATION
    for name, part in (RIGHT | changed).items():
        text = text.replace(f"{{{name}}}", part)
    return text


def test_a_right_program_agrees() -> None:
    assert judge(program(written())) == Judgement((), ("pop",), ())


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found_where_it_is(name: str) -> None:
    wrong, expected = MISTAKES[name]
    text = written(**{name: wrong})
    (departure,) = judge(program(text)).departures
    assert departure.axis == "pop"
    where = departure.culprit.step.value.where
    assert expected in text.splitlines()[where.place[0] - 1]


# What a later call is given are copies, too: each device plays its share of the episodes.
EVALUATED = """
def evaluate(mean, key):
    count = 8 // lax.axis_size("pop")
    ids = lax.axis_index("pop") * count + jnp.arange(count)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, ids)
    noise = jax.vmap(lambda k: jax.random.normal(k, mean.shape))(keys)
    total = lax.psum(jax.vmap(fitness)(mean + noise).sum(), "pop")
    return total / {episodes}


def tested(mean):
    run = jax.pmap(evaluate, axis_name="pop", in_axes=(0, None))
    return run(mean, jax.random.key(1))


def main():"""


def evaluated(episodes: str) -> str:
    text = written().replace("return mean[0]", "return tested(mean)")
    return text.replace("def main():", EVALUATED.replace("{episodes}", episodes))


def test_a_later_call_with_copies_alone_agrees() -> None:
    assert judge(program(evaluated("8"))) == Judgement((), ("pop",), ())


def test_a_mistake_in_it_is_found() -> None:
    text = evaluated("count")
    (departure,) = judge(program(text)).departures
    line = text.splitlines()[departure.culprit.step.value.where.place[0] - 1]
    assert "total / count" in line
