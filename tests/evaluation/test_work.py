"""What bounds a program that is run in numbers: its steps, and the work of what it calls."""

from __future__ import annotations

import textwrap

import pytest

from shardlint.evaluation import guards, meshes, modules
from shardlint.evaluation.errors import OutOfBudget
from shardtypes.semantics import work
from shardtypes.semantics.primitive import evaluation

STEPS = 100_000


def steps_of(body: str, steps: int = STEPS) -> int:
    """How many steps ``main()`` of a program takes."""
    text = "import jax\nimport jax.numpy as jnp\n\ndef main():\n" + textwrap.indent(
        textwrap.dedent(body), "    "
    )
    world = modules.World(
        lambda name, importer: (
            ("program", "program.py", text) if name == "program" else None
        )
    )
    run = guards.Run(steps)
    with (
        evaluation(),
        meshes.on_machine(meshes.Machine(1)),
        guards.running(run),
    ):
        module = world.module("program")
        assert module is not None
        module.names["main"]()
    return steps - run.steps


TREES = """
tree = {{str(i): i for i in range({leaves})}}
for _ in range({times}):
    jax.tree.leaves(tree)
"""


def test_a_tree_takes_as_many_steps_as_it_has_leaves() -> None:
    once = steps_of(TREES.format(leaves=1000, times=1))
    often = steps_of(TREES.format(leaves=1000, times=41))
    small = steps_of(TREES.format(leaves=1, times=41))
    assert once + 40 * 1000 // guards.WORK <= often
    assert small - steps_of(TREES.format(leaves=1, times=1)) < often - once


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("jnp.sin(jnp.ones(3))", "jax.grad(lambda x: jax.nn.softmax(x)[0])(jnp.ones(3))"),
        ("jnp.cumsum(jnp.ones(3))", "jnp.linalg.multi_dot([jnp.ones((3, 3))] * 9)"),
    ],
)  # fmt: skip
def test_a_call_takes_the_steps_of_what_it_computes(short: str, long: str) -> None:
    repeated = "for _ in range(40):\n    {}"
    costs = [steps_of(repeated.format(call)) for call in (short, long)]
    assert costs[1] > costs[0] + 40 * work.OF_PRIMITIVE // guards.WORK


def test_the_work_of_calls_is_bounded() -> None:
    with pytest.raises(OutOfBudget, match=guards.TOO_MANY_STEPS):
        steps_of(TREES.format(leaves=1000, times=41), steps=1000)


def test_work_outside_of_an_evaluation_is_not_counted() -> None:
    told: list[int] = []
    with work.telling(told.append):
        work.tell(3)
    work.tell(4)
    assert told == [3]


#: What is multiplied, how many numbers that are, and something with as many entries.
PRODUCTS = {
    "a product": ("x @ x", 300**3, "x + x"),
    "of stacks": (
        "jnp.einsum('bij,bjk->bik', x.reshape(2, 150, 300), x.reshape(2, 300, 150))",
        2 * 150 * 300 * 150,
        "x.reshape(2, 150, 300)[:, :, :150] + 1.0",
    ),
    "a convolution": (
        "jax.lax.conv(x.reshape(1, 100, 30, 30), jnp.ones((100, 100, 3, 3)), (1, 1), 'SAME')",
        100 * 30 * 30 * 9 * 100,
        "(x.reshape(1, 100, 30, 30) + 1, jnp.ones((100, 100, 3, 3)))",
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_what_is_multiplied_takes_steps(name: str) -> None:
    """More than the entries of operands and results."""
    product, multiplied, alike = PRODUCTS[name]
    program = "x = jnp.ones((300, 300))\n"
    difference = steps_of(program + product) - steps_of(program + alike)
    assert difference >= multiplied // work.PRODUCTS // guards.WORK > 10
