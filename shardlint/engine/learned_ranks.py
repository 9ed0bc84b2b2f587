"""Ranks that a body tells of its function's parameters, from its first line on.

``B, L, M = x.shape`` fails for an array of another rank: a call that comes to its end had three dimensions in ``x``, in
the lines before as well. That is so of what runs in every call, and while a name still holds the argument, or what has
as many dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from shardlint import ir
from shardlint.engine import arguments
from shardlint.engine.conditions import bound_in
from shardlint.engine.frames import Frame
from shardlint.engine.other_arrays import is_about_jax
from shardlint.engine.parameter_ranks import Constants, Rank
from shardlint.engine.sharding import manual_operands
from shardlint.engine.sharding.manual_entry import ranked
from shardlint.engine.sharding.manual_operands import PATTERNS
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
_MAX_DEPTH = 6
_SHAPES = frozenset({"jax.numpy.shape", "numpy.shape"})
_TRANSPOSES = frozenset({"jax.numpy.transpose", "numpy.transpose", "jax.lax.transpose"})
#: Methods of arrays, and functions, whose result has as many dimensions as the first argument.
_KEEPING_METHODS = frozenset({"astype", "copy", "block_until_ready", "conj"})
_KEEPING = frozenset(
    """jax.numpy.astype jax.lax.with_sharding_constraint jax.lax.stop_gradient jax.lax.convert_element_type
    jax.sharding.reshard jax.reshard flax.linen.with_logical_constraint
    flax.linen.partitioning.with_sharding_constraint""".split()
)


@dataclass(frozen=True, slots=True)
class _Entries:
    """A function that is given an entry for each dimension of its first ``operands``, but for some ``others``."""

    position: int
    keyword: str
    operands: int = 1
    others: int = 0


_WITH_ENTRIES = {
    "jax.lax.dynamic_slice": _Entries(1, "start_indices"),
    "jax.lax.dynamic_update_slice": _Entries(2, "start_indices", operands=2),
    "jax.lax.slice": _Entries(1, "start_indices"),
    "jax.lax.pad": _Entries(2, "padding_config"),
    "jax.lax.broadcast_in_dim": _Entries(2, "broadcast_dimensions"),
    "jax.lax.conv_general_dilated": _Entries(2, "window_strides", 2, others=2),
    "jax.lax.conv_with_general_padding": _Entries(2, "window_strides", 2, others=2),
}


Fact: TypeAlias = tuple[str, Rank]
"""A name, and its rank."""


def tell(it: Interpreter, frame: Frame, func: FunctionValue) -> None:
    """Give the parameters of a function, of which nothing else is known, the ranks that its body tells."""
    if not is_about_jax(it, func.module):
        return
    strings = tuple(
        (name, value.value)
        for name, value in frame.variables.items()
        if isinstance(value, Literal) and isinstance(value.value, str)
    )
    for name, rank in ranks(it, frame.parent or frame, func, strings).items():
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
    found = arguments.bind(func.node, *given)
    if found is None:
        return
    bound, positions = found
    strings = tuple(
        (name, value.value)
        for name, value in bound.items()
        if isinstance(value, Literal) and isinstance(value.value, str)
    )
    known = ranks(it, _around(it, func), func, strings)
    for param, position in positions.items():
        operand = operands[position] if position < len(operands) else None
        if param in known and isinstance(operand, ir.Name):
            _learn(frame, operand.id, known[param])


def _learn(frame: Frame, name: str, rank: Rank) -> None:
    value = frame.variables.get(name)
    dims = (Dimension(None),) * rank.count
    if isinstance(value, Unknown) and not value.either and not rank.of_arrays:
        frame.variables[name] = ranked(value, dims)
    elif isinstance(value, ArrayValue) and value.dims is None:
        frame.variables[name] = ranked(Unknown(leaf=value), dims)


def ranks(
    it: Interpreter, around: Frame, func: FunctionValue, strings: Constants = ()
) -> Mapping[str, Rank]:
    """By parameter, those that the body tells. ``around`` is where the function was defined; ``strings`` are those that
    parameters are given in the call."""
    node = func.node
    if not isinstance(node, ir.Function):
        return {}
    key = (id(node), strings)
    found = it.learned_ranks.get(key)
    if found is not None:
        return found[1]
    # of a recursive call nothing is known; the node is kept, so that no other one gets its number
    it.learned_ranks[key] = node, {}
    known = _Reader(it, around, node, dict(strings)).facts()
    it.learned_ranks[key] = node, known
    return known


def _around(it: Interpreter, func: FunctionValue) -> Frame:
    if isinstance(func.closure, Frame):
        return func.closure
    return it.module_frame(func.module)


@dataclass(frozen=True, slots=True)
class _End:
    """Where a block of statements leads: the ranks that it tells, None if it always raises; and which names then hold
    an argument of which parameter, None if it leaves the function."""

    facts: dict[str, Rank] | None
    held: dict[str, str] | None


_RAISES = _End(None, None)


class _Reader:
    """Reads one body, as far as every call runs it."""

    def __init__(
        self,
        it: Interpreter,
        around: Frame,
        node: ir.Function,
        strings: Mapping[str, str],
    ) -> None:
        self._it = it
        self._around = around
        self._body = node.body
        plain = [one for one in node.params if one.kind not in ("*", "**")]
        self._parameters = {one.name for one in node.params}
        self._first = {one.name: one.name for one in plain}
        #: Which names hold an argument of which parameter, or an array of as many dimensions.
        self._held: dict[str, str] = {}
        self._strings = strings

    @cached_property
    def _rebound(self) -> set[str]:
        return set(bound_in(self._body))

    @cached_property
    def _own(self) -> set[str]:
        """All names that the function binds."""
        return self._parameters | self._rebound

    def facts(self) -> dict[str, Rank]:
        """Parameters with their ranks; of several, the first is the one that counts."""
        return self._block(self._body, self._first, 0).facts or {}

    def _block(
        self, body: tuple[ir.Stmt, ...], held: Mapping[str, str], depth: int
    ) -> _End:
        found: dict[str, Rank] = {}
        now = dict(held)
        for index, statement in enumerate(body):
            for name, rank in self._told(statement, now):
                found.setdefault(name, rank)
            match statement:
                case ir.Raise():
                    return _RAISES
                case ir.Return() | ir.Jump():
                    return _End(found, None)
                case ir.With(body=inner) if (
                    depth < _MAX_DEPTH and self._passes_errors_on(statement)
                ):
                    end = self._block(inner, now, depth + 1)
                case ir.If() if depth < _MAX_DEPTH:
                    rest = body[index + 1 :]
                    end, goes_on = self._if(statement, rest, now, depth)
                    if not goes_on:
                        return _joined(found, end)
                case _ if _may_leave(statement):
                    return _End(found, None)
                case _:
                    end = _End({}, self._after(statement, now))
            if end.facts is None or end.held is None:
                return _joined(found, end)
            found = {**end.facts, **found}
            now = end.held
        return _End(found, now)

    def _passes_errors_on(self, statement: ir.With) -> bool:
        """Whether all contexts are those of JAX and flax: others may catch what is raised inside."""
        return all(
            isinstance(context, ir.Call)
            and self._called(context.func).startswith(("jax.", "flax."))
            for context, _ in statement.items
        )

    def _if(
        self,
        statement: ir.If,
        rest: tuple[ir.Stmt, ...],
        held: Mapping[str, str],
        depth: int,
    ) -> tuple[_End, bool]:
        """What holds whichever branch is taken, and whether it is not yet known of the rest of the block."""
        one = self._block(statement.body, held, depth + 1)
        other = self._block(statement.orelse, held, depth + 1)
        if one.facts is None:
            return other, True
        if other.facts is None:
            return one, True
        if one.held is not None and other.held is not None:
            kept = {
                name: param
                for name, param in one.held.items()
                if other.held.get(name) == param
            }
            return _End(_common(one.facts, other.facts), kept), True
        if one.held is None and other.held is None:
            return _End(_common(one.facts, other.facts), None), False
        left, stays = (one, other) if one.held is None else (other, one)
        assert left.facts is not None
        assert stays.held is not None
        end = _joined(stays.facts or {}, self._block(rest, stays.held, depth + 1))
        if end.facts is None:
            return _End(left.facts, None), False
        return _End(_common(left.facts, end.facts), None), False

    def _told(self, statement: ir.Stmt, held: Mapping[str, str]) -> Iterator[Fact]:
        """What a statement tells of parameters, by names that hold their arguments all through it."""
        if not held:
            return
        self._held = dict(held)
        facts = list(self._of_statement(statement))
        if not facts:
            return
        again = {node.target for node in nodes_of(statement, ir.Walrus)}
        for name, rank in facts:
            if name in held and name not in again and 0 <= rank.count < _MAX_RANK:
                yield held[name], rank

    def _after(self, statement: ir.Stmt, held: Mapping[str, str]) -> dict[str, str]:
        """The names that hold arguments after a statement."""
        bound = set(bound_in((statement,)))
        kept = {name: param for name, param in held.items() if name not in bound}
        if isinstance(statement, ir.Assign) and len(statement.targets) == 1:
            (target,) = statement.targets
            param = self._of_same_rank(statement.value, held)
            if isinstance(target, ir.Name) and param:
                kept[target.id] = param
        return kept

    def _of_same_rank(self, expr: ir.Expr, held: Mapping[str, str]) -> str:
        """The parameter whose argument has as many dimensions as an expression gives; '' if that is not known."""
        match expr:
            case ir.Name(id=name):
                return held.get(name, "")
            case ir.Call(func=ir.Attr(obj=array, name=method)) if (
                method in _KEEPING_METHODS and isinstance(array, ir.Name)
            ):
                return held.get(array.id, "")
            case ir.Call(func=func, args=(first, *_)) if not first.keyword:
                if isinstance(first.value, ir.Name) and first.value.id in held:
                    is_kept = not first.star and self._called(func) in _KEEPING
                    return held[first.value.id] if is_kept else ""
        return ""

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
            case ir.With(items=items):
                for item, _ in items:
                    yield from self._of_expression(item)
            case _:
                pass

    def _unpacked(self, target: ir.Expr, value: ir.Expr) -> Iterator[Fact]:
        """``B, L, M = x.shape``"""
        if not isinstance(target, ir.Sequence):
            return
        name = self._whose_shape(value)
        if name and not any(isinstance(one, ir.Star) for one in target.items):
            yield name, Rank(len(target.items))

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
                yield name, Rank(rank)
            case (
                ir.Call(func=ir.Name(id="len"), args=(ir.Arg(value=shape),)),
                ir.Const(value=int() as rank),
            ):
                yield self._whose_shape(shape), Rank(rank)
            case ir.Attr(name="shape"), ir.Sequence(kind="tuple", items=items):
                if not any(isinstance(one, ir.Star) for one in items):
                    yield self._whose_shape(left), Rank(len(items))
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
        elif func.qualname in PATTERNS:
            yield from self._of_equation(func.qualname, plain)
        elif func.qualname in _WITH_ENTRIES:
            yield from _of_entries(_WITH_ENTRIES[func.qualname], call, plain)
        elif func.qualname in ("jax.numpy.pad", "numpy.pad"):
            yield from _padded(call, plain)
        elif func.qualname in ("chex.assert_rank", "chex.assert_shape"):
            yield from _asserted(plain)

    def _of_equation(
        self, qualname: str, operands: Sequence[ir.Expr]
    ) -> Iterator[Fact]:
        """``jnp.einsum("bld,dm->blm", x, w)``, ``einops.rearrange(x, "b (h d) -> b h d", h=h)``"""
        values = [self._text(one) for one in operands]
        takes_lists = not qualname.endswith(".einsum")
        for place, rank in manual_operands.ranks(qualname, values).items():
            operand = operands[place]
            if isinstance(operand, ir.Name):
                yield operand.id, Rank(rank, takes_lists)

    def _text(self, expr: ir.Expr) -> Value:
        """A string, written out or given in the call."""
        match expr:
            case ir.Const(value=str() as text):
                return Literal(text)
            case ir.Name(id=name) if name in self._strings:
                if name not in self._rebound:
                    return Literal(self._strings[name])
        return Unknown()

    def _of_project(self, func: FunctionValue, call: ir.Call) -> Iterator[Fact]:
        """What a function of the program tells of its arguments."""
        by_place = [arg.value for arg in call.args if arg.keyword is None]
        by_name = {arg.keyword: arg.value for arg in call.args if arg.keyword}
        operands = [*by_place, *by_name.values()]
        places = [self._text(one) for one in by_place]
        names = {name: self._text(one) for name, one in by_name.items()}
        found = arguments.bind(func.node, places, names)
        if found is None:
            return
        bound, positions = found
        strings = tuple(
            (name, value.value)
            for name, value in bound.items()
            if isinstance(value, Literal) and isinstance(value.value, str)
        )
        known = ranks(self._it, _around(self._it, func), func, strings)
        for param, position in positions.items():
            operand = operands[position]
            if param in known and isinstance(operand, ir.Name):
                yield operand.id, known[param]

    def _about_arguments(self, call: ir.Call) -> bool:
        """Whether a parameter itself is an argument of a call."""
        return any(
            isinstance(arg.value, ir.Name) and arg.value.id in self._held
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


def _joined(found: dict[str, Rank], end: _End) -> _End:
    """Where a block leads whose first part told ``found``."""
    if end.facts is None:
        return end
    return _End({**end.facts, **found}, end.held)


def _common(one: Mapping[str, Rank], other: Mapping[str, Rank]) -> dict[str, Rank]:
    """What is told on both of two ways."""
    return {
        name: Rank(rank.count, rank.of_arrays or other[name].of_arrays)
        for name, rank in one.items()
        if name in other and other[name].count == rank.count
    }


def _transposed(array: ir.Name, axes: Sequence[ir.Expr]) -> Iterator[Fact]:
    """``x.transpose(0, 2, 1)``, or with a tuple of axes."""
    if len(axes) == 1 and isinstance(axes[0], ir.Sequence):
        axes = axes[0].items
    if len(axes) > 1 and not _has_stars(axes):
        yield array.id, Rank(len(axes))


def _of_entries(
    told: _Entries, call: ir.Call, plain: Sequence[ir.Expr]
) -> Iterator[Fact]:
    """``lax.dynamic_slice(x, (0, i, 0), sizes)``"""
    entries = _argument(call, plain, told.position, told.keyword)
    if not isinstance(entries, ir.Sequence) or _has_stars(entries.items):
        return
    for operand in plain[: told.operands]:
        if isinstance(operand, ir.Name):
            yield operand.id, Rank(len(entries.items) + told.others)


def _padded(call: ir.Call, plain: Sequence[ir.Expr]) -> Iterator[Fact]:
    """``jnp.pad(x, ((0, 0), (0, n)))``; one pair is for all dimensions."""
    pairs = _argument(call, plain, 1, "pad_width")
    if not isinstance(pairs, ir.Sequence) or len(pairs.items) < 2:
        return
    if all(isinstance(one, ir.Sequence) and len(one.items) == 2 for one in pairs.items):
        if plain and isinstance(plain[0], ir.Name):
            yield plain[0].id, Rank(len(pairs.items), of_arrays=True)


def _asserted(plain: Sequence[ir.Expr]) -> Iterator[Fact]:
    """``chex.assert_rank(x, 3)``, ``chex.assert_shape(x, (None, 3))``"""
    match plain:
        case (ir.Name(id=name), ir.Const(value=int() as rank)):
            yield name, Rank(rank, of_arrays=True)
        case (ir.Name(id=name), ir.Sequence(kind="tuple", items=items)):
            dots = any(isinstance(one, ir.Const) and one.value is ... for one in items)
            if not dots and not _has_stars(items):
                yield name, Rank(len(items), of_arrays=True)


def _argument(
    call: ir.Call, plain: Sequence[ir.Expr], position: int, keyword: str
) -> ir.Expr | None:
    if position < len(plain):
        return plain[position]
    named = (arg.value for arg in call.args if arg.keyword == keyword)
    return next(named, None)


def _has_stars(items: Sequence[ir.Expr]) -> bool:
    return any(isinstance(one, ir.Star) for one in items)


def _may_leave(statement: ir.Stmt) -> bool:
    """Whether a function may come to its end in a statement."""
    return any(isinstance(one, ir.Return) for one in ir.statements((statement,)))
