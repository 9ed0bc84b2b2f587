"""``assert_sharding``: values against annotations, shape strings, or trees of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typeguard

from shardtypes.dtypes import ArrayType, anydtype
from shardtypes.errors import ShapeError
from shardtypes.manual_check import check_type_of
from shardtypes.scopes import Scope
from shardtypes.sites import Site
from shardtypes.typeguard_plugin import register_with_typeguard


def assert_sharding(value: Any, expected: Any) -> None:
    """Fail unless ``value`` has the declared shape and is really sharded as declared.

    ``expected`` is a shape string (any dtype), an annotation, a type that holds annotations (a dataclass,
    ``dict[str, f32['M/t']]``, ``Array['layers', Layer]``), or dicts, lists and tuples of these. A name stands for
    one size throughout. Raises ``ShapeError`` or ``ShardingError``.
    """
    __tracebackhide__ = True
    register_with_typeguard()
    with Scope():
        _walk(value, expected, "")


def _walk(value: Any, expected: Any, path: str) -> None:
    __tracebackhide__ = True
    if isinstance(expected, (str, bytes)):
        expected = anydtype.__class_getitem__(expected)
    if isinstance(expected, ArrayType):
        check_type_of(expected, value, Site("", f"value{path}"))
    elif isinstance(expected, Mapping):
        _same_keys(value, expected, path)
        for key, part in expected.items():
            _walk(value[key], part, f"{path}[{key!r}]")
    elif isinstance(expected, (list, tuple)):
        if not isinstance(value, (list, tuple)) or len(value) != len(expected):
            raise ShapeError(
                f"value{path}: expected {len(expected)} items, got {_short(value)}"
            )
        for at, part in enumerate(expected):
            _walk(value[at], part, f"{path}[{at}]")
    else:
        typeguard.check_type(
            value,
            expected,
            collection_check_strategy=typeguard.CollectionCheckStrategy.ALL_ITEMS,
        )


def _same_keys(value: Any, expected: Mapping[Any, Any], path: str) -> None:
    __tracebackhide__ = True
    if not isinstance(value, Mapping) or set(value) != set(expected):
        raise ShapeError(
            f"value{path}: expected the keys {sorted(map(repr, expected))}, got {_short(value)}"
        )


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"the keys {sorted(map(repr, value))}"
    if isinstance(value, (list, tuple)):
        return f"{len(value)} items"
    return f"a {type(value).__name__}"
