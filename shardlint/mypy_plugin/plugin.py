"""The plugin: which hook handles what."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from mypy.errors import CompileError
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
from mypy.plugins.dataclasses import dataclass_tag_callback
from mypy.types import FunctionLike, Type

from shardlint.mypy_plugin import parallel
from shardlint.mypy_plugin.annotations import Annotations
from shardlint.mypy_plugin.codes import INTERNAL
from shardlint.mypy_plugin.findings import Findings
from shardlint.mypy_plugin.forms import Forms
from shardlint.mypy_plugin.generic import make_array_generic, open_dtypes
from shardlint.mypy_plugin.guard import Guard, SignatureContext
from shardlint.mypy_plugin.heads import mentions_annotations, shows_types
from shardlint.mypy_plugin.names import (
    ANNOTATED,
    CALLED,
    DTYPE_BASE,
    DTYPES_MODULE,
    FAILED,
    FINDINGS,
    JAX_ARRAY,
    PREPARE,
    PYTREE_DATACLASS,
    REVEALED,
    STACKED,
    STATIC,
)
from shardlint.mypy_plugin.overloads import Overloads
from shardlint.mypy_plugin.rewrite import fail_in, report_in, rewrite
from shardlint.mypy_plugin.settings import read_settings
from shardlint.mypy_plugin.shown_types import ShownTypes
from shardtypes.lang.array_names import SHARDTYPES_DTYPES

NORMAL_PRIORITY = 10  # mypy.build.PRI_MED
FORMAT = 7
"""Part of the cache key: raise it when what the plugin stores in types changes."""

_INSTALLED = re.compile(r".*?[/\\](?:site|dist)-packages(?=[/\\])")
UNTOUCHED = (
    "jax.",
    "jaxlib.",
    "numpy.",
    "builtins.",
    "typing.",
    "typing_extensions.",
    "collections.",
    "functools.",
)


class ShardtypesPlugin(Plugin):
    """Checks array shapes and shardings in annotated code."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.settings = read_settings(options)
        self.guard = Guard(options)
        forms = Forms(self.lookup_fully_qualified)
        self.annotations = Annotations(forms, self.settings)
        self.findings = Findings(self.settings, options)
        self.types = ShownTypes(self.findings, forms, self.lookup_fully_qualified)
        self.overloads = Overloads(self.findings, forms)
        self._prepared: dict[str, MypyFile] = {}

    def _require_settings(self) -> None:
        """Settings that cannot be read end the run: mypy prints the one line and exits with status 2."""
        if self.settings.problem is not None:
            raise CompileError([self.settings.problem])

    def report_config_data(self, ctx: ReportConfigContext) -> Any:
        self._require_settings()
        data: dict[str, object] = {"format": FORMAT}
        if _is_users(ctx.id, ctx.path):
            folder = _installed_in(ctx.path)
            if folder is None:
                # mypy parses a file anew when something it imports has changed, and then asks no hook to rewrite it. A
                # file that is rewritten is therefore never taken from the cache; what it imports still is.
                has_findings = not self.findings.of(ctx.path).is_nothing
                data["again"] = ctx.is_check and (
                    has_findings
                    or mentions_annotations(ctx.path)
                    or shows_types(ctx.path)
                )
                data["findings"] = has_findings
                data["settings"] = self.settings.key
            else:
                # nothing is reported there, and what it imports changes when packages are installed
                data["packages"] = _packages(folder)
        return data

    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        self._require_settings()
        if file.fullname == DTYPES_MODULE:
            return [(NORMAL_PRIORITY, STATIC, -1)]
        if not _is_users(file.fullname, file.path) or not _is_rewritten(file.path):
            return []
        has_arrays = (
            self._prepare_in_worker(file)
            if parallel.is_serialized(file)
            else self._prepare(file)
        )
        return (
            [(NORMAL_PRIORITY, module, -1) for module in (STATIC, DTYPES_MODULE)]
            if has_arrays
            else []
        )

    def _prepare(self, file: MypyFile) -> bool:
        """Rewrite a file; whether its types need our modules."""
        try:
            changed = rewrite(file)
            if _installed_in(file.path) is not None:
                return changed
            found = self.findings.of(file.path)
            if not found.is_nothing:
                report_in(file)
            return changed or bool(found.arrays) or not found.is_nothing
        except Exception as error:  # noqa: BLE001  there is no context to report it in: the file itself reports it
            fail_in(file, self.guard.failure(f"reading {file.path}", error))
            return True

    def _prepare_in_worker(self, file: MypyFile) -> bool:
        try:
            parallel.ask_for_preparation(file, self.options)
        except Exception as error:  # noqa: BLE001  as above
            parallel.report_in(
                file, self.guard.failure(f"reading {file.path}", error), INTERNAL.code
            )
        return True

    def get_dynamic_class_hook(
        self, fullname: str
    ) -> Callable[[DynamicClassDefContext], None] | None:
        return self._prepare_here if fullname == PREPARE else None

    def _prepare_here(self, ctx: DynamicClassDefContext) -> None:
        """In a worker, at the first statement of a file. mypy may analyse a statement more than once."""
        file = ctx.api.modules[ctx.api.cur_mod_id]
        if self._prepared.get(file.fullname) is file:
            return
        self._prepared[file.fullname] = file
        try:
            rewrite(file, stub_imported=True)
        except Exception as error:  # noqa: BLE001  whatever it is, it is reported and mypy goes on
            ctx.api.fail(
                self.guard.failure(f"reading {file.path}", error),
                ctx.call,
                code=INTERNAL,
            )

    def get_class_decorator_hook(
        self, fullname: str
    ) -> Callable[[ClassDefContext], None] | None:
        return dataclass_tag_callback if fullname == PYTREE_DATACLASS else None

    def get_customize_class_mro_hook(
        self, fullname: str
    ) -> Callable[[ClassDefContext], None] | None:
        if fullname == JAX_ARRAY:
            return make_array_generic
        return open_dtypes if fullname == DTYPE_BASE else None

    def get_type_analyze_hook(
        self, fullname: str
    ) -> Callable[[AnalyzeTypeContext], Type] | None:
        return self.guard.typed(lambda: self._annotation_hook(fullname), fullname)

    def _annotation_hook(
        self, fullname: str
    ) -> Callable[[AnalyzeTypeContext], Type] | None:
        module, _, name = fullname.rpartition(".")
        if module == DTYPES_MODULE and name in SHARDTYPES_DTYPES:
            return partial(self.annotations.array, dtype=name)
        if fullname in STACKED:
            return self.annotations.stacked
        return self.annotations.annotated if fullname in ANNOTATED else None

    def get_function_hook(
        self, fullname: str
    ) -> Callable[[FunctionContext], Type] | None:
        own: dict[str, Callable[[FunctionContext], Type]] = {
            CALLED: self.types.called,
            REVEALED: self.types.revealed,
            FAILED: self.guard.failed,
            FINDINGS: self.findings.report,
        }
        hook = own.get(fullname)
        return self.guard.typed(
            lambda: hook or self.types.function_hook(fullname), fullname
        )

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        return self.guard.typed(lambda: self.types.method_hook(fullname), fullname)

    def get_function_signature_hook(
        self, fullname: str
    ) -> Callable[[FunctionSigContext], FunctionLike] | None:
        return self._signature_hook(fullname)

    def get_method_signature_hook(
        self, fullname: str
    ) -> Callable[[MethodSigContext], FunctionLike] | None:
        return self._signature_hook(fullname)

    def _signature_hook(
        self, fullname: str
    ) -> Callable[[SignatureContext], FunctionLike] | None:
        if not self.types.is_overloaded(fullname):
            return None
        return self.guard.signature(self.overloads.signature, fullname)

    def get_attribute_hook(
        self, fullname: str
    ) -> Callable[[AttributeContext], Type] | None:
        return self.guard.typed(lambda: self.types.attribute_hook(fullname), fullname)


def _is_rewritten(path: str) -> bool:
    """Nothing is reported in installed packages, so only the signatures of those that have annotations matter. The
    import of the stub, which imports JAX, would make one circle of all that JAX imports."""
    return _installed_in(path) is None or mentions_annotations(path)


def _installed_in(path: str) -> str | None:
    """The folder of installed packages that a file is below."""
    found = _INSTALLED.match(path)
    return found[0] if found else None


@cache
def _packages(folder: str) -> int:
    """What changes whenever a package is installed there, upgraded or removed."""
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:  # a folder of another system, in a cache that was copied
        return 0


def _is_users(module: str, path: str) -> bool:
    """Whether a module may have annotations of ours: no stub, not JAX, not shardtypes itself."""
    own = module.startswith(UNTOUCHED) or module.split(".")[0] in ("jax", "shardtypes")
    return not own and not path.endswith(".pyi")
