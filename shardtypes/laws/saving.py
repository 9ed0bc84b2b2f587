"""What is loaded is what was saved, on every mesh (``restores``)."""

from __future__ import annotations

import inspect
import itertools
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardtypes.fields import is_pytree_dataclass
from shardtypes.function_names import display_name
from shardtypes.lang.size import Sizes
from shardtypes.laws.arguments import Function
from shardtypes.laws.differences import on_host
from shardtypes.laws.source import shown
from shardtypes.laws.verdict import CannotTell, Verdict
from shardtypes.meshes import format_mesh
from shardtypes.partition_specs import make_shardings
from shardtypes.prng_keys import is_key
from shardtypes.trace_forms import innermost


def restores(
    save: Callable[[Path, Any], Any],
    load: Callable[..., Any],
    state: Any,
    *,
    meshes: Iterable[Mesh | Mapping[str, int] | str] | None = None,
    place: Callable[[Any, Mesh], Any] | None = None,
) -> Verdict:
    """What ``load`` returns is what ``save`` was given: structure, shapes, dtypes, every number, and shardings.

    ``save(path, state)`` writes to a path that does not exist yet; ``load(path, like)`` is given the tree of
    ``ShapeDtypeStruct`` that it is to return, with shardings (``load(path)`` if it has no such parameter: then
    shardings are not compared). With ``meshes``, such as ``["d=8", {"d": 2, "t": 4}]``, it is saved on each and loaded
    on each; ``place(state, mesh)`` puts the state there, by default as the annotations of a ``pytree_dataclass`` say,
    and replicated otherwise.
    """
    name = display_name(innermost(load))
    try:
        built: list[Mesh | None] = [None]
        if meshes is not None:
            built = [_mesh(mesh) for mesh in meshes]
        tried = 0
        for before, after in itertools.product(built, built):
            reason = _tried(save, load, state, before, after, place or _placed)
            if reason is not None:
                if before is None:
                    on = ""
                else:
                    on = f", saved on {_shown(before)} and loaded on {_shown(after)}"
                return Verdict(
                    False,
                    f"{name}: does not restore what was saved{on}: {reason}",
                    where=_line(load),
                )
            tried += 1
    except CannotTell as error:
        return Verdict(None, f"{name}: {error}")
    if meshes is None:
        on = ""
    else:
        on = f" from each of {len(built)} meshes to each ({tried} pairs)"
    return Verdict(True, f"{name}: restores what was saved{on}")


def _shown(mesh: Mesh | None) -> str:
    return format_mesh(mesh) or "one device"


def _line(f: Function) -> str | None:
    code = getattr(innermost(f), "__code__", None)
    if code is None:
        return None
    return f"{shown(Path(code.co_filename))}:{code.co_firstlineno}"


def _mesh(wanted: Mesh | Sizes | str) -> Mesh:
    if isinstance(wanted, Mesh):
        return wanted
    if isinstance(wanted, str):
        try:
            pairs = [part.split("=") for part in wanted.split(",")]
            wanted = {axis.strip(): int(size) for axis, size in pairs}
        except ValueError:
            raise CannotTell(f"{wanted!r} is no mesh: write one as d=2,t=4") from None
    count = math.prod(wanted.values())
    if count > jax.device_count():
        raise CannotTell(
            f"a mesh of {count} devices is asked for, and there are {jax.device_count()}"
        )
    shape = tuple(wanted.values())
    devices = np.array(jax.devices()[:count])
    return Mesh(devices.reshape(shape), tuple(wanted))


def _placed(state: Any, mesh: Mesh) -> Any:
    if is_pytree_dataclass(type(state)):
        return jax.device_put(state, make_shardings(type(state), mesh))
    return jax.device_put(state, NamedSharding(mesh, PartitionSpec()))


def _tried(
    save: Callable[[Path, Any], Any],
    load: Function,
    state: Any,
    before: Mesh | None,
    after: Mesh | None,
    place: Callable[[Any, Mesh], Any],
) -> str | None:
    """How what is loaded differs; None where it does not."""
    if before is None:
        saved = state
    else:
        saved = place(state, before)
    if after is None:
        wanted = state
    else:
        wanted = place(state, after)
    like = jax.tree.map(_abstract, wanted)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state")
        try:
            save(path, saved)
        except Exception as error:
            raise CannotTell(f"save raises {type(error).__name__}: {error}") from error
        if not os.listdir(folder):
            raise CannotTell("save writes nothing to the path that it is given")
        takes = _takes_like(load)
        try:
            if takes:
                found = load(path, like)
            else:
                found = load(path)
        except Exception as error:  # noqa: BLE001 - what cannot be loaded is not restored, whatever it raises
            return f"load raises {type(error).__name__}: {error}"
        return _different(wanted, found, takes and after is not None)


def _takes_like(load: Function) -> bool:
    try:
        inspect.signature(load).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # no signature
        return True
    return True


def _abstract(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)
    if isinstance(leaf, np.ndarray):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
    return leaf


def _different(wanted: Any, found: Any, shardings: bool) -> str | None:
    left, _ = jax.tree_util.tree_flatten_with_path(wanted)
    right = jax.tree.leaves(found)
    structure: Any = jax.tree.structure(wanted)
    other: Any = jax.tree.structure(found)
    if structure != other:
        return f"the structure is {other}, expected {structure}"
    for (path, one), two in zip(left, right, strict=True):
        name = jax.tree_util.keystr(path) or "the state"
        reason = _of_leaf(one, two, shardings)
        if reason is not None:
            return f"{name} {reason}"
    return None


def _of_leaf(one: Any, two: Any, shardings: bool) -> str | None:
    if not hasattr(one, "dtype"):
        if bool(one == two):
            return None
        return f"is {two!r}, expected {one!r}"
    if not hasattr(two, "dtype") or is_key(one) != is_key(two):
        return f"is a {type(two).__name__}, expected an array of {one.dtype}"
    if one.shape != two.shape:
        return f"has shape {two.shape}, expected {one.shape}"
    if one.dtype != two.dtype:
        return f"has dtype {two.dtype}, expected {one.dtype}"
    a = on_host(one)
    b = on_host(two)
    both_nan = (a != a) & (b != b)
    different = ~((a == b) | both_nan)
    if different.any():
        first = np.argwhere(different)[0]
        at = tuple(int(number) for number in first)
        count = int(different.sum())
        return f"is {b[at]} at {list(at)}, expected {a[at]} ({count} of {different.size} numbers differ)"
    if shardings and isinstance(one, jax.Array) and isinstance(two, jax.Array):
        if not two.sharding.is_equivalent_to(one.sharding, one.ndim):
            return f"is sharded as {two.sharding}, expected {one.sharding}"
    return None
