"""Which functions run in the manual view.

A function does when ``shard_map``, ``typed_shard_map`` or ``pmap`` run it, when such a function calls it, or when it is
annotated with mesh axes and itself calls collectives over them. Of any other function the view is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.annotations import resolve
from shardlint.engine.field_types import field_types
from shardlint.engine.frames import Frame
from shardlint.engine.regions import Region
from shardlint.engine.sharding import sends
from shardlint.engine.sharding.collectives import COLLECTIVES
from shardlint.engine.sharding.collectives_spec import NAMES as SPEC_NAMES
from shardlint.engine.types import (
    ArrayType,
    ClassType,
    MappingType,
    RepeatedType,
    SequenceType,
    Type,
    UnionType,
)
from shardlint.ops.registry import static_bool
from shardlint.ops.sharding.view import View
from shardlint.outline import MAPPINGS
from shardlint.values import ExternalValue, FunctionValue, PartialValue, Value
from shardlint.walking import nodes_of, walk
from shardtypes.lang import ShapeSyntaxError, parse

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


def configured(it: Interpreter, **options: object) -> View:
    """A view on the configured mesh, or on one that is not known."""
    axes = tuple(it.mesh.items())
    return View(axes, bool(axes), **options)  # type: ignore[arg-type]  # fields of View


def own_view(
    it: Interpreter, frame: Frame, node: ir.Function, module: str
) -> tuple[View | None, Region | None]:
    """The view in which a function says itself that it runs: by decorator, or by the collectives that it calls."""
    for expr in node.decorators:
        frame.silent += 1
        wrapper = it.evaluate(frame, expr)
        frame.silent -= 1
        options: dict[str, Value] = {}
        if isinstance(wrapper, PartialValue):
            options, wrapper = dict(wrapper.kwargs), wrapper.func
        if (
            isinstance(wrapper, ExternalValue)
            and wrapper.qualname.rpartition(".")[2] == "typed_shard_map"
        ):
            view = configured(it, transposes=tracked(options))
            return view, Region(view, typed=True)
    if frame.view is not None:
        return signature_view(it, frame.view, node, module), None
    axes = annotated_axes(it, node, module)
    if axes and any(_reduces(it, module, call, axes) for call in _calls(node)):
        elsewhere = any(it.on_other_mesh(axis) for axis in axes)
        return View((), False) if elsewhere else configured(it), None
    return None, None


def leave_mapped(it: Interpreter, frame: Frame, func: FunctionValue, at: int) -> None:
    """Keep that what a function sends which maps itself over devices is not counted where it is called from outside."""
    node = func.node
    if not isinstance(node, ir.Function) or not isinstance(func.closure, Frame):
        return
    _, region = own_view(it, func.closure, node, func.module)
    if region is not None and region.typed:
        sends.leave_mapped(it, frame, at, f"{func.name}, which typed_shard_map maps")


def _calls(node: ir.Function) -> Iterator[ir.Call]:
    """The calls that a function makes; not those of functions in it, where it maps some of them over devices itself."""
    below = list(walk(node.body))
    names = {
        n.name if isinstance(n, ir.Attr) else n.id
        for n in below
        if isinstance(n, (ir.Attr, ir.Name))
    }
    apart: set[int] = set()
    if any(mapping in name for mapping in MAPPINGS for name in names):
        apart = {
            id(n)
            for inner in below
            if isinstance(inner, (ir.Function, ir.Lambda))
            for n in walk(inner.body)
        }
    yield from (n for n in below if isinstance(n, ir.Call) and id(n) not in apart)


def signature_view(
    it: Interpreter, view: View, node: ir.Function | ir.Lambda, module: str
) -> View:
    """The view, as the annotations of a function speak of it."""
    declares = isinstance(node, ir.Function) and bool(annotated_axes(it, node, module))
    return view if view.declares == declares else replace(view, declares=declares)


def tracked(options: Mapping[str, Value]) -> bool | None:
    """Whether JAX keeps track of what varies: ``check_vma``, or its older name."""
    for name in ("check_vma", "check_rep"):
        if name in options:
            return static_bool(options[name])
    return True


def annotated_axes(it: Interpreter, node: ir.Function, module: str) -> frozenset[str]:
    """The mesh axes in the annotations of a function's parameters and result."""
    known = it.annotated_axes.get(id(node))
    if known is None:
        annotations = (*(param.annotation for param in node.params), node.returns)
        found = (
            _axes_in(it, resolve(it, expr, module), 0)
            for expr in annotations
            if expr is not None
        )
        known = it.annotated_axes[id(node)] = frozenset[str]().union(*found)
    return known


def _axes_in(it: Interpreter, type_: Type, depth: int) -> set[str]:

    match type_:
        case ArrayType(shape=shape) if (
            shape is not None and shape.dialect == "shardtypes"
        ):
            return set(shape.axes)
        case ClassType(cls=cls) if depth < 3:
            return set().union(
                *(_axes_in(it, one, depth + 1) for one in field_types(it, cls).values())
            )
        case SequenceType(items=items) | UnionType(items=items):
            return set().union(*(_axes_in(it, one, depth + 1) for one in items))
        case RepeatedType(item=item):
            return _axes_in(it, item, depth + 1)
        case MappingType(value=value):
            return _axes_in(it, value, depth + 1)
        case _:
            return set()


def _reduces(it: Interpreter, module: str, call: ir.Call, axes: frozenset[str]) -> bool:
    """Whether a call is a collective over one of the axes, as written."""
    found = it.resolve_static(call.func, module)
    if isinstance(found, ExternalValue) and found.qualname in COLLECTIVES:
        words = {n.value for arg in call.args for n in nodes_of(arg.value, ir.Const)}
        return bool(words & axes)
    name = (
        call.func.name
        if isinstance(call.func, ir.Attr)
        else call.func.id
        if isinstance(call.func, ir.Name)
        else ""
    )
    first = call.args[0].value if call.args else None
    if (
        name not in SPEC_NAMES
        or not isinstance(first, ir.Const)
        or not isinstance(first.value, str)
    ):
        return False
    text = first.value.replace("[", "").replace("]", "")
    try:
        named = {
            axis
            for part in text.replace("->", ",").split(",")
            for axis in parse(part).axes
        }
    except ShapeSyntaxError:
        return False
    return "->" in text and bool(named & axes)
