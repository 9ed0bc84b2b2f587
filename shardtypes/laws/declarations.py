"""The roles of dimensions, which say what law a function obeys along each; declared for functions, or for a project."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from shardtypes.dtypes import shape_of_type
from shardtypes.laws.arguments import Function, axis_in, hints_of
from shardtypes.partition_specs import map_type
from shardtypes.trace_forms import layers

F = TypeVar("F", bound=Callable[..., Any])

#: The roles that a dimension may have; that of ``features`` says nothing of it.
ROLES = ("independent", "causal", "equivariant", "padding", "features")
_ROLES, _EXEMPT = "__shardtypes_roles__", "__shardtypes_exempt__"


def roles(**dims: str) -> Callable[[F], F]:
    """``@laws.roles(L="causal")``: the roles of dimensions in this function, in place of those of the project.

    Raises ``ValueError`` for what is no role.
    """
    for dim, role in dims.items():
        need_role(dim, role)

    def declare(f: F) -> F:
        setattr(f, _ROLES, dims)
        return f

    return declare


def exempt(**dims: str) -> Callable[[F], F]:
    """``@laws.exempt(B="batch norm looks at the whole batch")``: why the roles of dimensions do not hold here.

    Raises ``ValueError`` without a reason.
    """
    for dim, why in dims.items():
        if not why.strip():
            raise ValueError(f"say why {dim!r} is exempt")

    def declare(f: F) -> F:
        setattr(f, _EXEMPT, dims)
        return f

    return declare


def need_role(dim: str, role: object) -> None:
    """Raise ``ValueError`` for what is no role."""
    if role not in ROLES:
        raise ValueError(f"{dim} = {role!r}: a role is one of {', '.join(ROLES)}")


def declared_roles(f: Any, project: Mapping[str, str]) -> dict[str, str]:
    """The role of each dimension in a function."""
    return {**project, **_declared(f, _ROLES)}


def exemptions(f: Any) -> dict[str, str]:
    """Why dimensions are exempt in a function, by dimension."""
    return _declared(f, _EXEMPT)


def _declared(f: Any, name: str) -> dict[str, str]:
    for layer in layers(f):
        found = getattr(layer, name, None)
        if isinstance(found, dict):
            return found
    return {}


def concerns(f: Function, dim: str) -> bool:
    """Whether annotations say that a parameter and the result have a dimension."""
    hints = hints_of(f)
    result = hints.pop("return", None)
    if not _has(result, dim):
        return False
    return any(_has(hint, dim) for hint in hints.values())


def _has(hint: Any, dim: str) -> bool:
    return any(axis_in(shape, dim) is not None for shape in _shapes(hint))


def _shapes(hint: Any) -> Iterator[Any]:
    found: list[Any] = []
    try:
        map_type(hint, found.append, many=lambda container, item: item)
    except (TypeError, ValueError, AttributeError):  # no array type in it
        return
    yield from map(shape_of_type, found)
