"""Public functions by qualified name: each is a short function over primitives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar

Lowering: TypeAlias = Callable[..., Any]
_F = TypeVar("_F", bound=Lowering)

_lowerings: dict[str, Lowering] = {}
LOWERINGS: Mapping[str, Lowering] = MappingProxyType(_lowerings)


def lowering(*qualnames: str) -> Callable[[_F], _F]:
    """Register the decorated function under public names. Its parameters are those of the public function."""

    def register(function: _F) -> _F:
        for qualname in qualnames:
            if qualname in _lowerings:
                raise ValueError(f"two lowerings of {qualname}")
            _lowerings[qualname] = function
        return function

    return register


def register(prefix: str, functions: Mapping[str, Lowering]) -> None:
    """Register several functions below one module."""
    for name, function in functions.items():
        lowering(f"{prefix}.{name}")(function)


class Refused(TypeError, ValueError):
    """Raised for a call that JAX certainly refuses: for the sizes, ranks or dtypes of what it is given."""

    def __init__(
        self, text: str, of: Literal["sizes", "ranks", "dtypes", "operands"]
    ) -> None:
        super().__init__(text)
        self.of = of


class Unsupported(Exception):
    """Raised where a call goes beyond what a lowering covers: its result is not known."""
