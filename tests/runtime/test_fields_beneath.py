"""``@typechecked`` beneath what makes a class one with fields: they are checked where a value is made all the same."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import attrs
import chex
import cloudpickle
import flax.linen
import flax.struct
import jax
import jax.numpy as jnp
import pytest

import shardtypes as st
from shardtypes import _stats, f32

W, B, WRONG = jnp.ones((2, 3)), jnp.ones(3), jnp.ones(4)

DECORATORS: dict[str, Callable[[Any], Any]] = {
    "dataclass": dataclasses.dataclass,
    "frozen": dataclasses.dataclass(frozen=True),
    "slots": dataclasses.dataclass(slots=True),
    "keywords": dataclasses.dataclass(kw_only=True),
    "ours": st.pytree_dataclass,
    "registered": lambda cls: jax.tree_util.register_dataclass(
        dataclasses.dataclass(cls)
    ),
    "flax": flax.struct.dataclass,
    "chex": chex.dataclass,
    "chex, frozen": chex.dataclass(frozen=True),
    "chex, no mapping": chex.dataclass(mappable_dataclass=False),
    "attrs": attrs.define,
    "attrs, frozen": attrs.frozen,
    "attrs, no slots": attrs.define(slots=False),
}
TREES = ("ours", "registered", "flax", "chex", "chex, frozen", "chex, no mapping")


@pytest.fixture(autouse=True)
def _nothing_counted() -> None:
    _stats.snapshot()
    _stats.reset()


def counted() -> set[str]:
    return set(_stats.snapshot()["not_possible"])


def make(kind: Any, w: Any, b: Any) -> Any:
    return kind(w=w, b=b)


def linear(decorator: Callable[[Any], Any]) -> Any:
    @decorator
    @st.typechecked
    class Linear:
        w: f32["M F"]
        b: f32["F"]
        n: int = 1

        def __call__(self, x: f32["B M"]) -> f32["B F"]:
            return x @ self.w + self.b

    return Linear


def replaced(value: Any, **fields: Any) -> Any:
    return (
        attrs.evolve(value, **fields)
        if attrs.has(type(value))
        else dataclasses.replace(value, **fields)
    )


@pytest.mark.parametrize("name", DECORATORS)
def test_fields_are_checked_where_one_is_made(name: str) -> None:
    kind = linear(DECORATORS[name])
    assert make(kind, W, B)(W.T @ W[:, :2]).shape == (3, 3)
    for wrong in ((W, WRONG), (W[0], B), (W.astype(jnp.bfloat16), B)):
        with pytest.raises(st.ShapeError, match=r"^Linear: field '[wb]'"):
            make(kind, *wrong)
        with pytest.raises(st.ShapeError, match=r"^Linear: field '[wb]'"):
            jax.jit(make, static_argnums=0)(kind, *wrong)
    with pytest.raises(
        st.ShapeError, match="field 'b': dimension 0 is 4, expected F = 3"
    ):
        replaced(kind(w=W, b=B), b=WRONG)
    with pytest.raises(st.ShapeError):
        kind(w=W, b=B)(jnp.ones(2))
    assert not counted()
    kind(w=W, b="text")
    assert any(
        "field 'b' was made of what does not fit its annotation" in reason
        for reason in counted()
    )


@pytest.mark.parametrize("name", DECORATORS)
def test_the_class_stays_what_it_is_without(name: str) -> None:
    kind = linear(DECORATORS[name])

    class Linear:
        w: f32["M F"]
        b: f32["F"]
        n: int = 1

    bare = DECORATORS[name](Linear)
    assert str(inspect.signature(kind)) == str(inspect.signature(bare))
    assert (kind.__doc__ or "") == (bare.__doc__ or "")
    value = kind(w=W, b=B)
    for again in (copy.copy(value), copy.deepcopy(value)):
        assert type(again) is kind and again.b.shape == (3,)
    assert hasattr(value, "__dict__") == hasattr(bare(w=W, b=B), "__dict__")


@pytest.mark.parametrize("name", TREES)
def test_what_jax_makes_never_raises(name: str) -> None:
    kind = linear(DECORATORS[name])
    value = kind(w=W, b=B, n=1.0)
    batched = jax.tree.map(lambda x: jnp.stack([x] * 5), value)
    structure = jax.tree.structure(value)
    jax.tree.map(lambda x: None, value)
    jax.tree.unflatten(structure, [1, 2, 3])
    structure.unflatten([jnp.ones(2), object(), 1])
    jax.vmap(lambda v: v.w @ v.b, in_axes=(jax.tree.map(lambda _: 0, value),))(batched)
    jax.jit(lambda v: jax.tree.map(lambda x: x[..., None], v))(value)
    jax.grad(lambda v: (v.w @ v.b).sum())(value)
    jax.lax.scan(lambda c, v: (c + v.w.sum(), v), 0.0, batched)
    assert not counted()


def test_methods_that_run_afterwards_run_first() -> None:
    @dataclasses.dataclass
    @st.typechecked
    class Cast:
        w: f32["M F"]
        cut: dataclasses.InitVar[int]
        b: f32["F"] = dataclasses.field(init=False)

        def __post_init__(self, cut: int) -> None:
            "What it does."
            self.b = self.w[0, : self.w.shape[1] - cut]

    assert Cast(W, 0).b.shape == (3,)
    assert Cast.__post_init__.__doc__ == "What it does."
    with pytest.raises(
        st.ShapeError, match="field 'b': dimension 0 is 2, expected F = 3"
    ):
        Cast(W, 1)

    @attrs.define
    @st.typechecked
    class Attrs:
        w: f32["M F"]
        b: f32["F"] = attrs.field(init=False)

        def __attrs_post_init__(self) -> None:
            self.b = self.w[0]

    assert Attrs(W).b.shape == (3,)
    with pytest.raises(st.ShapeError, match="field 'b'"):
        Attrs(W[0])


def test_subclasses() -> None:
    """A class that is checked checks all its fields once; one that is not may declare others of the same names."""
    seen: list[str] = []

    @dataclasses.dataclass
    @st.typechecked
    class Base:
        w: f32["M F"]

        def __post_init__(self) -> None:
            seen.append("base")

    @dataclasses.dataclass
    @st.typechecked
    class Checked(Base):
        b: f32["F"]

    @dataclasses.dataclass
    class Other(Base):
        w: f32["M"]

    @dataclasses.dataclass
    class Casting(Base):
        def __post_init__(self) -> None:
            super().__post_init__()
            self.w = self.w.astype(jnp.float32)

    class Plain(Base):
        pass

    Checked(W, B)
    Other(W[0])
    Casting(W.astype(int))
    Plain(W)
    assert seen == ["base"] * 4
    for kind, wrong in (
        (Base, (W[0],)),
        (Checked, (W, WRONG)),
        (Checked, (W[0], B)),
        (Plain, (W[0],)),
    ):
        with pytest.raises(st.ShapeError, match="field"):
            kind(*wrong)
    assert not counted()


def test_constructors_of_their_own() -> None:
    def linear() -> Any:
        @st.typechecked
        class Own:
            w: f32["M F"]
            b: f32["F"]

            def __init__(self, w: Any, b: Any) -> None:
                self.w = w
                self.b = b

        return Own

    for decorator in (
        dataclasses.dataclass,
        flax.struct.dataclass,
        attrs.define,
        dataclasses.dataclass(slots=True),
    ):
        if decorator is flax.struct.dataclass:
            continue  # its values are frozen
        kind = decorator(linear())
        kind(W, B)
        with pytest.raises(st.ShapeError, match="field 'b'"):
            kind(W, WRONG)
    assert not counted()
    plain = linear()
    # nothing declares its attributes to be fields: each value is counted
    for _ in range(2):
        _stats.reset()
        plain(W, WRONG)
        assert counted() == {
            f"{plain.__qualname__}: its fields are not checked where one is made",
            "Own: field 'b' does not go with the other fields",
        }


def test_what_never_gets_fields_is_counted() -> None:
    @st.typechecked
    class Never:
        w: f32["M F"]

    assert counted() == {
        f"{Never.__qualname__}: its fields are not checked where one is made"
    }
    assert not vars(Never().__class__).get("__init__")

    @st.typechecked
    class Later:
        w: f32["M F"]

    made = dataclasses.dataclass(slots=True)(Later)
    del Later
    assert len(counted()) == 1 and made(W).w is W


def test_values_are_pickled() -> None:
    kind = linear(flax.struct.dataclass)
    again = pickle.loads(cloudpickle.dumps(kind(w=W, b=B)))
    assert again.b.shape == (3,)


def test_flax_modules_and_partial_calls() -> None:
    @st.typechecked
    class Module(flax.linen.Module):
        scale: f32["M"]

        @flax.linen.compact
        def __call__(self, x: f32["B M"]) -> f32["B M"]:
            return x * self.scale

    assert Module(B).init_with_output(jax.random.key(0), jnp.ones((2, 3)))[0].shape == (
        2,
        3,
    )
    kind = linear(dataclasses.dataclass)
    functools.partial(kind, w=W)(b=WRONG)
    assert any(
        "field 'b' was made of what does not fit" in reason for reason in counted()
    )
