"""The static half of shardtypes: a linter for shapes and shardings that imports neither JAX nor the user's code.

``check_paths`` and ``check_source`` are for programs; what the command line does starts at ``shardlint.cli``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from shardlint.api import CheckResult as CheckResult
    from shardlint.api import Edit as Edit
    from shardlint.api import Finding as Finding
    from shardlint.api import Fix as Fix
    from shardlint.api import RelatedPlace as RelatedPlace
    from shardlint.api import check_paths as check_paths
    from shardlint.api import check_source as check_source
    from shardlint.config import ConfigError as ConfigError
    from shardlint.magics import SessionChecks

_sessions: dict[int, SessionChecks] = {}

__all__ = [
    "CheckResult",
    "ConfigError",
    "Edit",
    "Finding",
    "Fix",
    "RelatedPlace",
    "check_paths",
    "check_source",
]


def __getattr__(name: str) -> object:
    """Import the interface for programs when it is first asked for: the command line does without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from shardlint import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


def load_ipython_extension(shell: Any) -> None:
    """What ``%load_ext shardlint`` calls: check each cell before it runs, and know the magic ``%shardlint``."""
    from shardlint.magics import SessionChecks

    session = _sessions[id(shell)] = SessionChecks(shell)
    session.install()


def unload_ipython_extension(shell: Any) -> None:
    """What ``%unload_ext shardlint`` calls."""
    session = _sessions.pop(id(shell), None)
    if session is not None:
        session.uninstall()
