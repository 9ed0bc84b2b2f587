"""Parsed shapes as user code sees them: ``ShapeSpec`` and ``DimSpec``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from shardtypes.errors import ShapeStringError
from shardtypes.lang import Dim, Shape, ShapeSyntaxError, parse

if TYPE_CHECKING:
    from jax.sharding import PartitionSpec

Text = str | bytes


def parse_text(text: Text) -> Shape:
    """The parsed shape; a wrong text is a ``ShapeStringError`` with its column."""
    if not isinstance(text, (str, bytes)):
        raise ShapeStringError(
            f"an array annotation needs a shape string such as 'batch/d embed', got {type(text).__name__} {text!r}"
            + number_hint(text)
        )
    try:
        shape = parse(text)
    except ShapeSyntaxError as error:
        raise ShapeStringError(error.message, error.text, error.column, error.hint) from None
    seen: set[str] = set()
    for axis in shape.axes:
        if axis in seen:
            column = shape.text.rfind(axis)
            raise ShapeStringError(f"mesh axis {axis!r} is used twice for one array", shape.text, column)
        seen.add(axis)
    return shape


def number_hint(value: object) -> str:
    """Why a number may have arrived where a string was written."""
    if isinstance(value, (int, float, complex)) or type(value).__module__.partition(".")[0] in (
        "jax",
        "jaxlib",
        "numpy",
    ):
        return (
            ". typeguard evaluates strings inside annotations as code, so 'batch/d' became a division: "
            "call shardtypes.register_with_typeguard() before the module is decorated or imported, "
            "or write the string as bytes (b'batch/d')"
        )
    return ""


@dataclass(frozen=True, slots=True)
class DimSpec:
    """One dimension: ``shape`` is its size (a name, an expression or an int), ``sharding`` its mesh axes, major to
    minor. ``'M/t/d'`` is ``DimSpec('M', ('t', 'd'))``."""

    shape: int | str
    sharding: tuple[str, ...] = ()

    @staticmethod
    def parse(text: Text) -> DimSpec:
        """Read one dimension such as ``'M/t/d'``. Raises ``ShapeStringError``."""
        dims = parse_text(text).dims
        if len(dims) != 1:
            raise ShapeStringError(
                f"expected one dimension, got {len(dims)}", text if isinstance(text, str) else text.decode()
            )
        return _dim_spec(dims[0])

    def __str__(self) -> str:
        return "/".join((str(self.shape), *self.sharding))


def _dim_spec(dim: Dim) -> DimSpec:
    size: int | str = str(dim).split("/")[0] if not dim.axes else str(dim)[: -sum(len(a) + 1 for a in dim.axes)]
    if dim.kind == "size" and dim.size is not None and dim.size.constant is not None:
        size = dim.size.constant
    return DimSpec(size, dim.axes)


@dataclass(frozen=True)
class ShapeSpec:
    """A parsed shape string. ``str`` gives text that parses to an equal value."""

    dims: tuple[DimSpec, ...]
    pending: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "dims", tuple(self.dims))
        object.__setattr__(self, "pending", tuple(self.pending))

    @staticmethod
    def parse(text: Text) -> ShapeSpec:
        """Read a shape string such as ``'batch/d embed'``; ``''`` is a scalar. Raises ``ShapeStringError``."""
        return _parse_spec(text if isinstance(text, str) else parse_text(text).text)

    def __str__(self) -> str:
        pending = ["{U:" + ",".join(self.pending) + "}"] if self.pending else []
        return " ".join([str(dim) for dim in self.dims] + pending)

    @cached_property
    def parsed(self) -> Shape:
        """The tree of the language that this spec stands for."""
        return parse_text(str(self))

    def partition_spec(self) -> PartitionSpec:
        """The ``PartitionSpec`` of the same rank, without regard to any logical rules."""
        shape = self.parsed
        return partition_spec(shape, [dim.axes for dim in shape.dims])


@lru_cache(maxsize=4096)
def _parse_spec(text: str) -> ShapeSpec:
    shape = parse_text(text)
    return ShapeSpec(tuple(_dim_spec(dim) for dim in shape.dims), shape.pending)


def shape_of(spec: ShapeSpec | Shape | Text) -> Shape:
    """The parsed shape of anything that stands for one."""
    if isinstance(spec, ShapeSpec):
        return spec.parsed
    if isinstance(spec, Shape):
        return spec
    return parse_text(spec)


def partition_spec(shape: Shape, axes: Sequence[tuple[str, ...]]) -> PartitionSpec:
    """The ``PartitionSpec`` of a shape whose dimensions are split over ``axes``. ``ValueError`` for an open rank."""
    from jax.sharding import PartitionSpec

    if shape.rank is None:
        raise ValueError(f"'{shape}' matches any number of dimensions, so it has no PartitionSpec: name the dimensions")
    entries = [names[0] if len(names) == 1 else (names or None) for names in axes]
    if shape.pending:
        return PartitionSpec(*entries, unreduced=set(shape.pending))
    return PartitionSpec(*entries)
