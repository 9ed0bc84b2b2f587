"""Programs are compared with themselves on other numbers of devices: right ones agree, each mistake is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.cli import main
from shardlint.evaluation.comparison import ALLOWANCE, Allowance, Program
from shardlint.evaluation.judgements import Judgement, judge
from shardlint.evaluation.wording import departure_text
from tests.evaluation.changes import CHANGES, Change, source

pytestmark = pytest.mark.once  # JAX has no part in it

AXES = {
    "tensor_parallel": ("d", "t"),
    "sharded_lookup": ("rows",),
    "ring_attention": ("s",),
}


def program(text: str, allowance: Allowance | None = None) -> Program:
    def find(name: str, importer: str) -> tuple[str, str, str] | None:
        return (name, "program.py", text) if name == "program" else None

    bound = allowance or Allowance(ALLOWANCE)
    return Program(
        find, lambda world: world.run_program("program"), 400_000, allowance=bound
    )


def judged(text: str, allowance: Allowance | None = None) -> Judgement:
    return judge(program(text, allowance))


@pytest.mark.parametrize("name", AXES)
def test_right_programs_compute_the_same_on_every_number_of_devices(name: str) -> None:
    assert judged(source(name)) == Judgement((), AXES[name], ())


@pytest.mark.parametrize(
    "change", CHANGES, ids=lambda change: f"{change.program}-{change.name}"
)
def test_a_mistake_is_found_where_the_results_depart(change: Change) -> None:
    lines = change.text.splitlines()
    departures = judged(change.text).departures
    assert departures
    reported = [lines[one.culprit.step.value.key[0].place[0] - 1] for one in departures]
    assert any(change.found in line for line in reported), reported
    texts = [departure_text(one) for one in departures]
    assert any(change.says in text for text in texts), texts


MEANT = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

SHARDS = 4


def layer(key, x):
    {body}


def main():
    mesh = jax.make_mesh(({size},), ("d",))
    x = jax.random.normal(jax.random.key(1), (16, 8))
    mapped = jax.shard_map(layer, mesh=mesh, in_specs=(P(), P("d")), out_specs=P({out}), check_vma=False)
    return mapped(jax.random.key(0), x)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("body", "out"),
    [
        (
            'return x + jax.random.normal(jax.random.fold_in(key, lax.axis_index("d")), x.shape)',
            '"d"',
        ),
        (
            'return lax.psum(jnp.zeros(x.shape[0] // 3 + 1).at[0].set(x.sum()), "d").sum()',
            "",
        ),
        ('return lax.psum(x.mean(), "d") / SHARDS', ""),
        ('return lax.psum(x.mean(), "d") * (1 / SHARDS)', ""),
        ('return lax.pmean(x.mean(), "d")', ""),
    ],
    ids=[
        "keys of each device",
        "capacity",
        "size by name",
        "its inverse by name",
        "mean of means",
    ],
)
@pytest.mark.parametrize("size", ["SHARDS", "4"])
def test_what_is_meant_to_depend_on_the_devices_is_left_alone(
    body: str, out: str, size: str
) -> None:
    judgement = judged(MEANT.format(body=body, out=out, size=size))
    assert judgement.departures == ()
    assert judgement.compared == ("d",)
    assert judgement.reasons == ()


CHOSEN = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

MESHES = {2: (1, 2), 4: (2, 2), 8: (4, 2)}


def choose(logits):
    v = logits.shape[-1]
    best = lax.pmax(logits.max(-1), "t")
    index = logits.argmax(-1) + lax.axis_index("t") * v
    return lax.pmin(jnp.where(logits.max(-1) == best, index, 6), "t")


def main(devices: int = 8):
    there = jax.devices()[:devices]
    mesh = jax.make_mesh(MESHES[devices], ("d", "t"), devices=there)
    logits = jax.random.normal(jax.random.key(0), (16, 6))
    mapped = jax.shard_map(
        choose, mesh=mesh, in_specs=P("d", "t"), out_specs=P("d")
    )
    return mapped(logits)


if __name__ == "__main__":
    main()
"""


