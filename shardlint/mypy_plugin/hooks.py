"""Which hook handles what."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

from mypy.errors import CompileError
from mypy.nodes import MypyFile, SymbolTableNode
from mypy.options import Options
from mypy.plugin import (
    AnalyzeTypeContext,
    AttributeContext,
    ClassDefContext,
    DynamicClassDefContext,
    FunctionContext,
    MethodContext,
)
from mypy.plugins.dataclasses import dataclass_tag_callback
from mypy.types import FunctionLike, Type

from shardlint.mypy_plugin import parallel
from shardlint.mypy_plugin.annotations import Annotations
from shardlint.mypy_plugin.checked import Found
from shardlint.mypy_plugin.codes import INTERNAL
from shardlint.mypy_plugin.findings import Findings
from shardlint.mypy_plugin.forms import Forms
from shardlint.mypy_plugin.generic import make_array_generic, open_dtypes
from shardlint.mypy_plugin.guard import Guard, SignatureContext
from shardlint.mypy_plugin.heads import is_rewritten, mentions_annotations
from shardlint.mypy_plugin.last_run import LastRun, Looked, OfFile
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
from shardlint.mypy_plugin.whose_files import installed_in
from shardtypes.lang.array_names import SHARDTYPES_DTYPES

NORMAL_PRIORITY = 10  # mypy.build.PRI_MED
_TypeHook = Callable[[AnalyzeTypeContext], Type]


class Hooks:
    """The hooks of one run; ``lookup`` finds a definition by its qualified name."""

    def __init__(
        self,
        options: Options,
        lookup: Callable[[str], SymbolTableNode | None],
        last_run: LastRun,
    ) -> None:
        self._options = options
        self._last_run = last_run
        self.settings = read_settings(options)
        self.guard = Guard(options)
        forms = Forms(lookup)
        annotations = Annotations(forms, self.settings)
        self.findings = Findings(self.settings, options)
        self.types = ShownTypes(self.findings, forms, lookup)
        self.overloads = Overloads(self.findings, forms)
        self._prepared: dict[str, MypyFile] = {}
        # files whose findings are not known yet
        self._undecided: list[str] = []
        self._annotations: dict[str, _TypeHook] = {
            **{
                f"{DTYPES_MODULE}.{name}": partial(annotations.array, dtype=name)
                for name in SHARDTYPES_DTYPES
            },
            **dict.fromkeys(STACKED, annotations.stacked),
            **dict.fromkeys(ANNOTATED, annotations.annotated),
        }

        self._own: dict[str, Callable[[FunctionContext], Type]] = {
            CALLED: self.types.called,
            REVEALED: self.types.revealed,
            FAILED: self.guard.failed,
            FINDINGS: self.findings.report,
        }

    def require_settings(self) -> None:
        """Settings that cannot be read end the run: mypy prints the one line and exits with status 2."""
        if self.settings.problem is not None:
            raise CompileError([self.settings.problem])

    def about(self, path: str) -> OfFile:
        """What decides how mypy keeps a file of the user's."""
        has_findings = not self.findings.of(path).is_nothing
        about = OfFile(
            has_findings or is_rewritten(path), has_findings, self.settings.key
        )
        self._last_run.decide(path, about)
        return about

    @cached_property
    def looked_at(self) -> Looked | None:
        """All that the run depends on, once mypy has met all modules."""
        for path in self._undecided:
            self.about(path)
        return self.findings.looked_at(self._options)

    def additional_deps(
        self, file: MypyFile, is_users: bool
    ) -> list[tuple[int, str, int]]:
        """What mypy has to read beside what a file imports; the file is rewritten now."""
        self.require_settings()
        if file.fullname == DTYPES_MODULE:
            return [(NORMAL_PRIORITY, STATIC, -1)]
        if not is_users or not _may_be_rewritten(file.path):
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
            if installed_in(file.path) is not None:
                return rewrite(file)
            may_find = self.findings.begin(file.path)
            self.findings.learn_places(file, self._options)
            if may_find is None:
                return self._prepare_with(self.findings.of(file.path), file)
            self._undecided.append(file.path)
            changed = rewrite(file)
            if may_find:
                report_in(file)
            return changed or may_find
        except Exception as error:  # noqa: BLE001  there is no context to report it in: the file itself reports it
            fail_in(file, self.guard.failure(f"reading {file.path}", error))
            return True

    def _prepare_with(self, found: Found, file: MypyFile) -> bool:
        self.about(file.path)
        changed = rewrite(file)
        if not found.is_nothing:
            report_in(file)
        return changed or bool(found.arrays) or not found.is_nothing

    def _prepare_in_worker(self, file: MypyFile) -> bool:
        try:
            parallel.ask_for_preparation(file, self._options)
        except Exception as error:  # noqa: BLE001  as above
            parallel.report_in(
                file, self.guard.failure(f"reading {file.path}", error), INTERNAL.code
            )
        return True

    def dynamic_class(
        self, fullname: str
    ) -> Callable[[DynamicClassDefContext], None] | None:
        """The hook of what is called in an assignment."""
        return self._prepare_here if fullname == PREPARE else None

    def _prepare_here(self, ctx: DynamicClassDefContext) -> None:
        """In a worker, at the first statement of a file. mypy may analyse a statement more than once."""
        file = ctx.api.modules[ctx.api.cur_mod_id]
        if self._prepared.get(file.fullname) is file:
            return
        self._prepared[file.fullname] = file
        try:
            self.findings.learn_places(file, self._options, parallel.STATEMENTS)
            rewrite(file, stub_imported=True)
        except Exception as error:  # noqa: BLE001  whatever it is, it is reported and mypy goes on
            ctx.api.fail(
                self.guard.failure(f"reading {file.path}", error),
                ctx.call,
                code=INTERNAL,
            )

    def class_decorator(
        self, fullname: str
    ) -> Callable[[ClassDefContext], None] | None:
        """The hook of a decorator of classes."""
        return dataclass_tag_callback if fullname == PYTREE_DATACLASS else None

    def class_mro(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        """The hook of a class itself."""
        if fullname == JAX_ARRAY:
            return make_array_generic
        return open_dtypes if fullname == DTYPE_BASE else None

    def type_analyze(self, fullname: str) -> _TypeHook | None:
        """The hook of a name in a type."""
        hook = self._annotations.get(fullname)
        return None if hook is None else self.guard.typed(lambda: hook, fullname)

    def function(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        """The hook of a function that is called."""
        hook = self._own.get(fullname)
        return self.guard.typed(
            lambda: hook or self.types.function_hook(fullname), fullname
        )

    def method(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        """The hook of a method that is called."""
        return self.guard.typed(lambda: self.types.method_hook(fullname), fullname)

    def signature(
        self, fullname: str
    ) -> Callable[[SignatureContext], FunctionLike] | None:
        """The hook of a function or method, for the signature that a call of it has."""
        if not self.types.is_overloaded(fullname):
            return None
        return self.guard.signature(self.overloads.signature, fullname)

    def attribute(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        """The hook of an attribute."""
        return self.guard.typed(lambda: self.types.attribute_hook(fullname), fullname)


def _may_be_rewritten(path: str) -> bool:
    """Nothing is reported in installed packages, so only the signatures of those that have annotations matter. The
    import of the stub, which imports JAX, would make one circle of all that JAX imports."""
    return installed_in(path) is None or mentions_annotations(path)
