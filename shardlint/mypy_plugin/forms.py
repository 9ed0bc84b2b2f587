"""Array types as mypy has them: ``Array[f32, dims[Literal['B L']]]``. The shape is there to be shown, not compared."""

from __future__ import annotations

from collections.abc import Callable

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

from shardlint.array_places import Arrays
from shardlint.mypy_plugin.names import CLASS_OF_DTYPE, DIMS, DTYPES_MODULE, JAX_ARRAY

_OPEN = "..."


class Forms:
    """Makes array types; ``lookup`` finds a class by its qualified name."""

    def __init__(self, lookup: Callable[[str], SymbolTableNode | None]) -> None:
        self._lookup = lookup
        # by how they are shown: most are met many times
        self._known: dict[str, Type] = {}
        self._known_of: TypeInfo | None = None

    def array(
        self, dtype: str | None, text: str | None, at: Type | None = None
    ) -> Type:
        """``Array[f32, dims['B L']]``; ``dtype`` is the name of the annotation class."""
        info = self._info(JAX_ARRAY)
        wrapper = self._info(DIMS)
        strings = self._info("builtins.str")
        unknown = AnyType(TypeOfAny.special_form)
        if info is None or wrapper is None or strings is None:
            return unknown
        if len(info.type_vars) != 2:
            return unknown
        dtype_info = None if dtype is None else self._info(f"{DTYPES_MODULE}.{dtype}")
        dtype_arg: Type = unknown if dtype_info is None else Instance(dtype_info, [])
        shape: Type = unknown
        if text is not None:
            shape = Instance(wrapper, [LiteralType(text, Instance(strings, []))])
        line, column = (-1, -1) if at is None else (at.line, at.column)
        return Instance(info, [dtype_arg, shape], line, column)

    def stacked(self, prefix: str, array: Instance) -> Type:
        """The array with dimensions in front."""
        shape = get_proper_type(array.args[1])
        literal = (
            get_proper_type(shape.args[0]) if isinstance(shape, Instance) else None
        )
        if not isinstance(shape, Instance) or not isinstance(literal, LiteralType):
            return array
        text = LiteralType(f"{prefix} {literal.value}".strip(), literal.fallback)
        return array.copy_modified(
            args=[array.args[0], shape.copy_modified(args=[text])]
        )

    def showing(self, typ: Type, arrays: Arrays) -> Type:
        """The type with what is known of the arrays in it, and nothing of those of which nothing is."""
        proper = get_proper_type(typ)
        if arrays is None or self._info(DIMS) is None:
            return without_shapes(typ)
        if isinstance(proper, AnyType):
            return self.known(arrays)
        if isinstance(arrays, str):
            if is_array(proper):
                return self.known(arrays)
            if isinstance(proper, UnionType) and sum(map(is_array, proper.items)) == 1:
                items = [
                    self.known(arrays) if is_array(item) else item
                    for item in proper.items
                ]
                return UnionType.make_union(items, proper.line)
        if isinstance(arrays, list) and isinstance(proper, TupleType):
            if len(arrays) == len(proper.items):
                pairs = zip(proper.items, arrays, strict=True)
                return proper.copy_modified(
                    items=[self.showing(item, one) for item, one in pairs]
                )
        return without_shapes(typ)

    def known(self, arrays: Arrays) -> Type:
        """The type of an array that is shown as ``float32['B L']``, or of a tuple of such and others."""
        if isinstance(arrays, str):
            return self._array_shown_as(arrays)
        unknown = AnyType(TypeOfAny.special_form)
        tuples = self._info("builtins.tuple")
        if arrays is None or tuples is None:
            return unknown
        return TupleType(
            [self.known(one) for one in arrays], Instance(tuples, [unknown])
        )

    def _array_shown_as(self, shown: str) -> Type:
        info = self._info(JAX_ARRAY)
        if info is not self._known_of:  # mypy's daemon has read JAX again
            self._known.clear()
            self._known_of = info
        known = self._known.get(shown)
        if known is None:
            dtype, _, rest = shown.partition("[")
            text = rest.removeprefix("'").removesuffix("']")
            known = self.array(
                CLASS_OF_DTYPE.get(dtype), None if text == _OPEN else text
            )
            self._known[shown] = known
        return known

    def _info(self, qualname: str) -> TypeInfo | None:
        found = self._lookup(qualname)
        node = None if found is None else found.node
        return node if isinstance(node, TypeInfo) else None


def is_array(typ: Type) -> bool:
    """Whether a type is that of an array."""
    proper = get_proper_type(typ)
    return isinstance(proper, Instance) and proper.type.fullname == JAX_ARRAY


def has_array(typ: Type) -> bool:
    """Whether there is an array in a type, in tuples, unions, lists and the like."""
    if isinstance(typ, TypeAliasType) and typ.is_recursive:
        return False  # it has no end
    proper = get_proper_type(typ)
    if is_array(proper):
        return True
    if isinstance(proper, (TupleType, UnionType)):
        return any(map(has_array, proper.items))
    return isinstance(proper, Instance) and any(map(has_array, proper.args))


def without_shapes(typ: Type) -> Type:
    """The type with every array in it unknown, those in signatures included."""
    if isinstance(typ, TypeAliasType) and typ.is_recursive:
        return typ
    proper = get_proper_type(typ)
    if isinstance(proper, CallableType):
        arguments = [without_shapes(one) for one in proper.arg_types]
        return proper.copy_modified(
            arg_types=arguments, ret_type=without_shapes(proper.ret_type)
        )
    if isinstance(proper, TupleType):
        return proper.copy_modified(
            items=[without_shapes(item) for item in proper.items]
        )
    if isinstance(proper, UnionType):
        return UnionType.make_union(
            [without_shapes(item) for item in proper.items], proper.line
        )
    if not isinstance(proper, Instance) or not proper.args:
        return typ
    if is_array(proper):
        return proper.copy_modified(
            args=[AnyType(TypeOfAny.special_form)] * len(proper.args)
        )
    return proper.copy_modified(args=[without_shapes(one) for one in proper.args])
