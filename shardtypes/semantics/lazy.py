"""NumPy, imported when something is first evaluated: reading declarations costs nothing of it."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any


class _Lazy(ModuleType):
    """Stands for a module until one of its names is asked for."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)  # from now on an attribute like others
        return value


if TYPE_CHECKING:
    import numpy as np
else:
    np = _Lazy("numpy")

__all__ = ["np"]
