"""A value of a subclass is checked by its own fields too, where one of its base is declared."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import attrs
import chex
import equinox
import flax.struct
import jax
import jax.numpy as jnp
import pytest
from typeguard import TypeCheckError

import shardtypes as st
from shardtypes import _stats, f32, pytree_dataclass

T = typing.TypeVar("T")


@flax.struct.dataclass
class Flax:
    w: f32["M F"]


@flax.struct.dataclass
class FlaxMore(Flax):
    b: f32["F"]


class Equinox(equinox.Module):
    w: f32["M F"]


class EquinoxMore(Equinox):
    b: f32["F"]


@chex.dataclass
class Chex:
    w: f32["M F"]


@chex.dataclass
class ChexMore(Chex):
    b: f32["F"]


@dataclasses.dataclass
class Plain:
    w: f32["M F"]


@dataclasses.dataclass
class PlainMore(Plain):
    b: f32["F"]


@attrs.define
class Attrs:
    w: f32["M F"]


@attrs.define
class AttrsMore(Attrs):
    b: f32["F"]


@pytree_dataclass
class Ours:
    w: f32["M F"]


@pytree_dataclass
class OursMore(Ours):
    b: f32["F"]


@dataclasses.dataclass
class Of(typing.Generic[T]):
    w: T


@dataclasses.dataclass
class OfMore(Of[f32["M F"]]):
    b: f32["F"]


@dataclasses.dataclass
class Loose:
    w: f32["..."]
    b: f32["..."]


@dataclasses.dataclass
class Narrow(Loose):
    w: f32["M F"]
    b: f32["F"]


PAIRS: list[tuple[Any, Any]] = [
    (Flax, FlaxMore),
    (Equinox, EquinoxMore),
    (Chex, ChexMore),
    (Plain, PlainMore),
    (Attrs, AttrsMore),
    (Ours, OursMore),
    (Of[f32["M F"]], OfMore),
    (Loose, Narrow),
]


@pytest.mark.parametrize(("base", "cls"), PAIRS)
def test_its_own_fields_are_checked(base: Any, cls: Any) -> None:
    def f(one: Any, items: Any, values: Any) -> None: ...

    f.__annotations__.update(
        one=base | None, items=list[base], values=dict[str, tuple[base, ...]]
    )
    checked = st.typechecked(f)

    def call(b: Any, at: int = 0) -> None:
        parts = [cls(w=jnp.ones((2, 3)), b=jnp.ones(3)) for _ in range(3)]
        parts[at] = cls(w=jnp.ones((2, 3)), b=b)
        checked(parts[0], [parts[1]], {"k": (parts[2],)})

    _stats.reset()
    call(jnp.ones(3))
    assert not _stats.snapshot()["not_possible"]
    for wrong in (jnp.ones(4), jnp.ones((3, 1)), jnp.ones(3, jnp.int32)):
        for at in range(3):
            with pytest.raises(TypeCheckError, match="field 'b'"):
                call(wrong, at)


def test_what_jax_makes_of_it_never_raises() -> None:
    @st.typechecked
    def f(p: Flax) -> Flax:
        return p

    value = FlaxMore(jnp.ones((5, 2, 3)), jnp.ones((5, 3)))  # type: ignore[call-arg]  # flax's decorator adds the base's fields when it runs
    jax.vmap(f)(value)
    f(jax.vmap(f)(value))
    assert any("a stack of Flax" in why for why in _stats.snapshot()["not_possible"])
    f(jax.tree.map(lambda _: jax.sharding.PartitionSpec(), value))


def test_what_is_stacked_has_the_fields_of_its_class() -> None:
    @st.typechecked
    def f(p: st.Array["layers", Ours]) -> None: ...  # type: ignore[valid-type]  # made when it runs

    stacked = st.Array["layers", OursMore]
    f(stacked(w=jnp.ones((5, 2, 3)), b=jnp.ones((5, 3))))
