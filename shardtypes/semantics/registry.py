"""Public functions by qualified name: each is a short function over primitives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, wraps
from inspect import Parameter, Signature, signature
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar

Lowering: TypeAlias = Callable[..., Any]
_F = TypeVar("_F", bound=Lowering)

_lowerings: dict[str, Lowering] = {}
_unread: dict[str, tuple[str, ...]] = {}
LOWERINGS: Mapping[str, Lowering] = MappingProxyType(_lowerings)


def lowering(*qualnames: str, unread: str = "") -> Callable[[_F], _F]:
    """Register the decorated function under public names. Its parameters are those of the public function; but for
    ``unread`` ones, on which nothing depends that a lowering gives: where a result is placed, or how exact it is."""
    names = tuple(unread.split())

    def register(function: _F) -> _F:
        public = _with_unread(function, names) if names else function
        for qualname in qualnames:
            if qualname in _lowerings:
                raise ValueError(f"two lowerings of {qualname}")
            _lowerings[qualname] = public
            _unread[qualname] = names
        return function

    return register


def _with_unread(function: Lowering, names: tuple[str, ...]) -> Lowering:
    """The function with more parameters, which are given by name."""

    @wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        for name in names:
            kwargs.pop(name, None)
        return function(*args, **kwargs)

    return public


def unread(qualname: str) -> tuple[str, ...]:
    """The parameters of a public function on which nothing depends that its lowering gives."""
    return _unread.get(qualname, ())


@cache
def public_signature(qualname: str) -> Signature:
    """The parameters of a public function, as far as its lowering takes them."""
    own = signature(_lowerings[qualname])
    more = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None)
        for name in unread(qualname)
    ]
    return own.replace(parameters=[*own.parameters.values(), *more])


def register(prefix: str, functions: Mapping[str, Lowering], unread: str = "") -> None:
    """Register several functions below one module."""
    for name, function in functions.items():
        lowering(f"{prefix}.{name}", unread=unread)(function)


Reason: TypeAlias = Literal[
    "sizes",
    "ranks",
    "dtypes",
    "indices",
    "operands",
    "equations",
    "patterns",
    "joins",
]
"""Of what JAX says that it does not fit. An equation is that of an einsum, a pattern one of einops; joined are arrays,
and what is chosen of."""


class Refused(TypeError, ValueError):
    """Raised for a call that JAX certainly refuses: for the sizes, ranks or dtypes of what it is given. ``operand`` is
    the array that is to blame, if one is."""

    def __init__(
        self,
        text: str,
        of: Reason = "operands",
        operand: int | None = None,
    ) -> None:
        super().__init__(text)
        self.of = of
        self.operand = operand


class NegativeSize(Refused):
    """Raised for a shape with a negative size. NumPy takes one for what the other sizes leave."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "sizes")


class Unsupported(Exception):
    """Raised where a call goes beyond what a lowering covers: its result is not known."""