def test_a_program_that_chooses_its_mesh_by_the_number_of_devices_is_compared() -> None:
    """On fewer devices this one takes a mesh with as many along 't': that they agree there excuses nothing."""
    assert not judged(CHOSEN).departures
    (departure,) = judged(CHOSEN.replace(' + lax.axis_index("t") * v', "")).departures
    assert "number of devices along 't'" in departure_text(departure)


GIVEN = """
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P

RATE = 0.1
N = jax.device_count()


def step(w, rate, x):
    value, g = jax.value_and_grad(lambda w: jnp.mean(jnp.square(x @ w - 1)))(w)
    g = lax.pmean(g, "d")
    {update}
    return w, lax.pmean(value, "d")


def main():
    mesh = jax.make_mesh((N,), ("d",), axis_types=(AxisType.Auto,))
    specs = dict(in_specs=(P(), P(), P("d")), out_specs=P(), check_vma=False)
    x = {examples}
    w = jnp.ones(4)
    for _ in range(3):
        w, loss = jax.shard_map(step, mesh=mesh, **specs)(w, {rate}, x)
    return loss


if __name__ == "__main__":
    main()
"""
PLAIN = {
    "update": "w = w - rate * g",
    "rate": "RATE",
    "examples": "jnp.sin(jnp.arange(64.0)).reshape(16, 4)",
}
#: Programs take larger steps, and more examples, on more devices.
SCALED = {
    "rate by devices": {"rate": "RATE * N"},
    "rate by a root": {"rate": "RATE * np.sqrt(N)"},
    "examples of each device": {"examples": "jnp.ones((2 * N, 4))"},
    "examples from a generator": {
        "examples": "jax.random.normal(jax.random.key(0), (2 * N, 4))"
    },
    "rate inside": {"update": 'w = w - RATE * lax.axis_size("d") * g'},
    "rate by psum": {"update": 'rate = RATE * lax.psum(1, "d")\n    w = w - rate * g'},
    "rate by a root inside": {
        "update": 'rate = RATE * jnp.sqrt(lax.axis_size("d"))\n    w = w - rate * g'
    },
    "gradients": {"update": 'g = g * lax.axis_size("d")\n    w = w - rate * g'},
    "schedule": {
        "update": "rate = optax.linear_schedule(0.0, RATE * N, 10)(3)\n    w = w - rate * g"
    },
    "optimizer": {
        "update": "tx = optax.adam(RATE * N)\n    up, _ = tx.update(g, tx.init(w))\n    w = optax.apply_updates(w, up)"
    },
}


def test_the_plain_program_is_compared() -> None:
    assert judged(GIVEN.format(**PLAIN)) == Judgement((), ("d",), ())


@pytest.mark.parametrize("name", SCALED)
def test_what_grows_with_the_devices_on_purpose_is_left_alone(name: str) -> None:
    judgement = judged(GIVEN.format(**{**PLAIN, **SCALED[name]}))
    assert judgement.departures == ()
    assert judgement.reasons != ()


def test_blocks_on_the_diagonal_are_left_alone() -> None:
    text = """
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec as P


def block_jacobi(a, b):
    local = jax.lax.dynamic_slice(a, (0, jax.lax.axis_index("x") * b.shape[0]), (b.shape[0], b.shape[0]))
    return jnp.linalg.solve(local, b)


def main():
    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
    a = jnp.eye(16) * 4 + 0.1 * jnp.cos(jnp.arange(256.0)).reshape(16, 16)
    return jax.shard_map(block_jacobi, mesh=mesh, in_specs=(P("x"), P("x")), out_specs=P("x"))(a, jnp.ones(16))


if __name__ == "__main__":
    main()
"""
    judgement = judged(text)
    assert (judgement.departures, judgement.reasons) == (
        (),
        ("x: each device takes a block of its own",),
    )


def test_one_entry_for_each_device_is_no_padding_where_the_others_are_zero(
    tmp_path: Path,
) -> None:
    """The determinants of what two devices hold are zero, that of the whole is not."""
    path = tmp_path / "own.py"
    path.write_text("""\
from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((2,), ("i",))


@partial(jax.shard_map, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
def determinants(x):
    return jnp.linalg.det(x.T @ x)[None]
""")
    assert main(["--no-cache", str(path)]) == 0


