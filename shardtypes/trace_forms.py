"""What may stand between a call and the annotated function: ``jit``, ``vmap``, ``pmap``, ``shard_map``, ``partial``, …

``vmap`` and ``pmap`` add dimensions to the arguments that annotations, which describe one example, do not have.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
from jax.api_util import flatten_axes

# The size of a dimension that ``vmap`` maps: no other size of a trace is so small.
_MAPPED = 7


def beneath(f: Any) -> Any:
    """What a callable wraps or binds; None for one that does not."""
    if isinstance(f, functools.partial):
        return f.func
    if isinstance(f, (types.MethodType, staticmethod, classmethod)):
        return f.__func__
    if isinstance(f, property):
        return f.fget
    return getattr(f, "__wrapped__", None)


def layers(f: Any) -> Iterator[Any]:
    """A callable, what it wraps, and so on."""
    seen: set[int] = set()
    while id(f) not in seen:
        yield f
        seen.add(id(f))
        below = beneath(f)
        f = f if below is None else below


def innermost(f: Any) -> Any:
    """The function that was written, under all that wraps it."""
    *_, last = layers(f)
    return last


@dataclass(frozen=True)
class Mapping:
    """One ``vmap`` or ``pmap``: the dimension that each positional argument is mapped along; keywords along the first.

    ``bound`` arguments are given by what is around it, such as a ``partial``.
    """

    in_axes: Any
    size: Callable[[], int]
    bound: int

    def unmapped(self, position: int | None, tree: Any) -> Any:
        """The tree of an argument with the mapped dimension put into its arrays."""
        return self._each(self._leaf, position, tree)

    def example(self, position: int | None, tree: Any) -> Any:
        """The shapes of one example of an argument, without the mapped dimension."""
        return self._each(_without, position, tree)

    def _each(
        self, change: Callable[[Any, int | None], Any], position: int | None, tree: Any
    ) -> Any:
        axes: Any = 0 if position is None else self.in_axes
        if isinstance(axes, (tuple, list)):
            axes = axes[(position or 0) + self.bound]
        leaves, structure = jax.tree.flatten(tree)
        each = flatten_axes("in_axes", structure, axes)
        return jax.tree.unflatten(
            structure,
            [change(leaf, axis) for leaf, axis in zip(leaves, each, strict=True)],
        )

    def _leaf(
        self, leaf: jax.ShapeDtypeStruct, axis: int | None
    ) -> jax.ShapeDtypeStruct:
        if axis is None:
            return leaf
        at = axis if axis >= 0 else axis + len(leaf.shape) + 1
        return jax.ShapeDtypeStruct(
            (*leaf.shape[:at], self.size(), *leaf.shape[at:]), leaf.dtype
        )


def _without(leaf: Any, axis: int | None) -> Any:
    if axis is None or not getattr(leaf, "shape", ()):
        return leaf
    at = axis % len(leaf.shape)
    return jax.ShapeDtypeStruct((*leaf.shape[:at], *leaf.shape[at + 1 :]), leaf.dtype)


def bound_arguments(f: Any) -> dict[str, Any]:
    """What ``partial`` gives the function beneath, by name: of arrays the shapes of one example."""
    found: dict[str, Any] = {}
    for layer in layers(f):
        if isinstance(layer, functools.partial):
            signature = inspect.signature(layer.func)
            given = signature.bind_partial(*layer.args, **layer.keywords).arguments
            positions = {name: at for at, name in enumerate(signature.parameters)}
            for name, value in given.items():
                position = positions[name] if name not in layer.keywords else None
                found.setdefault(name, example_of(layer.func, position, value))
    return found


def example_of(f: Any, position: int | None, value: Any) -> Any:
    """The shapes of one example of an argument of a function that ``vmap`` or ``pmap`` may map."""
    for mapping in reversed(mappings(f)):
        value = mapping.example(position, value)
    return value


def mappings(f: Any) -> list[Mapping]:
    """The ``vmap``s and ``pmap``s of a callable, the innermost first."""
    found: list[Mapping] = []
    bound = 0
    for layer in layers(f):
        mapping = _mapping(layer, bound)
        if mapping is not None:
            found.insert(0, mapping)
        bound += _bound_by(layer)
    return found


def _bound_by(layer: Any) -> int:
    if isinstance(layer, functools.partial):
        return len(layer.args)
    return 1 if isinstance(layer, types.MethodType) else 0


def _mapping(layer: Any, bound: int) -> Mapping | None:
    """JAX keeps what it was given in the closures of what it returns; there is no public way to ask."""
    cells = _cells(layer)
    mapped = _cells(cells.get("fun"))
    if "in_axes" in mapped and "out_axes" in mapped:
        size = mapped.get("axis_size")
        return Mapping(
            mapped["in_axes"], lambda: _MAPPED if size is None else size, bound
        )
    mapped = _cells(cells.get("infer_params"))
    if "in_axes" in mapped:
        return Mapping(mapped["in_axes"], jax.local_device_count, bound)
    return None


def _cells(f: Any) -> dict[str, Any]:
    """The variables of the functions around a function that it uses, those that are assigned."""
    if not isinstance(f, types.FunctionType):
        return {}
    found: dict[str, Any] = {}
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            found[name] = cell.cell_contents
    return found
