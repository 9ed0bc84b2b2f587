"""The sizes of a method's object, stacks that `vmap` makes, and classes whose modules are not loaded by their names."""

from __future__ import annotations

import runpy
import sys
import types
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from typeguard import TypeCheckError

from tests.runtime.loading import WAYS, load, outcome

METHODS = """
from __future__ import annotations
from shardtypes import Array, f32, pytree_dataclass

@pytree_dataclass
class Layer:
    w: f32["M F"]

    @checked
    def apply(self, x: f32["B M"]) -> f32["B F"]:
        return x[:, :1] + 0 * self.w[0]

    @checked
    def transposed(self) -> f32["F M"]:
        return self.w

    @checked
    def loses(self, x: f32["B M"]) -> f32["B F"]:
        return x

    @staticmethod
    @checked
    def free(layer, x: f32["B M"]) -> f32["B M"]:
        return x

class Plain:
    w: f32["M F"]

    def __init__(self, w):
        self.w = w

    @checked
    def apply(self, x: f32["B M"]) -> f32["B M"]:
        return x

Layers = Array["layers", Layer]
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_method_names_the_sizes_of_its_object(tmp_path: Path, way: str) -> None:
    module = load(tmp_path, METHODS, way)
    layer, x = module.Layer(jnp.ones((3, 4))), jnp.ones((2, 3))
    assert outcome(lambda: layer.apply(x)) == "silence"
    assert outcome(lambda: layer.apply(jnp.ones((2, 4)))) == "alarm"
    assert outcome(lambda: layer.transposed()) == "alarm"
    assert outcome(lambda: layer.loses(x)) == "alarm"
    assert outcome(lambda: module.Layer.free(layer, jnp.ones((2, 5)))) == "silence"
    plain = module.Plain(jnp.ones((3, 4)))
    assert outcome(lambda: plain.apply(jnp.ones((2, 5)))) == "silence"


@pytest.mark.parametrize("way", WAYS)
def test_a_method_of_what_jax_makes_of_an_object_is_not_refused(
    tmp_path: Path, way: str
) -> None:
    module = load(tmp_path, METHODS, way)
    x = jnp.ones((2, 3))
    assert (
        outcome(lambda: jax.tree.map(lambda _: "axis", module.Layer(x)).loses(x))
        == "count"
    )
    stack = module.Layers(jnp.ones((5, 3, 4)))
    scanned = jax.lax.scan(lambda carry, one: (carry, one.apply(x)), 0, stack)[1]
    assert scanned.shape == (5, 2, 4)
    assert (
        outcome(
            lambda: jax.lax.scan(lambda carry, one: (carry, one.loses(x)), 0, stack)
        )
        == "alarm"
    )


STACKS = """
import equinox
import jax
import jax.numpy as jnp
from shardtypes import f32

class Mixer(equinox.Module):
    w: f32["M F"]
    b: f32["F"]
    activation: object = equinox.field(static=True)

    def __init__(self, key):
        self.w, self.b, self.activation = jax.random.normal(key, (3, 4)), jnp.zeros(4), jax.nn.relu

class Model(equinox.Module):
    mixers: Mixer

    def __init__(self, key):
        self.mixers = equinox.filter_vmap(Mixer)(jax.random.split(key, 5))

@checked
def forward(model: Model, x: f32["B M"]) -> f32["B M"]:
    def step(x, one):
        return x + one.activation(x @ one.w + one.b) @ one.w.T, None
    arrays, rest = equinox.partition(model.mixers, equinox.is_array)
    return jax.lax.scan(lambda x, one: step(x, equinox.combine(one, rest)), x, arrays)[0]

@checked
def take(mixer: Mixer) -> None: ...
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_stack_annotated_as_one_of_its_objects_is_counted(
    tmp_path: Path, way: str
) -> None:
    module = load(tmp_path, STACKS, way)
    equinox = module.equinox
    model = module.Model(jax.random.key(0))
    # only our hook checks classes
    assert outcome(lambda: module.Model(jax.random.key(0))) in ("count", "silence")
    assert outcome(lambda: module.forward(model, jnp.ones((2, 3)))) == "count"
    assert outcome(lambda: module.take(model.mixers)) == "count"
    twice = equinox.filter_vmap(lambda keys: equinox.filter_vmap(module.Mixer)(keys))
    assert (
        outcome(lambda: module.take(twice(jax.random.split(jax.random.key(0), (6, 5)))))
        == "count"
    )
    for wrong in (
        jnp.zeros((5, 7)),
        jnp.zeros((6, 4)),
        jnp.zeros(4),
        jnp.zeros((5, 1, 4)),
        jnp.zeros((5, 4), int),
    ):
        other = equinox.tree_at(lambda model: model.mixers.b, model, wrong)
        assert (
            outcome(lambda other=other: module.forward(other, jnp.ones((2, 3))))
            == "alarm"
        )
        assert outcome(lambda other=other: module.take(other.mixers)) == "alarm"


UNLOADED = """
from __future__ import annotations
import dataclasses
from typing import NamedTuple
from shardtypes import f32, pytree_dataclass, typechecked

@pytree_dataclass
class Tree:
    w: f32["M F"]
    inner: Later | None = None

@typechecked
@dataclasses.dataclass
class Held:
    w: f32["M F"]

class Pair(NamedTuple):
    w: f32["M F"]

@pytree_dataclass
class Later:
    b: f32["F"]

@typechecked
def tree(one: Tree, x: f32["B M"]) -> f32["B F"]:
    return x @ one.w

@typechecked
def held(one: Held) -> None: ...
"""


def _exec(path: Path, **names: Any) -> dict[str, Any]:
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names


def _unloaded(path: Path) -> dict[str, Any]:
    module = sys.modules["unloaded"] = types.ModuleType("unloaded")
    try:
        exec(compile(path.read_text(), str(path), "exec"), vars(module))
    finally:
        del sys.modules["unloaded"]
    return vars(module)


LOADED = {
    "runpy": lambda path: runpy.run_path(str(path)),
    "exec": _exec,
    "taken out of sys.modules": lambda path: _unloaded(path),
    "exec under the name of another module": lambda path: _exec(path, __name__="runpy"),
}


@pytest.mark.parametrize("how", LOADED)
def test_classes_of_modules_that_are_not_loaded_are_checked(
    tmp_path: Path, how: str
) -> None:
    path = tmp_path / "unloaded.py"
    path.write_text(UNLOADED)
    names = LOADED[how](path)
    Tree, Later, x = names["Tree"], names["Later"], jnp.ones((2, 3))
    w = jnp.ones((3, 4))
    assert names["tree"](Tree(w, Later(jnp.ones(4))), x).shape == (2, 4)
    for wrong in (Tree(w.T), Tree(w, Later(jnp.ones(3))), Tree(w[0])):
        with pytest.raises(TypeCheckError):
            names["tree"](wrong, x)
    names["held"](names["Held"](w))
    with pytest.raises(TypeCheckError):
        names["held"](names["Held"](w[0]))
