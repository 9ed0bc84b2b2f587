"""Calls of functions that map over devices, as a test makes them: what can be compared with one device afterwards.

Only the outermost call counts, ``jit``, ``pmap`` or ``shard_map``, and of ``jit`` what it compiles: once for each set
of shapes. Arguments are kept as NumPy arrays, for the program may donate its own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import pjit as _pjit  # none of these has a public place to be asked
from jax._src import shard_map as _shard_map
from jax.extend.core import jaxprs_in_params

from shardtypes.meshes import axes_of_type
from shardtypes.prng_keys import is_key

MOST_BYTES = 2**28
"""Of the arguments of one call; of more, only shapes and dtypes are kept."""

_PACKAGES = ("jax", "shardtypes", "pytest_shardtypes")


@dataclass(frozen=True)
class Call:
    """``function`` and what it was given: arrays of NumPy, and other leaves as they were. ``mesh`` was in force;
    ``key`` is equal for calls that run the same program."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    mesh: Any
    key: str = field(repr=False)

    @property
    def name(self) -> str:
        """The function's name, with its module."""
        return name_of(self.function)

    @property
    def place(self) -> tuple[str, int] | None:
        """File and line of its definition."""
        code = getattr(unwrapped(self.function), "__code__", None)
        return None if code is None else (code.co_filename, code.co_firstlineno)


def name_of(function: Any) -> str:
    """A function's name, with its module."""
    inner = unwrapped(function)
    module = getattr(inner, "__module__", "") or ""
    name = getattr(inner, "__qualname__", type(inner).__name__).replace("<locals>.", "")
    return f"{module}.{name}" if module else name


def unwrapped(function: Any) -> Any:
    """The user's function under transformations and ``partial``."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = inspect.unwrap(function)
        else:
            return function


class MappedCalls:
    """Listens while it is installed; ``take`` gives what was called since it was asked last.

    Unless it ``keeps`` the calls, it only counts the functions in ``names``.
    """

    def __init__(self, keeps: bool) -> None:
        self.names: set[str] = set()
        self._keeps = keeps
        self._calls: dict[str, Call] = {}
        self._inside: ContextVar[bool] = ContextVar(
            "shardtypes_inside_mapped_call", default=False
        )
        self._before: list[tuple[Any, str, Any]] = []
        self.listening = False

    def install(self) -> None:
        """Put our functions in place of JAX's."""
        self._replace(_pjit, "_run_python_pjit", self._compiled(_pjit._run_python_pjit))
        self._replace(_shard_map, "_shard_map", self._mapping(_shard_map._shard_map))
        self._replace(jax, "pmap", self._mapping(jax.pmap))

    def uninstall(self) -> None:
        """Put JAX's own back."""
        while self._before:
            setattr(*self._before.pop())

    def take(self) -> list[Call]:
        """The calls since it was asked last, one for each program."""
        found = list(self._calls.values())
        self._calls.clear()
        return found

    @contextmanager
    def paused(self) -> Iterator[None]:
        """In the block nothing is noted."""
        token = self._inside.set(True)
        try:
            yield
        finally:
            self._inside.reset(token)

    def _replace(self, owner: Any, name: str, new: Any) -> None:
        self._before.append((owner, name, getattr(owner, name)))
        setattr(owner, name, new)

    def _compiled(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """What ``jit`` calls for shapes that it has not met."""

        def run(p: Any, args_flat: Any, fun: Any, args: Any, kwargs: Any) -> Any:
            __tracebackhide__ = True
            if self._hears(args_flat) and _is_users(fun):
                jaxpr = p.params["jaxpr"].jaxpr
                if _maps(jaxpr):
                    self._note(fun, args, kwargs, lambda: str(jaxpr))
            return plain(p, args_flat, fun, args, kwargs)

        return run

    def _mapping(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """``shard_map`` or ``pmap``, whose functions may be called outside of ``jit``."""

        @functools.wraps(plain)
        def mapping(*args: Any, **options: Any) -> Any:
            return self._heard(plain(*args, **options))

        return mapping

    def _heard(self, mapped: Any) -> Any:
        shapes: set[str] = set()

        @functools.wraps(mapped)
        def call(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            if not self.listening or not self._hears(jax.tree.leaves((args, kwargs))):
                return mapped(*args, **kwargs)
            given = str(jax.tree.map(_described, (args, kwargs)))
            with self.paused():
                if given not in shapes and _is_users(mapped):
                    shapes.add(given)
                    self._note(
                        mapped, args, kwargs, lambda: _text(mapped, args, kwargs)
                    )
                return mapped(*args, **kwargs)

        return call

    def _hears(self, leaves: Any) -> bool:
        if not self.listening or self._inside.get():
            return False
        return not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)

    def _note(
        self, function: Any, args: Any, kwargs: Any, program: Callable[[], str]
    ) -> None:
        if not self._keeps:
            self.names.add(name_of(function))
            return
        text = program()
        key = f"{name_of(function)} {text}"
        if not text or key in self._calls:
            return
        mesh = jax.sharding.get_abstract_mesh()
        kept_args, kept_kwargs = _kept((args, kwargs))
        self._calls[key] = Call(
            function, kept_args, kept_kwargs, None if mesh.empty else mesh, key
        )


def _is_users(function: Any) -> bool:
    """Whether a function is neither JAX's nor ours."""
    module = getattr(unwrapped(function), "__module__", "") or ""
    return module.partition(".")[0] not in _PACKAGES


def _text(mapped: Any, args: Any, kwargs: Any) -> str:
    """The text of the program; empty where it cannot be traced, which the call itself will say."""
    try:
        return str(jax.make_jaxpr(mapped)(*args, **kwargs))
    except Exception:  # noqa: BLE001 - whatever the user's program raises, it raises in the call that follows
        return ""


def _maps(jaxpr: Any) -> bool:
    """Whether a program maps a function over devices."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "shard_map":
            return True
        if any(map(_maps, jaxprs_in_params(eqn.params))):
            return True
    return False


def _described(leaf: Any) -> str:
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    return repr(leaf) if shape is None or dtype is None else f"{dtype}{list(shape)}"


def _kept(tree: Any) -> Any:
    """A copy of the arguments that the program cannot donate, without what it would take too much memory to keep."""
    sizes = [
        leaf.size * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(tree)
        if isinstance(leaf, jax.Array)
    ]
    return jax.tree.map(_copied if sum(sizes) <= MOST_BYTES else _shape_of, tree)


def _copied(leaf: Any) -> Any:
    if not isinstance(leaf, jax.Array):
        return leaf
    if not leaf.is_fully_addressable:
        return _shape_of(leaf)
    if is_key(leaf):
        data = jnp.array(np.array(jax.random.key_data(leaf)))
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    mesh = jax.typeof(leaf).sharding.mesh
    if mesh is not None and axes_of_type(mesh, "Explicit"):
        return leaf.copy()  # on explicit axes its sharding is part of its type
    return np.array(leaf)


def _shape_of(leaf: Any) -> Any:
    return (
        jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
        if isinstance(leaf, jax.Array)
        else leaf
    )
