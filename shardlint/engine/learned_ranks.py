"""Ranks that a body tells of its function's parameters, from its first line on.

``B, L, M = x.shape`` fails for an array of another rank: a call that comes to its end had three dimensions in ``x``, in
the lines before as well. That is so of what runs in every call, and while the name still holds the argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import arguments
from shardlint.engine.conditions import bound_in
from shardlint.engine.frames import Frame
from shardlint.engine.other_arrays import is_about_jax
from shardlint.engine.sharding import manual_operands
from shardlint.engine.sharding.manual_entry import ranked
from shardlint.values import (
    ArrayValue,
    Dimension,
    ExternalValue,
    FunctionValue,
    Literal,
    Unknown,
    Value,
)
from shardlint.walking import nodes_of

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_MAX_RANK = 16
_SHAPES = frozenset({"jax.numpy.shape", "numpy.shape"})
_TRANSPOSES = frozenset({"jax.numpy.transpose", "numpy.transpose", "jax.lax.transpose"})
_EQUATIONS = frozenset({"jax.numpy.einsum"})
Fact = tuple[str, int]
"""A name, and how many dimensions it has."""


def tell(it: Interpreter, frame: Frame, func: FunctionValue) -> None:
    """Give the parameters of a function, of which nothing else is known, the ranks that its body tells."""
    if not is_about_jax(it, func.module):
        return
    for name, rank in ranks(it, frame.parent or frame, func).items():
        _learn(frame, name, rank)


def tell_caller(
    it: Interpreter,
    frame: Frame,
    func: FunctionValue,
    given: tuple[list[Value], dict[str, Value]],
    operands: Sequence[ir.Expr],
) -> None:
    """After a call, give the names that were its arguments the ranks that it wants: else the program failed there."""
    if frame.silent or not is_about_jax(it, func.module):
        return
    known = ranks(it, _around(it, func), func)
    found = arguments.bind(func.node, *given) if known else None
    if found is None:
        return
    for param, position in found[1].items():
        operand = operands[position] if position < len(operands) else None
        if param in known and isinstance(operand, ir.Name):
            _learn(frame, operand.id, known[param])


def _learn(frame: Frame, name: str, rank: int) -> None:
    value = frame.variables.get(name)
    dims = (Dimension(None),) * rank
    if isinstance(value, Unknown) and not value.either:
        frame.variables[name] = ranked(value, dims)
    elif isinstance(value, ArrayValue) and value.dims is None:
        frame.variables[name] = ranked(Unknown(leaf=value), dims)


def ranks(it: Interpreter, around: Frame, func: FunctionValue) -> Mapping[str, int]:
    """By parameter, those that the body tells. ``around`` is where the function was defined."""
    node = func.node
    if not isinstance(node, ir.Function):
        return {}
    found = it.learned_ranks.get(id(node))
    if found is not None:
        return found[1]
    # of a recursive call nothing is known; the node is kept, so that no other one gets its number
    it.learned_ranks[id(node)] = node, {}
    known = dict(_Reader(it, around, node).facts())
    it.learned_ranks[id(node)] = node, known
    return known


def _around(it: Interpreter, func: FunctionValue) -> Frame:
    if isinstance(func.closure, Frame):
        return func.closure
    return it.module_frame(func.module)


class _Reader:
    """Reads one body, as far as every call runs it."""

    def __init__(self, it: Interpreter, around: Frame, node: ir.Function) -> None:
        self._it = it
        self._around = around
        self._body = node.body
        plain = [one for one in node.params if one.kind not in ("*", "**")]
        self._arguments = {one.name for one in plain}
        self._parameters = {one.name for one in node.params}

    @cached_property
    def _own(self) -> set[str]:
        """All names that the function binds."""
        return self._parameters | set(bound_in(self._body))

    def facts(self) -> Iterator[Fact]:
        """Parameters with their ranks; of several, the first is the one that counts."""
        found: dict[str, int] = {}
        for statement in self._body:
            told = list(self._of_statement(statement))
            if told:
                told = self._of_arguments(told, statement)
            for name, rank in told:
                found.setdefault(name, rank)
            self._arguments -= set(bound_in((statement,)))
            if _may_leave(statement) or not self._arguments:
                break
        yield from found.items()

    def _of_arguments(self, told: Sequence[Fact], statement: ir.Stmt) -> list[Fact]:
        """Those of names that hold an argument all through a statement."""
        again = {node.target for node in nodes_of(statement, ir.Walrus)}
        names = self._arguments - again
        return [
            (name, rank)
            for name, rank in told
            if name in names and 0 <= rank < _MAX_RANK
        ]

    def _of_statement(self, statement: ir.Stmt) -> Iterator[Fact]:
        match statement:
            case ir.Assign(targets=targets, value=value):
                yield from self._of_expression(value)
                for target in targets:
                    yield from self._unpacked(target, value)
            case ir.AnnAssign(value=value) | ir.Return(value=value) if value:
                yield from self._of_expression(value)
            case ir.AugAssign(value=value) | ir.ExprStmt(value=value):
                yield from self._of_expression(value)
            case ir.Assert(test=test):
                yield from self._of_test(test, True)
                yield from self._of_expression(test)
            case ir.If(test=test, body=(ir.Raise(),), orelse=()):
                yield from self._of_test(test, False)
            case ir.If(test=test) | ir.While(test=test):
                yield from self._of_expression(test)
            case ir.For(iter=iterated):
                yield from self._of_expression(iterated)
            case _:
                pass

    def _unpacked(self, target: ir.Expr, value: ir.Expr) -> Iterator[Fact]:
        """``B, L, M = x.shape``"""
        if not isinstance(target, ir.Sequence):
            return
        name = self._whose_shape(value)
        if name and not any(isinstance(one, ir.Star) for one in target.items):
            yield name, len(target.items)

    def _whose_shape(self, expr: ir.Expr) -> str:
        """The name whose shape an expression is; '' if it is none."""
        match expr:
            case ir.Attr(obj=ir.Name(id=name), name="shape"):
                return name
            case ir.Call(func=func, args=(ir.Arg(value=ir.Name(id=name), star=""),)):
                return name if self._called(func) in _SHAPES else ""
            case _:
                return ""

    def _of_test(self, test: ir.Expr, holds: bool) -> Iterator[Fact]:
        """What follows from a condition that holds, or does not, in every call that goes on."""
        match test:
            case ir.Unary(op="not", value=inner):
                yield from self._of_test(inner, not holds)
            case ir.Bool(op=op, values=values) if op == ("and" if holds else "or"):
                for value in values:
                    yield from self._of_test(value, holds)
            case ir.Compare(left=left, rest=((op, right),)):
                if op == ("==" if holds else "!="):
                    yield from self._of_equality(left, right)
            case _:
                pass

    def _of_equality(self, left: ir.Expr, right: ir.Expr) -> Iterator[Fact]:
        match left, right:
            case (
                ir.Attr(obj=ir.Name(id=name), name="ndim"),
                ir.Const(value=int() as rank),
            ):
                yield name, rank
            case (
                ir.Call(func=ir.Name(id="len"), args=(ir.Arg(value=shape),)),
                ir.Const(value=int() as rank),
            ):
                yield self._whose_shape(shape), rank
            case ir.Attr(name="shape"), ir.Sequence(kind="tuple", items=items):
                if not any(isinstance(one, ir.Star) for one in items):
                    yield self._whose_shape(left), len(items)
            case _:
                pass

    def _of_expression(self, expr: ir.Expr | None) -> Iterator[Fact]:
        """What the calls tell that an expression makes whenever it is evaluated."""
        match expr:
            case ir.Call(func=func, args=args):
                yield from self._of_call(expr)
                yield from self._of_expression(func)
                for arg in args:
                    yield from self._of_expression(arg.value)
            case ir.Attr(obj=inner) | ir.Unary(value=inner) | ir.Star(value=inner):
                yield from self._of_expression(inner)
            case (
                ir.Subscript(obj=left, index=right) | ir.Binary(left=left, right=right)
            ):
                yield from self._of_expression(left)
                yield from self._of_expression(right)
            case ir.Compare(left=first) | ir.Bool(values=(first, *_)):
                yield from self._of_expression(first)
            case ir.IfExp(test=first) | ir.Walrus(value=first):
                yield from self._of_expression(first)
            case ir.Sequence(items=items):
                for item in items:
                    yield from self._of_expression(item)
            case ir.Dict(items=pairs):
                for _, item in pairs:
                    yield from self._of_expression(item)
            case _:
                pass

    def _of_call(self, call: ir.Call) -> Iterator[Fact]:
        plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
        if isinstance(call.func, ir.Attr) and isinstance(call.func.obj, ir.Name):
            if call.func.name == "transpose" and len(plain) == len(call.args):
                yield from _transposed(call.func.obj, plain)
        if any(arg.star for arg in call.args) or not self._about_arguments(call):
            return
        func = self._value(call.func)
        if isinstance(func, FunctionValue):
            yield from self._of_project(func, call)
        if not isinstance(func, ExternalValue):
            return
        if func.qualname in _TRANSPOSES:
            axes = [arg.value for arg in call.args if arg.keyword == "axes"]
            if isinstance(plain[0], ir.Name):
                yield from _transposed(plain[0], [*plain[1:], *axes])
        elif func.qualname in _EQUATIONS:
            yield from _of_equation(func.qualname, plain)

    def _of_project(self, func: FunctionValue, call: ir.Call) -> Iterator[Fact]:
        """What a function of the program tells of its arguments."""
        known = ranks(self._it, _around(self._it, func), func)
        if not known:
            return
        by_place = [arg.value for arg in call.args if arg.keyword is None]
        by_name = {arg.keyword: arg.value for arg in call.args if arg.keyword}
        operands = [*by_place, *by_name.values()]
        nothing = Unknown()
        places: list[Value] = [nothing] * len(by_place)
        found = arguments.bind(func.node, places, dict.fromkeys(by_name, nothing))
        if found is None:
            return
        for param, position in found[1].items():
            operand = operands[position]
            if param in known and isinstance(operand, ir.Name):
                yield operand.id, known[param]

    def _about_arguments(self, call: ir.Call) -> bool:
        """Whether a parameter itself is an argument of a call."""
        return any(
            isinstance(arg.value, ir.Name) and arg.value.id in self._arguments
            for arg in call.args
        )

    def _called(self, func: ir.Expr) -> str:
        value = self._value(func)
        return value.qualname if isinstance(value, ExternalValue) else ""

    def _value(self, func: ir.Expr) -> Value:
        """What is called, by names from outside of the function."""
        root = func
        while isinstance(root, ir.Attr):
            root = root.obj
        if not isinstance(root, ir.Name) or root.id in self._own:
            return Unknown("a name of the function's own")
        frame = self._around
        frame.silent += 1
        try:
            return self._it.evaluate(frame, func)
        finally:
            frame.silent -= 1


def _transposed(array: ir.Name, axes: Sequence[ir.Expr]) -> Iterator[Fact]:
    """``x.transpose(0, 2, 1)``, or with a tuple of axes."""
    if len(axes) == 1 and isinstance(axes[0], ir.Sequence):
        axes = axes[0].items
    if len(axes) > 1 and not any(isinstance(one, ir.Star) for one in axes):
        yield array.id, len(axes)


def _of_equation(qualname: str, operands: Sequence[ir.Expr]) -> Iterator[Fact]:
    """``jnp.einsum("bld,dm->blm", x, w)``"""
    values: list[Value] = []
    for one in operands:
        if isinstance(one, ir.Const) and isinstance(one.value, str):
            values.append(Literal(one.value))
        else:
            values.append(Unknown())
    for place, rank in manual_operands.ranks(qualname, values).items():
        operand = operands[place]
        if isinstance(operand, ir.Name):
            yield operand.id, rank


def _may_leave(statement: ir.Stmt) -> bool:
    """Whether a function may come to its end in a statement."""
    return any(isinstance(one, ir.Return) for one in ir.statements((statement,)))
