"""Values as ``--show-types`` prints them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from shardlint import ir
from shardlint.array_places import Arrays
from shardlint.engine.frames import Frame
from shardlint.engine.sharding import specs
from shardlint.engine.sharding.manual_entry import displayed
from shardlint.knowledge import FULLY, IN_PART, NOT_AT_ALL, RANK_ONLY, Knowledge
from shardlint.ops.sharding.state import sharded
from shardlint.signatures import Signatures
from shardlint.values import (
    ArrayValue,
    ClassValue,
    CollectionValue,
    DictValue,
    Dimension,
    ExternalValue,
    FunctionValue,
    InstanceValue,
    IntValue,
    Literal,
    MaybeValue,
    MeshValue,
    MethodValue,
    ModuleValue,
    PartialValue,
    ScalarValue,
    SequenceValue,
    ShardingValue,
    SpecValue,
    StringValue,
    Unknown,
    Value,
    WrappedValue,
)
from shardtypes.lang import Size, format_shape

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

Key: TypeAlias = tuple[int, str]
"""A node and the name that stands there."""

#: What a name is that stands for code.
_ELSEWHERE = (ClassValue, ExternalValue, FunctionValue, MethodValue, ModuleValue)
#: Longer lists and tuples are not printed in full.
_MANY = 8
#: What tells sizes of one name apart, which readers need not see.
NUMBERED = re.compile(r"\?|(?<=\w)[.#]\d+\b")


def shown(value: Value) -> tuple[str, str | None]:
    """A value as --show-types prints it, and why it is unknown if it is."""
    text = _text(value)
    if isinstance(value, ArrayValue) and value.dims is None:
        return text, "its rank is not known"
    if isinstance(value, Unknown):
        return text, value.reason or "unknown"
    return text, None


def _text(value: Value) -> str:
    match value:
        case ArrayValue():
            return _array(value)
        case IntValue(size=size):
            return "int" if size is None else f"int {NUMBERED.sub('', str(size))}"
        case ScalarValue(kind=kind):
            return kind
        case StringValue():
            return "str"
        case Literal(value=constant):
            return repr(constant)
        case Unknown():
            return "unknown"
        case ShardingValue(spec=spec):
            return f"sharding {specs.shown(spec)}"
        case SpecValue():
            return specs.shown(value)
        case MeshValue(axes=axes) if axes is not None:
            sizes = (f"{name}={size or '?'}" for name, size in axes)
            return "mesh " + ", ".join(sizes)
        case _:
            return _collection(value) or _callable(value) or _kind(value)


def _array(array: ArrayValue) -> str:
    dtype = array.dtype or "array"
    if array.dims is None:
        return f"{dtype}['...']"
    sizes, axes = [_called(d) for d in array.dims], [d.axes for d in array.dims]
    text = format_shape(sizes, axes, array.pending or ())
    varying = sorted(array.varying - sharded(array))
    if varying:
        text += f" {{V:{','.join(varying)}}}"
    return f"{dtype}[{text!r}]"


def _collection(value: Value) -> str:
    match value:
        case SequenceValue(items=items, kind="list"):
            return f"[{_listed(items)}]"
        case SequenceValue(items=items):
            return f"({_listed(items)}{',' if len(items) == 1 else ''})"
        case DictValue(items=pairs):
            entries = (f"{key!r}: {_text(item)}" for key, item in pairs)
            return "{" + ", ".join(entries) + "}"
        case CollectionValue(item=item, kind=kind):
            return f"{kind} of {_text(item)}"
        case MaybeValue(value=inner):
            return f"{_text(inner)} or None"
        case _:
            return ""


def _callable(value: Value) -> str:
    match value:
        case InstanceValue(cls=cls):
            return cls.name
        case ClassValue(name=name):
            return f"class {name}"
        case FunctionValue(name=name):
            return name if name == "lambda" else f"function {name}"
        case PartialValue(func=func):
            return f"partial of {_text(func)}"
        case WrappedValue(kind=kind, func=func):
            inside = "" if isinstance(func, Unknown) else f" of {_text(func)}"
            return f"{kind.rpartition('.')[2]}{inside}"
        case ExternalValue(qualname=qualname):
            return qualname
        case _:
            return ""


def _kind(value: Value) -> str:
    return type(value).__name__.removesuffix("Value").lower()


def see(it: Interpreter, frame: Frame, key: Key, value: Value) -> None:
    """Keep what is known of a name for --show-types: what its function says by itself, else what its calls tell."""
    _keep(it, frame, it.seen, key, value)


def see_use(it: Interpreter, frame: Frame, expr: ir.Expr, value: Value) -> None:
    """Keep what is known of a name where it is used, and of other expressions that give an array (under no name), for
    editors. Definitions and libraries they show themselves."""
    if it.uses is None or isinstance(value, _ELSEWHERE):
        return
    if not isinstance(expr, (ir.Name, ir.Attr)):
        if isinstance(value, ArrayValue) and expr.at >= 0:
            _keep(it, frame, it.uses, (expr.at, ""), value)
    elif isinstance(expr, ir.Name):
        if not isinstance(value, Unknown) or frame.find(expr.id) is not None:
            _keep(it, frame, it.uses, (expr.at, expr.id), value)
    elif not isinstance(value, Unknown):
        _keep(it, frame, it.uses, (expr.at, _path(expr) or f".{expr.name}"), value)


def see_array(it: Interpreter, frame: Frame, expr: ir.Expr, value: Value) -> None:
    """Keep what is known of an expression that gives an array, or a tuple with some, for mypy."""
    if it.arrays is not None and expr.at >= 0 and arrays_in(value) is not None:
        _keep(it, frame, it.arrays, (expr.at, ""), value)


def arrays_in(value: Value) -> Arrays:
    """An array as it is shown, the items of a tuple, or None for what has no array in it."""
    match value:
        case ArrayValue(numpy=False):
            return _array(value)
        case MaybeValue(value=inner):
            return arrays_in(inner)
        case SequenceValue(items=items, kind="tuple") if len(items) <= _MANY:
            found = [arrays_in(item) for item in items]
            return found if any(item is not None for item in found) else None
        case _:
            return None


def see_result(signatures: Signatures, frame: Frame, value: Value) -> None:
    """Keep what a function that is checked returns, for those who ask for signatures."""
    func = frame.function
    if not frame.checking or func is None or not isinstance(func.node, ir.Function):
        return
    if frame.inside:
        signatures.manual.add(func.node.at)
    else:
        signatures.keep(func.node, value, frame.variables, frame.named)


def see_end(
    signatures: Signatures, frame: Frame, node: ir.Function, ends: bool
) -> None:
    """A function that is checked was followed to its end; one that does not return or raise before gives None."""
    signatures.finished.add(node.at)
    if not ends:
        see_result(signatures, frame, Literal(None))


def rows(
    seen: Mapping[Key, tuple[str, Value]],
) -> list[tuple[int, str, str, str | None]]:
    """(node, name, type, why it is unknown or None) of what was seen, in order."""
    return [
        (at, name, *shown(value))
        for (at, _), (name, value) in sorted(seen.items(), key=lambda item: item[0])
    ]


def knowledge(seen: Mapping[Key, tuple[str, Value]]) -> Knowledge:
    """How much is known of the values that are or may be arrays, and why not more."""
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for _, value in seen.values():
        if not isinstance(value, (ArrayValue, Unknown)):
            continue
        share = _share(value)
        counts[share] += 1
        if share == NOT_AT_ALL:
            reasons[general(shown(value)[1] or "unknown")] += 1
    return Knowledge.counted(counts, reasons)


def _share(value: ArrayValue | Unknown) -> str:
    if isinstance(value, Unknown) or value.dims is None:
        return NOT_AT_ALL
    known = sum(dim.size is not None for dim in value.dims)
    if known == len(value.dims):
        return FULLY
    if known:
        return IN_PART
    return RANK_ONLY


def general(reason: str) -> str:
    """A reason without the names of one program, so that it can be counted."""
    if reason.startswith("no model for"):
        return reason
    return _OWN_NAME.sub(r"\1 …", reason)


_OWN_NAME = re.compile(r"\b(attribute|parameter) \w+")


def _keep(
    it: Interpreter,
    frame: Frame,
    seen: dict[Key, tuple[str, Value]],
    key: Key,
    value: Value,
) -> None:
    if not (frame.checking or (frame.in_place and frame.module == it.target)):
        return
    found = value if it.view is None else displayed(it.view, value)
    found = _told_apart(found, frame.named)
    _, before = seen.get(key, (key[1], None))
    known = before is not None and not _open(before)
    if before is not None and frame.checking:
        if _open(value):
            found = (
                _with_own_names(found, before)
                if known or _open(value) > _open(before)
                else found
            )
    elif before is not None:
        found = (
            before
            if known or _open(value) > _open(before)
            else _with_own_names(before, found)
        )
    seen[key] = (key[1], found)


def _told_apart(value: Value, names: frozenset[str]) -> Value:
    """A value without those labels of fresh sizes that read like ``names`` of the function, which are other sizes."""
    match value:
        case ArrayValue(dims=dims) if dims is not None and names:
            if not any(_reads_like(dim, names) for dim in dims):
                return value
            plain = [
                replace(dim, label=None) if _reads_like(dim, names) else dim
                for dim in dims
            ]
            return replace(value, dims=tuple(plain))
        case SequenceValue(items=items):
            changed = tuple(_told_apart(item, names) for item in items)
            same = all(a is b for a, b in zip(items, changed, strict=True))
            return value if same else replace(value, items=changed)
        case _:
            return value


def _reads_like(dim: Dimension, names: frozenset[str]) -> bool:
    is_fresh = dim.size is not None and dim.size.is_opaque
    return is_fresh and dim.label is not None and dim.label.name in names


def _with_own_names(own: Value, known: Value) -> Value:
    """What a call tells of how an array of manual code lies, with the sizes that the function itself has names for."""
    if not (
        isinstance(own, ArrayValue) and isinstance(known, ArrayValue) and known.manual
    ):
        return known
    if own.dims is None or known.dims is None or len(own.dims) != len(known.dims):
        return known
    pairs = zip(own.dims, known.dims, strict=True)
    dims = tuple(
        dim if mine.size is None else replace(dim, size=mine.size, label=mine.label)
        for mine, dim in pairs
    )
    return replace(known, dims=dims, dtype=own.dtype or known.dtype)


def _path(expr: ir.Expr) -> str | None:
    """A dotted name as it is written; None for anything else."""
    if isinstance(expr, ir.Name):
        return expr.id
    inner = _path(expr.obj) if isinstance(expr, ir.Attr) else None
    return (
        None
        if inner is None or not isinstance(expr, ir.Attr)
        else f"{inner}.{expr.name}"
    )


def _open(value: Value) -> int:
    """How much is not known of a value: nothing, some sizes or how it lies, the rank, everything."""
    match value:
        case Unknown():
            return 3
        case ArrayValue(dims=None):
            return 2
        case ArrayValue(dims=dims) if dims is not None:
            return any(dim.size is None for dim in dims) or bool(
                value.manual and value.unclear
            )
        case SequenceValue(items=items):
            return max(map(_open, items), default=0)
        case DictValue(items=pairs):
            return max((_open(item) for _, item in pairs), default=0)
        case _:
            return 0


def _listed(items: Sequence[Value]) -> str:
    texts = [_text(item) for item in items[:_MANY]]
    return ", ".join([*texts, f"… {len(items)} items"] if len(items) > _MANY else texts)


def _called(dim: Dimension) -> Size | None:
    """The size of a dimension; where it is not known, what the program calls it."""
    unknown = dim.size is None or dim.size.is_opaque
    return (
        Size.symbol(dim.label.name) if unknown and dim.label is not None else dim.size
    )
