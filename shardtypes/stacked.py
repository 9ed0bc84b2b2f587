"""``Array['layers', T]``: the type T with dimensions put in front of every array in it."""

from __future__ import annotations

import ast
import copy
import copyreg
import inspect
import sys
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any

from shardtypes.array_types import holds_arrays, holds_itself, meaning
from shardtypes.dtypes import ArrayType
from shardtypes.errors import ShapeStringError
from shardtypes.fields import (
    declares_fields,
    field_types,
    is_checked_where_made,
    is_named_tuple,
    is_pytree_dataclass,
    is_stack_of_other,
    stacked_as,
    unstacked,
)
from shardtypes.pytrees import is_static, register
from shardtypes.spec import Text, parse_text


class Array:
    """``Array['layers', T]`` prepends dimensions to an array type, or to every array field of a dataclass type.

    Of a dataclass it makes a subclass: an alias, an annotation and a constructor. The same arguments give the same
    class. Its values are of the dataclass itself, however they are made: by this constructor, ``vmap``, ``scan`` or
    ``tree.map``. So they are trees of the same structure, and a value is an instance of both classes.
    """

    __shardtypes_text__ = True

    def __class_getitem__(cls, item: tuple[Text, Any]) -> Any:
        if not isinstance(item, tuple) or len(item) != 2:
            raise ShapeStringError(
                f"Array needs dimensions and a type, as in Array['layers', T]; got {item!r}"
            )
        dims, inner = item
        text = parse_text(dims).text
        return stack(" ".join(text.split()), inner)


@cache
def stack(dims: str, inner: Any) -> Any:
    """The stacked type."""
    if holds_itself(inner):
        raise TypeError(f"Array[{dims!r}, …]: {inner!r} holds itself")
    inner = meaning(inner)
    if isinstance(inner, ArrayType):
        text = inner.__args__[0].decode()
        dtype: Any = inner.__origin__
        return dtype[f"{dims} {text}".strip()]
    if is_pytree_dataclass(inner):
        return _stack_class(dims, inner)
    origin, args = typing.get_origin(inner), typing.get_args(inner)
    if origin is typing.Annotated:
        return typing.Annotated[
            tuple(stack(dims, a) if isinstance(a, ArrayType) else a for a in args)
        ]
    if is_pytree_dataclass(origin):
        return _stack_class(dims, inner)
    base = origin or inner
    if typing.is_typeddict(base):
        return _stack_typed_dict(dims, base, args)
    has_fields = is_named_tuple(base) or declares_fields(base)
    if is_stack_of_other(base) or (has_fields and holds_arrays(inner)):
        return _stack_other(dims, inner)
    if origin is typing.Union or (origin is not None and args):
        keys = args[:-1] if _is_mapping(origin) else ()
        items = (
            a if a is type(None) or a is Ellipsis else stack(dims, a)
            for a in args[len(keys) :]
        )
        parts = (*keys, *items)
        return (
            typing.Union[parts]  # noqa: UP007 - a tuple of members
            if origin is typing.Union or type(inner).__name__ == "UnionType"
            else origin[parts]
        )
    raise TypeError(
        f"Array[{dims!r}, …] needs an array type, or a class with fields of array types, got {inner!r}"
    )


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


class StackedClass(type):
    """The class of stacked dataclasses. They have no name in a module to be found by, so they are pickled as what they
    are made of."""

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        **options: Any,
    ) -> Any:
        """An ordinary subclass; the stacked class itself where cloudpickle makes one from its name and its base."""
        if "__shardtypes_stack__" not in namespace and bases:
            head = f"{bases[0].__name__}["
            if name.startswith(head):
                dims = ast.literal_eval(name[len(head) : -1])
                return stack(dims, namespace.get("__orig_bases__", bases)[0])
        return super().__new__(cls, name, bases, namespace, **options)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """A value of the class that is stacked: JAX compares the classes of trees."""
        if is_stack_of_other(cls):
            return unstacked(cls)(*args, **kwargs)
        made = super().__call__(*args, **kwargs)
        if "__shardtypes_stack__" in vars(cls):
            object.__setattr__(made, "__class__", unstacked(cls))
        return made

    @property
    def __signature__(cls) -> inspect.Signature:
        whole = inspect.signature(inspect.getattr_static(cls, "__init__"))
        return whole.replace(parameters=list(whole.parameters.values())[1:])

    def __instancecheck__(cls, value: Any) -> bool:
        if "__shardtypes_stack__" in vars(cls):
            return isinstance(value, unstacked(cls))
        return super().__instancecheck__(value)

    def stack_alike(cls, other: type) -> type:
        """Another class with the dimensions in front that this one has."""
        dims, inner = vars(cls)["__shardtypes_stack__"]
        made: type = stack(dims, stacked_as(typing.get_origin(inner) or inner, other))
        return made

    def __setattr__(cls, name: str, value: Any) -> None:
        setter = sys._getframe(1).f_globals.get("__name__", "")
        # what that copies from another process is there already
        if not setter.startswith("cloudpickle."):
            super().__setattr__(name, value)