def test_what_all_devices_of_pmap_have_alike_may_be_examples() -> None:
    text = """
import jax
import jax.numpy as jnp

if __name__ == "__main__":
    n = jax.local_device_count()
    jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")(jnp.ones(n))
"""
    judgement = judged(text)
    assert judgement.departures == ()
    assert judgement.reasons == (
        "i: all devices are given the same, which may be copies or examples of each device's own",
    )


ENDED = """
import jax
import jax.numpy as jnp

def doubled(x):
    return 2 * x

if __name__ == "__main__":
    mesh = jax.sharding.Mesh(jax.devices(), ("d",))
    spec = jax.P("d")
    y = jax.shard_map(doubled, mesh=mesh, in_specs=spec, out_specs=spec)(jnp.arange(16.0))
    {end}
    print(y)
"""


@pytest.mark.parametrize(
    ("end", "reasons"),
    [
        ("pass", ()),
        (
            "raise ValueError('no\\nluck')",
            ("what comes after doubled: ValueError: no luck",),
        ),
        (
            "y = jax.jit(open('model').read)(y)",
            ("what comes after doubled: open()",),
        ),
    ],
)
def test_a_program_that_is_not_followed_to_its_end_has_a_reason(
    end: str, reasons: tuple[str, ...]
) -> None:
    judgement = judged(ENDED.format(end=end))
    assert judgement.departures == ()
    assert judgement.compared == ("d",)
    assert judgement.reasons == reasons


PMAPPED = """
import jax
import jax.numpy as jnp

if __name__ == "__main__":
    n = jax.local_device_count()
    x = jnp.sin(jnp.arange(64.0)).reshape(n, -1, 2)
    parts = jax.pmap({mapped}, axis_name="i")(x)
    print({combined})
"""


def test_examples_of_each_device_are_counted() -> None:
    """What is computed of them may be meant to be each device's own: nothing is reported, and that is said."""
    text = PMAPPED.format(
        mapped="lambda x: (x - x.mean(axis=0)) / x.std(axis=0)", combined="parts.sum()"
    )
    judgement = judged(text)
    assert judgement.departures == ()
    assert judgement.reasons == ("i: each device's examples are a batch of its own",)


@pytest.mark.parametrize(
    ("mapped", "combined"),
    [
        ("jnp.sum", "parts.sum()"),
        ("lambda x: 2 * jnp.sum(x)", "parts.sum() / 64"),
        ("lambda x: x.T @ x", "parts.sum(axis=0)"),
        ("lambda x: x.max(axis=0)", "parts.max(axis=0)"),
        ("lambda x: jnp.min(x)", "parts.min()"),
        ("jnp.mean", "parts.mean()"),
    ],
)
def test_parts_that_pmap_gives_may_be_combined_by_who_gets_them(
    mapped: str, combined: str
) -> None:
    assert judged(PMAPPED.format(mapped=mapped, combined=combined)) == Judgement(
        (), ("i",), (), has_run=True
    )


@pytest.mark.parametrize(
    "mapped",
    ["lambda x: jnp.sqrt(jnp.sum(x * x))", "lambda x: jnp.tanh(x.T @ x)"],
)
def test_what_pmap_makes_of_parts_is_no_part(mapped: str) -> None:
    assert judged(PMAPPED.format(mapped=mapped, combined="parts")).departures


@pytest.mark.parametrize("share", [number / 32 for number in range(29)])
def test_what_is_not_found_out_before_the_steps_are_spent_is_said(share: float) -> None:
    body = 'return lax.psum(x.sum(), "d") / SHARDS / lax.axis_size("d") * 4'
    text = MEANT.format(body=body, out="", size=4)
    allowance = Allowance(ALLOWANCE)
    assert judged(text, allowance) == Judgement((), ("d",), ())
    bounded = judged(text, Allowance(int(share * (ALLOWANCE - allowance.left))))
    assert (bounded.departures, bounded.compared) == ((), ())
    assert bounded.reasons in (("too many steps",), ("d: too many steps",))


