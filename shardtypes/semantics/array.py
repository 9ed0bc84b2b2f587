"""The value that primitives take and give: an array, with what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from shardtypes.lang.frozen import frozen
from shardtypes.lang.size import Size
from shardtypes.semantics.registry import LOWERINGS

if TYPE_CHECKING:
    from shardtypes.semantics.relation import Relations
    from shardtypes.semantics.simulated import Simulated

Dim: TypeAlias = int | Size | None
"""A size: a number, an expression of names, or None where it is not known."""

Shape: TypeAlias = tuple[Dim, ...]
Varying: TypeAlias = frozenset[tuple[str, int]]
"""Mesh axes with their sizes."""
Origin: TypeAlias = tuple[int, int]
"""An argument, by its number, and one of its dimensions."""
Origins: TypeAlias = tuple[frozenset[Origin] | None, ...]
"""By dimension, those of arguments that it is; None for one that is changed, or of which that is not known."""


@frozen
class Array:
    """An array of which everything may be known, or only some things.

    ``shape`` is None where the rank is not known. ``relations`` say, in manual code, how what the devices hold is
    related to what one device would have computed; None outside of manual code. ``value`` are numbers on simulated
    devices. ``node`` tells how it was computed, while a gradient is to be taken, and ``output`` which of the results it
    is. ``own`` are the mesh axes on whose devices it is meant to differ, or to depend on their number: by a key of each
    device's own, or a capacity computed from a local size. ``sources`` are the recorded values that it was computed
    from, where values are recorded. ``varying`` are, under
    ``check_vma=True``, the mesh axes, with their sizes, that its type varies over; None where JAX does not keep track
    of them. ``origins`` are, where they are asked for, the dimensions of arguments that each dimension is.
    """

    shape: Shape | None
    dtype: str | None = None
    weak: bool = False
    relations: Relations | None = None
    value: Simulated | None = None
    node: Node | None = None
    output: int = 0
    varying: Varying | None = None
    own: frozenset[str] = frozenset()
    sources: frozenset[int] = frozenset()
    origins: Origins | None = None

    __array_ufunc__: ClassVar[None] = None  # NumPy leaves its operators to ours

    def is_sharded(self, axis: str) -> bool:
        """Whether one of its dimensions is known to be sharded over a mesh axis."""
        if self.relations is None:
            return False
        relation = self.relations[axis]
        return relation.kind == "split"

    def sharded_dimension(self, axis: str) -> int | None:
        """The dimension that is sharded over a mesh axis; None where none is, or it is not known which."""
        if self.relations is None:
            return None
        relation = self.relations[axis]
        return relation.dim

    # Python's operators are functions of ``jax.numpy``.

    def __add__(self, other: Any) -> Array:
        return _operator("add", self, other)

    def __radd__(self, other: Any) -> Array:
        return _operator("add", other, self)

    def __sub__(self, other: Any) -> Array:
        return _operator("subtract", self, other)

    def __rsub__(self, other: Any) -> Array:
        return _operator("subtract", other, self)

    def __mul__(self, other: Any) -> Array:
        return _operator("multiply", self, other)

    def __rmul__(self, other: Any) -> Array:
        return _operator("multiply", other, self)

    def __truediv__(self, other: Any) -> Array:
        return _operator("divide", self, other)

    def __rtruediv__(self, other: Any) -> Array:
        return _operator("divide", other, self)

    def __floordiv__(self, other: Any) -> Array:
        return _operator("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Array:
        return _operator("floor_divide", other, self)

    def __divmod__(self, other: Any) -> tuple[Array, Array]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Array, Array]:
        return other // self, other % self

    def __mod__(self, other: Any) -> Array:
        return _operator("remainder", self, other)

    def __rmod__(self, other: Any) -> Array:
        return _operator("remainder", other, self)

    def __pow__(self, other: Any) -> Array:
        return _operator("power", self, other)

    def __rpow__(self, other: Any) -> Array:
        return _operator("power", other, self)

    def __matmul__(self, other: Any) -> Array:
        return _operator("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Array:
        return _operator("matmul", other, self)

    def __and__(self, other: Any) -> Array:
        return _operator("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Array:
        return _operator("bitwise_and", other, self)

    def __or__(self, other: Any) -> Array:
        return _operator("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Array:
        return _operator("bitwise_or", other, self)

    def __xor__(self, other: Any) -> Array:
        return _operator("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Array:
        return _operator("bitwise_xor", other, self)

    def __lshift__(self, other: Any) -> Array:
        return _operator("left_shift", self, other)

    def __rlshift__(self, other: Any) -> Array:
        return _operator("left_shift", other, self)

    def __rshift__(self, other: Any) -> Array:
        return _operator("right_shift", self, other)

    def __rrshift__(self, other: Any) -> Array:
        return _operator("right_shift", other, self)

    def __lt__(self, other: Any) -> Array:
        return _operator("less", self, other)

    def __le__(self, other: Any) -> Array:
        return _operator("less_equal", self, other)

    def __gt__(self, other: Any) -> Array:
        return _operator("greater", self, other)

    def __ge__(self, other: Any) -> Array:
        return _operator("greater_equal", self, other)

    def __eq__(self, other: object) -> Any:
        return _operator("equal", self, other)

    def __ne__(self, other: object) -> Any:
        return _operator("not_equal", self, other)

    __hash__ = object.__hash__

    def __neg__(self) -> Array:
        return _operator("negative", self)

    def __pos__(self) -> Array:
        return self

    def __abs__(self) -> Array:
        return _operator("abs", self)

    def __round__(self, ndigits: int = 0) -> Array:
        found: Array = LOWERINGS["jax.numpy.round"](self, ndigits)
        return found

    def __invert__(self) -> Array:
        return _operator("invert", self)

    def __getitem__(self, index: Any) -> Array:
        found: Array = LOWERINGS["jax.Array.__getitem__"](self, index)
        return found

    # What Python asks of a number can be told of one that is the same on all devices.

    def __bool__(self) -> bool:
        return bool(self.numbers())

    def __int__(self) -> int:
        return int(self.numbers())

    def __index__(self) -> int:
        return int(self.numbers())

    def __float__(self) -> float:
        return float(self.numbers())

    def __complex__(self) -> complex:
        return complex(self.numbers())

    def __format__(self, spec: str) -> str:
        numbers = self.numbers()
        if numbers.shape == ():
            return format(numbers.item(), spec)
        return str(numbers)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        numbers = self.numbers()
        if dtype is None:
            return numbers
        return numbers.astype(dtype)

    def __len__(self) -> int:
        if self.dims:
            size = self.dims[0]
        else:
            size = None
        if not isinstance(size, int):
            raise TypeError("len() of an unsized object")
        return size

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))

    def numbers(self) -> Any:
        """The numbers, where all devices hold the same. Raises NotConcrete."""
        if self.value is None or self.value.axes:
            raise NotConcrete
        return self.value.at({})

    def computed_by(self, node: Node, output: int) -> Array:
        """The array, which remembers that it is this result of a node."""
        return Array(
            self.shape,
            self.dtype,
            self.weak,
            self.relations,
            self.value,
            node,
            output,
            self.varying,
            self.own,
            self.sources,
            self.origins,
        )

    @property
    def rank(self) -> int:
        """The number of dimensions. Raises UnknownRank."""
        if self.shape is None:
            raise UnknownRank
        return len(self.shape)

    @property
    def dims(self) -> Shape:
        """The sizes. Raises UnknownRank."""
        if self.shape is None:
            raise UnknownRank
        return self.shape


def _operator(name: str, *operands: Any) -> Array:
    found: Array = LOWERINGS[f"jax.numpy.{name}"](*operands)
    return found


@frozen
class Node:
    """How arrays were computed: ``pull`` takes the cotangents of all ``count`` results and gives those of the
    operands.

    Derivatives have numbers, of which that of an inner one is larger. ``level`` is the one that an input is watched
    for, ``closed_for`` the one that does not go back through the node, ``only_for`` the only one that does; 0 for none.
    """

    operands: tuple[Array, ...]
    pull: Callable[[Sequence[Array | None]], Sequence[Array | None]]
    count: int = 1
    level: int = 0
    closed_for: int = 0
    only_for: int = 0

    __eq__ = object.__eq__
    __hash__ = object.__hash__


class NotConcrete(BaseException):
    """Raised where a program needs numbers that are not known, or that differ between devices. No ``except Exception``
    of the program takes it for an error of its own."""


class UnknownRank(Exception):
    """Raised where an operation cannot go on without the rank of an operand."""


class NoGradient(Exception):
    """Raised where a value that has a cotangent was computed by an operation of which no derivative is known."""


class SizesDiffer(TypeError, ValueError):
    """Raised where an operation is computed whose operands do not go together. JAX raises one of the two.

    ``operands`` are what the program's own expression was applied to, once that is known.
    """

    operands: tuple[Array, ...] = ()


Params: TypeAlias = Mapping[str, Any]
Arrays: TypeAlias = Sequence[Array]


def scalar(dtype: str, weak: bool = True) -> Array:
    """The rank-0 array that a number of Python is; its value is given by ``constant``."""
    return Array((), dtype, weak)
