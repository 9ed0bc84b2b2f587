"""The same numbers on every mesh: what a forgotten or doubled reduction breaks."""

from __future__ import annotations

import inspect
import itertools
import textwrap
import typing
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pytest_shardtypes.differences import Difference, compare, tolerance_of
from pytest_shardtypes.meshes import resized
from shardtypes._stats import uncounted
from shardtypes.errors import ShardTypeError
from shardtypes.kept_meshes import forgetting_meshes
from shardtypes.lang.messages import axes_text
from shardtypes.partition_specs import make_shardings
from shardtypes.proving import Proof, prove
from shardtypes.proving.question import DRAWN_AS_ON_ONE
from shardtypes.switches import enabled
from shardtypes.trace_untracked import equations


def mesh_invariant(
    f: Callable[..., Any], /, *args: Any, tolerance: float | None = None
) -> None:
    """Fail unless ``f(*args)`` gives on every mesh what it gives on one device; ``shardtypes.prove`` says where not.

    The meshes are the one in force and those with some of its axes reduced to one device. The arguments are placed
    anew for each: by the annotations of ``f``, replicated where it has none. ``tolerance`` is relative to the largest
    absolute value of each array of the result; by default it goes by dtype, and integers must be equal. What is
    computed in a coarser dtype than that of the result may differ as that one does, where ``prove`` finds ``f`` right.
    Without ``tolerance`` ``f`` fails as well where ``prove`` refutes it with other arguments than these.
    """
    mesh = jax.sharding.get_mesh()
    if not isinstance(mesh, Mesh) or mesh.empty:
        pytest.fail(
            "mesh_invariant needs a mesh: mark the test, as in @pytest.mark.mesh(d=2, t=4)",
            pytrace=False,
        )
    if jax.process_count() > 1:
        pytest.fail(
            "mesh_invariant runs in one process: take the marker processes off this test",
            pytrace=False,
        )
    host = jax.tree.map(_to_host, args)
    reference = _run(f, host, _with_wide(mesh, ()))
    wrong: list[tuple[tuple[str, ...], Difference]] = []
    for wide in _subsets(mesh):
        if any(set(axes) <= set(wide) for axes, _ in wrong):
            continue  # the axes that are known to be wrong would be wrong again
        result = _run(f, host, _with_wide(mesh, wide))
        difference = compare(reference, result, tolerance)
        if difference is None:
            continue
        if tolerance is None and _is_rounding(f, host, mesh, wide, reference, result):
            continue
        wrong.append((wide, difference))
    if wrong:
        pytest.fail(
            "\n".join(_report(f, host, mesh, *entry) for entry in wrong), pytrace=False
        )
    proof = _proof(f, host, mesh) if tolerance is None else None
    if isinstance(proof, Proof) and proof.ok is False:
        pytest.fail(
            f"the mesh changes the answer for other arguments than these\n{proof}",
            pytrace=False,
        )


def _is_rounding(
    f: Callable[..., Any],
    host: tuple[Any, ...],
    mesh: Mesh,
    axes: tuple[str, ...],
    reference: Any,
    result: Any,
) -> bool:
    """Whether results differ no more than what is computed on the way rounds, and all operations are right."""
    wide = _with_wide(mesh, axes)
    coarsest = max(map(tolerance_of, _dtypes_within(f, host, wide)), default=0.0)
    if compare(reference, result, coarsest) is not None:
        return False
    proof = _proof(f, host, wide)
    return isinstance(proof, Proof) and proof.ok is True


def _dtypes_within(
    f: Callable[..., Any], host: tuple[Any, ...], mesh: Mesh
) -> set[np.dtype[Any]]:
    """The dtypes in which a function computes; none where it does more than JAX traces."""
    leaves, structure = jax.tree.flatten(host)
    at = [n for n, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray)]

    def run(arrays: list[Any]) -> Any:
        given = [*leaves]
        for n, array in zip(at, arrays, strict=True):
            given[n] = array
        return f(*jax.tree.unflatten(structure, given))

    with (
        jax.set_mesh(mesh),
        forgetting_meshes(any_mesh=True),
        enabled(False),
        uncounted(),
    ):
        try:
            jaxpr = jax.make_jaxpr(run)([leaves[n] for n in at]).jaxpr
        except Exception:  # noqa: BLE001 - the function ran before: the dtypes of its results decide
            return set()
    made = (value.aval for eqn in equations(jaxpr) for value in eqn.outvars)
    dtypes = {getattr(aval, "dtype", None) for aval in made}
    return {dtype for dtype in dtypes if isinstance(dtype, np.dtype)}


