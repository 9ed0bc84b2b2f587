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
