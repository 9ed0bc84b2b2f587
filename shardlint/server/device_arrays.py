"""An array as it is shown, on devices: what each has of it where the mesh is known, and how many bytes that takes."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from shardlint.config import ConfigError
from shardlint.made_axes import made_axes
from shardlint.server.checking import settings_of
from shardlint.server.documents import Document
from shardtypes.lang import Shape, ShapeSyntaxError, Size, format_shape
from shardtypes.lang import parse as parse_shape
from shardtypes.lang.array_names import SHARDTYPES_DTYPES
from shardtypes.lang.drawing import declared
from shardtypes.lang.dtypes import bits

ARRAY = re.compile(r"^(?:(?P<dtype>\w+))\[(?P<quote>['\"])(?P<shape>.*?)(?P=quote)\]")
_BYTE = 8


@dataclass(frozen=True, slots=True)
class ShownArray:
    """The text of an array, taken apart: ``f32['B/d M']``."""

    dtype: str
    shape: Shape

    @classmethod
    def read(cls, text: str) -> ShownArray | None:
        """None for what is no array of known rank."""
        found = ARRAY.match(text)
        if found is None:
            return None
        try:
            shape = parse_shape(found["shape"])
        except ShapeSyntaxError:  # of unknown rank
            return None
        return cls(found["dtype"], shape)

    @property
    def sizes(self) -> list[Size] | None:
        """Those of all dimensions; None where one is not known."""
        found = []
        for dim in self.shape.dims:
            if dim.size is None:
                return None
            found.append(dim.size)
        return found

    @property
    def axes(self) -> list[str]:
        """The mesh axes over which dimensions are sharded."""
        return [axis for dim in self.shape.dims for axis in dim.axes]

    def mesh(self, document: Document) -> Mapping[str, int]:
        """The mesh that is known, if the array is sharded over axes of it; else none."""
        mesh = _mesh(document)
        if not self.axes or not mesh.keys() >= set(self.axes):
            return {}
        return mesh

    def local(self, document: Document) -> LocalArray | None:
        """What one device has, on the mesh that is known; None where it has everything or no mesh says how much."""
        mesh = self.mesh(document)
        whole = self.sizes
        if not mesh or whole is None:
            return None
        sizes = []
        for dim, size in zip(self.shape.dims, whole, strict=True):
            parts = prod(mesh[axis] for axis in dim.axes)
            sizes.append(size // parts if parts > 1 else size)
        return LocalArray(self.dtype, sizes, {axis: mesh[axis] for axis in self.axes})


@dataclass(frozen=True, slots=True)
class LocalArray:
    """What each device has of an array; ``mesh`` are the axes over which it is sharded."""

    dtype: str
    sizes: Sequence[Size]
    mesh: Mapping[str, int]

    def __str__(self) -> str:
        local = format_shape(self.sizes, [() for _ in self.sizes], ())
        return f"{self.dtype}[{local!r}]"


def sizes(document: Document, text: str) -> str | None:
    """How many bytes an array of this type takes, and what one device has of it where a mesh says how much, in words;
    None where neither is known."""
    array = ShownArray.read(text)
    if array is None:
        return None
    local = array.local(document)
    if local is None:
        whole = array.sizes
        return None if whole is None else _bytes(array.dtype, whole)
    devices = []
    for axis, size in local.mesh.items():
        devices.append(f"{axis}={size}")
    taken = _bytes(local.dtype, local.sizes)
    more = f", {taken}" if taken else ""
    return f"on each device of {', '.join(devices)}: {local}{more}"


def _bytes(dtype: str, sizes: Sequence[Size]) -> str | None:
    """``4,096 bytes``; None where they depend on sizes that have only names."""
    found = bytes_of(dtype, sizes)
    number = None if found is None else found.constant
    if number is None:
        return None
    return f"{number:,} bytes"


def picture(document: Document, text: str) -> str | None:
    """An array of this type as it lies on the mesh, as an image in Markdown; None where it is whole on every device or
    no mesh is known."""
    array = ShownArray.read(text)
    if array is None:
        return None
    mesh = array.mesh(document)
    if not any(mesh[axis] > 1 for axis in array.axes if mesh):
        return None
    drawing = declared(text, array.shape, mesh)
    data = b64encode(drawing.svg().encode()).decode()
    return f"![{text}](data:image/svg+xml;base64,{data})"


def bytes_of(dtype: str, sizes: Sequence[Size]) -> Size | None:
    """The bytes of an array; None where the dtype is one of several, or of no fixed width."""
    name = SHARDTYPES_DTYPES.get(dtype, dtype)
    if name is None:
        return None
    width = _BYTE if name == "bool" else bits(name)
    if not width:
        return None
    count = Size.const(1)
    for size in sizes:
        count *= size
    if width % _BYTE:
        return count * width // _BYTE
    return count * (width // _BYTE)


def _mesh(document: Document) -> Mapping[str, int]:
    """The axes whose sizes are known: those of the settings, else those of the only mesh of the project."""
    try:
        config = settings_of(document.path.parent)
    except ConfigError:  # which the server tells
        return {}
    axes: Mapping[str, int | None] = config.mesh
    if not axes:
        meshes = made_axes(config).meshes
        axes = meshes[0] if len(meshes) == 1 else {}
    return {name: size for name, size in axes.items() if size is not None}
