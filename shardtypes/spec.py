"""Parsed shapes as user code sees them: ``ShapeSpec`` and ``DimSpec``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
        raise ShapeStringError(
            error.message, error.text, error.column, error.hint
        ) from None
    seen: set[str] = set()
    spans = [span for dim in shape.dims for span in dim.axis_spans]
    for axis, span in zip(shape.axes, (*spans, *shape.pending_spans), strict=True):
        if axis in seen:
            raise ShapeStringError(
                f"mesh axis {axis!r} is used twice for one array",
                shape.text,
                span.start,
            )
        seen.add(axis)
    return shape


def number_hint(value: object) -> str:
    """Why a number may have arrived where a string was written."""
    if isinstance(value, (int, float, complex)) or type(value).__module__.partition(
        "."
    )[0] in (
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

    def __post_init__(self) -> None:
        if isinstance(self.sharding, (str, bytes)):
            raise TypeError(
                f"a dimension is sharded over a tuple of mesh axes, such as ('d',), got {self.sharding!r}"
            )
        dim = _one_dim("/".join((str(self.shape), *self.sharding)))
        object.__setattr__(self, "shape", size_of(dim))
        object.__setattr__(self, "sharding", dim.axes)

    @staticmethod
    def parse(text: Text) -> DimSpec:
        """Read one dimension such as ``'M/t/d'``. Raises ``ShapeStringError``."""
        return _dim_spec(_one_dim(text))

    def __str__(self) -> str:
        return "/".join((str(self.shape), *self.sharding))


def _one_dim(text: Text) -> Dim:
    shape = parse_text(text)
    if len(shape.dims) != 1:
        raise ShapeStringError(
            f"expected one dimension, got {len(shape.dims)}", shape.text
        )
    if shape.pending:
        column = shape.pending_spans[0].start
        raise ShapeStringError(
            "pending sums belong to a whole array, not to one dimension",
            shape.text,
            column,
        )
    return shape.dims[0]


def size_of(dim: Dim) -> int | str:
    """The size without the axes: an int where it is one, else as it is written in a shape string."""
    constant = (
        dim.size.constant if dim.kind == "size" and dim.size is not None else None
    )
    return str(replace(dim, axes=())) if constant is None else constant


def _dim_spec(dim: Dim) -> DimSpec:
    return DimSpec(size_of(dim), dim.axes)


@dataclass(frozen=True)
class ShapeSpec:
    """A parsed shape string. ``str`` gives text that parses to an equal value."""

    dims: tuple[DimSpec, ...]
    pending: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "dims", tuple(self.dims))
        object.__setattr__(self, "pending", tuple(self.pending))
        # says what is wrong with dimensions that do not go together
        parse_text(str(self))

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
    """The ``PartitionSpec`` of a shape whose dimensions are sharded over ``axes``. ``ValueError`` for an open rank."""
    from shardtypes.meshes import Sums, make_spec

    if shape.rank is None:
        raise ValueError(
            f"'{shape}' matches any number of dimensions, so it has no PartitionSpec: name the dimensions"
        )
    return make_spec(axes, Sums(frozenset(shape.pending)))
