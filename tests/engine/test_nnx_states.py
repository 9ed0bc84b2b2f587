"""Modules of ``flax.nnx`` that are split, merged and given other arrays, held against flax."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from shardlint.engine import analyze, run
from shardlint.lower import lower
from shardlint.project import Project
from shardlint.values import ArrayValue

pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore:'.value' .* is now deprecated"),
]

HEAD = """
import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

class Block(nnx.Module):
    def __init__(self, rngs):
        self.scale = nnx.Param(jnp.ones((6,)))
        self.mix = nnx.Linear(6, 6, rngs=rngs)

    def __call__(self, x):
        return self.mix(x * self.scale)

class Net(nnx.Module):
    def __init__(self, rngs):
        self.blocks = nnx.List([Block(rngs) for _ in range(2)])
        self.head = nnx.Param(jnp.ones((6, 3)))
        self.seen = nnx.BatchStat(jnp.zeros((4, 6)))

    def __call__(self, x):
        for block in self.blocks:
            x = block(x)
        return x @ self.head

    def grow(self, rows):
        self.seen.value = jnp.concatenate([self.seen.value, rows])

X = jnp.ones((2, 6))
net = Net(nnx.Rngs(0))
"""
#: What a program does, and the arrays whose shapes the linter has to know.
KNOWN = {
    "merged": (
        """
        graphdef, state = nnx.split(net)
        y = nnx.merge(graphdef, state)(X)
        """,
        ["y"],
    ),
    "filters": (
        """
        graphdef, params, rest = nnx.split(net, nnx.Param, ...)
        def loss(params, x):
            return nnx.merge(graphdef, params, rest)(x)
        y = loss(params, X)
        """,
        ["y"],
    ),
    "structure and state": (
        """
        y = nnx.merge(nnx.graphdef(net), nnx.state(net)).head
        params, stats = nnx.state(net, nnx.Param, nnx.BatchStat)
        z = params.head
        """,
        ["y", "z"],
    ),
    "another array in a variable": (
        """
        old, same = net.head.value, net.head.get_value()
        net.head.value = jnp.ones((6, 4))
        y = net(X)
        net.head[...] = jnp.zeros((6, 4))
        z = net(X)
        net.head.set_value(jnp.ones((6, 7)))
        w = net(X)
        """,
        ["old", "same", "y", "z", "w"],
    ),
    "an item of a variable": (
        """
        net.head[0] = jnp.ones((3,))
        y = net.head
        """,
        ["y"],
    ),
    "a variable by another name": (
        """
        ones = jnp.ones((6, 3))
        net.head = nnx.Param(ones)
        head = net.head
        head.value = jnp.ones((6, 8))
        y = net.head
        """,
        ["ones", "y"],
    ),
    "a state shares the variables": (
        """
        graphdef, state = nnx.split(net)
        state.head.value = jnp.ones((6, 2))
        y = net.head
        z = nnx.merge(graphdef, state).head
        """,
        ["y"],
    ),
    "a merged module shares them": (
        """
        again = nnx.merge(*nnx.split(net))
        again.head.value = jnp.ones((6, 2))
        y = net.head
        again.head = nnx.Param(jnp.ones((6, 9)))
        z = net.head
        """,
        ["y", "z"],
    ),
    "a clone does not": (
        """
        other = nnx.clone(net)
        other.head.value = jnp.ones((6, 2))
        y = net.head
        z = other.head
        """,
        ["y", "z"],
    ),
}
#: Programs of which less is known.
OTHER = {
    "stacked": """
        graphdef, state = nnx.split(net)
        many = jax.tree.map(lambda x: jnp.stack([x, x]), state)
        y = nnx.merge(graphdef, many).head
        """,
    "scanned": """
        graphdef, state = nnx.split(net)
        many = jax.tree.map(lambda x: jnp.stack([x, x]), state)
        def body(x, one):
            return x + jnp.sum(nnx.merge(graphdef, one).head), None
        y, _ = lax.scan(body, 0.0, many)
        """,
    "sliced": """
        graphdef, state = nnx.split(net)
        def body(x, one):
            return x, nnx.merge(graphdef, one).head
        _, y = lax.scan(body, 0.0, {"head": state.head} and jax.tree.map(lambda x: x[None], state))
        """,
    "mapped": """
        graphdef, state = nnx.split(net)
        many = jax.tree.map(lambda x: jnp.stack([x, x]), state)
        y = jax.vmap(lambda one: nnx.merge(graphdef, one)(X))(many)
        """,
    "grown in a method": """
        net.grow(jnp.ones((3, 6)))
        y = net.seen.value
        """,
    "an entry": """
        graphdef, state = nnx.split(net)
        state["head"] = nnx.Param(jnp.ones((6, 2)))
        y = nnx.merge(graphdef, state).head
        """,
    "by numbers": """
        graphdef, state = nnx.split(net)
        pure = nnx.to_pure_dict(state)
        pure["head"] = jnp.ones((6, 2))
        nnx.replace_by_pure_dict(state, pure)
        y = nnx.merge(graphdef, state).head
        """,
    "updated": """
        graphdef, state = nnx.split(net)
        nnx.update(net, jax.tree.map(lambda x: jnp.stack([x, x]), state))
        y = net.head
        """,
}


def program(body: str) -> str:
    return HEAD + "\ndef f():\n" + _main(body)


def _main(body: str) -> str:
    lines = "net = Net(nnx.Rngs(0))\n" + textwrap.dedent(body).strip()
    return textwrap.indent(lines, "    ") + "\n    return locals()\n"


def known(source: str) -> dict[str, tuple[int | None, ...]]:
    """The shapes of arrays that the linter knows, by name; of several, the last one."""
    module = lower(source.encode(), "example", "example.py").module
    seen = run(Project({"example": module}), module).it.seen
    found: dict[str, tuple[int | None, ...]] = {}
    for _, (name, value) in sorted(
        (at, (name, value)) for (at, _), (name, value) in seen.items()
    ):
        found.pop(name, None)
        if isinstance(value, ArrayValue) and value.dims is not None:
            found[name] = tuple(
                None if dim.size is None else dim.size.constant for dim in value.dims
            )
    return found


def computed(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(source, names)
    found: dict[str, Any] = names["f"]()
    return found


def agree(inferred: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    pairs = zip(inferred, shape, strict=False)
    return len(inferred) == len(shape) and all(
        size in (None, real) for size, real in pairs
    )


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known_is_what_flax_gives(name: str) -> None:
    body, wanted = KNOWN[name]
    source = program(body)
    inferred, real = known(source), computed(source)
    assert inferred.keys() >= set(wanted)
    for array in wanted:
        assert agree(inferred[array], real[array].shape), array


@pytest.mark.parametrize("name", OTHER)
def test_nothing_wrong_is_known_of_other_arrays(name: str) -> None:
    source = program(OTHER[name])
    inferred, real = known(source), computed(source)
    if "y" in inferred:
        assert agree(inferred["y"], real["y"].shape)


def test_a_wrong_argument_of_a_merged_module_is_found() -> None:
    body = """
    graphdef, params, rest = nnx.split(net, nnx.Param, ...)
    def loss(params, x):
        return jnp.mean(nnx.merge(graphdef, params, rest)(x))
    grads = jax.grad(loss)(params, jnp.ones((2, 5)))
    """
    module = lower(program(body).encode(), "example", "example.py").module
    codes = [one.code for one in analyze(Project({"example": module}), module)]
    assert codes == ["ST204"]