def _report(
    f: Callable[..., Any],
    host: tuple[Any, ...],
    mesh: Mesh,
    axes: tuple[str, ...],
    difference: Difference,
) -> str:
    """Which axes change the answer, how, and where on the way it begins, as far as that can be told."""
    on = ", ".join(f"{name}={mesh.shape[name]}" for name in axes)
    whom = (
        f"mesh axis {axes[0]!r} changes"
        if len(axes) == 1
        else f"mesh axes {axes_text(axes)} together change"
    )
    where = _where(_proof(f, host, _with_wide(mesh, axes)))
    return f"{whom} the answer: on {on}, {difference}\n{textwrap.indent(where, '  ')}"


def _where(proof: Proof | str) -> str:
    if isinstance(proof, str):
        return f"where could not be told: {proof}"
    if proof.ok is False and proof.culprit is not None:
        return str(proof.culprit)
    if proof.ok is False:
        return "where could not be told: none of its operations alone shows it"
    if proof.ok:  # the operations that it makes on each mesh
        what = (
            "each device draws numbers of its own"
            if DRAWN_AS_ON_ONE in proof.assumed
            else "Python takes something else from the mesh, such as its size"
        )
        return f"none of its operations is wrong there: {what}"
    return str(proof)


def _proof(f: Callable[..., Any], args: tuple[Any, ...], mesh: Mesh) -> Proof | str:
    """What ``prove`` says of the function on this mesh, or why it says nothing."""
    with (
        jax.set_mesh(mesh),
        forgetting_meshes(any_mesh=True),
        enabled(False),
        uncounted(),
    ):
        try:
            return prove(f, *args, mesh=mesh)
        except Exception as error:  # noqa: BLE001 - the function ran before: it is told, and is no failure of the test
            return f"{type(error).__name__}: {error}"


def _with_wide(mesh: Mesh, wide: tuple[str, ...]) -> Mesh:
    """The mesh with all axes but these of one device."""
    return resized(
        mesh,
        {name: mesh.shape[name] if name in wide else 1 for name in mesh.axis_names},
    )


def _subsets(mesh: Mesh) -> Iterator[tuple[str, ...]]:
    names = [name for name in mesh.axis_names if mesh.shape[name] > 1]
    for count in range(1, len(names) + 1):
        yield from itertools.combinations(names, count)


def _to_host(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf


def _run(f: Callable[..., Any], args: tuple[Any, ...], mesh: Mesh) -> Any:
    with jax.set_mesh(mesh), forgetting_meshes(any_mesh=True):
        placed = [
            _place(arg, hint, mesh)
            for arg, hint in zip(args, _hints(f, len(args)), strict=True)
        ]
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
    # a partial, a builtin, a name known only inside a function
    except (NameError, TypeError, ValueError):
        return [None] * count
    return [hints.get(names[at]) if at < len(names) else None for at in range(count)]


def _place(arg: Any, hint: Any, mesh: Mesh) -> Any:
    replicated = NamedSharding(mesh, PartitionSpec())
    shardings: Any = replicated
    if hint is not None:
        try:
            shardings = make_shardings(hint)
        # no arrays in this annotation: it says nothing about placing
        except (TypeError, ShardTypeError):
            shardings = replicated
    leaves = jax.tree.leaves(arg)
    if all(isinstance(leaf, np.ndarray) for leaf in leaves):
        return jax.device_put(arg, shardings)
    return jax.tree.map(
        lambda leaf: (
            jax.device_put(leaf, replicated) if isinstance(leaf, np.ndarray) else leaf
        ),
        arg,
    )
