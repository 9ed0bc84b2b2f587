"""PartitionSpecs and NamedShardings of a type's structure."""

from __future__ import annotations

import copy
import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from shardtypes import messages
from shardtypes.array_types import array_annotation, holds_itself, meaning
from shardtypes.dtypes import ArrayType, shape_of_type
from shardtypes.fields import (
    field_names,
    field_types,
    is_named_tuple,
    is_pytree_dataclass,
    is_stack_of_other,
    stacked_as,
    unstacked,
)
from shardtypes.lang import Shape
from shardtypes.lang.messages import mesh_without_axis
from shardtypes.logical_rules import resolve_axes
from shardtypes.meshes import axes_of_type, current_mesh, entries_of, mesh_sizes
from shardtypes.pytrees import is_static
from shardtypes.spec import partition_spec


def spec_of(shape: Shape) -> PartitionSpec:
    """The PartitionSpec of an annotation under the logical rules in force. ``ValueError`` for an open rank."""
    return partition_spec(shape, resolve_axes(shape))


_CONTAINERS = (list, tuple, dict)
#: No example of a value; None is the value of what is optional.
NO_EXAMPLE: Any = object()


def _prefix(container: type, item: Any) -> Any:
    return item


def has_open_structure(annotation: Any) -> bool:
    """Whether only a value shows of how many parts it is: no prefix stands for all lists of dataclasses, as one does
    for lists of arrays. Raises ``TypeError`` as ``map_type``."""
    found: list[type] = []

    def many(container: type, item: Any) -> Any:
        if item is not None or container is type(None):
            found.append(container)
        return item

    map_type(annotation, lambda array: None, many=many)
    return bool(found)


def map_type(
    annotation: Any,
    leaf: Callable[[ArrayType], Any],
    path: str = "",
    example: Any = NO_EXAMPLE,
    many: Callable[[type, Any], Any] = _prefix,
) -> Any:
    """A tree of the structure of ``annotation``, with ``leaf`` of each array type in it.

    Of containers of variable length (lists, dicts, ``tuple[T, ...]``), and of what may be None (whose container is
    ``type(None)``) without an example, ``many`` makes the result from that of one item; by default it is the item's,
    which stands for all of them as JAX's tree prefixes do. Static fields are taken from ``example``, a value of the
    type, or their defaults; an example also says which member of a union is meant. Raises ``TypeError`` naming the path
    of a part that has no array type.
    """
    if isinstance(annotation, (dict, list, tuple)):
        return _map_tree(annotation, leaf, path, example, many)
    if is_pytree_dataclass(type(annotation)):  # types in the fields of an object
        types_of = {
            name: getattr(annotation, name) for name in field_names(type(annotation))
        }
        return _map_fields(type(annotation), types_of, leaf, path, example, many)
    where = path or "the type"
    if holds_itself(annotation):
        raise TypeError(
            f"{where}: {_show(annotation)} holds itself, so its values have no one structure; write the types of one "
            "in dicts, lists and tuples"
        )
    annotation = meaning(annotation)
    array = array_annotation(annotation)
    if array is not None:
        return leaf(array)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    base = origin or annotation
    if is_pytree_dataclass(base):
        if _is_of_subclass(example, base):
            kind = stacked_as(base, type(example))
            return map_type(kind, leaf, path, example, many)
        hints = field_types(base, args)
        return _map_fields(base, hints, leaf, path, example, many)
    if is_stack_of_other(base) and is_named_tuple(unstacked(base)):
        parts = _map_tree(field_types(base), leaf, path, _by_name(example), many)
        return unstacked(base)(**parts)
    if typing.is_typeddict(base):
        return _map_tree(field_types(base, args), leaf, path, example, many)
    if annotation is None or annotation is type(None):
        return None
    if origin in (typing.Union, types.UnionType):
        return _map_union(annotation, leaf, path, example, many)
    if isinstance(base, type) and issubclass(base, tuple):
        return _map_tuple(base, args, leaf, path, annotation, example, many)
    if (
        isinstance(base, type)
        and issubclass(base, (list, dict, Sequence, Mapping))
        and base is not str
        and args
    ):
        return _map_items(base, args[-1], leaf, path, example, many)
    raise TypeError(
        f"{where}: {_show(annotation)} has no array type; annotate it as f32['…'] or as a pytree_dataclass, "
        "or mark the field static with dataclasses.field(metadata={'static': True})"
    )


