"""The same numbers on every mesh: what a forgotten or doubled reduction breaks."""

from __future__ import annotations

import inspect
import itertools
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pytest_shardtypes import intermediates
from pytest_shardtypes.differences import Difference, compare
from pytest_shardtypes.meshes import resized
from shardtypes.errors import ShardTypeError
from shardtypes.partition_specs import make_shardings


def mesh_invariant(f: Callable[..., Any], *args: Any, tolerance: float | None = None) -> None:
    """Fail unless ``f(*args)`` gives on every mesh what it gives on one device.

    The meshes are the one in force and those with some of its axes reduced to one device. The arguments are placed
    anew for each: by the annotations of ``f``, replicated where it has none. ``tolerance`` is relative to the largest
    absolute value of each array of the result; by default it goes by dtype, and integers must be equal.
    """
    mesh = jax.sharding.get_mesh()
    if not isinstance(mesh, Mesh) or mesh.empty:
        pytest.fail("mesh_invariant needs a mesh: mark the test, as in @pytest.mark.mesh(d=2, t=4)", pytrace=False)
    if jax.process_count() > 1:
        pytest.fail("mesh_invariant runs in one process: take the marker processes off this test", pytrace=False)
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
        said = [_explain(mesh.shape, axes, difference) for axes, difference in wrong]
        said += _where(f, host, mesh, wrong[0][0])
        pytest.fail("\n".join(said), pytrace=False)


def _where(f: Callable[..., Any], host: tuple[Any, ...], mesh: Mesh, wide: tuple[str, ...]) -> list[str]:
    """The first annotated value on the way that is not the same, found by running both meshes once more."""
    sizes = {name: mesh.shape[name] if name in wide else 1 for name in mesh.axis_names}
    meshes = (resized(mesh, dict.fromkeys(mesh.axis_names, 1)), resized(mesh, sizes))
    try:
        # Under jit, for shard_map outside of it does not call back from every device.
        one, many = (_record(f, host, on, jax.jit) for on in meshes)
    except Exception:  # noqa: BLE001 - a function that cannot be under jit is run as it is
        try:
            one, many = (_record(f, host, on, lambda f: f) for on in meshes)
        except Exception as error:  # noqa: BLE001 - it ran before: what fails is the recording, and is said
            return [f"the annotated values on the way could not be recorded: {type(error).__name__}: {error}"]
    found = intermediates.first_difference(one, many)
    if found is not None:
        return [f"the first annotated value that differs: {found}"]
    if not one.values:
        return ["no annotated value on the way: annotate the functions that it calls to see where it goes wrong"]
    return [f"the {len(one.values)} annotated values on the way are the same: it goes wrong behind them"]


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
    elif difference.dimension is not None:
        text += "; shards are put together in another order, or along another dimension, than they were split"
    else:
        text += "; a reduction over it may be missing (psum, psum_scatter), or one shard taken for the whole"
    return text


def _record(f: Any, host: Any, mesh: Mesh, prepare: Callable[..., Any]) -> intermediates.Recording:
    with intermediates.recorded() as recording:
        _run(f, host, mesh, prepare)
    return recording


def _run(f: Callable[..., Any], args: tuple[Any, ...], mesh: Mesh, prepare: Callable[..., Any] = lambda f: f) -> Any:
    with jax.set_mesh(mesh):
        placed = [_place(arg, hint, mesh) for arg, hint in zip(args, _hints(f, len(args)), strict=True)]
        try:
            result = prepare(f)(*placed)
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
