"""Copies of parameters that drift apart under ``pmap``, and of which a program takes one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluation.running import in_jax
from tests.evaluation.test_entries import judged_as_program

HEAD = """
from functools import partial
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import jax_utils
from flax.training import common_utils

tx = optax.sgd(0.1, momentum=0.9)


def loss(w, x):
    return jnp.mean(jnp.square(x @ w - 1.0))


def mean(tree):
    return jax.lax.pmean(tree, "dev")


def rows():
    return np.random.default_rng(0).standard_normal((16, 4), dtype=np.float32)


"""
#: The step with its gradients, and what the program does with the results.
PLAIN = """
@partial(jax.pmap, axis_name="dev")
def step(w, x):
    grads = jax.grad(loss)(w, x)
    return w - 0.1 * {grads}


def main():
    w = jax_utils.replicate(jnp.ones(4))
    x = common_utils.shard(rows())
    for _ in range(2):
        w = step(w, x)
    return {taken}


main()
"""
STATE = """
class Trainer:
    def __init__(self, count):
        w = {{"w": jnp.ones(4)}}
        copies = lambda leaf: jnp.stack([leaf] * count)
        self.state = jax.tree.map(copies, (w, tx.init(w)))

    @partial(jax.pmap, axis_name="dev", static_broadcasted_argnums=0)
    def step(self, state, x):
        w, opt = state
        value, grads = jax.value_and_grad(lambda w: loss(w["w"], x))(w)
        updates, opt = tx.update({grads}, opt, w)
        return (optax.apply_updates(w, updates), opt), mean(value)

    def run(self, x):
        for _ in range(3):
            self.state, value = self.step(self.state, x)


def main():
    trainer = Trainer(jax.local_device_count())
    trainer.run(common_utils.shard(rows()))
    state = trainer.state
    return {taken}


main()
"""
OWN = PLAIN.replace(
    "jax_utils.replicate(jnp.ones(4))",
    "jax.random.normal(jax.random.key(0), (jax.device_count(), 4))",
)
STATISTICS = """
@partial(jax.pmap, axis_name="dev")
def step(w, seen, x):
    grads = mean(jax.grad(loss)(w, x))
    return w - 0.1 * grads, 0.9 * seen + 0.1 * {grads}


def main():
    w, seen = jax_utils.replicate((jnp.ones(4), jnp.zeros(4)))
    x = common_utils.shard(rows())
    for _ in range(2):
        w, seen = step(w, seen, x)
    return {taken}


main()
"""
#: What all devices are given, and what one of them returns for all, is not copied for each.
ONE_FOR_ALL = """
@partial(jax.pmap, axis_name="dev", in_axes=(None, 0), out_axes=(None, None))
def step(w, x):
    value, grads = jax.value_and_grad(loss)(w, x)
    return w - 0.1 * {grads}, mean(value)


def main():
    w = {taken}
    x = common_utils.shard(rows())
    for _ in range(2):
        w, value = step(w, x)
    return w, value


main()
"""
FIRST = "jax.tree.map(lambda leaf: leaf[0], state)[0]"
WRONG = {
    "unreplicated": (PLAIN, "grads", "jax_utils.unreplicate(w)"),
    "the first one": (PLAIN, "grads", "w[0]"),
    "the last one as numbers": (PLAIN, "grads", "np.asarray(w[-1])"),
    "in an object": (STATE, "grads", FIRST),
    "unreplicated in an object": (STATE, "grads", "jax_utils.unreplicate(state)"),
}
RIGHT = {
    "averaged": (PLAIN, "mean(grads)", "jax_utils.unreplicate(w)"),
    "averaged in an object": (STATE, "mean(grads)", FIRST),
    "all are taken": (PLAIN, "grads", "np.asarray(w)"),
    "averaged in the end": (
        PLAIN,
        "grads",
        'jax.pmap(mean, axis_name="dev")(w)[0]',
    ),
    "averaged as numbers": (PLAIN, "grads", "np.asarray(w).mean(0)"),
    "models of their own": (OWN, "grads", "w[0]"),
    "one for all": (ONE_FOR_ALL, "mean(grads)", "jnp.zeros(4)"),
    "one scalar for all": (
        ONE_FOR_ALL.replace("(loss)(w, x)", "(lambda s: loss(s * jnp.ones(4), x))(w)"),
        "mean(grads)",
        "jnp.ones(())",
    ),
    "statistics of what each has seen": (STATISTICS, "x.mean(0)", "seen[0]"),
}


def program(text: str, grads: str, taken: str) -> str:
    return HEAD + text.format(grads=grads, taken=taken)


@pytest.mark.once
@pytest.mark.parametrize("name", WRONG)
def test_copies_that_drift_apart_are_found(name: str) -> None:
    text = program(*WRONG[name])
    (found,) = judged_as_program(text).drifting
    lines = text.splitlines()
    assert found.axis == "dev"
    assert found.function == "step"
    assert found.first != found.second
    made = lines[found.where.place[0] - 1]
    assert "grads" in made or "apply_updates" in made
    assert "return" in lines[found.taken.place[0] - 1]


@pytest.mark.once
@pytest.mark.parametrize("name", RIGHT)
def test_what_may_be_meant_is_not(name: str) -> None:
    judgement = judged_as_program(program(*RIGHT[name]))
    assert judgement.drifting == ()
    assert judgement.has_run


ALIKE = """
def judged(leaves):
    copies = [np.asarray(leaf) for leaf in leaves]
    return all(np.allclose(one, one[:1]) for one in copies)
"""


def test_copies_differ_in_jax(tmp_path: Path) -> None:
    """Each of the wrong programs, with all copies returned."""
    programs = {
        f"{kind} {grads}": program(text, grads, taken)
        for kind, text, taken in (("plain", PLAIN, "w"), ("object", STATE, "state"))
        for grads in ("grads", "mean(grads)")
    }
    alike = in_jax(tmp_path, programs, ALIKE)
    assert alike == {name: name.endswith("mean(grads)") for name in programs}