def _map_fields(
    base: Any,
    types_of_fields: Mapping[str, Any],
    leaf: Callable[[ArrayType], Any],
    path: str,
    example: Any,
    many: Callable[[type, Any], Any],
) -> Any:
    values = {}
    for name, hint in types_of_fields.items():
        if is_static(base, name):
            values[name] = _static_value(base, name, example)
        else:
            given = getattr(example, name, NO_EXAMPLE)
            values[name] = map_type(hint, leaf, f"{path}.{name}", given, many)
    return base(**values)


def _by_name(example: Any) -> Any:
    return example._asdict() if hasattr(example, "_asdict") else example


def _is_of_subclass(example: Any, base: type) -> bool:
    """Whether a value is of a class that derives from the one that is declared: another node of a tree."""
    kind, declared = type(example), unstacked(base)
    return (
        is_pytree_dataclass(kind)
        and issubclass(kind, declared)
        and kind is not declared
    )


def _map_union(
    annotation: Any,
    leaf: Callable[[ArrayType], Any],
    path: str,
    example: Any,
    many: Callable[[type, Any], Any],
) -> Any:
    """Of the member that the example is of; without one of any, if all have the same."""
    args = typing.get_args(annotation)
    optional = type(None) in args
    if optional and example is None:
        return None
    members = members_fitting(annotation, example)
    results = [map_type(a, leaf, path, example, many) for a in members]
    if any(result != results[0] for result in results[1:]):
        raise TypeError(
            f"{path or 'the type'}: the members of {annotation} are sharded differently, so none can be chosen"
        )
    return many(type(None), results[0]) if optional else results[0]


def members_fitting(union: Any, example: Any) -> list[Any]:
    """The members of a union whose values may be like the example; all where none is. None is left out."""
    members = [part for part in typing.get_args(union) if part is not type(None)]
    if example is NO_EXAMPLE:
        return members
    fitting = [member for member in members if _fits(member, example)]
    return fitting or members


def _fits(member: Any, example: Any) -> bool:
    member = meaning(member)
    array = array_annotation(member)
    if array is not None:
        rank = shape_of_type(array).rank
        return hasattr(example, "shape") and rank in (None, len(example.shape))
    base = typing.get_origin(member) or member
    if not isinstance(base, type) or typing.is_typeddict(base):
        return True
    if not isinstance(example, base):
        return False
    if not is_pytree_dataclass(base):
        return True
    hints = field_types(base, typing.get_args(member))
    return all(
        _may_be(hint, getattr(example, name, NO_EXAMPLE))
        for name, hint in hints.items()
        if not is_static(base, name)
    )


