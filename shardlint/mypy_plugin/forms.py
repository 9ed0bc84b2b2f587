"""Array types as mypy holds them, read and made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from mypy.nodes import SymbolTableNode, TypeInfo
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    LiteralType,
    TupleType,
    Type,
    TypeAliasType,
    TypeOfAny,
    UnionType,
    get_proper_type,
)

from shardlint.mypy_plugin.names import (
    CLASS_OF_DTYPE,
    DIMS,
    DTYPES,
    DTYPES_MODULE,
    INFERRED,
    JAX_ARRAY,
)
from shardtypes.lang import Dim, Shape, ShapeSyntaxError, Size, format_shape, parse

OF: Final = "\N{LATIN LETTER SINOLOGICAL DOT}"
"""Between an object and the name that its class gives a size: ``selfꞏM``. A letter, so that it is part of a name."""

Lookup = Callable[[str], SymbolTableNode | None]


@dataclass(frozen=True)
class ArrayForm:
    """An array type taken apart. ``shape`` is None where nothing is known of it, ``dtype`` is JAX's name or None.

    ``declared`` tells a written annotation, whose sharding counts, from a shape that was worked out.
    """

    dtype: str | None
    shape: Shape | None
    declared: bool


class Forms:
    """Makes array types; ``lookup`` finds a class by its qualified name."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def _info(self, qualname: str) -> TypeInfo | None:
        found = self._lookup(qualname)
        return (
            found.node
            if found is not None and isinstance(found.node, TypeInfo)
            else None
        )

    def array(
        self,
        dtype: str | None,
        text: str | None,
        declared: bool,
        at: Type | None = None,
    ) -> Type:
        """``Array[f32, dims['B L']]``; ``dtype`` is the name of the annotation class."""
        info, wrapper, marker = (
            self._info(JAX_ARRAY),
            self._info(DIMS),
            self._info(INFERRED),
        )
        text_fallback = self._info("builtins.str")
        if (
            info is None
            or wrapper is None
            or marker is None
            or text_fallback is None
            or len(info.type_vars) != 2
        ):
            return AnyType(TypeOfAny.special_form)
        dtype_info = (
            self._info(f"{DTYPES_MODULE}.{dtype}") if dtype is not None else None
        )
        unknown = AnyType(TypeOfAny.special_form)
        shape: Type = unknown
        if text is not None:
            literal = LiteralType(text, Instance(text_fallback, []))
            shape = Instance(
                wrapper, [literal if declared else Instance(marker, [literal])]
            )
        dtype_arg: Type = (
            Instance(dtype_info, []) if dtype_info is not None else unknown
        )
        line, column = (at.line, at.column) if at is not None else (-1, -1)
        return Instance(info, [dtype_arg, shape], line, column)

    def with_shape(self, original: Instance, text: str | None, declared: bool) -> Type:
        """The same array type with another shape."""
        made = self.array(None, text, declared)
        if not isinstance(made, Instance):
            return original
        return original.copy_modified(args=[original.args[0], made.args[1]])


def read_array(typ: Type) -> ArrayForm | None:
    """The parts of an array type, None for any other type."""
    proper = get_proper_type(typ)
    if (
        not isinstance(proper, Instance)
        or proper.type.fullname != JAX_ARRAY
        or len(proper.args) != 2
    ):
        return None
    dtype_type, shape_type = (get_proper_type(arg) for arg in proper.args)
    dtype = None
    if isinstance(dtype_type, Instance) and dtype_type.type.fullname.startswith(
        DTYPES_MODULE + "."
    ):
        dtype = DTYPES.get(dtype_type.type.name)
    shape, declared = None, False
    if (
        isinstance(shape_type, Instance)
        and shape_type.type.fullname == DIMS
        and shape_type.args
    ):
        literal = get_proper_type(shape_type.args[0])
        declared = not (
            isinstance(literal, Instance)
            and literal.type.fullname == INFERRED
            and literal.args
        )
        if not declared:
            assert isinstance(literal, Instance)
            literal = get_proper_type(literal.args[0])
        if isinstance(literal, LiteralType) and isinstance(literal.value, str):
            shape = _parse(literal.value)
    return ArrayForm(dtype, shape, declared)


def _parse(text: str) -> Shape | None:
    try:
        return parse(text)
    except ShapeSyntaxError:
        return None  # reported where it was written


