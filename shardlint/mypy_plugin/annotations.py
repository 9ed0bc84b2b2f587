"""Annotations: ``f32['B/d M']``, ``Array['layers', T]``, ``Annotated[jax.Array, f32['B M']]``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from pathlib import Path

from mypy.nodes import BytesExpr, StrExpr, TypeInfo
from mypy.plugin import AnalyzeTypeContext, FunctionContext
from mypy.types import (
    AnyType,
    Instance,
    LiteralType,
    RawExpressionType,
    Type,
    TypeOfAny,
    UnboundType,
    get_proper_type,
)

from shardlint.divisions import is_division
from shardlint.mypy_plugin.codes import AXES, SYNTAX
from shardlint.mypy_plugin.errors import Reporter
from shardlint.mypy_plugin.forms import OF, Forms, prefixed, read_array
from shardlint.mypy_plugin.jaxtyping_names import JAXTYPING
from shardlint.mypy_plugin.names import DTYPES, DTYPES_MODULE, GLOBAL
from shardtypes.lang import Dialect, Shape, ShapeSyntaxError, messages, parse

STACK = "<stacked>"
_TEXTS = re.compile(r""" "([^"\n]*)" | '([^'\n]*)' """, re.VERBOSE)


def array_annotation(
    ctx: AnalyzeTypeContext, dtype: str, forms: Forms, report: Reporter
) -> Type:
    """``f32['B/d M']``, or ``f32`` alone."""
    if not ctx.type.args:
        return forms.array(dtype, None, declared=True, at=ctx.type)
    shape = _shape(ctx, ctx.type.args[0], report) if len(ctx.type.args) == 1 else None
    if len(ctx.type.args) != 1:
        text = f"{dtype} takes one shape string, such as {dtype}['batch/d embed']"
        report(ctx.api, "ST101", text, ctx.context, SYNTAX)
    return forms.array(
        dtype, None if shape is None else str(shape), declared=True, at=ctx.type
    )


def stacked_annotation(ctx: AnalyzeTypeContext, forms: Forms, report: Reporter) -> Type:
    """``Array['layers', T]``: T with dimensions in front, or a class all of whose array fields have them."""
    if len(ctx.type.args) != 2:
        text = "Array takes a shape string and a type: Array['layers', Layer]"
        report(ctx.api, "ST101", text, ctx.context, SYNTAX)
        return AnyType(TypeOfAny.from_error)
    shape = _shape(ctx, ctx.type.args[0], report)
    inner = ctx.api.analyze_type(ctx.type.args[1])
    return (
        inner
        if shape is None
        else stack(str(shape), inner, ctx.api.named_type("builtins.str", []), forms)
    )


def stack(prefix: str, inner: Type, text_type: Instance, forms: Forms) -> Type:
    """The type with dimensions put in front of every array in it."""
    proper = get_proper_type(inner)
    form = read_array(proper)
    if not isinstance(proper, Instance):
        return inner
    if form is not None:
        if form.shape is None:
            return inner
        return forms.with_shape(proper, f"{prefix} {form.shape}".strip(), form.declared)
    outer = stacked_prefix(proper)
    text = LiteralType(f"{prefix} {outer}" if outer else prefix, text_type)
    # Instance attributes under a name that no program can write: they survive the cache and leave subtyping alone.
    return proper.copy_modified().copy_with_extra_attr(STACK, text)


def stacked_prefix(typ: Type) -> str | None:
    """The dimensions that ``Array['layers', T]`` put in front of the fields of T."""
    proper = get_proper_type(typ)
    if not isinstance(proper, Instance) or proper.extra_attrs is None:
        return None
    marker = proper.extra_attrs.attrs.get(STACK)
    return (
        marker.value
        if isinstance(marker, LiteralType) and isinstance(marker.value, str)
        else None
    )


def annotated(ctx: AnalyzeTypeContext, forms: Forms, report: Reporter) -> Type:
    """``Annotated[jax.Array, f32['B M']]``, or jaxtyping's ``Float[Array, 'b m']``; other metadata is nothing to us."""
    if not ctx.type.args:
        return AnyType(TypeOfAny.from_error)
    dtype = JAXTYPING.get(ctx.type.name.rpartition(".")[2])
    if dtype is not None:
        return _jaxtyping(ctx, dtype, forms, report)
    for metadata in ctx.type.args[1:]:
        if isinstance(metadata, UnboundType):
            dtype = _dtype_class(ctx, metadata)
            if dtype is not None:
                return ctx.api.analyze_type(metadata)
    return ctx.api.analyze_type(ctx.type.args[0])


