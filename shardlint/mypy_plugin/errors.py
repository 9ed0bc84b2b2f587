"""How the plugin reports what it finds itself."""

from __future__ import annotations

from mypy.errorcodes import ErrorCode
from mypy.nodes import Context, Expression
from mypy.types import Type

from shardlint.mypy_plugin.codes import CanFail, path_of
from shardlint.mypy_plugin.comments import ignored
from shardlint.mypy_plugin.findings import Findings
from shardlint.mypy_plugin.settings import Settings


class Reporter:
    """Passes on to mypy what the linter does not find itself, and the settings do not switch off."""

    def __init__(self, settings: Settings, findings: Findings) -> None:
        self.settings = settings
        self._findings = findings

    def __call__(
        self, api: CanFail, rule: str, message: str, at: Context, code: ErrorCode
    ) -> None:
        """``rule`` is the linter's code of the same finding, which settings and comments name."""
        path = path_of(api)
        lines = _lines(at)
        # what the linter has read it has judged: a baseline, say, hides what is not to be reported here either
        is_judged = self._findings.has_read(path) and not rule.startswith("ST1")
        if is_judged or self._findings.has(path, rule, lines):
            return
        if self.settings.on(rule, path) and not ignored(rule, path, lines):
            api.fail(message, at, code=code)


def _lines(at: Context) -> range:
    """The lines of an expression or a type; of a function or a class the first, for what is in it is other code."""
    whole = isinstance(at, (Expression, Type))
    return (
        range(at.line, (at.end_line or at.line) + 1)
        if whole
        else range(at.line, at.line + 1)
    )


def internal_failure(what: str, error: Exception) -> str:
    """``the mypy plugin shardlint.mypy_plugin failed at jax.numpy.sum: KeyError: 'x'; …``."""
    return (
        f"the mypy plugin shardlint.mypy_plugin failed at {what}: {type(error).__name__}: {error}; "
        "this place was not checked, please report it (--show-traceback shows where)"
    )
