"""What the mypy plugin makes array types of. For type checkers only: there is no such module at run time."""

from typing import Any, Generic, TypeVar

import jax as jax  # the plugin makes jax.Array generic in a dtype and a shape; this loads it

_Text = TypeVar("_Text", covariant=True)

# Both are compatible with everything by way of Any: mypy itself never compares shapes, the plugin does.
class dims(Any, Generic[_Text]):
    """A declared shape: its sizes and its sharding are known."""

class inferred(Any, Generic[_Text]):
    """A shape worked out from an operation: the sharding is the compiler's choice."""

def returned(value: Any) -> Any: ...
def assigned(value: Any) -> Any: ...
