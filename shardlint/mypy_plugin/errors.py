"""The plugin's error codes."""

from __future__ import annotations

from typing import Final

from mypy.errorcodes import ErrorCode

SHAPE: Final = ErrorCode("shard-shape", "Check that array shapes fit", "Shardtypes")
AXES: Final = ErrorCode("shard-axes", "Check that shardings fit", "Shardtypes")
SYNTAX: Final = ErrorCode("shard-syntax", "Check that shape strings are well formed", "Shardtypes")
