"""The plugin as mypy sees it. A run in which nothing has changed needs no more than this: all hooks are in ``hooks``,
which is imported for the first of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mypy.nodes import MypyFile
from mypy.options import Options
from mypy.plugin import (
    AnalyzeTypeContext,
    AttributeContext,
    ClassDefContext,
    DynamicClassDefContext,
    FunctionContext,
    FunctionSigContext,
    MethodContext,
    MethodSigContext,
    Plugin,
    ReportConfigContext,
)
from mypy.types import FunctionLike, Type

from shardlint.mypy_plugin.last_run import LastRun
from shardlint.mypy_plugin.whose_files import installed_in, is_users, packages

if TYPE_CHECKING:
    from shardlint.mypy_plugin.hooks import Hooks

FORMAT = 8
"""Part of the cache key: raise it when what the plugin stores in types changes."""

_WITH_ANNOTATIONS = ("shardtypes.", "typing.", "typing_extensions.")
"""Modules with names that are hooks in types."""


class ShardtypesPlugin(Plugin):
    """Checks array shapes and shardings in annotated code."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._last_run = LastRun(options)

    @cached_property
    def _hooks(self) -> Hooks:
        from shardlint.mypy_plugin.hooks import Hooks

        return Hooks(self.options, self.lookup_fully_qualified, self._last_run)

    def report_config_data(self, ctx: ReportConfigContext) -> Any:
        if not self._last_run.is_unchanged:
            self._hooks.require_settings()
        self._last_run.see(ctx.path)
        data: dict[str, object] = {"format": FORMAT}
        if not is_users(ctx.id, ctx.path):
            return data
        folder = installed_in(ctx.path)
        if folder is not None:
            # nothing is reported there, and what it imports changes when packages are installed
            return data | {"packages": packages(folder)}
        about = self._last_run.of(ctx.path) if ctx.is_check else None
        is_known = about is not None
        if about is None:
            about = self._hooks.about(ctx.path)
        if not ctx.is_check:
            self._last_run.write(ctx.path, self._hooks.looked_at)
        return data | {
            # mypy parses a file anew when something it imports has changed, and then asks no hook to rewrite it. A file
            # that is rewritten is therefore not taken from the cache where anything has changed; what it imports is.
            "again": ctx.is_check and not is_known and about.is_rewritten,
            "findings": about.has_findings,
            "settings": about.settings,
        }

    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        self._last_run.see(file.path)
        return self._hooks.additional_deps(file, is_users(file.fullname, file.path))

    def get_dynamic_class_hook(
        self, fullname: str
    ) -> Callable[[DynamicClassDefContext], None] | None:
        return self._hooks.dynamic_class(fullname)

    def get_class_decorator_hook(
        self, fullname: str
    ) -> Callable[[ClassDefContext], None] | None:
        return self._hooks.class_decorator(fullname)

    def get_customize_class_mro_hook(
        self, fullname: str
    ) -> Callable[[ClassDefContext], None] | None:
        return self._hooks.class_mro(fullname)

    def get_type_analyze_hook(
        self, fullname: str
    ) -> Callable[[AnalyzeTypeContext], Type] | None:
        # mypy asks for every type that it meets
        if not fullname.startswith(_WITH_ANNOTATIONS):
            return None
        return self._hooks.type_analyze(fullname)

    def get_function_hook(
        self, fullname: str
    ) -> Callable[[FunctionContext], Type] | None:
        return self._hooks.function(fullname)

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        return self._hooks.method(fullname)

    def get_function_signature_hook(
        self, fullname: str
    ) -> Callable[[FunctionSigContext], FunctionLike] | None:
        return self._hooks.signature(fullname)

    def get_method_signature_hook(
        self, fullname: str
    ) -> Callable[[MethodSigContext], FunctionLike] | None:
        return self._hooks.signature(fullname)

    def get_attribute_hook(
        self, fullname: str
    ) -> Callable[[AttributeContext], Type] | None:
        return self._hooks.attribute(fullname)
