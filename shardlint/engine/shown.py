"""Values as ``--show-types`` prints them."""

from __future__ import annotations

import re

from shardlint.engine.sharding import specs
from shardlint.ops.sharding.state import sharded
from shardlint.values import (
    ArrayValue,
    Dimension,
    ExternalValue,
    InstanceValue,
    IntValue,
    Literal,
    MeshValue,
    SequenceValue,
    SpecValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size, format_shape

#: What tells sizes of one name apart, which readers need not see.
_NUMBERED = re.compile(r"\?|(?<=\w)[.#]\d+\b")


def shown(value: Value) -> tuple[str, str | None]:
    """A value as --show-types prints it, and why it is unknown if it is."""
    match value:
        case ArrayValue(dims=None):
            return f"{value.dtype or 'array'}['...']", "its rank is not known"
        case ArrayValue(dims=dims) if dims is not None:
            text = format_shape([_called(d) for d in dims], [d.axes for d in dims], value.pending or ())
            varying = sorted(value.varying - sharded(value))
            text += f" {{V:{','.join(varying)}}}" if varying else ""
            return f"{value.dtype or 'array'}[{text!r}]", None
        case IntValue(size=size):
            return (f"int {_NUMBERED.sub('', str(size))}" if size is not None else "int"), None
        case InstanceValue(cls=cls):
            return cls.name, None
        case SequenceValue(items=items):
            return "(" + ", ".join(shown(item)[0] for item in items) + ")", None
        case Literal(value=constant_):
            return repr(constant_), None
        case SpecValue():
            return specs.shown(value), None
        case MeshValue(axes=axes) if axes is not None:
            return "mesh " + ", ".join(f"{name}={size or '?'}" for name, size in axes), None
        case Unknown(reason=reason):
            return "unknown", reason or "unknown"
        case ExternalValue(qualname=qualname):
            return qualname, None
        case _:
            return type(value).__name__.removesuffix("Value").lower(), None


def _called(dim: Dimension) -> Size | None:
    """The size of a dimension; where it is not known, what the program calls it."""
    unknown = dim.size is None or dim.size.is_opaque
    return Size.symbol(dim.label.name) if unknown and dim.label is not None else dim.size
