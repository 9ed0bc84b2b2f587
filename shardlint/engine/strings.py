"""Shape strings themselves: syntax, mesh axes, divisibility, and names that only the result has."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import prod
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.divisions import is_division
from shardlint.engine.annotations import array_form, resolve, shape_text
from shardlint.engine.frames import Frame
from shardlint.engine.types import ArrayType, SequenceType, Type
from shardlint.engine.vocabulary import vocabularies
from shardlint.values import ArrayValue, ExternalValue, FunctionValue
from shardlint.walking import nodes_of
from shardtypes.lang import Dialect, Shape, ShapeSyntaxError, messages, parse

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


def check_module(it: Interpreter, frame: Frame, module: ir.Module) -> None:
    """Report on every shape string of the module."""
    for node in nodes_of(module.body, ir.Subscript):
        if not isinstance(node.obj, (ir.Name, ir.Attr)):
            continue
        found = it.resolve_static(node.obj, module.name)
        if isinstance(found, ExternalValue):
            _subscript(it, frame, node, found.qualname, module.name)


def _subscript(
    it: Interpreter, frame: Frame, node: ir.Subscript, qualname: str, module: str
) -> None:
    form = array_form(qualname)
    stacked = qualname.rpartition(".")[2] == "Array" and qualname.split(".")[0] in (
        "shardtypes",
        "shardlib",
    )
    if form is None and not stacked:
        return
    items = node.index.items if isinstance(node.index, ir.Sequence) else (node.index,)
    if not items:
        return
    expr = items[0] if stacked else items[-1]
    text = shape_text(it, expr, module)
    if text is None:
        return
    literal = isinstance(expr, ir.Const)
    dialect: Dialect = form[1] if form is not None else "shardtypes"
    try:
        shape = parse(text, dialect)
    except ShapeSyntaxError as error:
        if dialect == "kauldron" or _is_read_by_project(it, node, module):
            return  # its own additions are no mistakes
        if dialect == "jaxtyping" and is_division(
            text[error.column :], _texts(it, module)
        ):
            return
        start = max(min(error.column, len(text) - 1), 0)
        span = (start, min(start + 1, len(text))) if literal else None
        message = messages.invalid_shape(text, error.message, error.column, error.hint)
        it.report(frame, "ST101", expr.at, message, span=span)
        return
    _axes(it, frame, expr, shape, literal)


def _texts(it: Interpreter, module: str) -> Iterator[str]:
    """The strings of a module."""
    source = it.project.module(module)
    for node in nodes_of(source.body if source is not None else (), ir.Const):
        if isinstance(node.value, str):
            yield node.value


def _is_read_by_project(it: Interpreter, node: ir.Subscript, module: str) -> bool:
    """Whether an annotation is on a parameter of a function that the project's own decorator gets, which may read more
    into it: that a kernel's block is ``[Q]`` of a dimension."""
    source = it.project.module(module)
    for function in nodes_of(source.body if source is not None else (), ir.Function):
        if any(node is param.annotation for param in function.params):
            calls = [
                expr.func if isinstance(expr, ir.Call) else expr
                for expr in function.decorators
            ]
            return any(
                isinstance(it.resolve_static(expr, module), FunctionValue)
                for expr in calls
            )
    return False


def _axes(
    it: Interpreter, frame: Frame, expr: ir.Expr, shape: Shape, literal: bool
) -> None:
    seen: set[str] = set()
    for dim in shape.dims:
        for axis, span in zip(dim.axes, dim.axis_spans, strict=True):
            place = (span.start, span.end) if literal else None
            if axis in seen:
                it.report(
                    frame,
                    "ST102",
                    expr.at,
                    messages.repeated_axis(axis, shape.text),
                    span=place,
                )
            seen.add(axis)
            known = _known_axes(it, frame.module)
            if known and axis not in known and not it.on_other_mesh(axis):
                it.report(
                    frame,
                    "ST103",
                    expr.at,
                    messages.unknown_axis(axis, known),
                    span=place,
                )
        size = dim.size.constant if dim.size is not None else None
        counts = _parts(it, dim.axes) if dim.axes and size is not None else ()
        if size is not None and counts and all(size % count for count in counts):
            place = (dim.span.start, dim.span.end) if literal else None
            it.report(
                frame,
                "ST104",
                expr.at,
                messages.indivisible(size, min(counts), dim.axes),
                span=place,
            )


def _known_axes(it: Interpreter, module: str) -> Collection[str]:
    """The axes of the configured mesh; else those of all meshes that the project makes, if the module speaks of some:
    what is annotated for others to use may be meant for their meshes."""
    if it.mesh:
        return it.mesh
    made = it.made_axes.only
    return made if made and not made.isdisjoint(_spoken_of(it, module)) else ()


def _parts(it: Interpreter, axes: tuple[str, ...]) -> Collection[int]:
    """Into how many parts these axes split a dimension: on the configured mesh, else on each that the project makes."""
    if not it.mesh:
        return it.made_axes.sizes(axes)
    lengths = [it.mesh.get(axis) for axis in axes]
    known = [length for length in lengths if length is not None]
    return [prod(known)] if len(known) == len(lengths) else []


