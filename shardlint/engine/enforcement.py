"""Annotations that nothing enforces when the program runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.annotations import resolve
from shardlint.engine.decorators import keeps_signature
from shardlint.engine.frames import Frame
from shardlint.engine.types import ArrayType, ClassType, Type, says_something
from shardlint.values import ExternalValue, FunctionValue

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_TYPEGUARD = "typeguard.typechecked"
_OURS = frozenset({"shardtypes.typechecked", "shardtypes.checked.typechecked"})
#: What typeguard cannot look through: none of these is a function with the source that it would have to change.
_HIDING = frozenset(
    """jax.jit jax.vmap jax.pmap jax.grad jax.value_and_grad jax.checkpoint jax.custom_jvp jax.custom_vjp jax.jacfwd
    jax.jacrev jax.hessian equinox.filter_jit equinox.filter_vmap equinox.filter_grad equinox.filter_value_and_grad
    functools.lru_cache functools.cache""".split()
)


def check_decorators(it: Interpreter, frame: Frame, node: ir.Function) -> None:
    """Report a ``typechecked`` that cannot see the annotations below it."""
    if len(node.decorators) < 2:
        return
    types = [
        resolve(it, a, frame.module)
        for a in (*(p.annotation for p in node.params), node.returns)
    ]
    if not any(_has_shape(type_) for type_ in types):
        return
    for index, expr in enumerate(node.decorators[:-1]):
        name = _qualname(it, frame, expr)
        if name != _TYPEGUARD and name not in _OURS:
            continue
        for below in node.decorators[index + 1 :]:
            hidden = _hidden_by(it, frame, below, name == _TYPEGUARD)
            if hidden is not None:
                message = f"`typechecked` does not see the annotations of {node.name} through `{hidden}`: move it below"
                it.report(
                    frame,
                    "ST106",
                    expr.at,
                    message,
                    related=((frame.module, below.at, "hidden by this"),),
                )
                return


def _has_shape(type_: Type) -> bool:
    return says_something(type_) and not isinstance(type_, ClassType)


def _qualname(it: Interpreter, frame: Frame, expr: ir.Expr) -> str:
    """The decorator's name; for ``partial(jax.jit, …)`` and ``jax.checkpoint(…)`` that of the function."""
    if isinstance(expr, ir.Call):
        name = _qualname(it, frame, expr.func)
        return (
            _qualname(it, frame, expr.args[0].value)
            if name == "functools.partial" and expr.args
            else name
        )
    found = it.resolve_static(expr, frame.module)
    return found.qualname if isinstance(found, ExternalValue) else ""


def _hidden_by(
    it: Interpreter, frame: Frame, expr: ir.Expr, typeguard: bool
) -> str | None:
    name = _qualname(it, frame, expr)
    if name:
        return (
            name.removeprefix("functools.") if typeguard and name in _HIDING else None
        )
    found = (
        it.resolve_static(expr, frame.module)
        if isinstance(expr, (ir.Name, ir.Attr))
        else None
    )
    if (
        isinstance(found, FunctionValue)
        and isinstance(found.node, ir.Function)
        and not found.node.decorators
    ):
        kept = keeps_signature(found.node)
        if kept == "hidden" or (kept == "wraps" and typeguard):
            return found.name
    return None


def check_jitted(it: Interpreter, frame: Frame, node: ir.Function) -> None:
    """Report a parameter of a jitted function whose class is certainly no tree, though it has arrays."""
    if not any(
        _qualname(it, frame, d) == "jax.jit" and not _static(d) for d in node.decorators
    ):
        return
    for param in node.params:
        type_ = resolve(it, param.annotation, frame.module)
        if (
            not isinstance(type_, ClassType)
            or param.annotation is None
            or not it.classes.is_plain(type_.cls)
        ):
            continue
        arrays = [
            name
            for name, (field, module) in it.fields(type_.cls).items()
            if isinstance(resolve(it, field.annotation, module), ArrayType)
        ]
        if arrays:
            message = (
                f"{type_.cls.name} is not a pytree, so jit cannot take it and its array field {arrays[0]!r} is not "
                f"checked: make it a pytree_dataclass"
            )
            it.report(frame, "ST106", param.annotation.at, message)


def _static(expr: ir.Expr) -> bool:
    return isinstance(expr, ir.Call) and any(
        (a.keyword or "").startswith("static") for a in expr.args
    )
