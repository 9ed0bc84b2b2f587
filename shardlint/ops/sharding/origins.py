"""Where the dimensions of a result come from: a shape model is run on operands whose dimensions are marked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from shardlint.ops.placement import IDENTITIES
from shardlint.ops.registry import Call
from shardlint.values import (
    ArrayValue,
    DictValue,
    Dimension,
    FunctionValue,
    InstanceValue,
    MaybeValue,
    MethodValue,
    PartialValue,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
)

Origin: TypeAlias = "tuple[int, int] | None"
"""Which operand and dimension a result's dimension is, unchanged; None for a new or changed one."""

Origins: TypeAlias = list[Origin]
"""Of each dimension of a result."""

_FUNCTIONS = (FunctionValue, PartialValue, WrappedValue, MethodValue)

#: Arguments that decide nothing about where values lie (``out_sharding`` does, afterwards).
_OPTIONS = frozenset(
    "dtype new_dtype precision preferred_element_type out_sharding device optimize approximate".split()
)


def keeps_each_array(call: Call) -> bool:
    """Whether a function works on whole trees, or calls a function of the program, which is followed: what is known of
    each array stays."""
    if call.qualname.startswith("jax.tree") or call.qualname in IDENTITIES:
        return True
    return any(isinstance(value, _FUNCTIONS) for value in call.args.values())


@dataclass(slots=True)
class Operands:
    """Takes the arrays out of the arguments: ``seen`` is how the rules see one, ``bare`` how the shape model does."""

    seen: Callable[[ArrayValue], ArrayValue]
    bare: Callable[[ArrayValue], ArrayValue]
    found: list[ArrayValue] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    complete: bool = True  # nothing among the arguments is not known

    def marked(self, call: Call) -> dict[str, Value]:
        """The arguments for the shape model, each dimension marked with its origin."""
        return {
            name: value if name in _OPTIONS else self._marked(value, i)
            for i, (name, value) in enumerate(call.args.items())
        }

    def _marked(self, value: Value, position: int) -> Value:
        match value:
            case ArrayValue(dims=dims):
                number = len(self.found)
                self.found.append(self.seen(value))
                self.positions.append(position)
                if dims is not None:
                    dims = tuple(
                        Dimension(dim.size, (f"{number}.{k}",), dim.label)
                        for k, dim in enumerate(dims)
                    )
                return replace(self.bare(value), dims=dims)
            case SequenceValue(items=items):
                return replace(
                    value, items=tuple(self._marked(item, position) for item in items)
                )
            case DictValue(items=pairs):
                return DictValue(
                    tuple((key, self._marked(item, position)) for key, item in pairs)
                )
            case _:
                self.complete &= not isinstance(
                    value, (Unknown, MaybeValue, InstanceValue)
                )
                return value


def each(value: Value, found: Callable[[ArrayValue, Origins], ArrayValue]) -> Value:
    """A shape model's result with ``found`` of every array in it, its marks taken off, and of their origins."""
    match value:
        case ArrayValue(dims=dims):
            if dims is not None:
                value = replace(
                    value,
                    dims=tuple(Dimension(dim.size, None, dim.label) for dim in dims),
                )
            return found(value, [_origin(dim) for dim in dims or ()])
        case SequenceValue(items=items):
            return replace(value, items=tuple(each(item, found) for item in items))
        case DictValue(items=pairs):
            return DictValue(tuple((key, each(item, found)) for key, item in pairs))
        case _:
            return value


def _origin(dim: Dimension) -> Origin:
    if dim.axes is None or len(dim.axes) != 1:
        return None
    operand, dot, place = dim.axes[0].partition(".")
    if dot and operand.isdigit():
        return int(operand), int(place)
    return None