@pytest.mark.parametrize(
    ("body", "out", "text"),
    [
        (
            'return lax.psum(x.sum(), "d") / lax.axis_size("d")',
            "",
            "`/` gives a value divided by the number of devices",
        ),
        (
            "return x.sum()",
            "",
            ".sum gives a partial sum over 'd', which is returned as replicated",
        ),
        (
            "return jax.nn.softmax(x.sum(0))",
            "",
            "jax.nn.softmax is applied to a partial sum over 'd'",
        ),
        (
            "return jax.nn.softmax(x, axis=0)",
            '"d"',
            "jax.nn.softmax is applied to a value sharded over 'd'",
        ),
    ],
)
def test_what_is_not_is_reported(body: str, out: str, text: str) -> None:
    (departure,) = judged(MEANT.format(body=body, out=out, size="SHARDS")).departures
    assert text in departure_text(departure)


def test_programs_that_cannot_be_run_say_why() -> None:
    assert judged("if __name__ == '__main__':\n    open('x')") == Judgement(
        reasons=("open()",)
    )
    assert judged("x = 1") == Judgement(reasons=("nothing in it runs the program",))


PMAP = """
import functools

import jax
import jax.numpy as jnp
from jax import lax


def loss_of(w, x, y):
    return jnp.mean((x @ w - y) ** 2)


@functools.partial(jax.pmap, axis_name="batch")
def step(w, x, y):
    loss, g = jax.value_and_grad(loss_of)(w, x, y)
    {reduction}
    return w - 0.1 * g, loss


def main():
    n = jax.local_device_count()
    x = jax.random.normal(jax.random.key(0), (16, 4))
    y = x[:, :3]
    w = jnp.broadcast_to(jnp.ones((4, 3)), (n, 4, 3))
    for _ in range(2):
        w, loss = step(w, x.reshape(n, -1, 4), y.reshape(n, -1, 3))
    return w[0], loss.mean()
"""


def test_pmap_with_the_mean_of_gradients_is_right() -> None:
    assert judged(PMAP.format(reduction='g = lax.pmean(g, "batch")')) == Judgement(
        (), ("batch",), ()
    )


@pytest.mark.parametrize(
    ("reduction", "text"),
    [
        ("pass", "a per-device mean along 'batch': call lax.pmean(…, 'batch') first"),
        (
            'g = lax.psum(g, "batch")',
            "lax.psum gives a value multiplied by the number of devices",
        ),
        (
            'g = lax.pmax(g, "batch")',
            "lax.pmax is applied to a per-device mean along 'batch'",
        ),
    ],
)
def test_pmap_with_another_reduction_is_not(reduction: str, text: str) -> None:
    (departure,) = judged(PMAP.format(reduction=reduction)).departures
    assert text in departure_text(departure)


SEVERAL = """
import functools

import jax
import jax.numpy as jnp
import optax
from jax import lax

tx = optax.adam(0.1)


def loss_of(w, x, y):
    return ((x @ w - y) ** 2).mean()


@functools.partial(jax.pmap, axis_name="batch")
def step(w, state, x, y):
    g = jax.grad(loss_of)(w, x, y)
    {reduction}
    updates, state = tx.update(g, state, w)
    return optax.apply_updates(w, updates), state


@functools.partial(jax.pmap, axis_name="examples")
def evaluate(w, x, y):
    return {evaluation}


def main():
    n = jax.local_device_count()
    x = jax.random.normal(jax.random.key(0), (16, 4))
    y = x[:, :3]
    w = jnp.broadcast_to(jnp.ones((4, 3)), (n, 4, 3))
    state = jax.pmap(tx.init)(w)
    for _ in range(2):
        w, state = step(w, state, x.reshape(n, -1, 4), y.reshape(n, -1, 3))
    return w[0], evaluate(w, x.reshape(n, -1, 4), y.reshape(n, -1, 3))[0]


if __name__ == "__main__":
    main()
"""
AVERAGED = 'g = lax.pmean(g, "batch")'


def test_pmaps_of_several_names_are_the_same_devices() -> None:
    """One that has no name as well: they change together, and what is right agrees."""
    text = SEVERAL.format(
        reduction=AVERAGED, evaluation='lax.pmean(loss_of(w, x, y), "examples")'
    )
    found = judged(text)
    assert found.departures == ()
    assert found.compared == ("the devices of pmap", "batch", "examples")


