"""The plugin: which hook handles what."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mypy.nodes import MypyFile
from mypy.options import Options
from mypy.plugin import (
    AnalyzeTypeContext,
    AttributeContext,
    ClassDefContext,
    FunctionContext,
    FunctionSigContext,
    MethodContext,
    MethodSigContext,
    Plugin,
    ReportConfigContext,
)
from mypy.types import FunctionLike, Type

from shardlint.mypy_plugin import calls, operations
from shardlint.mypy_plugin.annotations import annotated, array_annotation, stacked_annotation
from shardlint.mypy_plugin.checks import PromiseChecks
from shardlint.mypy_plugin.forms import Forms
from shardlint.mypy_plugin.generic import make_array_generic, open_dtypes
from shardlint.mypy_plugin.names import (
    ANNOTATED,
    ASSIGNED,
    DTYPE_BASE,
    DTYPES,
    DTYPES_MODULE,
    JAX_ARRAY,
    RETURNED,
    STACKED,
    STATIC,
)
from shardlint.mypy_plugin.rewrite import mentions_annotations, rewrite

NORMAL_PRIORITY = 10  # mypy.build.PRI_MED
FORMAT = 1
"""Part of the cache key: raise it when what the plugin stores in types changes."""

UNTOUCHED = ("jax.", "jaxlib.", "numpy.", "builtins.", "typing.", "typing_extensions.", "collections.", "functools.")


class ShardtypesPlugin(Plugin):
    """Checks array shapes and shardings in annotated code."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.forms = Forms(self.lookup_fully_qualified)
        self.checks = PromiseChecks()

    def report_config_data(self, ctx: ReportConfigContext) -> Any:
        # mypy parses a file anew when something it imports has changed, and then asks no hook to rewrite it. A file
        # that is rewritten is therefore never taken from the cache; what it imports still is.
        again = ctx.is_check and mentions_annotations(ctx.path)
        return {"format": FORMAT, "again": again}

    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        name = file.fullname
        if name == DTYPES_MODULE:
            return [(NORMAL_PRIORITY, STATIC, -1)]
        if file.is_stub or name.startswith(UNTOUCHED) or name.split(".")[0] in ("jax", "shardtypes"):
            return []
        return [(NORMAL_PRIORITY, module, -1) for module in (STATIC, DTYPES_MODULE)] if rewrite(file) else []

    def get_customize_class_mro_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        if fullname == JAX_ARRAY:
            return make_array_generic
        return open_dtypes if fullname == DTYPE_BASE else None

    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        module, _, name = fullname.rpartition(".")
        if module == DTYPES_MODULE and name in DTYPES:
            return partial(array_annotation, dtype=name, forms=self.forms)
        if fullname in STACKED:
            return partial(stacked_annotation, forms=self.forms)
        if fullname in ANNOTATED:
            return partial(annotated, forms=self.forms)
        return None

    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], FunctionLike] | None:
        if fullname.startswith((*UNTOUCHED, STATIC)):
            return None
        return partial(calls.call_signature, forms=self.forms)

    def get_method_signature_hook(self, fullname: str) -> Callable[[MethodSigContext], FunctionLike] | None:
        if fullname.startswith(UNTOUCHED):
            return None
        return partial(calls.call_signature, forms=self.forms)

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        if fullname == RETURNED:
            return self.checks.returned
        if fullname == ASSIGNED:
            return self.checks.assigned
        return operations.function_hook(fullname, self.forms)

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        return operations.method_hook(fullname, self.forms)

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        return operations.attribute_hook(fullname, self.forms)
