"""``static_argnums`` and ``donate_argnums``: each is the position of a parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shardlint import ir, messages
from shardlint.engine import classes
from shardlint.engine.frames import Frame
from shardlint.engine.libraries import knows
from shardlint.engine.sharding.site import Site
from shardlint.ops.registry import static_int
from shardlint.outline import last_name
from shardlint.values import (
    ClassValue,
    ExternalValue,
    FunctionValue,
    PartialValue,
    SequenceValue,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

#: They refuse to wrap the function, or any call of it.
_WRAPPERS = frozenset(
    """jax.jit jax.checkpoint flax.nnx.jit flax.nnx.remat flax.nnx.checkpoint flax.linen.remat
    flax.linen.checkpoint""".split()
)
_POSITIONS = ("static_argnums", "donate_argnums")
_BY_POSITION = frozenset({"positional", "positional-only"})
#: Decorators that leave the parameters as they are.
_KEEPING = frozenset({"compact", "staticmethod"})


@knows(_WRAPPERS, first=True)
def check(site: Site) -> Value | None:
    """A function, or a module's class, that is wrapped in a call."""
    function: Value = site.args[0] if site.args else Unknown("decorates")
    is_module = site.qualname.startswith("flax.linen.")
    if isinstance(function, ClassValue) and is_module and "methods" not in site.kwargs:
        function = classes.attribute(site.it, site.frame, function, "__call__")
    wrapped = function, 0
    refuse(site.it, site.frame, site.qualname, wrapped, site.kwargs, site.at)
    return None


def decorated(
    it: Interpreter, frame: Frame, wrapper: Value, function: Value, at: int
) -> None:
    """``@partial(jax.jit, static_argnums=…)``."""
    if not isinstance(wrapper, PartialValue):
        return
    inner = wrapper.func
    if isinstance(inner, ExternalValue) and inner.qualname in _WRAPPERS:
        refuse(it, frame, inner.qualname, (function, 1), dict(wrapper.kwargs), at)


def refuse(
    it: Interpreter,
    frame: Frame,
    qualname: str,
    wrapped: tuple[Value, int],
    options: Mapping[str, Value],
    at: int,
) -> None:
    """Report positions behind all parameters of what is wrapped: a function, and how many of its decorators are this
    one."""
    function, own = wrapped
    if not isinstance(function, FunctionValue):
        return
    node = function.node
    if isinstance(node, ir.Function) and _other_decorators(node) > own:
        return  # what they leave may take more
    if any(param.kind == "*" for param in node.params):
        return
    count = sum(param.kind in _BY_POSITION for param in node.params)
    for option in _POSITIONS:
        wrong = [n for n in _numbers(options.get(option)) if n >= count]
        if wrong:
            name = qualname.rpartition(".")[2]
            text = messages.position_of_no_parameter(name, option, wrong[0], count)
            it.report(frame, "ST220", at, text)


def _other_decorators(node: ir.Function) -> int:
    return sum(last_name(decorator) not in _KEEPING for decorator in node.decorators)


def _numbers(value: Value | None) -> list[int]:
    if value is None:
        return []
    items = value.items if isinstance(value, SequenceValue) else (value,)
    numbers = [static_int(item) for item in items]
    return [number for number in numbers if number is not None]