@pytest.mark.parametrize(
    ("reduction", "evaluation", "axis"),
    [
        ("pass", 'lax.pmean(loss_of(w, x, y), "examples")', "batch"),
        (
            'g = lax.psum(g, "batch")',
            'lax.pmean(loss_of(w, x, y), "examples")',
            "batch",
        ),
        (AVERAGED, 'lax.psum(loss_of(w, x, y), "examples")', "examples"),
    ],
)
def test_what_is_wrong_in_one_of_several_pmaps_is_said_of_its_own_axis(
    reduction: str, evaluation: str, axis: str
) -> None:
    """And once."""
    departures = judged(
        SEVERAL.format(reduction=reduction, evaluation=evaluation)
    ).departures
    assert [one.axis for one in departures] == [axis]


AUGMENTED = """
import functools

import jax
import jax.numpy as jnp
from jax import lax


@functools.partial(jax.pmap, axis_name="batch")
def step(w, x, y, key):
    x = x + 0.1 * jax.random.normal(key, x.shape)
    keep = jax.random.bernoulli(jax.random.fold_in(key, 1), 0.8, x.shape)
    g = jax.grad(lambda w: ((jnp.where(keep, x, 0) @ w - y) ** 2).mean())(w)
    g = {reduction}
    return w - 0.1 * g


def main():
    assert jax.local_device_count() == 8
    n = jax.local_device_count()
    x = jax.random.normal(jax.random.key(0), (16, 4))
    w = jnp.broadcast_to(jnp.ones((4, 3)), (n, 4, 3))
    for i in range(2):
        w = step(w, x.reshape(n, -1, 4), x[:, :3].reshape(n, -1, 3), jax.random.split(jax.random.key(i), n))
    return w[0]
"""


def test_what_each_device_draws_for_itself_is_left_out() -> None:
    assert judged(AUGMENTED.format(reduction='lax.pmean(g, "batch")')) == Judgement(
        (), ("batch",), ()
    )


@pytest.mark.parametrize(
    ("reduction", "text"),
    [
        ("g", "a per-device mean along 'batch': call lax.pmean(…, 'batch') first"),
        (
            'lax.psum(g, "batch")',
            "lax.psum gives a value multiplied by the number of devices",
        ),
    ],
)
def test_mistakes_beside_own_draws_are_found(reduction: str, text: str) -> None:
    (departure,) = judged(AUGMENTED.format(reduction=reduction)).departures
    assert text in departure_text(departure)


def test_keys_for_each_device_cannot_be_compared() -> None:
    keyed = PMAP.replace(
        "y = x[:, :3]", "y = jax.random.normal(jax.random.key(n), (16, 3))"
    )
    reason = "batch: the devices are given something else"
    right = judged(keyed.format(reduction='g = lax.pmean(g, "batch")'))
    assert right == Judgement((), (), (reason,))
    wrong = judged(keyed.format(reduction="pass"))
    assert wrong.reasons == (reason,)
    assert [one.axis for one in wrong.drifting] == ["batch"]  # copies of w


PARTS = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("t",))


def local(x, w):
    y = {product}
    rows_each = y.shape[0] // 8
    rows = {part}
    return lax.all_gather({rows}, "t", axis=0, tiled=True)


def main():
    x = jax.random.normal(jax.random.key(0), (32, 16))
    w = jax.random.normal(jax.random.key(1), (16, 24))
    specs = P(None, "t"), P("t", None)
    return jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False)(x, w)


if __name__ == "__main__":
    main()