def _jaxtyping(
    ctx: AnalyzeTypeContext, dtype: str, forms: Forms, report: Reporter
) -> Type:
    """jaxtyping says nothing of sharding, so its shapes count as worked out."""
    inner = ctx.api.analyze_type(ctx.type.args[0])
    if read_array(inner) is None or len(ctx.type.args) != 2:
        return inner
    shape = _shape(ctx, ctx.type.args[1], report, "jaxtyping")
    return forms.array(
        dtype, None if shape is None else str(shape), declared=False, at=ctx.type
    )


def _dtype_class(ctx: AnalyzeTypeContext, typ: UnboundType) -> str | None:
    # TypeAnalyser has it, its interface does not say so
    lookup = getattr(ctx.api, "lookup_qualified", None)
    found = lookup(typ.name, typ, suppress_errors=True) if lookup is not None else None
    node = found.node if found is not None else None
    if (
        isinstance(node, TypeInfo)
        and node.fullname.startswith(DTYPES_MODULE + ".")
        and node.name in DTYPES
    ):
        return node.name
    return None


def _shape(
    ctx: AnalyzeTypeContext,
    arg: Type,
    report: Reporter,
    dialect: Dialect = "shardtypes",
) -> Shape | None:
    """The shape that an argument spells; what is wrong with it is reported."""
    text: object = None
    if isinstance(arg, RawExpressionType):
        text = arg.literal_value
    elif isinstance(arg, UnboundType):
        text = arg.original_str_expr
        if text is None:
            return None  # a name: a constant defined elsewhere
    if not isinstance(text, str):
        report(
            ctx.api,
            "ST101",
            "a shape is a string, such as 'batch/d embed'",
            ctx.context,
            SYNTAX,
        )
        return None
    try:
        shape = parse(text, dialect)
    except ShapeSyntaxError as error:
        if dialect == "jaxtyping" and is_division(
            text[error.column :], _texts_of_the_file(ctx)
        ):
            return None
        problem = messages.invalid_shape(text, error.message, error.column, error.hint)
        report(ctx.api, "ST101", problem, ctx.context, SYNTAX)
        return None
    _check_axes(ctx, shape, report)
    if isinstance(arg, RawExpressionType) and arg.note == GLOBAL:
        own = prefixed(shape, f"{GLOBAL}{OF}")
        return parse(own) if own is not None else None
    return shape


def _texts_of_the_file(ctx: AnalyzeTypeContext) -> Iterator[str]:
    """The strings of the file that is analyzed."""
    # its interface does not say so
    file = getattr(getattr(ctx.api, "api", None), "cur_mod_node", None)
    path = getattr(file, "path", None)
    if path is not None:
        for double, single in _TEXTS.findall(Path(path).read_text("utf-8", "replace")):
            yield double or single


def annotation_value(ctx: FunctionContext, report: Reporter) -> Type:
    """An annotation among values: its text is checked."""
    text = ctx.args[0][0] if ctx.args and ctx.args[0] else None
    if isinstance(text, (StrExpr, BytesExpr)):
        try:
            _check_axes(ctx, parse(text.value), report)
        except ShapeSyntaxError as error:
            problem = messages.invalid_shape(
                text.value, error.message, error.column, error.hint
            )
            report(ctx.api, "ST101", problem, ctx.context, SYNTAX)
    return ctx.default_return_type


def _check_axes(
    ctx: AnalyzeTypeContext | FunctionContext, shape: Shape, report: Reporter
) -> None:
    """Mesh axes that are there twice or in no mesh, and numbers that their axes do not divide."""
    mesh = report.settings.mesh
    for axis in sorted(set(shape.axes)):
        if shape.axes.count(axis) > 1:
            report(
                ctx.api,
                "ST102",
                messages.repeated_axis(axis, shape.text),
                ctx.context,
                AXES,
            )
        if mesh and axis not in mesh and axis not in report.settings.made_axes().names:
            report(
                ctx.api, "ST103", messages.unknown_axis(axis, mesh), ctx.context, AXES
            )
    for dim in shape.dims:
        size = dim.size.constant if dim.size is not None else None
        lengths = [mesh.get(axis) for axis in dim.axes]
        if size is None or None in lengths:
            continue
        count = prod(length for length in lengths if length is not None)
        if size % count:
            report(
                ctx.api,
                "ST104",
                messages.indivisible(size, count, dim.axes),
                ctx.context,
                AXES,
            )
