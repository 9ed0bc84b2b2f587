"""``Array['layers', T]``: the type T with dimensions put in front of every array in it."""

from __future__ import annotations

import typing
from functools import cache
from typing import Any

from shardtypes.dtypes import ArrayType
from shardtypes.errors import ShapeStringError
from shardtypes.pytrees import field_types, is_pytree_dataclass, is_static
from shardtypes.spec import Text, parse_text


class Array:
    """``Array['layers', T]`` prepends dimensions to an array type, or to every array field of a dataclass type.

    Of a dataclass it makes a subclass: an alias, an annotation and a constructor. The same arguments give the same
    class.
    """

    __shardtypes_text__ = True

    def __class_getitem__(cls, item: tuple[Text, Any]) -> Any:
        if not isinstance(item, tuple) or len(item) != 2:
            raise ShapeStringError(f"Array needs dimensions and a type, as in Array['layers', T]; got {item!r}")
        dims, inner = item
        text = parse_text(dims).text
        return stack(" ".join(text.split()), inner)


@cache
def stack(dims: str, inner: Any) -> Any:
    """The stacked type."""
    if isinstance(inner, ArrayType):
        text = inner.__args__[0].decode()
        dtype: Any = inner.__origin__
        return dtype[f"{dims} {text}".strip()]
    if is_pytree_dataclass(inner):
        return _stack_class(dims, inner)
    origin, args = typing.get_origin(inner), typing.get_args(inner)
    if origin is typing.Annotated:
        return typing.Annotated[(args[0], *(stack(dims, a) if isinstance(a, ArrayType) else a for a in args[1:]))]
    if is_pytree_dataclass(origin):
        return _stack_class(dims, inner)
    if origin is typing.Union or (origin is not None and args):
        parts = tuple(a if a is type(None) or a is Ellipsis else stack(dims, a) for a in args)
        if typing.get_origin(inner) in (dict,):
            parts = (args[0], stack(dims, args[1]))
        return typing.Union[parts] if origin is typing.Union or type(inner).__name__ == "UnionType" else origin[parts]  # noqa: UP007 - a tuple of members
    raise TypeError(f"Array[{dims!r}, …] needs an array type or a pytree_dataclass, got {inner!r}")


def _stack_class(dims: str, inner: Any) -> type:
    base = typing.get_origin(inner) or inner
    name = f"{base.__name__}[{dims!r}]"
    # Fields are resolved when first needed: the class may refer to one that is defined later.
    made = type(name, (base,), {"__module__": base.__module__, "__doc__": base.__doc__, "__slots__": ()})
    made.__qualname__ = name
    made.__shardtypes_stack__ = (dims, inner)  # type: ignore[attr-defined]  # read by pickle and by the checks
    from shardtypes.pytrees import register

    register(made)
    try:
        resolved = field_types(base, typing.get_args(inner))
    except NameError as error:
        raise NameError(f"Array[{dims!r}, {base.__name__}]: {error}") from None
    made.__shardtypes_fields__ = {  # type: ignore[attr-defined]  # read by field_types
        field: hint if is_static(base, field) else stack(dims, hint) for field, hint in resolved.items()
    }
    # The class has no name in its module to be found by.
    made.__reduce__ = _reduce  # type: ignore[method-assign,assignment]
    return made


def _reduce(self: Any) -> tuple[Any, ...]:
    dims, inner = type(self).__shardtypes_stack__
    import dataclasses

    values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init}
    return _rebuild, (dims, inner, values)


def _rebuild(dims: str, inner: Any, values: dict[str, Any]) -> Any:
    return stack(dims, inner)(**values)
