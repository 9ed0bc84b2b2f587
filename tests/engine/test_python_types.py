"""Questions that programs ask about types: ``type(x) is C``, names of types, functions that only ask."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from shardlint.engine import run
from shardlint.engine.python_types import ARRAY_TYPES
from shardlint.lower import lower
from shardlint.project import Project
from shardlint.values import ArrayValue

HEAD = """
import dataclasses
import jax
import jax.numpy as jnp

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Quantized:
    entries: jax.Array
    scale: jax.Array

    def whole(self):
        return self.entries * self.scale

is_a = lambda x, cls: type(x).__name__ == cls.__name__ and type(x).__module__ == cls.__module__

def is_array(x):
    \"\"\"Whether it is no object of ours.\"\"\"
    return type(x) is not Quantized
"""
TESTS = {
    "by its name": "is_a(w, Quantized)",
    "by its class": "type(w) is Quantized",
    "equal classes": "type(w) == Quantized",
    "by a function": "not is_array(w)",
    "and something else": "w is not None and is_a(w, Quantized)",
}
BODY = """
def f(x, w: jax.Array | Quantized):
    y = jnp.einsum('bd,df->bf', x, w.entries) * w.scale if {test} else jnp.einsum('bd,df->bf', x, w)
    return y

def plain(x: jax.Array, w: jax.Array):
    made = f(x, w)
    return made

def quantized(x: jax.Array):
    twice = f(x, Quantized(jnp.ones((3, 4)), jnp.ones((4,))))
    return twice

def narrowed(x, w: jax.Array | Quantized):
    if {test}:
        held = w.whole()
    else:
        other = w + 1
"""


def seen(text: str) -> dict[str, object]:
    module = lower(text.encode(), "case", "case.py").module
    analysis = run(Project({"case": module}), module)
    assert not analysis.it.events
    return {name: value for _, (name, value) in analysis.it.seen.items()}


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
def test_a_branch_is_chosen_by_type(test: str) -> None:
    found = seen(HEAD + BODY.format(test=test))
    for name in ("made", "twice"):
        value = found[name]
        assert isinstance(value, ArrayValue)
        assert value.dims is not None
        assert len(value.dims) == 2
    assert isinstance(found["other"], ArrayValue)


def test_subclasses_are_left_open() -> None:
    below = "class Finer(Quantized):\n    pass\n"
    found = seen(HEAD + below + BODY.format(test="type(w) is Quantized"))
    assert not isinstance(found["other"], ArrayValue)


@pytest.mark.parametrize("name", ["__name__", "__qualname__", "__module__"])
def test_what_classes_are_called(name: str) -> None:
    found = seen(
        f"{HEAD}\nheld = Quantized.{name}\nsame = type(Quantized(1, 2)).{name}\n"
    )
    assert found["held"] == found["same"]
    assert found["held"].value == ("case" if name == "__module__" else "Quantized")


def test_arrays_are_of_these_types() -> None:
    """Those of JAX, inside and outside of transformations."""
    kinds: set[str] = set()

    def note(x: jax.Array) -> jax.Array:
        kinds.add(type(x).__name__)
        return x.sum()

    x = jnp.ones((2, 3))
    note(x)
    jax.jit(note)(x)
    jax.vmap(note)(x)
    jax.grad(note)(x)
    jax.jvp(note, (x,), (x,))
    jax.linearize(note, x)
    jax.jit(jax.vmap(jax.grad(note)))(x)
    jax.lax.scan(lambda c, row: (c + note(row), None), 0.0, x)
    jax.checkpoint(note)(x)
    mesh = jax.make_mesh(
        (1,),
        ("x",),
        devices=jax.devices()[:1],
        axis_types=(jax.sharding.AxisType.Auto,),
    )
    spec = jax.P("x")
    jax.shard_map(lambda a: note(a)[None], mesh=mesh, in_specs=spec, out_specs=spec)(x)
    assert len(kinds) > 3
    assert kinds <= {one.qualname.rpartition(".")[2] for one in ARRAY_TYPES}
