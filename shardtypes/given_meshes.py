"""Meshes as ``prove``, ``trace`` and ``cost`` are given them: a mesh, or the sizes of its axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import AbstractMesh, AxisType, Mesh


def mesh_of(mesh: Any) -> tuple[Any, dict[str, int]]:
    """The mesh to take where the program has none, and the sizes that are asked for.

    ``mesh`` is what they take. Raises ``TypeError`` or ``ValueError`` for what is no mesh.
    """
    if mesh is None:
        current = jax.sharding.get_abstract_mesh()
        if current is not None and not current.empty:
            return current, {}
        held = jax.sharding.get_mesh()
        if isinstance(held, Mesh) and not held.empty:
            return held, {}
        return None, {}
    if isinstance(mesh, str):
        mesh = _parsed(mesh)
    if isinstance(mesh, Mapping):
        if not mesh or any(
            isinstance(n, bool) or not isinstance(n, int) or n < 1
            for n in mesh.values()
        ):
            raise ValueError(
                f"mesh={dict(mesh)!r}: axes have sizes of at least 1, as in {{'d': 2, 't': 4}}"
            )
        mesh = AbstractMesh(
            tuple(mesh.values()), tuple(mesh), axis_types=(AxisType.Auto,) * len(mesh)
        )
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise TypeError(
            f"mesh is a mesh, a dict of axis sizes or a string like 'd=2,t=4', not {type(mesh).__name__}"
        )
    return mesh, dict(mesh.shape)


def _parsed(text: str) -> dict[str, int]:
    axes = {}
    for entry in text.split(","):
        name, equals, size = (piece.strip() for piece in entry.partition("="))
        if not equals or not name or not size.isdecimal():
            raise ValueError(
                f"{entry.strip()!r} in mesh={text!r} is not an axis; write axes like 'd=2,t=4'"
            )
        axes[name] = int(size)
    return axes
