"""What a hint says of an array: its shape, how it is sharded, or both, as the editor chooses."""

from __future__ import annotations

import re

from shardlint.server.device_arrays import ARRAY, ShownArray
from shardlint.server.preferences import Preferences

#: What follows a size or the shape: mesh axes, and partial sums that are pending. Two slashes divide.
_SHARDING = re.compile(r"(?<!/)/(?!/)[^\s/]+|\s*\{U:[^}]*\}")


def hint_text(shown: str, preferences: Preferences) -> str | None:
    """``f32['B/d M']``, ``f32['B M']`` or ``P('d', None)``; None where nothing is to be shown."""
    if preferences.shape_hints and preferences.sharding_hints:
        return shown
    if preferences.shape_hints:
        return _without_sharding(shown)
    if preferences.sharding_hints:
        return _sharding(shown)
    return None


def _without_sharding(shown: str) -> str:
    found = ARRAY.match(shown)
    if found is None:
        return shown
    start, end = found.span("shape")
    shape = _SHARDING.sub("", found["shape"])
    return f"{shown[:start]}{shape}{shown[end:]}"


def _sharding(shown: str) -> str | None:
    """The spec of an array, as JAX writes it; None for one of which no axis is known."""
    array = ShownArray.read(shown)
    if array is None or not (array.axes or array.shape.pending):
        return None
    parts = [_entry(dim.axes) for dim in array.shape.dims]
    if array.shape.pending:
        pending = ", ".join(map(repr, array.shape.pending))
        parts.append(f"unreduced={{{pending}}}")
    return f"P({', '.join(parts)})"


def _entry(axes: tuple[str, ...]) -> str:
    if not axes:
        return "None"
    if len(axes) == 1:
        return repr(axes[0])
    return repr(tuple(axes))