def _spoken_of(it: Interpreter, module: str) -> frozenset[str]:
    """The axes in all annotations of a module."""
    source = it.project.module(module)
    found = it.axes_spoken_of.get(module)
    if found is None and source is not None:
        last = (_last_item(node) for node in nodes_of(source.body, ir.Subscript))
        texts = (item.value for item in last if isinstance(item, ir.Const))
        found = frozenset(axis for text in texts for axis in _axes_of(text))
        it.axes_spoken_of[module] = found
    return found or frozenset()


def _last_item(node: ir.Subscript) -> ir.Expr | None:
    """Where an array annotation has its string: ``f32['B']`` and ``f32[Array, 'B']``."""
    index = node.index
    if not isinstance(index, ir.Sequence):
        return index
    return index.items[-1] if index.items else None


def _axes_of(text: object) -> tuple[str, ...]:
    if not isinstance(text, (str, bytes)):
        return ()
    try:
        return parse(text).axes
    except ShapeSyntaxError:
        return ()


def check_result_names(
    it: Interpreter, frame: Frame, node: ir.Function, module: str, known: set[str]
) -> None:
    """A name in the result that nothing else has, one slip away from a name that the parameters have."""
    promised = [
        array
        for array in _arrays(resolve(it, node.returns, module))
        if array.shape is not None
    ]
    if not promised:
        return
    elsewhere = set(known)
    for param in node.params:
        elsewhere.add(param.name)
        elsewhere |= names_in(it, resolve(it, param.annotation, module))
    for array in promised:
        for dim in array.shape.dims if array.shape is not None else ():
            name = dim.name if dim.kind == "size" else None
            if name is None or name in elsewhere:
                continue
            near = sorted(other for other in elsewhere if _slip(name, other))
            if near and name not in _words_in_strings(node.body):
                span = (dim.span.start, dim.span.start + len(name))
                message = f"only the result of {node.name} has a dimension {name!r}; did you mean {near[0]!r}?"
                it.report(frame, "ST105", array.at, message, span=span)


def _words_in_strings(body: tuple[ir.Stmt, ...]) -> set[str]:
    """The words in the strings of a function."""
    texts = (n.value for n in nodes_of(body, ir.Const))
    return {word for text in texts if isinstance(text, str) for word in _words(text)}


def check_result_alias(
    it: Interpreter, frame: Frame, array: ArrayType, value: ArrayValue
) -> None:
    """A name that only the result has, where the value certainly has a size of the parameters."""
    shape, function = array.shape, frame.function
    if (
        shape is None
        or function is None
        or value.dims is None
        or shape.rank != len(value.dims)
    ):
        return
    promised = shape.names
    aliases = [
        d.name for d in shape.dims if d.name is not None and d.name not in frame.named
    ]
    if len(aliases) != 1:
        # several new names tell equal sizes apart: 'B Q K' for scores of a sequence with itself
        return
    own = _names_of_parameters(it, frame)
    for dim, actual in zip(shape.dims, value.dims, strict=True):
        name = dim.name if dim.kind == "size" else None
        if (
            name is None
            or name in frame.named
            or actual.size is None
            or shape.dialect != "shardtypes"
        ):
            continue
        other = actual.size.symbol_name
        if (
            other is not None
            and other != name
            and other in own
            and other not in promised
        ):
            span = (dim.span.start, dim.span.start + len(name))
            message = f"only the result of {function.name} has a dimension {name!r}; the value has {other!r} there"
            it.report(frame, "ST105", array.at, message, span=span)


def _names_of_parameters(it: Interpreter, frame: Frame) -> set[str]:
    """The names that a signature writes itself. A class has words of its own for the same sizes."""
    assert frame.function is not None
    node, module = frame.function.node, frame.function.module
    types = (
        [resolve(it, param.annotation, module) for param in node.params]
        if isinstance(node, ir.Function)
        else []
    )
    shapes = [
        array.shape
        for type_ in types
        for array in _arrays(type_)
        if array.shape is not None
    ]
    return {name for shape in shapes for name in shape.names}


def _words(text: str) -> list[str]:
    return "".join(c if c.isidentifier() or c.isdigit() else " " for c in text).split()


def _arrays(type_: Type) -> Iterator[ArrayType]:
    if isinstance(type_, ArrayType):
        yield type_
    elif isinstance(type_, SequenceType):
        for item in type_.items:
            yield from _arrays(item)


def names_in(it: Interpreter, type_: Type) -> set[str]:
    """The names of dimensions in an annotation, and in the fields of the classes that it names."""
    return set().union(*vocabularies(it, [type_]))


def _slip(a: str, b: str) -> bool:
    """Whether one is the other with a letter left out, or two exchanged, or another case; digits tell names apart."""
    if a.lower() == b.lower():
        return a != b and len(a) > 1
    if min(len(a), len(b)) < 4 or any(c.isdigit() or c == "_" for c in set(a) ^ set(b)):
        return False
    if len(a) == len(b):
        differ = [i for i in range(len(a)) if a[i] != b[i]]
        return (
            len(differ) == 2
            and differ[1] == differ[0] + 1
            and a[differ[0]] == b[differ[1]]
            and a[differ[1]] == b[differ[0]]
        )
    short, long = sorted((a, b), key=len)
    # a plural or a suffix is another name
    if len(long) - len(short) != 1 or long[:-1] == short:
        return False
    return any(long[:i] + long[i + 1 :] == short for i in range(1, len(long)))
