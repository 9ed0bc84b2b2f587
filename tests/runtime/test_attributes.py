"""What a program assigns to annotated attributes of objects is checked, or counted where it may be meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import shardtypes as st
from tests.runtime.loading import OURS, load, outcome

SOURCE = """
import dataclasses
import attrs
import chex
import jax
from shardtypes import f32, pytree_dataclass

@pytree_dataclass
class Ours:
    w: f32['M K']
    b: f32['K']

@dataclasses.dataclass
class Plain:
    w: f32['M K']
    b: f32['K']
    note: str = ""

@chex.dataclass
class Chex:
    w: f32['M K']
    b: f32['K']

@attrs.define
class Attrs:
    w: f32['M K']
    b: f32['K']

class Declares:
    w: f32['M K']
    b: f32['K']
    def __init__(self, w, b):
        self.w = w
        self.b = b

class Below(Declares):
    pass

class Holder:
    def __init__(self, inner):
        self.inner = inner

@checked
def put(o, b):
    o.b = b

@checked
def put_inside(o, b):
    o.inner.b = b

@checked
def put_several(o, b):
    o.b, z = b, 1

@checked
def put_to_item(o, b):
    objects = [o]
    objects[0].b = b

@checked
def put_both(o, w, b):
    o.w = w
    o.b = b

@checked
def grow(o, b):
    o.b += b
"""
CLASSES = ("Ours", "Plain", "Chex", "Attrs", "Declares", "Below")
W, B = jnp.ones((2, 3)), jnp.ones(3)


@pytest.fixture(scope="module", params=OURS)
def module(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    return load(tmp_path_factory.mktemp("attributes"), SOURCE, request.param)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize(
    "function", ["put", "put_inside", "put_several", "put_to_item", "grow"]
)
def test_an_attribute_is_checked_when_it_is_assigned(
    module: Any, kind: str, function: str
) -> None:
    def assign(b: Any) -> None:
        made = getattr(module, kind)(w=W, b=B)
        held = module.Holder(made) if function == "put_inside" else made
        getattr(module, function)(held, b)

    assert outcome(lambda: assign(B)) in ("silence", "count")
    for wrong in (B.astype(complex), jnp.ones(()) if function != "grow" else 1j):
        assert outcome(lambda wrong=wrong: assign(wrong)) in (
            ("alarm",) if isinstance(wrong, jax.Array) else ("alarm", "count")
        )


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (jnp.ones(4), "Plain: field 'b' does not go with the other fields"),
        (jnp.ones((5, 3)), "Plain: field 'b' was assigned what does not fit its annotation"),
        (None, "Plain: field 'b' was assigned what does not fit its annotation"),
    ],
)  # fmt: skip
def test_what_may_be_meant_is_counted(module: Any, value: Any, reason: str) -> None:
    made = module.Plain(w=W, b=B)
    before = st._stats.snapshot()["not_possible"].get(reason, 0)
    module.put(made, value)
    assert st._stats.snapshot()["not_possible"].get(reason, 0) == before + 1


def test_right_assignments_pass(module: Any) -> None:
    made = module.Plain(w=W, b=B)
    module.put_both(made, jnp.ones((5, 7)), jnp.ones(7))
    made.note = 3
    assert jax.jit(lambda b: module.put(made, b))(jnp.ones(7)) is None
    traced = module.Ours(w=W, b=B)
    assert jax.vmap(lambda b: module.put(traced, b) or b)(jnp.ones((4, 3))).shape == (4, 3)  # fmt: skip


def test_checks_that_are_off_let_it_pass(tmp_path: Path) -> None:
    module = load(tmp_path, SOURCE, "shardtypes.install_import_hook")
    made = module.Plain(w=W, b=B)
    with st.enabled(False):
        module.put(made, jnp.ones(()))


METHODS = """
from __future__ import annotations
import dataclasses
import jax.numpy as jnp
from shardtypes import f32

@checked
@dataclasses.dataclass
class Cache:
    keys: f32['4']

    def reset(self):
        self.keys = jnp.zeros(4)

    def grow(self):
        self.keys = jnp.zeros(5)

    def local(self):
        size: f32['4'] = jnp.zeros(5)

    @property
    def grown(self):
        self.keys = jnp.zeros(5)

    def __eq__(self, other):
        same = self is other
        return same

@checked
class Plain:
    keys: f32['4']

    def __init__(self, size):
        self.keys = jnp.zeros(size)
"""


@pytest.mark.parametrize("way", OURS)
def test_methods_without_annotations_assign_too(tmp_path: Path, way: str) -> None:
    module = load(tmp_path, METHODS, way)
    cache = module.Cache(jnp.zeros(4))
    cache.reset()
    assert cache == cache
    module.Plain(4)
    for call in (
        cache.grow,
        cache.local,
        lambda: cache.grown,
        lambda: module.Plain(5),
    ):
        with pytest.raises(st.ShapeError, match="dimension 0 is 5, expected 4"):
            call()
