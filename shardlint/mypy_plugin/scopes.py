"""Which names of shape strings mean a definite size where an expression stands.

The names in a function's parameters are unknown constants, those in the array fields of a parameter's class included.
A name that occurs anywhere else (a local annotation, the result, a callee) may be equal to any of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mypy.nodes import FuncItem, TypeInfo, Var
from mypy.plugin import CheckerPluginInterface
from mypy.types import CallableType, Instance, Type, get_proper_type

from shardlint.mypy_plugin.forms import arrays_in, parts_of, read_array
from shardtypes.lang import Facts, Shape, Size

TREE: Final = "shardtypes"
"""The key of the metadata that marks a ``pytree_dataclass``."""


@dataclass(frozen=True)
class Known:
    """What the functions around an expression say of sizes: the ``names`` that they bind, and what holds of those."""

    names: frozenset[str]
    facts: Facts


def known_sizes(api: CheckerPluginInterface) -> Known:
    """What is known of sizes where an expression is being checked."""
    types = [function.type for function in enclosing_functions(api)]
    signatures = [typ for typ in types if isinstance(typ, CallableType)]
    names = frozenset[str]().union(*map(names_of_parameters, signatures))
    return Known(names, _facts(signatures))


def _facts(signatures: list[CallableType]) -> Facts:
    """The names and the numbers that signatures write; two parameters of one shape write its names once."""
    names: Counter[str] = Counter()
    numbers: set[int] = set()
    for signature in signatures:
        seen: set[TypeInfo] = set()
        taken = dict.fromkeys(
            sizes for typ in _declared(signature) for sizes in _sizes(typ, seen)
        )
        for size in (
            size
            for shape in (*taken, *_sizes(signature.ret_type, seen))
            for size in shape
        ):
            names.update(size.symbols)
            numbers.update(abs(coefficient) for _, coefficient in size.terms)
    return Facts().writing(names, numbers)


def _sizes(typ: Type, seen: set[TypeInfo]) -> Iterator[tuple[Size, ...]]:
    """The sizes of each shape in a type."""
    for shape in _shapes(typ, seen):
        yield tuple(dim.size for dim in shape.dims if dim.size is not None)


def enclosing_functions(api: CheckerPluginInterface) -> list[FuncItem]:
    """The functions around the expression that is being checked, outermost first."""
    # TypeChecker has it, the plugin interface does not say so
    scope = getattr(api, "scope", None)
    return [
        item
        for item in (scope.stack if scope is not None else ())
        if isinstance(item, FuncItem)
    ]


def names_of_parameters(function: CallableType) -> frozenset[str]:
    """The names that a call of the function binds."""
    seen: set[TypeInfo] = set()
    return frozenset().union(*(_names(arg, seen) for arg in _declared(function)), ())


def _declared(function: CallableType) -> list[Type]:
    # self is not written with its type, and so nothing checks its fields at a call
    skip = 1 if function.arg_names[:1] == ["self"] else 0
    return function.arg_types[skip:]


def _names(typ: Type, seen: set[TypeInfo]) -> set[str]:
    return {name for shape in _shapes(typ, seen) for name in shape.names}


def _shapes(typ: Type, seen: set[TypeInfo]) -> Iterator[Shape]:
    """The shapes that a type writes, and those in the fields of its dataclasses."""
    for form in arrays_in(typ):
        if form.shape is not None:
            yield form.shape
    for info in _classes(typ):
        if info in seen:
            continue
        seen.add(info)
        for symbol in info.names.values():
            if isinstance(symbol.node, Var) and symbol.node.type is not None:
                yield from _shapes(symbol.node.type, seen)


def shares_scope(info: TypeInfo) -> bool:
    """Whether an instance given to a function is checked field by field in the function's scope.

    The names in any other class are its own, and so are those in ``self``, which nothing checks.
    """
    return any(TREE in base.metadata for base in info.mro)


def _classes(typ: Type) -> list[TypeInfo]:
    """The dataclasses that a type is made of."""
    proper = get_proper_type(typ)
    found = []
    if isinstance(proper, Instance) and read_array(proper) is None:
        mro = proper.type.mro
        if shares_scope(proper.type):
            found = [
                base
                for base in mro
                if "dataclass" in base.metadata or "dataclass_tag" in base.metadata
            ]
    for part in parts_of(typ):
        found += _classes(part)
    return found
