"""Programs are run as without arguments, in empty surroundings: what they begin with is followed."""

from __future__ import annotations

import pytest

from shardlint.evaluation.judgements import NOTHING_MAPPED
from tests.evaluation.functions import HEAD
from tests.evaluation.test_entries import judged_as_program

pytestmark = pytest.mark.once  # JAX has no part in it

STEP = """
def make(scale):
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=P("d"), out_specs=P(), check_vma=False)
    def loss(x):
        return lax.psum({loss}, "d") * scale
    return loss
"""
WITHOUT_MESH = HEAD[: HEAD.index("mesh =")]
RIGHT, WRONG = "jnp.sum(x ** 2)", "jnp.sum(jnp.sum(x, axis=0) ** 2)"

PROGRAMS = {
    "argparse": """
import argparse

def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--scale", type=float, default=2.0, help="of the loss")
    parser.add_argument("--rows", "-r", type=int, default=16)
    parser.add_argument("--fast", action="store_true")
    group = parser.add_argument_group("others")
    group.add_argument("--kind", choices=["a", "b"], default="a")
    return parser.parse_args()

if __name__ == "__main__":
    args = options()
    args.columns = 3
    make(args.scale)(jnp.ones((args.rows, vars(args)["columns"])))
""",
    "argparse_unknown": """
import argparse

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", default=2.0)
    args, rest = parser.parse_known_args()
    make(args.scale)(jnp.ones((16, 4)))
""",
    "absl": """
from absl import app, flags, logging

_ROWS = flags.DEFINE_integer("rows", 16, "how many", lower_bound=1)
flags.DEFINE_float("scale", default=2.0, help="of the loss")
FLAGS = flags.FLAGS

def main(argv):
    del argv
    logging.info("scale %s", FLAGS.scale)
    make(FLAGS.scale)(jnp.ones((_ROWS.value, 3)))

if __name__ == "__main__":
    app.run(main)
""",
    "tyro": """
import dataclasses
import tyro

@dataclasses.dataclass
class Config:
    rows: int = 16
    scale: float = 2.0

if __name__ == "__main__":
    config = tyro.cli(Config)
    make(config.scale)(jnp.ones((config.rows, 3)))
""",
    "fire": """
import fire

def train(rows=16, scale=2.0):
    make(scale)(jnp.ones((rows, 3)))

if __name__ == "__main__":
    fire.Fire(train)
""",
    "surroundings": """
import logging
import os
import sys
import warnings

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
logger = logging.getLogger(__name__)

def main():
    logging.basicConfig(level=logging.INFO)
    warnings.filterwarnings("ignore")
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    if "NAME" in os.environ or os.getenv("OTHER"):
        rows = 1
    logger.info("%d rows", rows)
    make(2.0)(jnp.ones((rows, 3)))
    return 0

if __name__ == "__main__":
    sys.exit(main())
""",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_programs_run_with_the_defaults_of_their_options(program: str) -> None:
    right = judged_as_program(HEAD + STEP.format(loss=RIGHT) + program)
    assert right.departures == ()
    assert right.compared == ("d", "t") and right.reasons == ()
    wrong = judged_as_program(HEAD + STEP.format(loss=WRONG) + program)
    assert [one.axis for one in wrong.departures] == ["d"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            'parser.add_argument("rows", type=int)',
            "its command line: the following arguments are required: rows",
        ),
        (
            'parser.add_argument("--rows", type=int, required=True)',
            "its command line: the following arguments are required: --rows",
        ),
    ],
)
def test_options_without_a_default_are_a_reason(options: str, reason: str) -> None:
    program = f"""
import argparse

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    {options}
    make(2.0)(jnp.ones((parser.parse_args().rows, 3)))
"""
    judgement = judged_as_program(HEAD + STEP.format(loss=RIGHT) + program)
    assert judgement.reasons == (reason,)


@pytest.mark.parametrize(
    "end", ["raise SystemExit(0)", "raise SystemExit", "import sys; sys.exit()"]
)
def test_a_program_that_ends_itself_was_run(end: str) -> None:
    program = f"""
if __name__ == "__main__":
    make(2.0)(jnp.ones((16, 3)))
    {end}
"""
    right = judged_as_program(HEAD + STEP.format(loss=RIGHT) + program)
    assert right.compared == ("d", "t") and right.reasons == ()
    wrong = judged_as_program(HEAD + STEP.format(loss=WRONG) + program)
    assert [one.axis for one in wrong.departures] == ["d"]