"""
SUMMED = 'lax.psum(x @ w, "t")'
SLICED = 'lax.dynamic_slice_in_dim(y, lax.axis_index("t") * rows_each, rows_each)'
SPLIT = 'y.reshape(-1, rows_each, 24)[lax.axis_index("t")]'


@pytest.mark.parametrize("part", [SLICED, SPLIT], ids=["sliced", "split"])
def test_a_number_that_gives_a_result_its_shape_changes_with_the_mesh(
    part: str,
) -> None:
    """The size of the mesh is written a second time, and the program is compared as it would be written for another."""
    found = judged(PARTS.format(product=SUMMED, part=part, rows="jnp.tanh(rows)"))
    assert found == Judgement((), ("t",), ())


@pytest.mark.parametrize(
    ("product", "rows"),
    [
        ("x @ w", "jnp.tanh(rows)"),
        ('jnp.where(lax.axis_index("t") == 0, x @ w, 0.0)', "rows"),
        (SUMMED, 'lax.psum(rows, "t")'),
        ('lax.psum(jnp.tanh(x @ w), "t")', "rows"),
    ],
    ids=["not summed", "of the first device", "parts summed", "tanh of a partial sum"],
)
@pytest.mark.parametrize("part", [SLICED], ids=["sliced"])
def test_a_mistake_beside_such_a_number_is_found(
    product: str, rows: str, part: str
) -> None:
    assert judged(PARTS.format(product=product, part=part, rows=rows)).departures


EACH = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("e",))


def local(x, w, v):
    tokens = lax.all_to_all(x.reshape(8, -1, x.shape[-1]), "e", split_axis=0, concat_axis=0)
    out = jnp.tanh(tokens @ {expert})
    return lax.all_to_all(out, "e", split_axis=0, concat_axis=0).reshape(x.shape[0], -1) + v.sum()


def main():
    x = jax.random.normal(jax.random.key(0), (128, 4))
    w = jax.random.normal(jax.random.key(1), (8, 4, 6))
    v = jax.random.normal(jax.random.key(2), (8,))
    return jax.shard_map(local, mesh=mesh, in_specs=(P("e"), P("e"), P()), out_specs=P("e"), check_vma=False)(x, w, v)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    "expert",
    ["w[0]", "jnp.take(w, 0, axis=0)", "lax.index_in_dim(w, 0, keepdims=False)"],
)
def test_a_program_with_one_expert_for_each_device_is_not_compared_with_fewer(
    expert: str,
) -> None:
    found = judged(EACH.format(expert=expert))
    assert found.departures == ()
    assert found.reasons == ("e: each device has one entry of a sharded array",)


ROWS_OVER_TWO_AXES = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P


def step(w, b, x):
    scores = x / jnp.sqrt(jnp.sum(x**2, -1, keepdims=True) + 1.0)
    best = jnp.argmax(scores @ w, axis=-1)
    load = lax.psum(jax.nn.one_hot(best, 4).sum(0), ("d", "e"))
    share = load / jnp.sum(load)
    up = jax.nn.relu(x @ w + {bias})
    return lax.psum(jnp.sum(up), ("d", "e")) / 128 + jnp.max(share)


def main():
    mesh = jax.make_mesh((2, 4), ("d", "e"))
    mapped = jax.shard_map(step, mesh=mesh, in_specs=(P(), P(), P({rows})), out_specs=P())
    x = jnp.sin(jnp.arange(96.0)).reshape(32, 3)
    return mapped(jnp.cos(jnp.arange(12.0)).reshape(3, 4), jnp.ones(4), x)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("rows", ['("d", "e")', '("e", "d")'])
@pytest.mark.parametrize("axis", ["d", "e"])
def test_rows_over_two_axes_are_followed(rows: str, axis: str) -> None:
    right = judged(ROWS_OVER_TWO_AXES.format(bias="b", rows=rows))
    assert right.departures == ()
    assert right.compared == ("d", "e")
    bias = f"b / lax.axis_size({axis!r})"
    wrong = ROWS_OVER_TWO_AXES.format(bias=bias, rows=rows)
    (found,) = judged(wrong).departures
    assert found.axis == axis
    where = found.culprit.step.value.key[0]
    assert bias in wrong.splitlines()[where.place[0] - 1]


DROPOUT = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.sharding import PartitionSpec as P

PARTS = 2


def layer(w, x, key):
    keep = random.bernoulli(key, 0.9, x.shape)
    return jnp.where(keep, x / 0.9, 0.0) @ w


def objective(w, x, key):
    parts = x.reshape(PARTS, x.shape[0] // PARTS, x.shape[1])

    def tick(total, t):
        return total, layer(w, parts[t], random.fold_in(key, t))

    _, ys = lax.scan(jax.checkpoint(tick), 0.0, jnp.arange(PARTS))
    return jnp.sum(ys**2) / 48


def train_step(w, x, key):
    key = random.fold_in(key, lax.axis_index("data"))
    loss, grads = jax.value_and_grad(objective)(w, x, key)
    return w - 0.1 * {gradients}, lax.psum(loss, "data")


def main():
    mesh = jax.make_mesh((2,), ("data",))
    w = random.normal(random.key(0), (4, 4))
    step = jax.shard_map(
        train_step, mesh=mesh, in_specs=(P(), P("data"), P()), out_specs=(P(), P()), check_vma=False
    )
    x = np.random.default_rng(0).normal(size=(48, 4))
    return step(w, x, random.key(1))


if __name__ == "__main__":
    main()
"""


