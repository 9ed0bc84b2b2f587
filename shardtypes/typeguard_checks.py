"""The check of an annotation without arrays: typeguard's."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

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
from shardtypes.meshes import View
from shardtypes.scopes import Table
from shardtypes.sites import Site

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
            if not is_symbolic_dim(value):  # it stands for an integer
                raise
        # typeguard's own, as for some protocols
        except (AttributeError, TypeError) as error:
            _stats.count_not_possible(f"typeguard cannot check {site}: {error}")

    return check


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
