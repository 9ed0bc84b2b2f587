"""What devices get wrong alike, however many there are, is found beside one device."""

from __future__ import annotations

import pytest

from shardlint.evaluation.departures import OF_ROUNDS
from shardlint.evaluation.wording import departure_text
from tests.evaluation.test_departures import judged
from tests.evaluation.test_other_data import watched
from tests.evaluation.test_suspects import END, HEAD

pytestmark = pytest.mark.once  # JAX has no part in it

PROGRAM = """
WORDS = 13


def log_z(logits):
    first = lax.axis_index("model") * logits.shape[1]
    columns = {columns}
    logits = jnp.where(columns < WORDS, logits, -1e9)
    peak = lax.pmax(logits.max(axis=1), "model")
    return peak + jnp.log(lax.psum(jnp.exp(logits - peak[:, None]).sum(axis=1), "model"))


def main():
    mapped = jax.shard_map(log_z, mesh=mesh(model=4), in_specs=P(None, "model"), out_specs=P(), check_vma=False)
    return mapped(numbers(3, 16))
"""


def test_a_mask_by_local_columns_leaves_out_the_padding_nowhere() -> None:
    text = HEAD + PROGRAM.format(columns="jnp.arange(logits.shape[1])") + END
    (departure,) = judged(text).departures
    assert departure.counts == (4, 1)
    line = text.splitlines()[departure.culprit.step.value.where.place[0] - 1]
    assert "columns" in line


def test_a_mask_by_columns_of_the_whole_is_right() -> None:
    columns = "first + jnp.arange(logits.shape[1])"
    assert judged(HEAD + PROGRAM.format(columns=columns) + END).departures == ()


ANOTHER_WAY = """
def total(x):
    if lax.axis_size("rows") == 1:
        return x.sum() + 1.0
    return lax.psum(x.sum(), "rows") * 1.0


def main():
    mapped = jax.shard_map(total, mesh=mesh(rows=4), in_specs=P("rows"), out_specs=P(), check_vma=False)
    return mapped(numbers(16))
"""


def test_a_program_that_takes_another_way_on_one_device_is_not_compared_with_it() -> (
    None
):
    assert judged(HEAD + ANOTHER_WAY + END).departures == ()


MASKED_RING = """
def around(x):
    n = lax.axis_size("time")
    return lax.ppermute(x, "time", [(i, (i + 1) % n) for i in range(n)])


def attend(q, k, lengths):
    places = {places}
    heard = jnp.where(places < lengths[:, None], 1.0, 0.0)

    def hop(held, _):
        k, heard, total = held
        total = total + jnp.einsum("bqs,bs,bsd->bqd", jnp.tanh(q @ jnp.swapaxes(k, 1, 2)), heard, k)
        return (around(k), around(heard), total), None

    start = k, heard, jnp.zeros_like(q)
    (_, _, total), _ = lax.scan(hop, start, length=lax.axis_size("time"))
    return total{scaled}


def main():
    specs = P(None, "time"), P(None, "time"), P()
    mapped = jax.shard_map(attend, mesh=mesh(time=4), in_specs=specs, out_specs=P(None, "time"), check_vma=False)
    return mapped(numbers(2, 16, 3), numbers(2, 16, 3), jnp.array([11, 16]))
"""
OF_THE_SHARD = "jnp.arange(k.shape[1])"
OF_THE_WHOLE = 'lax.axis_index("time") * k.shape[1] + jnp.arange(k.shape[1])'


def test_a_mask_that_hides_nothing_on_any_number_of_devices_is_found_in_a_ring() -> (
    None
):
    # the shards of four devices and of two are shorter than the shortest sequence
    text = HEAD + MASKED_RING.format(places=OF_THE_SHARD, scaled="") + END
    (departure,) = judged(text).departures
    assert departure.counts == (4, 1)
    line = text.splitlines()[departure.culprit.step.value.where.place[0] - 1]
    assert "places" in line
    right = HEAD + MASKED_RING.format(places=OF_THE_WHOLE, scaled="") + END
    assert judged(right).departures == ()


