"""Entries added at the ends of dimensions."""

from __future__ import annotations

from typing import Any

from shardtypes.lang.size import Size
from shardtypes.semantics.array import Array
from shardtypes.semantics.lazy import np
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    number_of,
    of_shape,
    sizes_of,
    with_sizes,
)
from shardtypes.semantics.lowerings.indexing import indexed
from shardtypes.semantics.lowerings.unpromoted import of_one_dtype
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives import structure as s
from shardtypes.semantics.registry import Refused, Unsupported, lowering
from shardtypes.semantics.sizes import is_number

_OF_ENTRIES = frozenset({"edge", "reflect", "symmetric", "wrap"})
"""Modes that repeat entries of the array itself."""


@lowering("jax.lax.pad")
def lax_pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Any) -> Array:
    config = tuple(tuple(int(number) for number in one) for one in padding_config)
    array, value = of_one_dtype(operand=operand, padding_value=padding_value)
    if value.shape:
        raise Refused("the padding value is a scalar")
    return s.pad(array, value, padding_config=config)


@lowering("jax.numpy.pad")
def pad(
    array: ArrayLike, pad_width: Any, mode: str = "constant", **options: Any
) -> Array:
    given = asarray(array)
    widths = _pad_widths(pad_width, given.rank)
    if mode in _OF_ENTRIES and not options:
        return _with_entries(given, widths, mode)
    if mode != "constant":
        raise Unsupported(f"padding in mode {mode}")
    value = asarray(options.get("constant_values", 0))
    if value.rank:
        raise Unsupported("padding with several values")
    number = e.convert_element_type(value, new_dtype=given.dtype)
    return s.pad(
        given, number, padding_config=tuple((low, high, 0) for low, high in widths)
    )


def _with_entries(array: Array, widths: list[tuple[Any, Any]], mode: Any) -> Array:
    """Each dimension read at the places that NumPy would copy."""
    for axis, (size, width) in enumerate(zip(sizes_of(array), widths, strict=True)):
        if width != (0, 0) and not is_number(size):
            shape = with_sizes(array.dims, axis, size + sum(width))
            array = of_shape(array, shape)
        elif width != (0, 0):
            places = np.pad(np.arange(size), width, mode=mode)
            array = indexed(array, (*(slice(None),) * axis, places))
    return array


def _pad_widths(given: Any, rank: int) -> list[tuple[Any, Any]]:
    if isinstance(given, (int, Size)):
        return [(given, given)] * rank
    pairs = [
        tuple(one) if isinstance(one, (tuple, list)) else (one, one) for one in given
    ]
    if all(isinstance(one, (int, Size)) for one in given) and len(given) == 2:
        pairs = [(given[0], given[1])]
    return [
        (number_of(low), number_of(high))
        for low, high in (pairs * rank if len(pairs) == 1 else pairs)
    ]
