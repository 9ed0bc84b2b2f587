"""How arrays outside of mapped code are sharded: state that is replicated, and what JAX refuses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shardlint.evaluation.judgements import Judgement, judge
from tests.evaluation.test_departures import program
from tests.support import run, run_linter

PROGRAM = """
import jax

jax.config.update("jax_num_cpu_devices", 8)
import jax.numpy as jnp
import numpy as np
import optax
from functools import partial
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"))
whole = NamedSharding(mesh, P())
rows = NamedSharding(mesh, P("data"))
tx = {tx}


def loss(params, x):
    return ((x @ params["w"]["kernel"] + params["w"]["bias"]) ** 2).mean()


def step(params, state, x):
    value, grads = jax.value_and_grad(loss)(params, x)
    updates, state = tx.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


def init():
    return {"w": {"kernel": jnp.ones((8, 16)), "bias": jnp.zeros(16)}}


specs = {"w": {"kernel": P("data", "model"), "bias": P("model")}}
shardings = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)


def main():
    params = {params}
    state = {state}
    run = {run}
    for i in range(2):
        x = jax.device_put(np.sin(np.arange(64.0) + i).reshape(8, 8), rows)
        params, state, value = run(params, state, x)
    return state, params


if __name__ == "__main__":
    state, params = main()
    leaf = jax.tree.leaves(state)[-1]
    print(len({str(shard.index) for shard in leaf.addressable_shards}))
"""

ADAM = "optax.adamw(1e-3)"
SHARDED = "jax.device_put(init(), shardings)"
STATES = """optax.tree_utils.tree_map_params(
        tx, lambda _, s: s, jax.eval_shape(tx.init, params), shardings, transform_non_params=lambda _: whole
    )"""


def source(tx: str, params: str, state: str, run: str) -> str:
    text = PROGRAM.replace("{tx}", tx).replace("{params}", params)
    return text.replace("{state}", state).replace("{run}", run)


RIGHT = source(
    ADAM,
    SHARDED,
    f"jax.jit(tx.init, out_shardings={STATES})(params)",
    f"jax.jit(step, out_shardings=(shardings, {STATES}, whole))",
)
REPLICATED = {
    "results": source(
        ADAM,
        SHARDED,
        "tx.init(params)",
        "jax.jit(step, out_shardings=(shardings, whole, whole))",
    ),
    "arguments too": source(
        ADAM,
        SHARDED,
        "jax.jit(tx.init, out_shardings=whole)(params)",
        "jax.jit(step, in_shardings=(shardings, whole, rows), out_shardings=(shardings, whole, whole))",
    ),
    "placed": source(
        "optax.sgd(0.1, momentum=0.9)",
        SHARDED,
        "jax.device_put(tx.init(params), whole)",
        "jax.jit(step, out_shardings=(shardings, whole, None))",
    ),
    "partial": source(
        ADAM,
        "jax.jit(init, out_shardings=shardings)()",
        "tx.init(params)",
        "partial(jax.jit, out_shardings=(shardings, whole, None))(step)",
    ),
}


def judged(text: str) -> Judgement:
    return judge(program(text))


@pytest.mark.parametrize("text", REPLICATED.values(), ids=REPLICATED)
def test_state_that_is_whole_on_every_device_is_found(text: str) -> None:
    found = judged(text)
    assert {one.beside for one in found.states} == {"0.w.bias", "0.w.kernel"}
    assert found.refusal is None


@pytest.mark.parametrize(
    "text",
    [
        RIGHT,
        # the parameters are replicated themselves
        RIGHT.replace(
            "shardings = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)",
            "shardings = whole",
        ),
        # only the moments are sharded, as with ZeRO
        source(
            ADAM,
            "jax.device_put(init(), whole)",
            "tx.init(params)",
            "jax.jit(step, out_shardings=(whole, jax.tree.map(lambda s: rows if s.ndim else whole, "
            "jax.eval_shape(tx.init, params)), whole))",
        ),
        # nothing says how the state lies
        source(ADAM, SHARDED, "tx.init(params)", "jax.jit(step)"),
    ],
)
def test_other_states_are_not(text: str) -> None:
    found = judged(text)
    assert found.states == ()
    assert found.refusal is None


def test_the_parameters_of_another_layer_say_nothing() -> None:
    text = REPLICATED["results"].replace('"bias": P("model")', '"bias": P()')
    assert {one.beside for one in judged(text).states} == {"0.w.kernel"}


def test_what_loses_its_sharding_after_the_first_call_is_found() -> None:
    text = source(
        ADAM,
        SHARDED,
        "tx.init(params)",
        "jax.jit(lambda *given: (jax.lax.with_sharding_constraint(step(*given)[0], whole), *step(*given)[1:]))",
    )
    (first, *_) = judged(text).states
    assert first.path == first.beside
    assert str(first.parameter) == "P('model')"


@pytest.mark.parametrize("name", ["results", "right"])
def test_jax_holds_the_state_as_is_said(name: str, tmp_path: Path) -> None:
    """The last array of the state, the second moments of the kernel, is cut into as many parts."""
    text = RIGHT if name == "right" else REPLICATED[name]
    (tmp_path / "train.py").write_text(text)
    ended = run([sys.executable, "train.py"], cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["8" if name == "right" else "1"]


INDIVISIBLE = {
    "argument": "jax.device_put(jnp.ones((6, 4)), rows)",
    "tree": "jax.device_put({'a': jnp.ones((8, 4)), 'b': jnp.ones(6)}, rows)",
    "result": "jax.jit(lambda: jnp.ones((6, 4)), out_shardings=rows)()",
    "given": "jax.jit(lambda x: x, in_shardings=rows)(jnp.ones((6, 4)))",
}
PLACES = """
import jax

