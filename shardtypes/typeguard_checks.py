"""The check of an annotation without arrays: typeguard's."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import jax
from jax.export import is_symbolic_dim
from typeguard import (
    CollectionCheckStrategy,
    TypeCheckConfiguration,
    TypeCheckError,
    TypeCheckMemo,
)
from typeguard._checkers import builtin_checker_lookup, check_type_internal
from typeguard._utils import qualified_name

from shardtypes import _stats
from shardtypes.fields import is_named_tuple
from shardtypes.meshes import View
from shardtypes.scopes import Table
from shardtypes.sites import Site
from shardtypes.stacks import is_stack

Checker = Callable[[Any, Table, View, Site], None]

CONFIG = TypeCheckConfiguration(
    collection_check_strategy=CollectionCheckStrategy.ALL_ITEMS
)


def by_typeguard(annotation: Any, memo: TypeCheckMemo) -> Checker:
    """typeguard's check. Its errors do not say where the value is."""

    def check(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        try:
            check_type_internal(value, annotation, memo)
        except TypeCheckError:
            if is_symbolic_dim(value):  # it stands for an integer
                return
            if not _is_stack_of(annotation, value, memo):
                raise
            _stats.count_not_possible(
                f"{site}: a stack, annotated as one of its values"
            )
        # typeguard's own, as for some protocols
        except (AttributeError, TypeError) as error:
            _stats.count_not_possible(f"typeguard cannot check {site}: {error}")

    return check


def _is_stack_of(annotation: Any, value: Any, memo: TypeCheckMemo) -> bool:
    """Whether a value is what ``vmap`` makes of one of this type. Of the classes whose fields typeguard looks into: an
    array by itself is what it is annotated as."""
    if not _names_fields(annotation):
        return False

    def check(one: Any) -> None:
        leaves, structure = jax.tree_util.tree_flatten(one)
        described = [isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves]
        arrays = [leaf for leaf in leaves if isinstance(leaf, jax.ShapeDtypeStruct)]

        def check_traced(*traced: jax.Array) -> None:
            parts = iter(traced)
            whole = [
                next(parts) if is_array else leaf
                for leaf, is_array in zip(leaves, described, strict=True)
            ]
            restored = jax.tree_util.tree_unflatten(structure, whole)
            check_type_internal(restored, annotation, memo)

        # in a trace an array of any shape can be had: the types of other packages know no descriptions of one
        jax.eval_shape(check_traced, *arrays)

    return is_stack(value, check)


def _names_fields(annotation: Any) -> bool:
    """Whether a named tuple or a typed dict is in a type."""
    base = typing.get_origin(annotation) or annotation
    if is_named_tuple(base) or typing.is_typeddict(base):
        return True
    return any(map(_names_fields, typing.get_args(annotation)))


class AroundArrays(TypeCheckMemo):
    """The memo of checks by typeguard that leave arrays out: they are checked, or counted, by themselves."""

    __slots__ = ()


def around_arrays(annotation: Any, memo: TypeCheckMemo) -> Checker:
    """typeguard's own check of a type that holds arrays: of what is around them."""
    memo = AroundArrays(memo.globals, memo.locals, config=memo.config)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    base = annotation if origin is None else origin
    checker = builtin_checker_lookup(base, args, ())
    if checker is None and not isinstance(base, type):
        return anything

    def check(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        if checker is None:
            is_instance(value, base, memo)
            return
        try:
            checker(value, base, args, memo)
        # typeguard's own, as for some protocols
        except (AttributeError, TypeError) as error:
            _stats.count_not_possible(f"typeguard cannot check {site}: {error}")

    return check


def anything(value: Any, table: Table, view: View, site: Site) -> None:
    """The check of ``Any``."""


def is_instance(value: Any, base: Any, memo: TypeCheckMemo) -> bool:
    """Whether there is anything to look into. Raises typeguard's error for a value of another type."""
    __tracebackhide__ = True
    if isinstance(value, base):
        return True
    if isinstance(value, Mock):  # typeguard lets these pass
        return False
    checker = builtin_checker_lookup(base, (), ())
    if checker is not None:
        checker(value, base, (), memo)
    raise TypeCheckError(f"is not an instance of {qualified_name(base)}")
