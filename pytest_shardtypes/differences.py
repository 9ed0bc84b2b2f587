"""How two results differ: in which leaf, by which factor, or only in the order of their numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Host = np.ndarray[Any, np.dtype[Any]]

# Reductions over other groupings round differently: about the square root of the type's precision.
_TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 4e-2}
_TOLERANCE |= {"complex128": 1e-9, "complex64": 1e-4}
_COARSE = 0.25  # eight bits and fewer


@dataclass(frozen=True)
class Difference:
    """The first leaf of the result that is not the same, and how far off it is (relative to the largest value).

    ``factor`` is set where all numbers are off by it, ``dimension`` where the numbers are the same in another order:
    the dimension along which whole slices changed places, or -1 for any other order. ``shapes`` are those expected and
    found where they are not the same; ``kind`` says in words why numbers cannot be compared otherwise. ``others`` are
    the further leaves that differ.
    """

    leaf: str
    error: float = math.inf
    factor: float | None = None
    dimension: int | None = None
    others: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    kind: str | None = None

    def __str__(self) -> str:
        if self.shapes is not None:
            text = f"result{self.leaf} has shape {self.shapes[1]} instead of {self.shapes[0]}"
        elif self.kind is not None:
            text = f"result{self.leaf} {self.kind}"
        elif self.factor is not None:
            text = f"result{self.leaf} is {self.factor:g} times what one device gives"
        elif self.dimension is not None:
            where = (
                f"along dimension {self.dimension}"
                if self.dimension >= 0
                else "throughout"
            )
            text = f"result{self.leaf} has the same numbers in another order {where}"
        else:
            text = f"result{self.leaf} is off by {self.error:.3g} of its largest value"
        return (
            f"{text} (wrong as well: result{', result'.join(self.others)})"
            if self.others
            else text
        )


def compare(
    reference: Any, result: Any, tolerance: float | None = None
) -> Difference | None:
    """The first leaf in which two results differ, with the names of the others that do."""
    left, tree = jax.tree_util.tree_flatten_with_path(reference)
    right, other = jax.tree_util.tree_flatten_with_path(result)
    if str(tree) != str(other):
        return Difference("", kind=f"has another structure: {other} instead of {tree}")
    found: list[Difference] = []
    for (path, a), (_, b) in zip(left, right, strict=True):
        name = jax.tree_util.keystr(path)
        if np.shape(a) != np.shape(b):
            found.append(Difference(name, shapes=(np.shape(a), np.shape(b))))
            continue
        difference = _difference(name, np.asarray(a), np.asarray(b), tolerance)
        if difference is not None:
            found.append(difference)
    if not found:
        return None
    first, *rest = found
    return replace(first, others=tuple(difference.leaf for difference in rest))


def _difference(
    name: str, a: Host, b: Host, tolerance: float | None
) -> Difference | None:
    allowed = tolerance_of(a.dtype) if tolerance is None else tolerance
    if a.size == 0 or not (_is_number(a) and _is_number(b)):
        return (
            None if np.array_equal(a, b) else Difference(name, kind="is another value")
        )
    a, b = _wide(a), _wide(b)
    odd = ~(np.isfinite(a) & np.isfinite(b))
    if not np.array_equal(a[odd], b[odd], equal_nan=True):
        return Difference(name, kind="has infinities or NaNs in other places")
    a, b = np.where(odd, 0, a), np.where(odd, 0, b)
    scale = float(np.max(np.abs(a))) or 1.0
    error = float(np.max(np.abs(a - b))) / scale
    if error <= allowed:
        return None
    factor = _factor(a, b, max(allowed, 1e-6), scale)
    return Difference(
        name, error, factor, None if factor is not None else _reordered(a, b, scale)
    )


def _factor(a: Host, b: Host, allowed: float, scale: float) -> float | None:
    at = np.unravel_index(int(np.argmax(np.abs(a))), a.shape)
    factor = float(np.real(b[at] / a[at])) if a[at] != 0 else 0.0
    close = factor != 0 and bool(
        np.allclose(b, a * factor, rtol=allowed, atol=allowed * scale)
    )
    return factor if close else None


def _reordered(a: Host, b: Host, scale: float) -> int | None:
    a, b = np.round(a / scale, 5), np.round(b / scale, 5)
    if not np.array_equal(np.sort(a, axis=None), np.sort(b, axis=None)):
        return None
    for dim in range(a.ndim):
        if np.array_equal(_sorted_rows(a, dim), _sorted_rows(b, dim)):
            return dim
    return -1


def _sorted_rows(a: Host, dim: int) -> Host:
    rows = np.moveaxis(a, dim, 0).reshape(a.shape[dim], -1)
    return rows[np.lexsort(rows.T[::-1])]


def tolerance_of(dtype: np.dtype[Any]) -> float:
    """How far numbers of a dtype may be off, relative to the largest of an array; integers not at all."""
    if not jnp.issubdtype(dtype, jnp.inexact):
        return 0.0
    return _TOLERANCE.get(dtype.name, _COARSE)


def _is_number(a: Host) -> bool:
    return bool(
        jnp.issubdtype(a.dtype, jnp.number) or jnp.issubdtype(a.dtype, jnp.bool_)
    )


def _wide(array: Host) -> Host:
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        return array.astype(np.complex128)
    return array.astype(np.float64)
