"""The same numbers on every mesh: what a forgotten or doubled reduction breaks."""

from __future__ import annotations

import inspect
import itertools
import typing
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pytest_shardtypes import culprits, intermediates
from pytest_shardtypes.dependences import dependence
from pytest_shardtypes.differences import Difference, compare
from pytest_shardtypes.meshes import resized
from shardtypes.errors import ShardTypeError
from shardtypes.kept_meshes import forgetting_meshes
from shardtypes.lang.messages import axes_text
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
    reference = _run(f, host, _with_wide(mesh, ()))
    wrong: list[tuple[tuple[str, ...], Difference]] = []
    for wide in _subsets(mesh):
        if any(set(axes) <= set(wide) for axes, _ in wrong):
            continue  # the axes that are known to be wrong would be wrong again
        difference = compare(reference, _run(f, host, _with_wide(mesh, wide)), tolerance)
        if difference is not None:
            wrong.append((wide, difference))
    if wrong:
        pytest.fail("\n".join(_report(f, host, mesh, wrong)), pytrace=False)


def _report(
    f: Callable[..., Any], host: tuple[Any, ...], mesh: Mesh, wrong: list[tuple[tuple[str, ...], Difference]]
) -> Iterator[str]:
    """Which axes change the answer, how, why as far as the numbers tell, and where on the way it begins."""
    recorded = _Recorded(f, host, mesh)
    for axes, difference in wrong:
        sizes = {name: mesh.shape[name] for name in axes}
        where = ", ".join(f"{name}={size}" for name, size in sizes.items())
        whom = f"mesh axis {axes[0]!r} changes" if len(axes) == 1 else f"mesh axes {axes_text(axes)} together change"
        found, text = recorded.on(axes)
        near = None if found is None else culprits.reason(found.what, sizes)
        far = recorded.of_replicas(axes) or culprits.reason(difference, sizes)
        if far is None and near is None:
            far = culprits.unknown_reason(sizes, recorded.dependence(axes))
        yield "; ".join(filter(None, (f"{whom} the answer: on {where}, {difference}", far)))
        if found is not None:
            cause = near if near != far else None
            text = "; ".join(filter(None, (f"the first annotated value that differs: {found}", cause)))
        yield f"  {text}"


class _Recorded:
    """The annotated values on the way, found by running the function once more on each mesh that is asked for."""

    def __init__(self, f: Callable[..., Any], host: tuple[Any, ...], mesh: Mesh) -> None:
        self._f = f
        self._host = host
        self._mesh = mesh
        # Under jit, for shard_map outside of it does not call back from every device.
        self._prepare: Callable[..., Any] = jax.jit
        self._reference: intermediates.Recording | None = None

    def on(self, wide: tuple[str, ...]) -> tuple[culprits.Culprit | None, str]:
        """The culprit on the mesh with these axes wide; where none is known, the words that say so."""
        try:
            one, many = self._both(wide)
        except Exception as error:  # noqa: BLE001 - it ran before: what fails is the recording, and is said
            return None, f"the annotated intermediate values could not be recorded: {type(error).__name__}: {error}"
        found = culprits.culprit(one, many)
        if found is not None:
            return found, ""
        if not one.values:
            return None, "no annotated intermediate value: annotate the functions that it calls to see where it begins"
        last = one.values[-1].label
        return None, f"the {len(one.values)} annotated intermediate values agree: it goes wrong after {last}"

    def of_replicas(self, wide: tuple[str, ...]) -> str | None:
        """What the copies of a result on several devices tell, where they are not the same."""
        sizes = {name: self._mesh.shape[name] for name in wide}
        mesh = _with_wide(self._mesh, wide)
        expected = jax.tree.leaves(_run(self._f, self._host, _with_wide(self._mesh, ())))
        found = jax.tree.leaves(_run(self._f, self._host, mesh, to_host=lambda leaf: leaf))
        for whole, leaf in zip(expected, found, strict=False):
            if not isinstance(leaf, jax.Array) or not leaf.is_fully_replicated or len(leaf.addressable_shards) < 2:
                continue
            copies = [np.asarray(shard.data) for shard in leaf.addressable_shards]
            if np.shape(whole) != copies[0].shape:
                continue
            text = culprits.replicas_reason(copies, np.asarray(whole), sizes)
            if text is not None:
                return text
        return None

    def dependence(self, wide: tuple[str, ...]) -> str | None:
        """What in the function depends on the device by construction."""
        mesh = _with_wide(self._mesh, wide)
        with jax.set_mesh(mesh), forgetting_meshes(any_mesh=True):
            placed = [
                _place(arg, hint, mesh) for arg, hint in zip(self._host, _hints(self._f, len(self._host)), strict=True)
            ]
            return dependence(self._f, *placed)

    def _both(self, wide: tuple[str, ...]) -> tuple[intermediates.Recording, intermediates.Recording]:
        try:
            one = self._reference or self._record(())
            many = self._record(wide)
        except Exception:
            if self._prepare is not jax.jit:
                raise
            self._prepare = lambda f: f  # a function that cannot be under jit is run as it is
            one, many = self._record(()), self._record(wide)
        self._reference = one
        return one, many

    def _record(self, wide: tuple[str, ...]) -> intermediates.Recording:
        with intermediates.recorded() as recording:
            _run(self._f, self._host, _with_wide(self._mesh, wide), self._prepare)
        return recording


def _with_wide(mesh: Mesh, wide: tuple[str, ...]) -> Mesh:
    """The mesh with all axes but these of one device."""
    return resized(mesh, {name: mesh.shape[name] if name in wide else 1 for name in mesh.axis_names})


def _subsets(mesh: Mesh) -> Iterator[tuple[str, ...]]:
    names = [name for name in mesh.axis_names if mesh.shape[name] > 1]
    for count in range(1, len(names) + 1):
        yield from itertools.combinations(names, count)


def _to_host(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf


def _run(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    mesh: Mesh,
    prepare: Callable[..., Any] = lambda f: f,
    to_host: Callable[[Any], Any] = _to_host,
) -> Any:
    with jax.set_mesh(mesh), forgetting_meshes(any_mesh=True):
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
        return jax.tree.map(to_host, result)


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
