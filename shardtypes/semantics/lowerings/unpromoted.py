"""What functions ask of operands that they do not promote or broadcast: one dtype, and ranks and sizes that are equal.
Those of ``jax.lax`` do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.lang.size import Size
from shardtypes.semantics.array import Array
from shardtypes.semantics.comparison import require_equal
from shardtypes.semantics.lowerings.convert import ArrayLike, asarray, promoted
from shardtypes.semantics.primitive import evaluating
from shardtypes.semantics.registry import Refused, Unsupported


def of_one_dtype(**operands: ArrayLike) -> list[Array]:
    """The operands, by the names of their parameters, as arrays. Raises Refused where two differ in dtype: numbers of
    Python's, too, have one of their own."""
    arrays = {name: asarray(given) for name, given in operands.items()}
    first = _leading(arrays)
    if first is None:
        return list(arrays.values())
    open_ = False
    for name, array in arrays.items():
        if not _differ(arrays[first], array):
            continue
        if array.weak and not _is_number(operands[name]):
            # who passes an array where `float` is annotated is not wrong
            open_ = True
            continue
        raise Refused(_text(first, arrays[first].dtype, name, array), "dtypes")
    given = list(arrays.values())
    if open_ and not evaluating():
        return [replace(array, dtype=None) for array in given]
    if any(array.dtype is None for array in given):
        return given
    return promoted(*given)


def _leading(arrays: dict[str, Array]) -> str | None:
    """The first array that has a dtype of its own, or of which there is one at all."""
    known = [name for name, array in arrays.items() if array.dtype is not None]
    strong = [name for name in known if not arrays[name].weak]
    return next(iter(strong + known), None)


def _text(first: str, dtype: str | None, name: str, array: Array) -> str:
    other = dtypes.written(array.dtype)
    if array.weak:
        other = f"a Python number of {other}"
    return f"{first} is {dtypes.written(dtype)}, {name} is {other}; jax.lax does not promote; cast one with .astype"


def _differ(array: Array, other: Array) -> bool:
    """Whether dtypes differ, whatever size Python's numbers have in a program."""
    if dtypes.equal(array.dtype, other.dtype) is not False:
        return False
    if not other.weak:
        return True
    if array.dtype not in dtypes.CONCRETE:
        return False
    same_kind = dtypes.is_kind(other.dtype, dtypes.KIND_OF[array.dtype])
    return not same_kind or array.dtype not in dtypes.OF_PYTHON


def _is_number(given: Any) -> bool:
    return isinstance(given, (int, float, complex, Size))


def of_one_rank(*arrays: Array) -> None:
    """Raises Refused for arrays that differ in rank: only scalars are broadcast. Under ``vmap`` JAX takes those that
    fit with dimensions of 1 behind the others, so that of these nothing is known."""
    known = [array for array in arrays if array.shape]
    unlike = [other for other in known if other.rank != known[0].rank]
    for other in unlike:
        for size, its_own in zip(known[0].dims, other.dims, strict=False):
            if 1 not in (size, its_own):
                require_equal(size, its_own, Refused("ranks differ"))
    if unlike:
        raise Unsupported("arrays of several ranks")


def of_one_shape(*arrays: Array, why: Refused | None = None) -> None:
    """Compares the sizes of arrays, which are not broadcast."""
    first, *others = [array for array in arrays if array.shape is not None]
    for other in others:
        require_same_shape(first, other, why)


def require_same_shape(a: Array, b: Array, why: Refused | str | None = None) -> None:
    """Compare the shapes of two arrays. Raises Refused where they differ in rank."""
    if a.rank != b.rank:
        if isinstance(why, Refused):
            raise why
        raise Refused(why or "shapes differ")
    for size, other in zip(a.dims, b.dims, strict=True):
        require_equal(size, other, why)