def arrays_in(typ: Type) -> Iterator[ArrayForm]:
    """The array types inside tuples, unions, lists and the like."""
    form = read_array(typ)
    if form is not None:
        yield form
        return
    for part in parts_of(typ):
        yield from arrays_in(part)


def has_array(typ: Type) -> bool:
    """Whether there is an array type in it."""
    return next(arrays_in(typ), None) is not None


def parts_of(typ: Type) -> list[Type]:
    """The component types of a tuple, a union or a generic class."""
    if isinstance(typ, TypeAliasType) and typ.is_recursive:
        return []  # it has no end
    proper = get_proper_type(typ)
    if isinstance(proper, (TupleType, UnionType)):
        return list(proper.items)
    return list(proper.args) if isinstance(proper, Instance) else []


def sizes_of(
    shape: Shape | None, known: frozenset[str]
) -> tuple[Size | None, ...] | None:
    """The sizes of a value of this shape; names other than ``known`` are opaque: they may be equal to anything."""
    if shape is None or shape.variadic is not None:
        return None
    return tuple(_size_of(dim, known) for dim in shape.dims)


def _size_of(dim: Dim, known: frozenset[str]) -> Size | None:
    # a number of elements is the global one, the value may be a device's own part
    if (
        dim.kind != "size"
        or dim.size is None
        or (dim.axes and dim.size.constant is not None)
    ):
        return None
    hidden = {
        name: Size.symbol("?" + name) for name in dim.size.symbols if name not in known
    }
    return dim.size.substitute(hidden)


def shown(size: Size | None) -> Size | None:
    """The size with opaque names as the user wrote them; None where it cannot be written in a shape string."""
    if size is None:
        return None
    plain = size.substitute(
        {
            name: Size.symbol(name[1:])
            for name in size.symbols
            if name[:1] == "?" and name[1:]
        }
    )
    text = str(plain)
    parsed = _parse(text) if text and " " not in text else None
    return (
        plain
        if parsed is not None and len(parsed.dims) == 1 and parsed.dims[0].size == plain
        else None
    )


def class_of_dtype(jax_name: str | None) -> str | None:
    """``'float32'`` → ``'f32'``."""
    return CLASS_OF_DTYPE.get(jax_name) if jax_name is not None else None


def map_arrays(
    typ: Type, change: Callable[[Instance], Type], functions: bool = False
) -> Type:
    """The type with every array in it changed; those in the signatures of ``functions`` only on request."""
    if isinstance(typ, TypeAliasType) and typ.is_recursive:
        return typ
    proper = get_proper_type(typ)
    if isinstance(proper, CallableType) and functions:
        arguments = [map_arrays(arg, change, functions) for arg in proper.arg_types]
        return proper.copy_modified(
            arg_types=arguments, ret_type=map_arrays(proper.ret_type, change, functions)
        )
    if isinstance(proper, TupleType):
        return proper.copy_modified(
            items=[map_arrays(item, change, functions) for item in proper.items]
        )
    if isinstance(proper, UnionType):
        return UnionType.make_union(
            [map_arrays(item, change, functions) for item in proper.items], proper.line
        )
    if isinstance(proper, Instance) and proper.type.fullname == JAX_ARRAY:
        return change(proper)
    if isinstance(proper, Instance) and proper.args:
        return proper.copy_modified(
            args=[map_arrays(arg, change, functions) for arg in proper.args]
        )
    return typ


def without_shapes(typ: Type) -> Type:
    """The type with every array in it unknown, those in signatures included."""
    return map_arrays(
        typ,
        lambda array: array.copy_modified(
            args=[AnyType(TypeOfAny.special_form)] * len(array.args)
        ),
        True,
    )


def renamed(typ: Type, prefix: str, forms: Forms) -> Type:
    """The type with a prefix to every name in its shapes."""

    def change(array: Instance) -> Type:
        form = read_array(array)
        if form is None or form.shape is None:
            return array
        return forms.with_shape(array, prefixed(form.shape, prefix), form.declared)

    return map_arrays(typ, change)


def prefixed(shape: Shape, prefix: str) -> str | None:
    """The shape with a prefix to every name; None where its rank is open."""
    if shape.variadic is not None:
        return None
    names = {name: Size.symbol(prefix + name) for name in shape.names}
    sizes = [
        dim.size.substitute(names)
        if dim.kind == "size" and dim.size is not None
        else None
        for dim in shape.dims
    ]
    return format_shape(sizes, [dim.axes for dim in shape.dims], shape.pending)
