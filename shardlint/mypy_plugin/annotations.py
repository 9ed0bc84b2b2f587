"""Annotations: ``f32['B/d M']``, ``Array['layers', T]``, ``Annotated[jax.Array, f32['B M']]``.

What is wrong with a shape, the linter tells; here it is only shown.
"""

from __future__ import annotations

from mypy.nodes import TypeInfo
from mypy.plugin import AnalyzeTypeContext
from mypy.types import (
    AnyType,
    Instance,
    RawExpressionType,
    Type,
    TypeOfAny,
    UnboundType,
    get_proper_type,
)

from shardlint.mypy_plugin.codes import SYNTAX, path_of
from shardlint.mypy_plugin.forms import Forms, is_array
from shardlint.mypy_plugin.names import CLASS_OF_DTYPE, DTYPES_MODULE
from shardlint.mypy_plugin.settings import Settings
from shardtypes.lang.array_names import JAXTYPING_DTYPES, SHARDTYPES_DTYPES


class Annotations:
    """The hooks of array types."""

    def __init__(self, forms: Forms, settings: Settings) -> None:
        self._forms = forms
        self._settings = settings

    def array(self, ctx: AnalyzeTypeContext, dtype: str) -> Type:
        """``f32['B/d M']``, ``f32[Array, 'B/d M']``, or ``f32`` alone."""
        given = ctx.type.args
        if len(given) == 2 and not is_array(ctx.api.analyze_type(given[0])):
            self._report(
                ctx,
                f"{dtype} takes one shape string, such as {dtype}['batch/d embed'], "
                f"or an array and one: {dtype}[Array, 'batch/d embed']",
            )
        elif len(given) > 2:
            self._report(
                ctx, f"{dtype} takes one shape string, such as {dtype}['batch/d embed']"
            )
        text = self._text(ctx, given[-1]) if len(given) in (1, 2) else None
        return self._forms.array(dtype, text, ctx.type)

    def stacked(self, ctx: AnalyzeTypeContext) -> Type:
        """``Array['layers', T]``: T, which has dimensions in front."""
        if len(ctx.type.args) != 2:
            self._report(
                ctx, "Array takes a shape string and a type: Array['layers', Layer]"
            )
            return AnyType(TypeOfAny.from_error)
        text = self._text(ctx, ctx.type.args[0])
        inner = ctx.api.analyze_type(ctx.type.args[1])
        proper = get_proper_type(inner)
        if text is None or not isinstance(proper, Instance) or not is_array(proper):
            return inner
        return self._forms.stacked(text, proper)

    def annotated(self, ctx: AnalyzeTypeContext) -> Type:
        """``Annotated[jax.Array, f32['B M']]``, or jaxtyping's ``Float[Array, 'b m']``; other metadata is ignored."""
        if not ctx.type.args:
            return AnyType(TypeOfAny.from_error)
        name = ctx.type.name.rpartition(".")[2]
        if name in JAXTYPING_DTYPES:
            return self._jaxtyping(ctx, CLASS_OF_DTYPE.get(JAXTYPING_DTYPES[name]))
        if name in SHARDTYPES_DTYPES:
            return self.array(ctx, name)
        for metadata in ctx.type.args[1:]:
            if isinstance(metadata, UnboundType) and _is_dtype(ctx, metadata):
                return ctx.api.analyze_type(metadata)
        return ctx.api.analyze_type(ctx.type.args[0])

    def _jaxtyping(self, ctx: AnalyzeTypeContext, dtype: str | None) -> Type:
        inner = ctx.api.analyze_type(ctx.type.args[0])
        if not is_array(inner) or len(ctx.type.args) != 2:
            return inner
        return self._forms.array(dtype, self._text(ctx, ctx.type.args[1]), ctx.type)

    def _text(self, ctx: AnalyzeTypeContext, arg: Type) -> str | None:
        """The text that an argument is; None for a name, which is a constant defined elsewhere."""
        if isinstance(arg, UnboundType):
            return arg.original_str_expr
        text = arg.literal_value if isinstance(arg, RawExpressionType) else None
        if isinstance(text, str):
            return " ".join(text.split())
        self._report(ctx, "a shape is a string, such as 'batch/d embed'")
        return None

    def _report(self, ctx: AnalyzeTypeContext, text: str) -> None:
        """What the linter does not read, it does not tell."""
        if self._settings.on("ST101", path_of(ctx.api)):
            ctx.api.fail(text, ctx.context, code=SYNTAX)


def _is_dtype(ctx: AnalyzeTypeContext, typ: UnboundType) -> bool:
    # TypeAnalyser has it, its interface does not say so
    lookup = getattr(ctx.api, "lookup_qualified", None)
    found = lookup(typ.name, typ, suppress_errors=True) if lookup is not None else None
    node = found.node if found is not None else None
    if not isinstance(node, TypeInfo):
        return False
    return (
        node.fullname.startswith(f"{DTYPES_MODULE}.") and node.name in SHARDTYPES_DTYPES
    )
