"""Values as annotations: ``f32['batch embed']``, ``tuple[f32['B'], int]``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from shardlint.engine.shown import NUMBERED
from shardlint.engine.trees import children
from shardlint.values import (
    ArrayValue,
    CollectionValue,
    DictValue,
    Dimension,
    IntValue,
    Literal,
    MaybeValue,
    ScalarValue,
    SequenceValue,
    StringValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size, dtypes, format_shape
from shardtypes.lang.array_names import SHARDTYPES_DTYPES
from shardtypes.lang.errors import ShapeSyntaxError
from shardtypes.lang.parser import parse

_NAME_OF = {dtype: name for name, dtype in SHARDTYPES_DTYPES.items()}
_FAMILIES = ("integer", "floating", "complexfloating", "inexact", "number", None)
"""Those that a set of dtypes may belong to, smallest first."""


@dataclass
class Spelling:
    """Writes the annotations of one function. ``names`` are those that dimensions have in its parameters, ``fields``
    those of its class alone, ``numbers`` those that it writes out; ``used`` are the names of dtypes that were
    written."""

    names: frozenset[str]
    fields: frozenset[str]
    numbers: frozenset[int]
    used: set[str] = field(default_factory=set)
    _named: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.names:
            self._named[name] = name

    def parameter(self, value: Value) -> str | None:
        """An array of known rank, whose sizes get names here; None for anything else."""
        array = value.value if isinstance(value, MaybeValue) else value
        if not isinstance(array, ArrayValue) or not array.dims:
            return None
        if all(dim.size is None for dim in array.dims):
            return None
        for dim in array.dims:
            self._name(dim)
        return self._written(value)

    def result(self, value: Value) -> str | None:
        """What a function gives, if arrays are in it; None where no annotation says that, or not all is known."""
        arrays = list(_arrays(value))
        if not arrays:
            return None
        return self._written(value)

    # --- values -----------------------------------------------------------------------------------------------------

    def _written(self, value: Value) -> str | None:
        match value:
            case ArrayValue():
                return self._array(value)
            case MaybeValue(value=inner):
                text = self._written(inner)
                return None if text is None else f"{text} | None"
            case SequenceValue(items=items, kind="tuple", names=None):
                return self._listed("tuple", items)
            case SequenceValue(items=items, kind="list"):
                return self._alike("list[{}]", items)
            case CollectionValue(item=item, kind="list"):
                return self._alike("list[{}]", [item])
            case CollectionValue(item=item, kind="tuple"):
                return self._alike("tuple[{}, ...]", [item])
            case DictValue(items=pairs):
                return self._dict(pairs)
            case _:
                return _plain(value)

    def _listed(self, kind: str, items: Iterable[Value]) -> str | None:
        texts = [self._written(item) for item in items]
        known = [text for text in texts if text is not None]
        if not texts or len(known) < len(texts):
            return None
        return f"{kind}[{', '.join(known)}]"

    def _alike(self, form: str, items: Iterable[Value]) -> str | None:
        """A collection whose items all have one annotation."""
        texts = {self._written(item) for item in items}
        if len(texts) != 1:
            return None
        (only,) = texts
        return None if only is None else form.format(only)

    def _dict(self, pairs: Iterable[tuple[object, Value]]) -> str | None:
        keys = []
        items = []
        for key, item in pairs:
            keys.append(key)
            items.append(item)
        if not all(isinstance(key, str) for key in keys):
            return None
        return self._alike("dict[str, {}]", items)

    # --- arrays -----------------------------------------------------------------------------------------------------

    def _array(self, array: ArrayValue) -> str | None:
        if array.dims is None or array.numpy:
            return None
        sizes = [self._size(dim.size) for dim in array.dims]
        axes = [dim.axes for dim in array.dims]
        text = format_shape(sizes, axes, array.pending or ())
        name = _dtype_name(array.dtype)
        self.used.add(name)
        return f"{name}[{text!r}]"

    def _name(self, dim: Dimension) -> None:
        """Give the size of a parameter's dimension the name that the program has for it."""
        symbol = None if dim.size is None else dim.size.symbol_name
        if symbol is None or symbol in self._named:
            return
        name = NUMBERED.sub("", symbol)
        if name.isidentifier() and name not in self._named.values():
            self._named[symbol] = name

    def _size(self, size: Size | None) -> str:
        """The size as a shape string writes it; ``_`` where the function has no names for it."""
        if size is None:
            return "_"
        number = size.constant
        if number is not None and number > 1 and number not in self.numbers:
            return "_"
        written = {}
        for symbol in size.symbols:
            name = self._named.get(symbol) or self._of_field(symbol)
            if name is None:
                return "_"
            written[symbol] = Size.symbol(name)
        text = str(size.substitute(written)).replace(" ", "")
        return text if _is_one_dimension(text) else "_"

    def _of_field(self, symbol: str) -> str | None:
        """A size that fields of the class name, which is told apart from those of other instances."""
        name = NUMBERED.sub("", symbol)
        return name if name in self.fields else None


def _is_one_dimension(text: str) -> bool:
    """Whether a shape string can say that, and means one dimension by it."""
    try:
        shape = parse(text)
    except ShapeSyntaxError:
        return False
    return shape.rank == 1


def _dtype_name(dtype: str | None) -> str:
    """``f32``; the smallest family that has all that the dtype may be."""
    if dtype in _NAME_OF:
        return _NAME_OF[dtype]
    members = dtypes.members(dtype or "")
    for family in _FAMILIES:
        if family is None or members <= dtypes.members(family):
            return _NAME_OF[family]
    return _NAME_OF[None]


def _plain(value: Value) -> str | None:
    match value:
        case IntValue():
            return "int"
        case ScalarValue(kind=kind):
            return kind
        case StringValue():
            return "str"
        case Literal(value=None):
            return "None"
        case Literal(value=constant) if isinstance(constant, (str, bool, float)):
            return type(constant).__name__
        case _:
            return None


def may_hold_arrays(value: Value) -> bool:
    """Whether arrays are in a value, or it is not known."""
    if isinstance(value, Unknown):
        return True
    arrays = list(_arrays(value))
    return bool(arrays)


def _arrays(value: Value) -> Iterator[ArrayValue]:
    if isinstance(value, ArrayValue):
        yield value
    elif isinstance(value, (MaybeValue, CollectionValue)):
        inner = value.value if isinstance(value, MaybeValue) else value.item
        yield from _arrays(inner)
    elif isinstance(value, (SequenceValue, DictValue)):
        for _, part in children(value) or ():
            yield from _arrays(part)