@pytest.mark.parametrize(
    "main", ["import unittest\n", "from absl.testing import absltest as unittest\n"]
)
def test_a_file_that_runs_its_tests_is_no_program(main: str) -> None:
    program = f"""
{main}
if __name__ == "__main__":
    unittest.main()
"""
    judgement = judged_as_program(HEAD + STEP.format(loss=RIGHT) + program)
    assert judgement.reasons == (NOTHING_MAPPED,)


def test_runs_do_not_share_what_they_set() -> None:
    program = """
import os
from absl import app, flags

def main(argv):
    rows = 16 if "ROWS" not in os.environ else 3
    os.environ["ROWS"] = "3"
    make(2.0)(jnp.ones((rows, 3)))

if __name__ == "__main__":
    app.run(main)
"""
    for _ in range(2):
        judgement = judged_as_program(HEAD + STEP.format(loss=RIGHT) + program)
        assert judgement.compared == ("d", "t")


# --- sizes that follow from that of the mesh --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mesh",
    [
        'jax.make_mesh((count // side, side), ("d", "t"))',
        'jax.make_mesh((count // side, side), ("d", "t"), devices=jax.devices()[:count])',
        'Mesh(np.array(jax.devices()[:count]).reshape(count // side, side), ("d", "t"))',
    ],
)
def test_the_number_of_all_devices_is_written_besides(mesh: str) -> None:
    program = f"""
import numpy as np
from jax.sharding import Mesh

def main(count=8, wanted=4):
    side = min(wanted, count)
    mesh = {mesh}
    step = jax.shard_map(
        lambda x: lax.psum({{loss}}, ("d", "t")), mesh=mesh, in_specs=P("d", "t"), out_specs=P(), check_vma=False
    )
    step(jnp.arange(128.0).reshape(16, 8))

if __name__ == "__main__":
    main()
"""
    right = judged_as_program(WITHOUT_MESH + program.format(loss=RIGHT))
    assert right.departures == () and right.compared == ("d", "t")
    wrong = judged_as_program(WITHOUT_MESH + program.format(loss=WRONG))
    assert [one.axis for one in wrong.departures] == ["d"]


# --- optimizer states that are sharded in one vector ------------------------------------------------------------------

ZERO = """
from jax.flatten_util import ravel_pytree

def main():
    count = jax.device_count()
    params = {{"w": jnp.linspace(-1.0, 1.0, 15).reshape(5, 3), "b": jnp.ones((3,))}}
    vector, unravel = ravel_pytree(params)
    padding = -vector.size % count
    mu = jnp.zeros((count, (vector.size + padding) // count))

    @functools.partial(jax.pmap, axis_name="d", in_axes=(None, 0, 0))
    def step(params, mu, x):
        grads = jax.grad(lambda p: jnp.mean((x @ p["w"] + p["b"]) ** 2))(params)
        flat = jnp.pad(ravel_pytree(grads)[0], (0, padding))
        own = lax.psum_scatter(flat, "d", tiled=True){divided}
        mu = 0.9 * mu + own
        updates = lax.all_gather(mu, "d", tiled=True)[: vector.size]
        return jax.tree.map(lambda p, u: p - 0.1 * u, params, unravel(updates)), mu

    x = jnp.sin(jnp.arange(80.0)).reshape(count, -1, 5)
    new, mu = step(params, mu, x)

if __name__ == "__main__":
    main()
"""


def test_padding_to_a_multiple_of_the_devices_is_no_difference() -> None:
    right = judged_as_program(WITHOUT_MESH + ZERO.format(divided=" / count"))
    assert right.departures == () and right.compared == ("d",)
    wrong = judged_as_program(WITHOUT_MESH + ZERO.format(divided=""))
    assert [one.axis for one in wrong.departures] == ["d"]


# --- cotangents of what leaves mapped code ----------------------------------------------------------------------------


def test_a_weight_that_is_added_last_gets_the_sum_of_all_cotangents() -> None:
    program = """
def model(w, x):
    inner = jax.shard_map(
        lambda w, x: jnp.tanh(x) + w[:, None], mesh=mesh, in_specs=(P("t"), P("t", "d")), out_specs=P("t", "d")
    )
    return jnp.sum(inner(w, x) ** 2)

def main():
    w, x = jnp.linspace(-1.0, 1.0, 8), jnp.sin(jnp.arange(128.0)).reshape(8, 16)
    grads = jax.grad(model)(w, x)
    again = jax.shard_map(lambda g: g * 2, mesh=mesh, in_specs=P("t"), out_specs=P("t"))(grads)
    print(float(again.sum()))

if __name__ == "__main__":
    main()
"""
    judgement = judged_as_program(HEAD + program)
    assert judgement.reasons == ()
    assert judgement.departures == () and judgement.compared == ("d", "t")


