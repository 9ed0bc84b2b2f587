"""The plugin's error codes, and how it reports."""

from __future__ import annotations

from typing import Final, Protocol

from mypy.errorcodes import ErrorCode
from mypy.nodes import Context, Expression
from mypy.types import Type

from shardlint.mypy_plugin.comments import ignored
from shardlint.mypy_plugin.settings import Settings

SHAPE: Final = ErrorCode("shard-shape", "Check that array shapes fit", "Shardtypes")
AXES: Final = ErrorCode("shard-axes", "Check that shardings fit", "Shardtypes")
SYNTAX: Final = ErrorCode(
    "shard-syntax", "Check that shape strings are well formed", "Shardtypes"
)
INTERNAL: Final = ErrorCode(
    "shard-internal", "Report failures of the plugin itself", "Shardtypes"
)


#: The rules of values that are not what an annotation promises: of one mistake, the linter may report another one.
PROMISES: Final = frozenset({"ST201", "ST202", "ST203", "ST212"})


class CanFail(Protocol):
    """What takes errors: mypy's type analyser, semantic analyser and checker."""

    def fail(
        self, msg: str, ctx: Context, /, *, code: ErrorCode | None = None
    ) -> object: ...


class Reporter:
    """Passes on to mypy what the settings do not switch off."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._told: dict[str, list[tuple[str, range]]] = {}

    def __call__(
        self, api: CanFail, rule: str, message: str, at: Context, code: ErrorCode
    ) -> None:
        """``rule`` is the linter's code of the same finding, which settings and comments name."""
        path = path_of(api)
        lines = _lines(at)
        if self._has_told(path, rule, lines):
            return
        if self.settings.on(rule, path) and not ignored(rule, path, lines):
            api.fail(message, at, code=code)

    def begin(self, path: str) -> None:
        """A file is checked anew."""
        self._told.pop(path, None)

    def note_told(self, path: str, rule: str, lines: range) -> None:
        """The linter has reported a rule there, so that the same is reported once."""
        self._told.setdefault(path, []).append((rule, lines))

    def _has_told(self, path: str, rule: str, lines: range) -> bool:
        for told, where in self._told.get(path, ()):
            is_same = told == rule or {told, rule} <= PROMISES
            if is_same and where.start < lines.stop and lines.start < where.stop:
                return True
        return False


def _lines(at: Context) -> range:
    """The lines of an expression or a type; of a function or a class the first, for what is in it is other code."""
    whole = isinstance(at, (Expression, Type))
    return (
        range(at.line, (at.end_line or at.line) + 1)
        if whole
        else range(at.line, at.line + 1)
    )


def path_of(api: object) -> str:
    """The file being analysed, '' where mypy does not say. The interfaces of plugins do not, the classes behind do."""
    path = getattr(api, "path", None)
    tree = getattr(getattr(api, "api", api), "cur_mod_node", None)
    return path if isinstance(path, str) else str(getattr(tree, "path", ""))


def internal_failure(what: str, error: Exception) -> str:
    """``the mypy plugin shardlint.mypy_plugin failed at jax.numpy.sum: KeyError: 'x'; …``."""
    return (
        f"the mypy plugin shardlint.mypy_plugin failed at {what}: {type(error).__name__}: {error}; "
        "this place was not checked, please report it (--show-traceback shows where)"
    )