@cache
def _metaclass(of_base: Any) -> Any:
    """``StackedClass``, as a subclass of another metaclass where the base has one."""
    if issubclass(of_base, StackedClass):
        return of_base
    made = (
        StackedClass
        if of_base is type
        else type("StackedClass", (StackedClass, of_base), {})
    )
    copyreg.pickle(made, _reduce_class)
    return made


def _reduce_class(cls: type) -> Any:
    made_of = vars(cls).get("__shardtypes_stack__")
    return cls.__qualname__ if made_of is None else (stack, made_of)


def _stack_class(dims: str, inner: Any) -> type:
    base = typing.get_origin(inner) or inner
    try:
        resolved = field_types(base, typing.get_args(inner))
    except NameError as error:
        raise NameError(f"Array[{dims!r}, {base.__name__}]: {error}") from None
    types_of_fields = {
        name: hint if is_static(base, name) else stack(dims, hint)
        for name, hint in resolved.items()
    }
    name = f"{base.__name__}[{dims!r}]"
    namespace = {
        "__module__": base.__module__,
        "__doc__": base.__doc__,
        "__qualname__": name,
        "__slots__": (),
        "__orig_bases__": (inner,),
        "__annotations__": types_of_fields,
        "__init__": _annotated(inspect.unwrap(base.__init__), types_of_fields),
        "__dataclass_fields__": _fields(base, types_of_fields),
        "__shardtypes_stack__": (dims, inner),
        "__shardtypes_fields__": types_of_fields,  # read by field_types
    }
    kind: Any = type(base)
    made: type = register(_metaclass(kind)(name, (base,), namespace))
    if is_checked_where_made(base):
        # needs typeguard, which types alone do not
        from shardtypes.construction import check_where_made

        check_where_made(made)
    return made


def _stacked_fields(dims: str, base: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    """The types of a class's fields, with dimensions in front of those that hold arrays."""
    return {
        name: stack(dims, hint) if holds_arrays(hint) else hint
        for name, hint in field_types(base, args).items()
    }


def _stack_other(dims: str, inner: Any) -> type:
    """The stacked form of a named tuple or of a dataclass of another library: a type that only describes its values,
    for how to derive from such a class is its library's affair."""
    base = typing.get_origin(inner) or inner
    types_of_fields = _stacked_fields(dims, base, typing.get_args(inner))
    name = f"{base.__name__}[{dims!r}]"
    namespace = {
        "__module__": base.__module__,
        "__doc__": base.__doc__,
        "__qualname__": name,
        "__annotations__": types_of_fields,
        "__shardtypes_stack__": (dims, inner),
        "__shardtypes_fields__": types_of_fields,  # read by field_types
    }
    return _metaclass(type)(name, (), namespace)  # type: ignore[no-any-return]  # as above


def _stack_typed_dict(dims: str, base: Any, args: tuple[Any, ...]) -> Any:
    fields = _stacked_fields(dims, base, args)
    optional = {
        name: typing.NotRequired[hint]
        for name, hint in fields.items()
        if name in base.__optional_keys__
    }
    made: Any = typing.TypedDict(f"{base.__name__}[{dims!r}]", {**fields, **optional})  # type: ignore[misc]  # made when it runs
    made.__module__ = base.__module__
    return made


def _fields(base: Any, types_of_fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a dataclass, with other types."""
    fields = {
        name: copy.copy(field) for name, field in base.__dataclass_fields__.items()
    }
    for name, hint in types_of_fields.items():
        fields[name].type = hint
    return fields


def _annotated(function: Any, hints: Mapping[str, Any]) -> Any:
    """A copy of a method, with other annotations of its parameters."""
    if not isinstance(function, types.FunctionType):
        return function
    code, closure = function.__code__, function.__closure__
    made = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, closure
    )
    made.__kwdefaults__, made.__doc__ = function.__kwdefaults__, function.__doc__
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    made.__annotations__ = {
        n: hints.get(n, hint) for n, hint in function.__annotations__.items()
    }
    return made
