"""Trees of specs, shardings, masks and labels, annotated as the class of arrays that they stand beside."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import flax.struct
import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import _stats, f32, pytree_dataclass, typechecked
from shardtypes.described import is_described


class Named(NamedTuple):
    w: f32["M F"]
    b: f32["F"]


@dataclasses.dataclass
class Plain:
    w: f32["M F"]
    b: f32["F"]


@flax.struct.dataclass
class Flax:
    w: f32["M F"]
    b: f32["F"]


@pytree_dataclass
class Ours:
    w: f32["M F"]
    b: f32["F"]


class Equinox(eqx.Module):
    w: f32["M F"]
    b: f32["F"]


KINDS: list[Any] = [Named, Plain, Flax, Ours, Equinox]
SHARDING = NamedSharding(jax.sharding.Mesh(jax.devices()[:1], ("d",)), P("d"))
DESCRIPTIONS: dict[str, tuple[Any, Any]] = {
    "specs": (P("d", "t"), P()),
    "shardings": (SHARDING, None),
    "a mask": (True, False),
    "labels": ("adam", "sgd"),
}


@pytest.mark.parametrize("what", DESCRIPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_description_is_counted(kind: Any, what: str) -> None:
    @typechecked
    def made() -> kind:
        return kind(*DESCRIPTIONS[what])

    @typechecked
    def several() -> dict[str, list[kind]]:
        return {"layers": [kind(*DESCRIPTIONS[what])] * 2}

    _stats.reset()
    assert isinstance(made(), kind)
    assert len(several()["layers"]) == 2
    reasons = _stats.snapshot()["not_possible"]
    assert any(
        f"a {kind.__name__} of specs, shardings, masks or labels" in reason
        for reason in reasons
    )


@pytest.mark.parametrize(
    "values", [(P(), jnp.ones(2)), (None, None), (jnp.ones(3), jnp.ones(2)), (1.0, P())]
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_description_is_refused(kind: Any, values: tuple[Any, Any]) -> None:
    @typechecked
    def made() -> kind:
        return kind(*values)

    with pytest.raises(st.ShapeError, match=r"'w'|'b'"):
        made()


@pytest.mark.parametrize("kind", KINDS)
def test_a_spec_alone_is_no_tree_of_specs(kind: Any) -> None:
    @typechecked
    def made() -> kind:
        return P("d")

    with pytest.raises(Exception, match="is not a"):
        made()


def test_a_value_may_hold_itself() -> None:
    ring: list[Any] = [P()]
    ring.append(ring)
    assert is_described(ring)
    ring.append(jnp.ones(2))
    assert not is_described(ring)
