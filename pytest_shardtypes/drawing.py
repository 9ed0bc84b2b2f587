"""Layouts that a run verified, as pictures: an annotation on the mesh of a test."""

from __future__ import annotations

from pytest_shardtypes.axes import MeshAxes
from shardtypes.lang import Shape, parse
from shardtypes.pictures import declared_picture


def draw(annotation: str, mesh: str) -> str:
    """The picture of ``f32['B/d M']`` on the mesh ``d=2, t=4``, as HTML."""
    sizes = dict(MeshAxes.parse(mesh).axes)
    return declared_picture(annotation, _shape(annotation), sizes)


def is_split(annotation: str, mesh: str) -> bool:
    """Whether there is something to draw: devices that hold different parts."""
    if not mesh:
        return False
    sizes = dict(MeshAxes.parse(mesh).axes)
    return any(sizes.get(axis, 1) > 1 for axis in _shape(annotation).axes)


def _shape(annotation: str) -> Shape:
    return parse(annotation.partition("[")[2].rstrip("]").strip("'\""))
