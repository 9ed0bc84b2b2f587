"""What each device has by itself may be averaged on purpose; what it makes of a part of a dimension that is needed
whole may not."""

from __future__ import annotations

import pytest

from tests.evaluation.test_departures import judged
from tests.evaluation.test_suspects import END, HEAD

pytestmark = pytest.mark.once  # JAX has no part in it

STEP = """
def loss(weight, rows):
    made = {made}
    return (made.{what}() * rows[0, 0]).mean()


def step(weight, rows):
    gradient = jax.grad(loss)(weight, rows)
    return weight - 0.1 * lax.pmean(gradient, "x")


def main():
    specs = P(), P({spec})
    mapped = jax.shard_map(step, mesh=mesh(x=4), in_specs=specs, out_specs=P(), check_vma=False)
    return mapped(numbers(8, 1), numbers(8, 16))
"""


def departures_of(made: str, spec: str, what: str = "std") -> tuple:
    text = HEAD + STEP.format(made=made, spec=spec, what=what) + END
    return judged(text).departures


@pytest.mark.parametrize(
    "made",
    [
        "jnp.abs(jnp.fft.fft(rows * weight, axis=1))",
        "jnp.cumsum(rows * weight, axis=1)",
        "jax.nn.softmax(rows * weight, axis=1)",
    ],
)
def test_a_transform_of_the_columns_of_each_device_is_found_though_its_loss_is_averaged(
    made: str,
) -> None:
    (departure,) = departures_of(made, 'None, "x"')
    value = departure.culprit.step.value
    assert value.name == made.partition("(rows")[0].removeprefix("jnp.abs(").replace(
        "jnp", "jax.numpy"
    )


@pytest.mark.parametrize(
    "made",
    [
        "jnp.abs(jnp.fft.fft(rows * weight, axis=0))",
        "jax.nn.softmax(rows * weight[: rows.shape[0]], axis=0)",
    ],
)
def test_what_is_made_of_the_examples_of_each_device_is_meant(made: str) -> None:
    assert (
        departures_of(made.replace("* weight,", "* weight[: rows.shape[0]],"), '"x"')
        == ()
    )


NORMED = """
def normed(x):
    mean = {mean}(x.mean(0))
    second = {second}((x * x).mean(0))
    return (x - mean) / jnp.sqrt(second - mean**2 + 0.5)


def loss(weight, rows):
    hidden = normed(normed(rows @ weight) @ weight)
    return (hidden**3).mean()


def step(weight, rows):
    for _ in range(2):
        gradient = jax.grad(loss)(weight, rows)
        weight = weight - {rate} * lax.pmean(gradient, "x")
    return weight


def main():
    specs = P(), P("x")
    mapped = jax.shard_map(step, mesh=mesh(x=4), in_specs=specs, out_specs=P(), check_vma=False)
    return mapped(numbers(3, 3), numbers(8, 3))
"""
WHOLE = "lambda part: lax.pmean(part, 'x')"
SUMMED = "lambda part: lax.psum(part, 'x')"
OWN = "lambda part: part"


def departures_of_normed(mean: str, second: str, rate: str = "0.1") -> tuple:
    fields = {"mean": f"({mean})", "second": f"({second})", "rate": rate}
    return judged(HEAD + NORMED.format(**fields) + END).departures


def test_a_sum_in_place_of_a_mean_is_found_though_gradients_are_averaged() -> None:
    (departure,) = departures_of_normed(WHOLE, SUMMED)
    assert departure.culprit.step.value.name == "jax.lax.psum"


@pytest.mark.parametrize("rate", ["0.1", "0.1 * lax.axis_size('x')"])
def test_each_device_may_normalize_its_own_examples(rate: str) -> None:
    assert departures_of_normed(OWN, OWN, rate) == ()


def test_statistics_of_the_whole_batch_are_right() -> None:
    assert departures_of_normed(WHOLE, WHOLE) == ()


CENTRES = """
def score(rows, labels):
    members = jax.nn.one_hot(labels, 2)
    centres = lax.psum(members.T @ rows, "x") / jnp.maximum({counts}, 1.0)[:, None]
    distances = ((rows[:, None] - centres) ** 2).sum(-1)
    hits = (jnp.argmin(distances, 1) == labels).astype(jnp.float32)
    return lax.pmean(jnp.exp(-distances).mean() + hits.mean(), "x")


def main():
    specs = P("x"), P("x")
    mapped = jax.shard_map(score, mesh=mesh(x=4), in_specs=specs, out_specs=P(), check_vma=False)
    return mapped(numbers(16, 3), jnp.arange(16) % 2)
"""


def test_a_sum_of_all_devices_divided_by_the_count_of_one() -> None:
    whole = "lax.psum(members.sum(0), 'x')"
    assert judged(HEAD + CENTRES.format(counts=whole) + END).departures == ()
    found = judged(HEAD + CENTRES.format(counts="members.sum(0)") + END).departures
    assert len(found) == 1


def test_an_average_whose_shape_is_that_of_a_shard_is_none() -> None:
    text = """
def related(weight, rows):
    made = jnp.tanh(rows @ weight)
    whole = lax.psum({product}, "x") / (rows.shape[0] * lax.axis_size("x"))
    return ((whole - jnp.eye(whole.shape[0])) ** 2).sum()


def step(weight, rows):
    gradient = lax.pmean(jax.grad(related)(weight, rows), "x")
    return weight - 0.1 * gradient / (1 + jnp.sqrt((gradient**2).sum()))


def main():
    specs = P(), P("x")
    mapped = jax.shard_map(step, mesh=mesh(x=4), in_specs=specs, out_specs=P(), check_vma=False)
    return mapped(numbers(3, 3), numbers(8, 3))
"""
    right = text.format(product="made.T @ made")
    wrong = text.format(product="made @ made.T")
    assert judged(HEAD + right + END).departures == ()
    (departure,) = judged(HEAD + wrong + END).departures
    assert departure.culprit.step.value.name == "@"
