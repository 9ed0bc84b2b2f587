"""Sums that are missing of parts: the change that mends a program is looked for where the parts begin, beside sums over
other axes, and of several arrays together. The changed program gives what the right one gives."""

from __future__ import annotations

import pytest

from shardlint.evaluation.repairs import repair
from tests.evaluation.test_departures import judged
from tests.evaluation.test_repairs import agrees
from tests.evaluation.test_suspects import Mistake

pytestmark = pytest.mark.once  # JAX has no part in it

#: An energy of tiles, that is asked for twice, decides for all of them.
TILES = """
def energy(x):
    return {part}


def kept(x, step):
    new = x + step
    gain = energy(new) - energy(x)
    return x + step * jnp.exp(-gain), gain


def main():
    tiles = P(None, "r", "c")
    mapped = jax.shard_map(
        lambda x, steps: jax.vmap(kept)(x, steps),
        mesh=mesh(r=2, c=4), in_specs=(tiles, P()), out_specs=(tiles, P()), check_vma=False,
    )
    return mapped(numbers(3, 8, 8), 0.1 * numbers(3))
"""
#: The number of rounds depends on what is summed.
UNTIL_NEAR = """
def distances(x, centres):
    near = ((x[:, None] - centres) ** 2).sum(-1)
    return {part}


def moved(x, centres):
    chosen = jax.nn.softmax(-distances(x, centres))
    return chosen.T @ x / chosen.sum(0)[:, None]


def fitted(x, centres):
    start = jnp.exp(-distances(x, centres)).sum()

    def unfinished(state):
        rounds, _, change = state
        return (change > 0.02) & (rounds < 30)

    def body(state):
        rounds, centres, _ = state
        new = moved(x, centres)
        return rounds + 1, new, lax.psum(jnp.sum((new - centres) ** 2), "f")

    rounds, centres, _ = lax.while_loop(unfinished, body, (0, centres, 1.0))
    return centres, jnp.log(start), rounds


def main():
    mapped = jax.shard_map(
        lambda x, centres: fitted(*jax.tree.map(lambda a: a, [x, centres])),
        mesh=mesh(f=4), in_specs=P(None, "f"), out_specs=(P(None, "f"), P(), P()), check_vma=False,
    )
    return mapped(3 * numbers(16, 8), numbers(3, 8))
"""
#: Of two sums that one function gives, the other is completed where it is returned.
VALUE_AND_SLOPE = """
@jax.value_and_grad
def of_rows(at, x):
    return jnp.sum(jnp.sin(x @ at))


def likelihood(at, x):
    value, slope = of_rows(at, x)
    return lax.psum(value, "d"), {part}


def climbed(at, x):
    values = []
    for _ in range(3):
        value, slope = likelihood(at, x)
        at = at + jnp.tanh(slope)
        values.append(value)
    return at, jnp.stack(values)


def main():
    mapped = jax.shard_map(
        lambda ats, x: jax.vmap(climbed, (0, None))(ats, x),
        mesh=mesh(d=4), in_specs=(P(), P("d")), out_specs=P(), check_vma=False,
    )
    return mapped(numbers(2, 4), numbers(16, 4))
"""
#: Gradients of sharded and of replicated weights; in the second step it cannot be told any more which lack a sum.
TWO_STEPS = """
SPECS = {"scale": P(), "up": P(None, "t"), "down": P("t"), "shift": P()}


def loss(params, x):
    hidden = jnp.tanh((params["scale"] * x + params["shift"]) @ params["up"])
    return jnp.mean(lax.psum(hidden @ params["down"], "t") ** 2) / lax.axis_size(("d", "t"))


def axes_left(spec):
    return ("d",) if "t" in spec else {part}


def step(params, x):
    grads = jax.grad(loss)(params, x)
    grads = jax.tree.map(lambda g, spec: lax.psum(g, axes_left(spec)), grads, SPECS)
    return jax.tree.map(lambda p, g: p - 0.1 * jnp.tanh(g), params, grads), None


def main():
    params = {"scale": numbers(6), "up": numbers(6, 16), "down": numbers(16, 3), "shift": numbers(6)}
    mapped = jax.shard_map(
        lambda params, xs: lax.scan(step, params, xs)[0],
        mesh=mesh(d=2, t=4), in_specs=(SPECS, P(None, "d")), out_specs=SPECS, check_vma=False,
    )
    return mapped(params, numbers(3, 8, 6))
"""
#: One expression takes all gradients, two others reduce some of them.
TWO_LINES = """
def loss(params, x):
    hidden = jnp.tanh(params["scale"] * x + params["shift"]) * params["power"]
    return jnp.mean(hidden**2) / lax.axis_size(("d", "t"))


def step(params, x):
    own, whole = (functools.partial(lax.psum, axis_name=axes) for axes in ({part}, ("d", "t")))
    grads = jax.grad(loss)(params, x)
    grads = {
        "scale": own(grads["scale"]),
        "shift": own(grads["shift"]),
        "power": whole(grads["power"]),
    }
    return jax.tree.map(lambda p, g: p - 0.1 * jnp.tanh(g), params, grads)


def main():
    params = {"scale": numbers(6), "shift": numbers(6), "power": numbers(6)}
    mapped = jax.shard_map(
        step, mesh=mesh(d=2, t=4), in_specs=(P(), P(("d", "t"))), out_specs=P(), check_vma=False
    )
    return mapped(params, numbers(16, 6))
"""

MISTAKES = (
    Mistake(
        "beside_a_sum_over_another_axis",
        TILES,
        'lax.psum(jnp.sum(x**2), ("r", "c"))',
        'lax.psum(jnp.sum(x**2), "r")',
        'lax.psum(jnp.sum(x**2), "r")',
        "this lax.psum over 'c' too",
    ),
    Mistake(
        "where_the_parts_begin",
        TILES,
        'lax.psum(jnp.sum(x**2), ("r", "c"))',
        "jnp.sum(x**2)",
        "return jnp.sum(x**2)",
        "a lax.psum over 'c' and 'r' of this value",
    ),
    Mistake(
        "another_number_of_rounds",
        UNTIL_NEAR,
        'lax.psum(near, "f")',
        "near",
        "near = ((x[:, None] - centres) ** 2).sum(-1)",
        "a lax.psum over 'f' of this value",
    ),
    Mistake(
        "one_of_two_arrays",
        VALUE_AND_SLOPE,
        'lax.psum(slope, "d")',
        "slope",
        "value, slope = of_rows(at, x)",
        "a lax.psum over 'd' of array 1 of these",
    ),
    Mistake(
        "some_gradients_in_all_steps",
        TWO_STEPS,
        '("d", "t")',
        '("d",)',
        "grads = jax.tree.map(lambda g, spec: lax.psum(",
        "a lax.psum over 't' of this value",
    ),
    Mistake(
        "two_gradients_at_lines_of_their_own",
        TWO_LINES,
        '("d", "t")',
        '"d"',
        '"scale": own(grads["scale"])',
        "this lax.psum and 1 other over 't' too",
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_the_change_is_found(mistake: Mistake) -> None:
    right, wrong = mistake.text(mistake.right), mistake.text(mistake.wrong)
    assert judged(right).departures == ()
    departure, *_ = judged(wrong).departures
    mended = repair(departure)
    assert mended is not None
    assert mended.text == mistake.says
    assert mistake.line in wrong.splitlines()[mended.where.place[0] - 1]
    assert agrees(departure, mended, right)
