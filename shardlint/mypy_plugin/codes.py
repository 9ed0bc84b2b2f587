"""The plugin's error codes, and what errors are reported to."""

from __future__ import annotations

from typing import Final, Protocol

from mypy.errorcodes import ErrorCode
from mypy.nodes import Context

SHAPE: Final = ErrorCode("shard-shape", "Check that array shapes fit", "Shardtypes")
AXES: Final = ErrorCode("shard-axes", "Check that shardings fit", "Shardtypes")
SYNTAX: Final = ErrorCode(
    "shard-syntax", "Check that shape strings are well formed", "Shardtypes"
)
INTERNAL: Final = ErrorCode(
    "shard-internal", "Report failures of the plugin itself", "Shardtypes"
)


class CanFail(Protocol):
    """What takes errors: mypy's type analyser, semantic analyser and checker."""

    def fail(
        self, msg: str, ctx: Context, /, *, code: ErrorCode | None = None
    ) -> object: ...


def path_of(api: object) -> str:
    """The file being analysed, '' where mypy does not say. The interfaces of plugins do not, the classes behind do."""
    path = getattr(api, "path", None)
    tree = getattr(getattr(api, "api", api), "cur_mod_node", None)
    return path if isinstance(path, str) else str(getattr(tree, "path", ""))
