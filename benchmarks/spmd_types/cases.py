"""The programs: each is there for JAX and for spmd_types, with mistakes that are made in both."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent / "programs"
_JAX = """import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from shardtypes import f32

mesh = jax.make_mesh({sizes}, {names}, axis_types=(jax.sharding.AxisType.Auto,) * {count})


def numbers(seed, *shape):
    return jax.random.normal(jax.random.key(seed), shape)


"""
_RUN = """

if __name__ == "__main__":
    print(main())
"""
_TORCH = """import spmd_types as spmd
import torch
from spmd_types import I, P, PartitionSpec, R, S, V

AXES = {axes}
LOCAL = {local}


def given(types, *shape, grad=False):
    array = torch.randn(shape, requires_grad=grad)
    if isinstance(types, PartitionSpec):
        spmd.assert_type(array, {{}}, types)
    else:
        spmd.assert_type(array, types)
    return array


"""


@dataclass(frozen=True)
class Case:
    """One program for both tools. ``kind`` is the class of its mistake, empty for the right program."""

    program: str
    mistake: str
    kind: str
    jax: str
    torch: str

    @property
    def name(self) -> str:
        """A module's name."""
        return f"{self.program}__{self.mistake or 'right'}"


def cases(names: Collection[str] = ()) -> list[Case]:
    """Every right program and each of its mistakes.

    Raises:
        ValueError: the text that a mistake replaces is not there, or more than once.
    """
    found: list[Case] = []
    for path in sorted(_HERE.glob("*.toml")):
        if not names or path.stem in names:
            found += _cases(path.stem, tomllib.loads(path.read_text()))
    return found


def _cases(program: str, data: dict[str, Any]) -> list[Case]:
    axes = data["axes"]
    sizes, names = tuple(axes.values()), tuple(axes)
    jax = (
        _JAX.format(sizes=sizes, names=names, count=len(names))
        + data["jax"].lstrip()
        + _RUN
    )
    torch = (
        _TORCH.format(axes=axes, local=data.get("local", False))
        + data["torch"].lstrip()
    )
    right = Case(program, "", "", jax, torch)
    return [
        right,
        *(_wrong(right, name, one) for name, one in data["mistakes"].items()),
    ]


def _wrong(right: Case, name: str, mistake: dict[str, Any]) -> Case:
    where = f"{right.program}, {name}"
    jax = _replaced(right.jax, mistake["jax"], where)
    torch = _replaced(right.torch, mistake["torch"], where)
    return Case(right.program, name, mistake["class"], jax, torch)


def _replaced(text: str, edit: list[str], where: str) -> str:
    old, new = edit
    if text.count(old) != 1:
        raise ValueError(
            f"{where}: this occurs {text.count(old)} times, not once:\n{old}"
        )
    return text.replace(old, new)