@pytest.mark.parametrize(
    ("factor", "reason"),
    [
        ('(2.0 if lax.axis_size("time") == 1 else 1.0)', OF_ROUNDS),
        (
            'jnp.minimum(lax.axis_size("time"), 2)',
            "it multiplies by a number of devices",
        ),
    ],
)
def test_what_a_ring_of_one_device_has_otherwise_is_counted_where_nothing_mends_it(
    factor: str, reason: str
) -> None:
    text = MASKED_RING.format(places=OF_THE_WHOLE, scaled=f" * {factor}")
    judgement = judged(HEAD + text + END)
    assert judgement.departures == ()
    assert judgement.reasons == (f"time: {reason}",)


SAMPLED = """
def update(key, rows, weights):
    key = jax.random.fold_in(key, lax.axis_index("data"))
    noise = jax.random.gumbel(key, weights.shape)
    _, picked = lax.top_k(jnp.log(weights) + noise, 2)
    return lax.pmean((rows{picked} * weights[picked, None]).mean(axis=0), "data")


def main():
    specs = P(), P("data"), P("data")
    mapped = jax.shard_map(update, mesh=mesh(data=4), in_specs=specs, out_specs=P(), check_vma=False)
    return mapped(jax.random.key(0), numbers(32, 3), abs(numbers(32)) + 0.1)
"""


def test_rows_that_each_device_draws_of_its_own_are_meant() -> None:
    assert judged(HEAD + SAMPLED.replace("{picked}", "[picked]") + END).departures == ()


UNBIASED = """
def spread(x):
    mean = {mean}
    return lax.psum(((x - mean) ** 2).sum(), "rows") / (x.shape[0] * {count} - 1)


def main():
    mapped = jax.shard_map(spread, mesh=mesh(rows=2), in_specs=P("rows"), out_specs=P(), check_vma=False)
    return mapped(numbers(4))
"""


def test_where_too_few_rows_on_each_device_make_no_number_another_mesh_is_compared() -> (
    None
):
    # of one row each, on four devices, 0 is divided by 0
    own = UNBIASED.format(mean="x.mean()", count="1")
    (departure,) = judged(HEAD + own + END).departures
    assert departure.counts == (2, 1)
    right = UNBIASED.format(
        mean='lax.pmean(x.mean(), "rows")', count='lax.axis_size("rows")'
    )
    assert judged(HEAD + right + END).departures == ()


TWO_AXES = """
def loss(key, weight, rows):
    weight = weight + 0.1 * jax.random.normal(key, weight.shape)
    made = jnp.tanh(rows @ weight)
    return lax.pmean({total} / rows.shape[0], "data")


def main():
    specs = P(), P(None, "model"), P("data")
    mapped = jax.shard_map(loss, mesh=mesh(data=2, model=4), in_specs=specs, out_specs=P(), check_vma=False)
    return mapped(jax.random.key(0), numbers(3, 8), numbers(4, 3))
"""
RIGHT_TOTAL = 'lax.psum(jnp.sum(made ** 2), "model")'


def test_a_program_that_agrees_with_one_device_is_compared_with_no_other_number() -> (
    None
):
    text = TWO_AXES.replace("0.1 *", "0.0 *").format(total=RIGHT_TOTAL)
    judgement, runs = watched(HEAD + text + END)
    assert judgement.compared == ("data", "model")
    assert not judgement.departures
    assert len(runs) == 2


def test_noise_that_all_devices_draw_alike_for_their_shards_is_found() -> None:
    judgement, runs = watched(HEAD + TWO_AXES.format(total=RIGHT_TOTAL) + END)
    assert len(runs) > 2
    assert judgement.departures or judgement.repeated


NEARLY_THE_SAME = """
def scaled(x):
    return lax.psum(x.sum(), "rows") * (1 + 1e-6 * lax.axis_size("rows"))


def main():
    mapped = jax.shard_map(scaled, mesh=mesh(rows=4), in_specs=P("rows"), out_specs=P(), check_vma=False)
    return mapped(1e-5 * (2 + numbers(16)))
"""


def test_numbers_are_told_with_as_many_digits_as_they_differ_in() -> None:
    (departure,) = judged(HEAD + NEARLY_THE_SAME + END).departures
    one, other = departure.difference.first, departure.difference.second
    assert f"{one:.6g}" == f"{other:.6g}"
    text = departure_text(departure)
    first, _, second = text.partition("(")[2].partition(" on ")[0].partition(" and ")
    assert first != second
    assert float(first) == pytest.approx(one, rel=1e-5)
    assert float(second) == pytest.approx(other, rel=1e-5)
