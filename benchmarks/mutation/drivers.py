"""How to evaluate programs whose functions cannot be called from their annotations alone."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

Driver = Callable[[Mapping[str, types.ModuleType]], dict[str, Callable[[tuple[int, ...]], Any]]]

DRIVERS: dict[str, Driver] = {}
