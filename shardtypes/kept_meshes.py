"""The mesh that a function made by ``jax.shard_map`` keeps.

Without ``mesh=`` it takes the mesh in force where it is called first, and refuses every other one from then on. What
runs functions on meshes of its own has JAX forget these, or the program would be refused on the mesh that it is for.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from jax._src import shard_map as _module  # no public place to be asked


@dataclass
class _Block:
    any_mesh: bool
    # Of JAX's functions that took a mesh: their code, and what each keeps with the mesh, the names of the axes, by
    # identity, with those that it was made with.
    codes: set[types.CodeType] = field(default_factory=set)
    names: dict[int, tuple[Any, Any]] = field(default_factory=dict)


_block: ContextVar[_Block | None] = ContextVar(
    "shardtypes_meshes_to_forget", default=None
)
# The meshes that functions took anywhere, by identity: they did not come from ``mesh=``.
_taken: dict[int, Any] = {}


@contextmanager
def forgetting_meshes(any_mesh: bool = False) -> Iterator[None]:
    """Have functions forget the mesh that they take in the block. With ``any_mesh`` what they took before binds them
    to none in it."""
    if not _install():
        yield
        return
    block = _Block(any_mesh)
    token = _block.set(block)
    try:
        yield
    finally:
        _block.reset(token)
        for code in block.codes:
            for function in gc.get_referrers(code):  # JAX keeps no list of them
                if (
                    isinstance(function, types.FunctionType)
                    and function.__code__ is code
                ):
                    _forget(function, block)


def _forget(function: types.FunctionType, block: _Block) -> None:
    kept = dict(
        zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    )
    if not {"mesh", "axis_names"} <= kept.keys():
        return
    found = block.names.get(id(kept["axis_names"].cell_contents))
    if found is not None:
        kept["mesh"].cell_contents = None
        kept["axis_names"].cell_contents = found[1]


@functools.lru_cache(maxsize=1)
def _install() -> bool:
    """Have JAX tell us which meshes its functions take. False where this JAX has no such place."""
    check = getattr(_module, "_shmap_checks", None)
    if check is None:
        return False

    @functools.wraps(check)
    def noted(mesh: Any, axis_names: Any, *args: Any, **kwargs: Any) -> Any:
        block = _block.get()
        if block is not None and block.any_mesh and id(mesh) in _taken:
            mesh = None
        found, names = check(mesh, axis_names, *args, **kwargs)
        if mesh is None:
            _taken[id(found)] = found
        if block is not None and (mesh is None or id(axis_names) in block.names):
            _, made_with = block.names.get(id(axis_names), (axis_names, axis_names))
            block.codes.add(sys._getframe(1).f_code)
            block.names[id(names)] = names, made_with
        return found, names

    _module._shmap_checks = noted
    return True
