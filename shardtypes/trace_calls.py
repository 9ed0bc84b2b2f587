"""One call of a function at given sizes, with no data: the arguments made, the mesh in force, JAX's rules asked."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
)
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import NamedSharding, PartitionSpec

from shardtypes.accepted_dtypes import numpy_dtype
from shardtypes.checked import _MISSING
from shardtypes.dtypes import ArrayType, array_spec, shape_of_type
from shardtypes.mapped import _shard_map
from shardtypes.meshes import axes_of_type
from shardtypes.partition_specs import has_open_structure, map_type, spec_of
from shardtypes.trace_arguments import Argument
from shardtypes.trace_forms import Mapping as Mapped
from shardtypes.trace_guesses import CannotTell

_FAMILY = {
    "floating": "float32",
    "inexact": "float32",
    "number": "float32",
    "any": "float32",
    "integer": "int32",
    "signedinteger": "int32",
    "unsignedinteger": "uint32",
    "complexfloating": "complex64",
}
_MOST_KEYS = 64
RUNS_LATER = (
    "it is a coroutine, a generator or a context manager, which only tests can run"
)
# JAX keeps its traces, which would then not be checked again: each evaluation has a number of its own.
_numbers = itertools.count()


@dataclass(frozen=True)
class Surroundings:
    """What a function is called in: a mesh, and whether inside ``shard_map`` over it."""

    mesh: Any = None
    manual: bool = False


@dataclass(frozen=True)
class Configured:
    """The numbers around a function; ``constants`` are those that its modules name, as in ``LAYERS = 2``."""

    numbers: frozenset[int] = frozenset()
    constants: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Call:
    """A function with its arguments, but for the sizes. ``configured`` are the numbers around it, ``more`` the sizes of
    dimensions of any number, ``keys`` those of dictionaries, found as they are asked for."""

    f: Callable[..., Any]
    parameters: list[Argument]
    mapped: list[Mapped]
    result: Any
    around: Surroundings = Surroundings()
    configured: Configured = Configured()
    more: tuple[int, ...] = ()
    keys: list[Any] = field(default_factory=list)

    def evaluate(self, sizes: Mapping[str, Any]) -> Any:
        """The result's tree of ``ShapeDtypeStruct``. Raises what the function raises."""
        while True:
            known = len(self.keys)
            try:
                return self._evaluate(sizes)
            except KeyError as error:
                if not self._note_key(error) or len(self.keys) in (known, _MOST_KEYS):
                    raise

    def _note_key(self, error: KeyError) -> bool:
        key = error.args[0] if error.args else None
        if (
            not isinstance(key, (str, int))
            or key in self.keys
            or not any(map(_has_open_keys, self.parameters))
        ):
            return False
        self.keys.append(key)
        return True

    def _evaluate(self, sizes: Mapping[str, Any]) -> Any:
        run, traced = self.prepared(sizes)
        with (
            mesh_in_force(self.around.mesh),
            set_xla_metadata(shardtypes_trace=next(_numbers)),
        ):
            return jax.eval_shape(run, traced)

    def prepared(
        self, sizes: Mapping[str, Any]
    ) -> tuple[Callable[[Any], Any], Mapping[str, Any]]:
        """A function of one tree of arrays, and that tree of ``ShapeDtypeStruct``."""
        traced = {
            argument.parameter.name: self._traced(position, argument, sizes)
            for position, argument in enumerate(self.parameters)
            if argument.value is _MISSING or _is_tree_of_arrays(argument.value)
        }
        guessed = {
            a.parameter.name: a.guess.value(sizes)
            for a in self.parameters
            if a.guess is not None
        }
        run: Callable[[Any], Any] = functools.partial(self._call, guessed)
        if self.around.manual:
            run = self._inside_shard_map(run, traced)
        return run, traced

    def _traced(
        self, position: int, argument: Argument, sizes: Mapping[str, Any]
    ) -> Any:
        if argument.value is not _MISSING:
            return argument.value
        tree = map_type(
            argument.annotation,
            lambda annotation: struct(annotation, sizes, self.around.mesh, self.more),
            many=self._many,
        )
        at = position if argument.is_positional else None
        for mapping in self.mapped:
            tree = mapping.unmapped(at, tree)
        return tree

    def _many(self, container: type, item: Any) -> Any:
        if issubclass(container, list):
            return [item]
        if issubclass(container, tuple):
            return (item,)
        if container is type(None):
            return item
        return dict.fromkeys(self.keys, item)

    def _call(self, static: Mapping[str, Any], traced: Mapping[str, Any]) -> Any:
        values = [
            (a, traced.get(a.parameter.name, static.get(a.parameter.name, a.value)))
            for a in self.parameters
        ]
        first = [value for argument, value in values if argument.is_positional]
        named = {
            argument.parameter.name: value
            for argument, value in values
            if not argument.is_positional
        }
        result = self.f(*first, **named)
        return jax.tree.map(_part_of_result, result, is_leaf=_is_iterator)

    def _inside_shard_map(
        self, run: Callable[[Any], Any], traced: Mapping[str, Any]
    ) -> Callable[[Any], Any]:
        """The call inside ``shard_map``, entered and left as the annotations say."""
        annotations = {
            a.parameter.name: a.annotation
            for a in self.parameters
            if a.value is _MISSING
        }
        entry = {
            name: _specs(annotations[name], self._many)
            if name in annotations
            else PartitionSpec()
            for name in traced
        }
        leaves = _leaves(self.result)

        def body(values: Mapping[str, Any]) -> Any:
            result = _summed(run(values), self.result)
            return () if leaves is None else result

        spec = PartitionSpec() if leaves is None else leaves
        mapped: Callable[[Any], Any] = _shard_map()(
            body,
            mesh=self.around.mesh,
            in_specs=(entry,),
            out_specs=spec,
            check_vma=False,
        )
        return mapped


