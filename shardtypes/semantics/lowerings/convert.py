"""Arguments as arrays, dtypes, axes and shapes, as JAX reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from shardtypes.lang import dtypes
from shardtypes.lang.size import Size
from shardtypes.semantics.array import Array, Dim
from shardtypes.semantics.comparison import are_names_known
from shardtypes.semantics.lazy import np
from shardtypes.semantics.local_sizes import capacity_axes, whole
from shardtypes.semantics.primitives.elementwise import (
    convert_element_type,
    eq,
    lt,
    truncate,
)
from shardtypes.semantics.primitives.structure import (
    broadcast_in_dim,
    concatenate,
    expand_dims,
)
from shardtypes.semantics.registry import Refused, Unsupported
from shardtypes.semantics.relation import NOTHING_KNOWN
from shardtypes.semantics.rounding import is_left_out
from shardtypes.semantics.simulated import Simulated
from shardtypes.semantics.special import held

if TYPE_CHECKING:
    ArrayLike: TypeAlias = Array | complex | np.ndarray | Sequence["ArrayLike"]
else:
    ArrayLike = Any


class UnknownDtype(Unsupported):
    """Raised where the result depends on a dtype that is not known, or known as one of several only."""


@dataclass(frozen=True, slots=True)
class DType:
    """A dtype of JAX's, by name. Called, it casts: ``jnp.float32(x)``."""

    name: str | None
    """None where it is not known."""

    def __eq__(self, other: object) -> bool:
        try:
            return dtype_name(other) == self.name
        except Unsupported:
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __call__(self, x: ArrayLike = 0) -> Array:
        return cast(asarray(x), self.name)

    @property
    def itemsize(self) -> int:
        return max(1, dtypes.bits(self._known) // 8)

    @property
    def kind(self) -> str:
        return {
            "bool": "b",
            "signed": "i",
            "unsigned": "u",
            "floating": "f",
            "complex": "c",
        }[dtypes.KIND_OF[self._known]]

    @property
    def _known(self) -> str:
        if self.name not in dtypes.CONCRETE:
            raise UnknownDtype(f"the dtype {self.name}")
        return self.name


_x64: ContextVar[bool] = ContextVar("shardtypes_x64", default=False)


@contextmanager
def x64(is_on: bool) -> Iterator[None]:
    """Read calls as JAX does with its setting of that name: dtypes have 64 bits where nothing else is asked for."""
    token = _x64.set(is_on)
    try:
        yield
    finally:
        _x64.reset(token)


_PYTHON = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def stored(name: str) -> str:
    """The dtype that JAX stores for one: that of 32 bits in the place of one of 64 unless these are on."""
    return dtypes.canonical(name, _x64.get())


def default(kind: type) -> str:
    """The dtype of Python's numbers: ``default(int)`` is ``'int32'`` unless 64 bits are on."""
    return stored(_PYTHON[kind])


def dtype_name(given: Any) -> str | None:
    """``jnp.float32``, ``'f4'``, ``float``, ``x.dtype`` as JAX's name. Raises Unsupported."""
    if isinstance(given, DType):
        return given.name
    if isinstance(given, type) and given in _PYTHON:
        return default(given)
    text = given
    if not isinstance(given, str):
        text = getattr(given, "name", None) or getattr(given, "__name__", "")
    found = dtypes.dtype_from_name(str(text), _x64.get())
    if found is None:
        raise Unsupported(f"the dtype {given!r}")
    return found


def asarray(x: ArrayLike, dtype: Any = None) -> Array:
    """What JAX makes of an argument. Raises Unsupported for anything that is no array, number or nest of these."""
    found = _array_of(x)
    if dtype is None:
        return found
    return cast(found, dtype_name(dtype))


def _array_of(x: Any) -> Array:
    if isinstance(x, Array):
        return x
    if type(x).__module__ == "numpy" and hasattr(x, "dtype"):
        return _of_numpy(x)
    if isinstance(x, (bool, int, float, complex)):
        kind = next(cls for cls in _PYTHON if isinstance(x, cls))
        weak = kind is not bool
        own = capacity_axes(x)
        return Array((), default(kind), weak, value=Simulated.everywhere(x), own=own)
    if hasattr(x, "__jax_array__"):
        return _array_of(x.__jax_array__())
    if isinstance(x, (list, tuple)):
        return _of_items(x)
    if isinstance(x, Size):
        return Array((), default(int), True)
    raise Unsupported(f"a {type(x).__name__} as an array")


def _of_numpy(x: Any) -> Array:
    name = stored(np.asarray(x).dtype.name)
    if name not in dtypes.CONCRETE:
        raise Unsupported(f"an array of dtype {name}")
    numbers = held(np.asarray(x), name)
    if np.may_share_memory(numbers, x):
        numbers = numbers.copy()  # the program may write to its own afterwards
    return Array(tuple(x.shape), name, value=Simulated.everywhere(numbers))


def _of_items(items: Sequence[Any]) -> Array:
    if not items:
        return constant(0.0, (0,), default(float))
    arrays = promoted(*[_array_of(item) for item in items])
    rows = [expand_dims(array, axes=(0,)) for array in arrays]
    return concatenate(*rows, dimension=0, count=len(rows))


def constant(value: complex, shape: Sequence[Dim], dtype: str | None) -> Array:
    """An array of one number."""
    number = Array((), dtype)
    if not are_names_known():
        held_value = held(np.asarray(value), dtype)
        number = replace(number, value=Simulated.everywhere(held_value))
    return broadcast_in_dim(number, shape=tuple(shape), broadcast_dimensions=())


def like(value: Any, array: Array) -> Array:
    """A number as an array of rank 0, of another array's dtype. Of one that depends on names the value is not known.

    Beside an array it is not weak: see ``beside_constants``."""
    weak = array.weak and array.shape == ()
    if isinstance(value, Size):
        return Array((), array.dtype, weak)
    numbers = np.asarray(value)
    if array.dtype in dtypes.CONCRETE:
        numbers = held(numbers, array.dtype)
    return Array((), array.dtype, weak, value=Simulated.everywhere(numbers))


def below_zero(array: Array) -> Array:
    """Which entries are negative."""
    found: Array = lt(array, like(0, array))
    return found


def is_zero(array: Array) -> Array:
    """Which entries are zero."""
    found: Array = eq(array, like(0, array))
    return found


def real(size: Any) -> Any:
    """A size as a float. Of one that depends on names the value is not known."""
    if isinstance(size, Size):
        return Array((), default(float), True)
    return float(size)


def counting(size: Any) -> Array:
    """The numbers from 0 below a size."""
    if isinstance(size, Size):
        return Array((size,), default(int))
    return cast(asarray(np.arange(size, dtype=np.int32)), default(int))


def of_shape(array: Array, shape: Sequence[Dim]) -> Array:
    """What is known of an array that is made of entries of another at places that depend on names: its shape."""
    relations = None
    if array.relations is not None:
        relations = NOTHING_KNOWN
    return Array(tuple(shape), array.dtype, array.weak, relations)


def cast(array: Array, dtype: str | None) -> Array:
    """The array in another dtype; None is one that is not known."""
    if array.dtype == dtype:
        return strong(array)
    whole = dtypes.is_kind(dtype, "signed", "unsigned")
    rounds = whole and dtypes.is_kind(array.dtype, "floating", "complex")
    if rounds and is_left_out():
        return strong(array)
    primitive = truncate if rounds else convert_element_type
    made: Array = primitive(array, new_dtype=dtype)
    return strong(made)


def cast_each(array: Array, function: Callable[[str], str]) -> Array:
    """The array in the dtype that a function of its dtype gives: of a set of dtypes, in one of those that it gives."""
    dtype = dtypes.each(array.dtype, function)
    if dtype == array.dtype:
        return array
    return cast(array, dtype)


def without_bool(dtype: str) -> str:
    """The dtype in which JAX computes with booleans as numbers."""
    if dtype == "bool":
        return "int32"
    return dtype


def known_dtype(array: Array) -> str:
    """The dtype. Raises UnknownDtype where it is not known, or known as one of several only."""
    if array.dtype not in dtypes.CONCRETE:
        raise UnknownDtype(f"an array of dtype {array.dtype}")
    return array.dtype


def is_of(array: Array, *kinds: str) -> bool:
    """Whether the dtype is of one of the kinds (``bool unsigned signed floating complex``). Raises UnknownDtype where
    that is not known."""
    found = dtypes.is_kind(array.dtype, *kinds)
    if found is None:
        raise UnknownDtype(f"an array of dtype {array.dtype}")
    return found


def strong(array: Array) -> Array:
    """The array with a dtype of its own, which does not give way to others."""
    if array.weak:
        return replace(array, weak=False)
    return array


def beside_constants(array: Array) -> Array:
    """The array as after an operation with a constant of its own dtype: that is broadcast to the array, by which it
    loses its weakness; only beside a number nothing is broadcast."""
    if array.shape == ():
        return array
    return strong(array)


def weak_as(array: Array, *others: Array) -> Array:
    """The array, whose dtype gives way to others where those of some other arrays do."""
    return replace(array, weak=all(other.weak for other in others))


def in_dtype_of(x: ArrayLike, array: Array) -> Array:
    """An argument in the dtype of an array, and as weak: what is written into it."""
    return weak_as(cast(asarray(x), array.dtype), array)


def promoted(*arrays: Array) -> list[Array]:
    """The arrays in the dtype that JAX promotes them to. Raises Refused where JAX does."""
    if len({(array.dtype, array.weak) for array in arrays}) == 1:
        if arrays[0].dtype in dtypes.CONCRETE:
            return list(arrays)
    try:
        dtype, weak = _promotion(arrays)
    except dtypes.NoPromotion as error:
        raise Refused(str(error), "dtypes") from None
    return [_into(array, dtype, weak) for array in arrays]


def _promotion(arrays: Sequence[Array]) -> tuple[str | None, bool]:
    """The common dtype, and whether it is weak."""
    found: tuple[str, bool] | None = None
    for array in sorted(arrays, key=lambda one: one.weak):
        if array.dtype is None:
            return None, False
        if found is None:
            found = array.dtype, array.weak
        else:
            found = dtypes.promote(*found, array.dtype, array.weak, _x64.get())
        if found is None:
            break
    return found or (None, False)


def _into(array: Array, dtype: str | None, weak: bool) -> Array:
    if array.dtype == dtype and array.weak == weak:
        return array
    made = cast(array, dtype)
    if not weak:
        return made
    return replace(made, weak=True)


def inexact(*arrays: Array) -> list[Array]:
    """The arrays promoted, integers to floats."""
    found = promoted(*arrays)
    if found and dtypes.is_kind(found[0].dtype, "floating", "complex"):
        return found
    return [_into(array, inexact_dtype(array.dtype), array.weak) for array in found]


def inexact_dtype(name: str | None) -> str | None:
    """The dtype in which JAX computes ``exp``, ``mean`` and the like: floats stay, integers become floats."""
    return dtypes.inexact(name, _x64.get())


def not_read(**options: Any) -> None:
    """Raises Unsupported for an option on which the result depends, as a lowering does not read it."""
    for name, value in options.items():
        if value is not None:
            raise Unsupported(f"the option {name}")


class AxisOutOfRange(ValueError):
    """Raised for an axis that an array has not, as JAX does."""

    def __init__(self, axis: int, rank: int) -> None:
        super().__init__(f"axis {axis} is out of range for rank {rank}")
        self.axis = axis
        self.rank = rank


class AxisGivenTwice(ValueError):
    """Raised for several axes that are not different ones, as JAX does."""

    def __init__(self, axis: int) -> None:
        super().__init__(f"axis {axis} is given twice")
        self.axis = axis


def axis_of(axis: Any, rank: int) -> int:
    """A non-negative axis. Raises AxisOutOfRange."""
    number = int(axis)
    if not -rank <= number < rank:
        raise AxisOutOfRange(number, rank)
    return number % rank


def lax_axis_of(axis: Any, rank: int) -> int:
    """An axis as ``jax.lax`` takes it, which counts none from the end. Raises AxisOutOfRange."""
    number = int(axis)
    if not 0 <= number < rank:
        raise AxisOutOfRange(number, rank)
    return number


def lax_axes_of(axes: Any, rank: int) -> tuple[int, ...]:
    """Axes as ``jax.lax`` takes them, which counts none from the end, in order."""
    return axes_of([lax_axis_of(axis, rank) for axis in axes], rank)


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Non-negative axes, in order: all of them for None."""
    if axis is None:
        return tuple(range(rank))
    if isinstance(axis, (tuple, list)):
        given = axis
    else:
        given = (axis,)
    axes = sorted(axis_of(one, rank) for one in given)
    for axis, following in pairwise(axes):
        if axis == following:
            raise AxisGivenTwice(axis)
    return tuple(axes)


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape argument: an int or several."""
    if isinstance(shape, (tuple, list)):
        return tuple(map(_size_of, shape))
    return (_size_of(shape),)


def _size_of(given: Any) -> Any:
    if isinstance(given, Size):
        return given
    return whole(given)


def sizes_of(array: Array) -> tuple[Any, ...]:
    """The sizes: numbers where functions are evaluated, else numbers or expressions of names. Raises Unsupported for an
    array of which a size is not known."""
    if any(size is None for size in array.dims):
        raise Unsupported("a size that is not known")
    return array.dims


def with_sizes(shape: Sequence[Any], axis: int, *sizes: Any) -> tuple[Any, ...]:
    """A shape with other sizes in the place of one."""
    before = shape[:axis]
    after = shape[axis + 1 :]
    return (*before, *sizes, *after)


def int_of(x: Any) -> int:
    """A Python int that an argument stands for. Raises Unsupported for one that differs between devices."""
    if isinstance(x, Array):
        if x.value is None or x.value.axes or x.shape != ():
            raise Unsupported("a number that is not the same on all devices")
        return int(np.asarray(x.value.parts[0]))
    if isinstance(x, Size):
        raise Unsupported("a number that depends on sizes")
    return int(x)


def number_of(x: Any) -> Any:
    """The same, where a size that depends on names does."""
    if isinstance(x, Size):
        return x
    return int_of(x)