jax.config.update("jax_num_cpu_devices", 8)
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"))
rows = NamedSharding(mesh, P("data"))


def main():
    {statement}


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("statement", INDIVISIBLE.values(), ids=INDIVISIBLE)
def test_what_cannot_be_divided_is_refused(statement: str) -> None:
    refusal = judged(PLACES.replace("{statement}", statement)).refusal
    assert refusal is not None
    assert refusal.code == "ST104"
    assert (
        "6 is not divisible by 4, the number of devices along 'data'" in refusal.message
    )


MOVED = [
    (
        "x = jax.device_put(jnp.ones((8, 4)), rows)",
        "jax.jit(jnp.sin, in_shardings=NamedSharding(mesh, P()))(x)",
    ),
    (
        "x = jax.jit(lambda: jnp.ones((8, 4)), out_shardings=rows)()",
        "jax.jit(lambda a, b: b, in_shardings=(rows, NamedSharding(mesh, P(None, 'model'))))(x, x)",
    ),
]
UNMOVED = [
    # inside of another one it is a constraint
    (
        "x = jax.device_put(jnp.ones((8, 4)), rows)",
        "jax.jit(lambda y: jax.jit(jnp.sin, in_shardings=NamedSharding(mesh, P()))(y))(x)",
    ),
    # nothing places it before
    ("x = jnp.ones((8, 4))", "jax.jit(jnp.sin, in_shardings=rows)(x)"),
    (
        "x = jax.device_put(jnp.ones((8, 4)), rows)",
        "jax.jit(jnp.sin, in_shardings=rows)(x + 1)",
    ),
    # None says nothing
    (
        "x = jax.device_put(jnp.ones((8, 4)), rows)",
        "jax.jit(lambda x: x, in_shardings=(None,))(x)",
    ),
]


@pytest.mark.parametrize(("before", "call"), MOVED)
def test_what_lies_otherwise_is_refused(before: str, call: str, tmp_path: Path) -> None:
    text = PLACES.replace("{statement}", f"{before}\n    {call}")
    refusal = judged(text).refusal
    assert refusal is not None
    assert refusal.code == "ST308"
    (tmp_path / "places.py").write_text(text)
    ended = run([sys.executable, "places.py"], cwd=tmp_path)
    assert "does not match the sharding on the respective arg" in ended.stderr


@pytest.mark.parametrize(("before", "call"), UNMOVED)
def test_others_are_taken(before: str, call: str, tmp_path: Path) -> None:
    text = PLACES.replace("{statement}", f"{before}\n    {call}")
    assert judged(text).refusal is None
    (tmp_path / "places.py").write_text(text)
    ended = run([sys.executable, "places.py"], cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr


def test_the_command_says_where_the_state_is_placed(tmp_path: Path) -> None:
    # by hand, which only a run can follow
    text = REPLICATED["placed"].replace(
        "updates, state = tx.update(grads, state, params)",
        "state = jax.tree.map(lambda m, g: 0.9 * m + g, state, grads)\n"
        "    updates = jax.tree.map(lambda m: -0.1 * m, state)",
    )
    text = text.replace("tx.init(params)", "jax.tree.map(jnp.zeros_like, params)")
    (tmp_path / "train.py").write_text(text)
    ended = run_linter("train.py", cwd=tmp_path)
    assert (
        "argument 1.w.bias is replicated (P()), and 1 other, though its parameter, argument 0.w.bias, is sharded "
        "(P('model')): each device holds all of it; give it the same sharding"
        in ended.stdout
    )
    assert ended.stdout.count("ST317") == 1


def test_what_is_known_without_running_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(REPLICATED["results"])
    assert run_linter("train.py", cwd=tmp_path).stdout.count("ST317") == 1


def test_what_is_compiled_is_not_evaluated() -> None:
    text = PLACES.replace(
        "{statement}", "jax.jit(jnp.sin).lower(jnp.ones(3)).compile()"
    )
    outcome = program(text).run(8)
    assert outcome.reason == "the attribute lower of a function under jit"
