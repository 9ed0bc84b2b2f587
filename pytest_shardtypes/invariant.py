"""The same numbers on every mesh: what a forgotten or doubled reduction breaks."""

from __future__ import annotations

import inspect
import itertools
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pytest_shardtypes.meshes import resized
from shardtypes.errors import ShardTypeError
from shardtypes.partition_specs import make_shardings

# Reductions over other groupings round differently: about the square root of the type's precision.
_TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 4e-2}
_TOLERANCE |= {"complex128": 1e-9, "complex64": 1e-4}
_COARSE = 0.25  # eight bits and fewer


@dataclass(frozen=True)
class Difference:
    """The first leaf of the result that is not the same, and how far off it is (relative to the largest value)."""

    leaf: str
    error: float
    factor: float | None

    def __str__(self) -> str:
        if self.factor is not None:
            return f"result{self.leaf} is {self.factor:g} times what one device gives"
        return f"result{self.leaf} is off by {self.error:.3g} of its largest value"


def mesh_invariant(f: Callable[..., Any], *args: Any, tolerance: float | None = None) -> None:
    """Fail unless ``f(*args)`` gives on every mesh what it gives on one device.

    The meshes are the one in force and those with some of its axes reduced to one device. The arguments are placed
    anew for each: by the annotations of ``f``, replicated where it has none. ``tolerance`` is relative to the largest
    absolute value of each array of the result; by default it goes by dtype, and integers must be equal.
    """
    mesh = jax.sharding.get_mesh()
    if not isinstance(mesh, Mesh) or mesh.empty:
        pytest.fail("mesh_invariant needs a mesh: mark the test, as in @pytest.mark.mesh(d=2, t=4)", pytrace=False)
    host = jax.tree.map(_to_host, args)
    reference = _run(f, host, resized(mesh, dict.fromkeys(mesh.axis_names, 1)))
    wrong: list[tuple[tuple[str, ...], Difference]] = []
    for wide in _subsets(mesh):
        if any(set(axes) <= set(wide) for axes, _ in wrong):
            continue  # the axes that are known to be wrong would be wrong again
        sizes = {name: mesh.shape[name] if name in wide else 1 for name in mesh.axis_names}
        difference = compare(reference, _run(f, host, resized(mesh, sizes)), tolerance)
        if difference is not None:
            wrong.append((wide, difference))
    if wrong:
        pytest.fail("\n".join(_explain(mesh.shape, axes, difference) for axes, difference in wrong), pytrace=False)


def compare(reference: Any, result: Any, tolerance: float | None = None) -> Difference | None:
    """The first leaf in which two results differ."""
    left, tree = jax.tree_util.tree_flatten_with_path(reference)
    right, other = jax.tree_util.tree_flatten_with_path(result)
    if str(tree) != str(other):
        return Difference(f" has another structure: {other} instead of {tree}", float("inf"), None)
    for (path, a), (_, b) in zip(left, right, strict=True):
        name = jax.tree_util.keystr(path)
        if np.shape(a) != np.shape(b):
            return Difference(f"{name} has shape {np.shape(b)} instead of {np.shape(a)}; it", float("inf"), None)
        allowed = _tolerance(np.asarray(a).dtype) if tolerance is None else tolerance
        error, factor = _error(_wide(a), _wide(b), allowed)
        if error > allowed:
            return Difference(name, error, factor)
    return None


def _subsets(mesh: Mesh) -> Iterator[tuple[str, ...]]:
    names = [name for name in mesh.axis_names if mesh.shape[name] > 1]
    for count in range(1, len(names) + 1):
        yield from itertools.combinations(names, count)


def _explain(sizes: Mapping[str, int], axes: tuple[str, ...], difference: Difference) -> str:
    where = ", ".join(f"{name}={sizes[name]}" for name in axes)
    whom = f"mesh axis {axes[0]!r} changes" if len(axes) == 1 else f"mesh axes {', '.join(axes)} together change"
    text = f"{whom} the answer: on {where}, {difference}"
    n = float(np.prod([sizes[name] for name in axes]))
    if difference.factor is not None and np.isclose(difference.factor, n):
        text += f"; {n:g} is the number of devices along it: a reduction over it is done twice, or done to a copy"
    elif difference.factor is not None and np.isclose(difference.factor * n, 1):
        text += f"; that is one part in {n:g}: a reduction over it is missing"
    else:
        text += "; a reduction over it may be missing (psum, psum_scatter), or one shard taken for the whole"
    return text


def _run(f: Callable[..., Any], args: tuple[Any, ...], mesh: Mesh) -> Any:
    with jax.set_mesh(mesh):
        placed = [_place(arg, hint, mesh) for arg, hint in zip(args, _hints(f, len(args)), strict=True)]
        try:
            result = f(*placed)
        except ValueError as error:
            if "incompatible devices" not in str(error):
                raise
            pytest.fail(
                "mesh_invariant runs the function on other meshes, and it holds on to a mesh of its own: "
                f"let it take the mesh in force (jax.sharding.get_mesh()).\n{error}",
                pytrace=False,
            )
        return jax.tree.map(_to_host, result)


def _hints(f: Callable[..., Any], count: int) -> list[Any]:
    """The annotation of each positional argument, None where there is none."""
    plain = inspect.unwrap(f)
    try:
        names = list(inspect.signature(plain).parameters)
        hints = typing.get_type_hints(plain)
    except (NameError, TypeError, ValueError):  # a partial, a builtin, a name known only inside a function
        return [None] * count
    return [hints.get(names[at]) if at < len(names) else None for at in range(count)]


def _place(arg: Any, hint: Any, mesh: Mesh) -> Any:
    replicated = NamedSharding(mesh, PartitionSpec())
    shardings: Any = replicated
    if hint is not None:
        try:
            shardings = make_shardings(hint)
        except (TypeError, ShardTypeError):  # no arrays in this annotation: it says nothing about placing
            shardings = replicated
    leaves = jax.tree.leaves(arg)
    if all(isinstance(leaf, np.ndarray) for leaf in leaves):
        return jax.device_put(arg, shardings)
    return jax.tree.map(lambda leaf: jax.device_put(leaf, replicated) if isinstance(leaf, np.ndarray) else leaf, arg)


def _to_host(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf


def _tolerance(dtype: np.dtype[Any]) -> float:
    if not jnp.issubdtype(dtype, jnp.inexact):
        return 0.0
    return _TOLERANCE.get(dtype.name, _COARSE)


def _wide(leaf: Any) -> np.ndarray[Any, np.dtype[Any]]:
    array = np.asarray(leaf)
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        return array.astype(np.complex128)
    return array.astype(np.float64)


def _error(a: Any, b: Any, allowed: float) -> tuple[float, float | None]:
    if a.size == 0:
        return 0.0, None
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf"), None
    finite = np.isfinite(a)
    a, b = a[finite], b[finite]
    scale = float(np.max(np.abs(a), initial=0.0)) or 1.0
    error = float(np.max(np.abs(a - b), initial=0.0)) / scale
    if error <= allowed:
        return error, None
    at = int(np.argmax(np.abs(a)))
    factor = float(np.real(b[at] / a[at])) if a[at] != 0 else 0.0
    same = factor != 0 and bool(np.allclose(b, a * factor, rtol=max(allowed, 1e-6), atol=max(allowed, 1e-6) * scale))
    return error, factor if same else None