def test_what_each_device_drops_by_itself_in_parts_of_a_batch_is_meant() -> None:
    right = DROPOUT.replace("{gradients}", 'lax.psum(grads, "data")')
    assert judged(right) == Judgement((), ("data",), ())


def test_a_mistake_beside_what_each_device_drops_by_itself_is_found() -> None:
    wrong = DROPOUT.replace("{gradients}", 'lax.pmean(grads, "data")')
    (departure,) = judged(wrong).departures
    line = departure.culprit.step.value.key[0].place[0]
    assert "lax.pmean" in wrong.splitlines()[line - 1]


GROUPED = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((4,), ('d',), axis_types=(jax.sharding.AxisType.Auto,))


def step(w, rows):
    groups = rows.reshape(2, -1, rows.shape[1])
    w = lax.all_gather(w, 'd', tiled=True)

    def loss(w):
        z = jnp.tanh(groups @ w)
        {body}

    return lax.psum_scatter(jax.grad(loss)(w), 'd', tiled=True) / lax.axis_size('d')


if __name__ == '__main__':
    specs = (P('d'), P('d'))
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P('d'), check_vma=False)
    w = jax.random.normal(jax.random.key(0), (8, 8))
    mapped(w, jax.random.normal(jax.random.key(1), (32, 8)))
"""
CENTRED = """center = lax.stop_gradient(lax.pmean(z.mean(axis=1, keepdims=True), 'd'))
        return jnp.mean((z - center) ** 2)"""


@pytest.mark.parametrize(
    ("body", "is_compared"),
    [("return jnp.mean(z ** 2)", True), (CENTRED, False)],
    ids=["rows by themselves", "rows of a group together"],
)
def test_devices_form_groups_of_their_own_rows(
    body: str, is_compared: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which rows are together depends on the number of devices, and may be meant; it is said that this is not
    compared."""
    path = tmp_path / "program.py"
    path.write_text(GROUPED.format(body=body))
    assert main([str(path), "--no-cache", "--statistics"]) == 0
    printed = capsys.readouterr().out
    reason = "d: each device forms groups of its own rows"
    assert (reason in printed) != is_compared


CONTRASTIVE = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P


def loss(w, mine, others):
    one, other = mine @ w, others @ w
    everyone = lax.all_gather(other, "d", tiled=True)
    scores = jax.nn.log_softmax(one @ everyone.T)
    labels = {offset}jnp.arange(one.shape[0])
    chosen = jnp.take_along_axis(scores, labels[:, None], axis=1)
    return -chosen.mean()


def step(w, mine, others):
    return w - 0.1 * lax.pmean(jax.grad(loss)(w, mine, others), "d")


def main():
    mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
    rows = (P("d"), P("d"))
    mapped = jax.shard_map(step, mesh=mesh, in_specs=(P(), *rows), out_specs=P(), check_vma=False)
    w, x, y = (jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate([(6, 4), (32, 6), (32, 6)]))
    return mapped(w, x, y)


if __name__ == "__main__":
    main()
"""


def test_positions_that_every_device_counts_from_zero_are_found() -> None:
    """Labels of the first device's rows, on every device: no average of the gradients makes up for that."""
    right = judged(CONTRASTIVE.format(offset='lax.axis_index("d") * one.shape[0] + '))
    assert right.departures == ()
    wrong = CONTRASTIVE.format(offset="")
    (departure,) = judged(wrong).departures
    labels = next(
        k for k, line in enumerate(wrong.splitlines(), 1) if "labels =" in line
    )
    assert ("program.py", labels) in departure.lines
