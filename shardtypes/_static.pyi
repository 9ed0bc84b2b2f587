"""What the mypy plugin makes array types of. For type checkers only: there is no such module at run time."""

from typing import Any, Generic, TypeVar

import jax as jax  # the plugin makes jax.Array generic in a dtype and a shape; this loads it

_Text = TypeVar("_Text", covariant=True)
_F = TypeVar("_F")

# Compatible with everything by way of Any: mypy itself never compares shapes, the plugin does.
class dims(Any, Generic[_Text]):  # type: ignore[misc]
    """A shape: ``dims[Literal['B/d L']]`` as declared, ``dims[inferred[Literal['B L']]]`` as worked out."""

class inferred(Generic[_Text]):
    """Marks a shape worked out from an operation: its sharding is the compiler's choice.

    It stands inside ``dims``, not beside it, so that narrowing a variable to another shape leaves none.
    """

def returned(value: Any) -> Any: ...
def assigned(value: Any) -> Any: ...
def called(function: _F) -> _F: ...
def revealed(value: _F) -> _F: ...
def annotation(text: object, inner: object = ...) -> Any: ...
def constructor(text: object, inner: _F) -> _F: ...
def failed(message: str) -> None: ...
def prepare() -> int: ...