@jax.tree_util.register_static
@dataclass(frozen=True)
class NoArray:
    """Stands in a result for what is no array, as a name or a function is: JAX has no type for it."""

    kind: type


# What runs once someone asks for its next item, or waits for it.
_RUNS_LATER = (
    Iterator,
    AsyncIterator,
    Awaitable,
    contextlib.AbstractContextManager,
    contextlib.AbstractAsyncContextManager,
)


def _is_iterator(part: Any) -> bool:
    return isinstance(part, Iterator)


def _part_of_result(leaf: Any) -> Any:
    """What JAX is given for a part of a result. Raises ``CannotTell`` for a coroutine and the like: it has not run."""
    try:
        jax.typeof(leaf)
    except TypeError:
        if isinstance(leaf, Coroutine):
            leaf.close()
        if isinstance(leaf, _RUNS_LATER):
            raise CannotTell(RUNS_LATER) from None
        return NoArray(type(leaf))
    return leaf


def _specs(annotation: Any, many: Callable[[type, Any], Any]) -> Any:
    return map_type(annotation, lambda array: spec_of(shape_of_type(array)), many=many)


def _leaves(result: Any) -> Any:
    """The specs of a result, once it is summed; None where its annotation does not give them."""
    try:
        if has_open_structure(result):
            return None
        return map_type(
            result,
            lambda array: spec_of(
                replace(shape_of_type(array), pending=(), pending_spans=())
            ),
        )
    except (TypeError, ValueError, NameError):
        return None


def _summed(result: Any, annotation: Any) -> Any:
    """The result summed over the axes over which it is pending, as whoever calls the function there does:
    ``shard_map`` takes out no pending values."""
    pending: list[tuple[str, ...]] = []
    try:
        map_type(annotation, lambda array: pending.append(shape_of_type(array).pending))
    except (TypeError, ValueError, NameError):
        return result
    leaves, structure = jax.tree.flatten(result)
    if not any(pending) or len(pending) != len(leaves):
        return result
    summed = [
        jax.lax.psum(leaf, axes) if axes else leaf
        for leaf, axes in zip(leaves, pending, strict=True)
    ]
    return jax.tree.unflatten(structure, summed)


def _has_open_keys(argument: Argument) -> bool:
    found: list[type] = []
    if argument.value is not _MISSING:
        return False

    def many(container: type, item: Any) -> Any:
        found.append(container)
        return item

    map_type(argument.annotation, lambda array: None, many=many)
    known = (list, tuple, type(None))
    return any(not issubclass(container, known) for container in found)


def _is_tree_of_arrays(value: Any) -> bool:
    leaves = jax.tree_util.tree_leaves(value)
    return bool(leaves) and all(
        isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct, np.ndarray))
        for leaf in leaves
    )


def struct(
    annotation: ArrayType, sizes: Mapping[str, Any], mesh: Any, more: tuple[int, ...]
) -> jax.ShapeDtypeStruct:
    """The abstract array of an annotation at these sizes, sharded as it says where the mesh has Explicit axes."""
    spec = array_spec(annotation)
    dims: list[Any] = []
    for dim in spec.shape.dims:
        if dim.kind == "variadic":
            dims += more
            continue
        dims.append(3 if dim.size is None else dim.size.evaluate(sizes))
    if spec.dtype.name == "key":
        dtype: Any = jax.eval_shape(lambda: jax.random.key(0)).dtype
    else:
        dtype = numpy_dtype(spec.dtype) or np.dtype(
            _FAMILY.get(spec.dtype.name, "float32")
        )
    if (
        mesh is not None
        and axes_of_type(mesh, "Explicit")
        and spec.shape.rank is not None
    ):
        sharding = NamedSharding(_abstract(mesh), spec_of(spec.shape))
        return jax.ShapeDtypeStruct(tuple(dims), dtype, sharding=sharding)
    return jax.ShapeDtypeStruct(tuple(dims), dtype)


def _abstract(mesh: Any) -> Any:
    return mesh.abstract_mesh if isinstance(mesh, jax.sharding.Mesh) else mesh


@contextlib.contextmanager
def mesh_in_force(mesh: Any) -> Iterator[None]:
    """An abstract mesh, or that of a concrete one, in force for the block."""
    if mesh is None:
        yield
        return
    with jax.sharding.use_abstract_mesh(_abstract(mesh)):
        yield
