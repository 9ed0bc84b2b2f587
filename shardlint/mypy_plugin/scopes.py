"""Which names of shape strings mean a definite size where an expression stands.

The names in a function's parameters are unknown constants, those in the array fields of a parameter's class included.
A name that occurs anywhere else (a local annotation, the result, a callee) may be equal to any of them.
"""

from __future__ import annotations

from typing import Final

from mypy.nodes import FuncItem, TypeInfo, Var
from mypy.plugin import CheckerPluginInterface
from mypy.types import CallableType, Instance, Type, get_proper_type

from shardlint.mypy_plugin.forms import arrays_in, parts_of, read_array

TREE: Final = "shardtypes"
"""The key of the metadata that marks a ``pytree_dataclass``."""


def known_names(api: CheckerPluginInterface) -> frozenset[str]:
    """The names bound by the functions around the expression that is being checked."""
    types = [function.type for function in enclosing_functions(api)]
    return frozenset().union(*(names_of_parameters(typ) for typ in types if isinstance(typ, CallableType)), ())


def enclosing_functions(api: CheckerPluginInterface) -> list[FuncItem]:
    """The functions around the expression that is being checked, outermost first."""
    scope = getattr(api, "scope", None)  # TypeChecker has it, the plugin interface does not say so
    return [item for item in (scope.stack if scope is not None else ()) if isinstance(item, FuncItem)]


def names_of_parameters(function: CallableType) -> frozenset[str]:
    """The names that a call of the function binds."""
    seen: set[TypeInfo] = set()
    return frozenset().union(*(_names(arg, seen) for arg in _declared(function)), ())


def _declared(function: CallableType) -> list[Type]:
    # self is not written with its type, and so nothing checks its fields at a call
    skip = 1 if function.arg_names[:1] == ["self"] else 0
    return function.arg_types[skip:]


def _names(typ: Type, seen: set[TypeInfo]) -> set[str]:
    names: set[str] = set()
    for form in arrays_in(typ):
        if form.shape is not None:
            names |= form.shape.names
    for info in _classes(typ):
        if info in seen:
            continue
        seen.add(info)
        for symbol in info.names.values():
            if isinstance(symbol.node, Var) and symbol.node.type is not None:
                names |= _names(symbol.node.type, seen)
    return names


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
            found = [base for base in mro if "dataclass" in base.metadata or "dataclass_tag" in base.metadata]
    for part in parts_of(typ):
        found += _classes(part)
    return found
