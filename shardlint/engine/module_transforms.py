"""flax's ``scan`` and ``vmap`` of modules: their axes are counted against the arguments of a call."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.engine.frames import Frame
from shardlint.engine.mapping import Before, call_mapped, count_axes, refused_axes
from shardlint.values import (
    ClassValue,
    ExternalValue,
    FunctionValue,
    Literal,
    PartialValue,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_SCAN = "flax.linen.scan"
_VMAP = "flax.linen.vmap"
#: What takes the module among the other arguments, as it is.
_OF_OBJECTS = frozenset({"flax.nnx.scan", "flax.nnx.vmap"})
#: Instances of a class that is transformed.
_LAYERS = "flax.linen.scan.<layers>"
_EXAMPLES = "flax.linen.vmap.<examples>"
#: What ``make`` knows, with the positional parameters after the function.
PARAMETERS = {
    _SCAN: (
        "variable_axes",
        "variable_broadcast",
        "variable_carry",
        "split_rngs",
        "in_axes",
    ),
    _VMAP: ("variable_axes", "split_rngs", "in_axes", "out_axes", "axis_size"),
    **dict.fromkeys(_OF_OBJECTS, ()),
}
#: What ``call`` knows.
KINDS = frozenset({*PARAMETERS, _LAYERS, _EXAMPLES})
#: The arguments that have no axes. A function takes its module first.
_BEFORE = {
    _LAYERS: Before(1, "after the carry"),
    _SCAN: Before(2, "after the module and the carry"),
    _VMAP: Before(1, "after the module"),
}
_NONE = Literal(None)


def make(
    qualname: str,
    args: list[Value],
    kwargs: dict[str, Value],
    origin: tuple[str, int] | None,
    module: str,
) -> Value:
    """What transforming a class or a function gives."""
    if not args:
        given = tuple(kwargs.items())
        return PartialValue(ExternalValue(qualname), (), given, origin)
    if not isinstance(args[0], (ClassValue, FunctionValue)):
        return Unknown("a transformation of something unknown")
    options = {**dict(zip(PARAMETERS[qualname], args[1:], strict=False)), **kwargs}
    return WrappedValue(qualname, args[0], tuple(options.items()), origin, module)


def call(
    it: Interpreter,
    frame: Frame,
    func: WrappedValue,
    args: list[Value],
    kwargs: dict[str, Value],
    at: int,
    places: tuple[int, ...],
) -> Value:
    """The module that a transformed class makes, or what comes out of one."""
    of_class = isinstance(func.func, ClassValue)
    if func.kind == _SCAN and of_class:
        return replace(func, kind=_LAYERS)
    if func.kind == _VMAP and of_class:
        instance = it.call(frame, func.func, args, kwargs, at, places)
        return replace(func, kind=_EXAMPLES, func=instance)
    before = _BEFORE.get(func.kind, Before())
    if len(args) < before.count:
        return Unknown("called without a module or a carry")
    if func.kind in _OF_OBJECTS:
        if not kwargs:
            count_axes(it, frame, func, args, at)
        return Unknown(f"what {func.kind} gives")
    options = {name: _axes(value) for name, value in func.options}
    if "methods" in options:
        return Unknown("each method has its own axes")
    func = replace(func, options=tuple(options.items()))
    if refused_axes(it, frame, func, args, before, at):
        return Unknown("an error was reported here")
    if func.kind in (_SCAN, _LAYERS):
        # a carry comes out as the one that went in
        carry = args[before.count - 1]
        return SequenceValue((carry, Unknown("what a scan collects")))
    function = func.func
    if before.count:
        function = PartialValue(func.func, (args[0],))
    mapped = replace(func, kind=_VMAP, func=function)
    return call_mapped(
        it,
        frame,
        mapped,
        args[before.count :],
        {},
        at,
        places[before.count :],
    )


def _axes(value: Value) -> Value:
    """Axes in which what is broadcast to all steps or examples has none."""
    if isinstance(value, SequenceValue):
        return replace(value, items=tuple(map(_axes, value.items)))
    if isinstance(value, ExternalValue) and value.qualname.endswith(".broadcast"):
        return _NONE
    return value