def _may_be(annotation: Any, example: Any) -> bool:
    """Whether the example may be a value of the annotation, one of its members if it is a union."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return any(_may_be(part, example) for part in typing.get_args(annotation))
    if annotation is type(None):
        return example is None
    return _fits(annotation, example)


def _map_tree(
    tree: Any,
    leaf: Callable[[ArrayType], Any],
    path: str,
    example: Any,
    many: Callable[[type, Any], Any],
) -> Any:
    """Types in dicts, lists and tuples, as a program writes them where it names each weight."""
    keys = tree.keys() if isinstance(tree, dict) else range(len(tree))

    def given(key: Any) -> Any:
        try:
            return example[key]
        except (TypeError, LookupError):  # no example, or one of another structure
            return NO_EXAMPLE

    parts = [
        map_type(tree[key], leaf, f"{path}[{key!r}]", given(key), many) for key in keys
    ]
    if isinstance(tree, dict):
        return type(tree)(zip(keys, parts, strict=True))
    return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)


def _map_items(
    base: type,
    item: Any,
    leaf: Callable[[ArrayType], Any],
    path: str,
    example: Any,
    many: Callable[[type, Any], Any],
) -> Any:
    """A container of any number of items. What stands for all items is a prefix of a list of arrays, but not of a list
    of dataclasses: there each item of the example has its own."""
    is_array = array_annotation(meaning(item)) is not None
    if many is not _prefix or is_array or not isinstance(example, _CONTAINERS):
        return many(base, map_type(item, leaf, f"{path}[*]", NO_EXAMPLE, many))
    if isinstance(example, dict):
        made = copy.copy(example)  # also where it is one of a class of its own
        for key, value in example.items():
            made[key] = map_type(item, leaf, f"{path}[{key!r}]", value, many)
        return made
    parts = enumerate(example)
    return type(example)(
        map_type(item, leaf, f"{path}[{at}]", value, many) for at, value in parts
    )


def _static_value(cls: type, name: str, example: Any) -> Any:
    if example is not NO_EXAMPLE:
        return getattr(example, name, None)
    field = next(f for f in dataclasses.fields(cls) if f.name == name)
    if field.default is not dataclasses.MISSING:
        return field.default
    return (
        field.default_factory()
        if field.default_factory is not dataclasses.MISSING
        else None
    )


def _map_tuple(
    base: type,
    args: tuple[Any, ...],
    leaf: Callable[[ArrayType], Any],
    path: str,
    annotation: Any,
    example: Any,
    many: Callable[[type, Any], Any],
) -> Any:
    items = example if isinstance(example, tuple) else ()

    def item(index: int, hint: Any, label: str) -> Any:
        return map_type(
            hint, leaf, label, items[index] if index < len(items) else NO_EXAMPLE, many
        )

    if hasattr(base, "_fields"):
        hints = field_types(base, args)
        return base(
            *(
                item(i, hints.get(n, Any), f"{path}.{n}")
                for i, n in enumerate(base._fields)
            )
        )
    if not args:
        raise TypeError(
            f"{path or 'the type'}: {_show(annotation)} has no array type; write tuple[f32['…'], …]"
        )
    if len(args) == 2 and args[1] is Ellipsis:
        return _map_items(base, args[0], leaf, path, example, many)
    return tuple(item(i, a, f"{path}[{i}]") for i, a in enumerate(args) if a != ())


def _show(annotation: Any) -> str:
    if annotation is jax.Array:
        return "jax.Array"
    return annotation.__name__ if isinstance(annotation, type) else repr(annotation)


def make_partition_specs(annotation: Any, example: Any = None) -> Any:
    """A tree of the type's structure with a ``PartitionSpec`` for each array, one entry a dimension.

    The types ``list[T]``, ``dict[str, T]`` and ``tuple[T, ...]`` of arrays give one spec for all their items, as JAX's
    tree prefixes allow, and of dataclasses the one of an item, or with an ``example`` as many as that has; dicts, lists
    and tuples of types give one for each.

    Args:
        annotation: The type.
        example: A value of the type, whose static fields and lengths count; without it the fields' defaults do.

    Raises:
        TypeError: a part of the type has no array annotation; the text names it.
    """
    return map_type(
        annotation,
        lambda array: spec_of(shape_of_type(array)),
        example=NO_EXAMPLE if example is None else example,
    )


def make_shardings(annotation: Any, mesh: Any = None, example: Any = None) -> Any:
    """As ``make_partition_specs``, with a ``NamedSharding`` on the mesh in force (or ``mesh``) for each array.

    Raises:
        ValueError: there is no mesh, it does not have an axis, or a partial sum is declared over an axis that is not
            Explicit.
    """
    mesh = mesh if mesh is not None else current_mesh()
    if mesh is None:
        raise ValueError(
            "make_shardings needs a mesh in force: with jax.set_mesh(mesh): …"
        )

    def leaf(array: ArrayType) -> NamedSharding:
        shape = shape_of_type(array)
        for axis in shape.axes:
            if axis not in mesh.axis_names:
                raise ValueError(
                    f"{array}: " + mesh_without_axis(axis, mesh_sizes(mesh))
                )
        automatic = [
            axis for axis in shape.pending if axis not in axes_of_type(mesh, "Explicit")
        ]
        if automatic:
            raise ValueError(f"{array}: {messages.pending_over_automatic(automatic)}")
        return NamedSharding(mesh, spec_of(shape))

    known = NO_EXAMPLE if example is None else example
    return map_type(annotation, leaf, example=known)


def is_fully_sharded(spec: PartitionSpec | ArrayType | Any, mesh: Any = None) -> bool:
    """Whether a spec splits over every axis of the mesh in force. Raises ``ValueError`` without a mesh."""
    mesh = mesh if mesh is not None else current_mesh()
    if mesh is None:
        raise ValueError(
            "is_fully_sharded needs a mesh in force: with jax.set_mesh(mesh): …"
        )
    if isinstance(spec, ArrayType):
        spec = spec_of(shape_of_type(spec))
    elif hasattr(spec, "partition_spec"):
        spec = spec.partition_spec()
    used = set(
        jax.tree_util.tree_leaves(
            entries_of(spec) if isinstance(spec, PartitionSpec) else tuple(spec)
        )
    )
    return set(mesh.axis_names) <= used