@pytest.mark.parametrize(
    ("start", "step", "refused"),
    [
        ("jnp.float32(0)", "c + jnp.sum(x)", ""),
        ("0", "c + jnp.sum(x)", ""),
        ("0.0", "c + jnp.sum(x)", ""),
        ("jnp.zeros(())", "c + jnp.sum(x).astype(jnp.int32)", ""),
        (
            "jnp.int32(0)",
            "c + jnp.sum(x)",
            "the carry is int32 before a step of the loop and float32 after it",
        ),
        (
            "jnp.zeros((), jnp.bfloat16)",
            "c + jnp.sum(x)",
            "the carry is bfloat16 before a step of the loop and float32 after it",
        ),
        (
            "jnp.zeros(3)",
            "jnp.concatenate([c, x])",
            "the carry is of shape (3,) before a step of the loop and of shape (6,) after it",
        ),
    ],
)
@pytest.mark.parametrize(
    "loop",
    [
        "lax.scan(lambda c, x: ({step}, None), {start}, x)[0]",
        "lax.fori_loop(0, 3, lambda i, c: (lambda x: {step})(x[i]), {start})",
    ],
)
def test_carries_keep_their_types(
    loop: str, start: str, step: str, refused: str
) -> None:
    call = loop.format(start=start, step=step)
    program = f"""
def main():
    jax.shard_map(lambda x: ({call}).sum() + x, mesh=mesh, in_specs=P("d"), out_specs=P("d"))(jnp.ones((16, 3)))

if __name__ == "__main__":
    main()
"""
    refusal = judged_as_program(HEAD + program).refusal
    if not refused:
        assert refusal is None
        return
    assert refusal is not None and refusal.code == "ST210"
    assert refused in refusal.message


# --- what JAX refuses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        'lax.all_to_all(x, "t", split_axis=1, concat_axis=0, tiled=True)',
        'lax.psum_scatter(x, "t", scatter_dimension=1, tiled=True)',
    ],
)
def test_what_is_not_divided_among_the_devices_is_refused(call: str) -> None:
    program = f"""
def main():
    jax.shard_map(lambda x: {call}, mesh=mesh, in_specs=P("t"), out_specs=P("t"), check_vma=False)(jnp.ones((8, 6)))

if __name__ == "__main__":
    main()
"""
    refusal = judged_as_program(HEAD + program).refusal
    assert refusal is not None and refusal.code == "ST204"
    assert (
        "a dimension of 6 is not divided by 4, the number of devices along 't'"
        in refusal.message
    )


# --- examples that are grouped ----------------------------------------------------------------------------------------


def test_groups_of_examples_are_not_where_a_departure_begins() -> None:
    program = """
def main():
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(P(), P("d"), P("d")), out_specs=P(), check_vma=False)
    def step(w, x, mask):
        def objective(w):
            groups = x.reshape(2, -1, 4)
            h = jnp.stack([jnp.tanh(group @ w) for group in groups])
            values = h.reshape(-1, 4).sum(axis=-1)
            {loss}
            return loss
        return lax.psum(jax.grad(objective)(w), "d")

    rows = jnp.arange(16.0)
    step(jnp.eye(4), jnp.sin(jnp.outer(rows, jnp.arange(1.0, 5.0))), (rows < 11).astype(jnp.float32))

if __name__ == "__main__":
    main()
"""
    right = 'loss = jnp.sum(values * mask) / lax.psum(mask.sum(), "d")'
    assert judged_as_program(HEAD + program.format(loss=right)).departures == ()
    wrong = "loss = jnp.sum(values * mask) / (mask.sum() + 1)"
    text = HEAD + program.format(loss=wrong)
    (departure,) = judged_as_program(text).departures
    line = departure.culprit.step.value.key[0].place[0]
    assert text.splitlines()[line - 1].strip() == wrong


def test_classes_of_python_are_dtypes() -> None:
    program = """
import numpy as np

def main():
    order = np.arange(16)[::-1].astype(int)
    places = np.zeros(16, int) + order
    flags = np.ones(16, dtype=bool)
    x = np.asarray(np.linspace(0, 1, 48).reshape(16, 3), float)[places][flags]
    make(2.0)(jnp.asarray(x))

if __name__ == "__main__":
    main()
"""
    judgement = judged_as_program(HEAD + STEP.format(loss=RIGHT) + program)
    assert judgement.reasons == () and judgement.compared == ("d", "t")
