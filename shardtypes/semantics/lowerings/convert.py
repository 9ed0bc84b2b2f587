"""Arguments as arrays, dtypes, axes and shapes, as JAX reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from shardtypes.lang import dtypes
from shardtypes.lang.size import Size
from shardtypes.semantics.array import Array, Dim
from shardtypes.semantics.lazy import np
from shardtypes.semantics.local_sizes import capacity_axes, whole
from shardtypes.semantics.primitives.elementwise import convert_element_type, truncate
from shardtypes.semantics.primitives.structure import (
    broadcast_in_dim,
    concatenate,
    expand_dims,
)
from shardtypes.semantics.registry import Unsupported
from shardtypes.semantics.relation import NOTHING_KNOWN
from shardtypes.semantics.rounding import is_left_out
from shardtypes.semantics.simulated import Simulated
from shardtypes.semantics.special import held

if TYPE_CHECKING:
    ArrayLike: TypeAlias = Array | complex | np.ndarray | Sequence["ArrayLike"]
else:
    ArrayLike = Any


@dataclass(frozen=True, slots=True)
class DType:
    """A dtype of JAX's, by name. Called, it casts: ``jnp.float32(x)``."""

    name: str

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
        return max(1, dtypes.bits(self.name) // 8)

    @property
    def kind(self) -> str:
        return {
            "bool": "b",
            "signed": "i",
            "unsigned": "u",
            "floating": "f",
            "complex": "c",
        }[dtypes.KIND_OF[self.name]]


_PYTHON = {bool: "bool", int: "int32", float: "float32", complex: "complex64"}


def dtype_name(given: Any) -> str:
    """``jnp.float32``, ``'f4'``, ``float``, ``x.dtype`` as JAX's name without x64. Raises Unsupported."""
    if isinstance(given, DType):
        return given.name
    if isinstance(given, type) and given in _PYTHON:
        return _PYTHON[given]
    text = given
    if not isinstance(given, str):
        text = getattr(given, "name", None) or getattr(given, "__name__", "")
    found = dtypes.dtype_from_name(str(text))
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
        kind = next(name for cls, name in _PYTHON.items() if isinstance(x, cls))
        own = capacity_axes(x)
        return Array(
            (), kind, not isinstance(x, bool), value=Simulated.everywhere(x), own=own
        )
    if hasattr(x, "__jax_array__"):
        return _array_of(x.__jax_array__())
    if isinstance(x, (list, tuple)):
        return _of_items(x)
    if isinstance(x, Size):
        return Array((), "int32", True)
    raise Unsupported(f"a {type(x).__name__} as an array")


def _of_numpy(x: Any) -> Array:
    name = dtypes.canonical(np.asarray(x).dtype.name)
    if name not in dtypes.CONCRETE:
        raise Unsupported(f"an array of dtype {name}")
    return Array(
        tuple(x.shape), name, value=Simulated.everywhere(held(np.asarray(x), name))
    )


def _of_items(items: Sequence[Any]) -> Array:
    if not items:
        return constant(0.0, (0,), "float32")
    arrays = promoted(*[_array_of(item) for item in items])
    rows = [expand_dims(array, axes=(0,)) for array in arrays]
    return concatenate(*rows, dimension=0, count=len(rows))


def constant(value: complex, shape: Sequence[Dim], dtype: str) -> Array:
    """An array of one number."""
    number = Array(
        (), dtype, value=Simulated.everywhere(held(np.asarray(value), dtype))
    )
    return broadcast_in_dim(number, shape=tuple(shape), broadcast_dimensions=())


def like(value: Any, array: Array) -> Array:
    """A number as an array of rank 0, of another array's dtype. Of one that depends on names the value is not known.

    Beside an array it is not weak: see ``beside_constants``."""
    weak = array.weak and array.shape == ()
    if isinstance(value, Size):
        return Array((), array.dtype, weak)
    if array.dtype is None:
        numbers = np.asarray(value)
    else:
        numbers = held(np.asarray(value), array.dtype)
    return Array((), array.dtype, weak, value=Simulated.everywhere(numbers))


def real(size: Any) -> Any:
    """A size as a float. Of one that depends on names the value is not known."""
    if isinstance(size, Size):
        return Array((), "float32", True)
    return float(size)


def counting(size: Any) -> Array:
    """The numbers from 0 below a size."""
    if isinstance(size, Size):
        return Array((size,), "int32")
    return asarray(np.arange(size, dtype=np.int32))


def of_shape(array: Array, shape: Sequence[Dim]) -> Array:
    """What is known of an array that is made of entries of another at places that depend on names: its shape."""
    relations = None
    if array.relations is not None:
        relations = NOTHING_KNOWN
    return Array(tuple(shape), array.dtype, array.weak, relations)


def cast(array: Array, dtype: str) -> Array:
    """The array in another dtype."""
    if array.dtype == dtype:
        return strong(array)
    whole = dtypes.is_kind(dtype, "signed", "unsigned")
    rounds = whole and dtypes.is_kind(array.dtype, "floating", "complex")
    if rounds and is_left_out():
        return strong(array)
    primitive = truncate if rounds else convert_element_type
    made: Array = primitive(array, new_dtype=dtype)
    return strong(made)


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
    return weak_as(cast(asarray(x), array.dtype or "float32"), array)


def promoted(*arrays: Array) -> list[Array]:
    """The arrays in the dtype that JAX promotes them to."""
    found: tuple[str, bool] | None = None
    for array in sorted(arrays, key=lambda one: one.weak):
        if array.dtype is None:
            raise Unsupported("an array of unknown dtype")
        if found is None:
            found = array.dtype, array.weak
        else:
            found = dtypes.promote(*found, array.dtype, array.weak)
        if found is None:
            raise Unsupported("a promotion that is not known")
    if found is None:
        return []
    dtype, weak = found
    return [_into(array, dtype, weak) for array in arrays]


def _into(array: Array, dtype: str, weak: bool) -> Array:
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
    return [
        _into(array, dtypes.inexact(array.dtype) or "float32", array.weak)
        for array in found
    ]


class AxisOutOfRange(ValueError):
    """Raised for an axis that an array has not, as JAX does."""

    def __init__(self, axis: int, rank: int) -> None:
        super().__init__(f"axis {axis} is out of range for rank {rank}")
        self.axis = axis
        self.rank = rank


def axis_of(axis: Any, rank: int) -> int:
    """A non-negative axis. Raises AxisOutOfRange."""
    number = int(axis)
    if not -rank <= number < rank:
        raise AxisOutOfRange(number, rank)
    return number % rank


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Non-negative axes, in order: all of them for None."""
    if axis is None:
        return tuple(range(rank))
    if isinstance(axis, (tuple, list)):
        given = axis
    else:
        given = (axis,)
    return tuple(sorted(axis_of(one, rank) for one in given))


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
