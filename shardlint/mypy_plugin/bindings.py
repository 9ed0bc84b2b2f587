"""Local variables that are bound exactly once in their function: what they are bound to."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from mypy.nodes import (
    AssignmentExpr,
    AssignmentStmt,
    DelStmt,
    Expression,
    ForStmt,
    FuncItem,
    ListExpr,
    MatchStmt,
    NameExpr,
    Node,
    OperatorAssignmentStmt,
    StarExpr,
    Statement,
    TempNode,
    TryStmt,
    TupleExpr,
    Var,
    WhileStmt,
    WithStmt,
)

from shardlint.mypy_plugin.walking import below, expressions, statements

_REMEMBERED = 64
_ENDLESS = sys.maxsize


@dataclass(frozen=True)
class Bound:
    """``value``, or with ``item`` that item of it: ``B, L = x.shape``."""

    value: Expression
    item: int | None = None


class SingleBindings:
    """Looks variables up; a function is read once, and again after a daemon has analysed it anew."""

    def __init__(self) -> None:
        self._read: dict[FuncItem, _Function] = {}

    def find(self, variable: Var, functions: list[FuncItem]) -> Bound | None:
        """What a variable of one of these functions is always bound to, None where that is not certain."""
        for function in reversed(functions):
            found = self._function(function).bindings
            if variable in found:
                return found[variable]
        return None

    def is_rebound(self, variable: Node, functions: list[FuncItem]) -> bool:
        """Whether a parameter of one of these functions gets another value in it."""
        return any(
            variable in self._function(function).rebound for function in functions
        )

    def may_differ(self, node: NameExpr, functions: list[FuncItem]) -> bool:
        """Whether the variable may have another value here than the one that it was declared with."""
        if node.node is None or not functions:
            return False
        if node.node in self._function(functions[-1]).bindings:
            return self._function(functions[-1]).is_changed_before(node)
        # when an inner function runs is not known
        return self.is_rebound(node.node, functions[:-1])

    def forget(self) -> None:
        """To be called when a file was read: a daemon puts new code into old nodes."""
        self._read.clear()

    def _function(self, function: FuncItem) -> _Function:
        known = self._read.get(function)
        if known is None or known.is_stale():
            if len(self._read) >= _REMEMBERED:
                self._read.clear()
            known = self._read[function] = _Function(function)
        return known


class _Function:
    """The bindings of one function; None for a variable that is bound twice, or otherwise than by an assignment."""

    def __init__(self, function: FuncItem) -> None:
        self.bindings: dict[Node, Bound | None] = {
            argument.variable: None for argument in function.arguments
        }
        # the lines on which a variable gets another value
        self.rebound: dict[Node, list[int]] = {}
        self._loops: list[tuple[int, int]] = []
        self._sample: tuple[NameExpr, Node] | None = None
        patterns = False
        for statement in statements(function.body.body):
            patterns = patterns or isinstance(statement, MatchStmt)
            if isinstance(statement, (ForStmt, WhileStmt)):
                self._loops.append((statement.line, statement.end_line or _ENDLESS))
            for target, value in _targets(statement):
                self._bind(target, value)
            for expression in expressions(statement):
                for part in below(expression):
                    if isinstance(part, AssignmentExpr):
                        self._bind(part.target, None)
        if patterns:  # they may bind any name
            self.bindings = dict.fromkeys(self.bindings)

    def is_changed_before(self, node: NameExpr) -> bool:
        """Whether the variable gets another value above a place, or in a loop around it."""
        lines = self.rebound.get(node.node, []) if node.node is not None else []
        around = [
            (start, end) for start, end in self._loops if start <= node.line <= end
        ]
        return any(
            line < node.line or any(start <= line <= end for start, end in around)
            for line in lines
        )

    def is_stale(self) -> bool:
        """Whether names mean other nodes by now."""
        return self._sample is not None and self._sample[0].node is not self._sample[1]

    def _bind(self, target: Expression, value: Bound | None) -> None:
        if isinstance(target, (TupleExpr, ListExpr)):
            simple = value is not None and value.item is None
            starred = any(isinstance(item, StarExpr) for item in target.items)
            for index, item in enumerate(target.items):
                part = (
                    Bound(value.value, index)
                    if value is not None and simple and not starred
                    else None
                )
                self._bind(item.expr if isinstance(item, StarExpr) else item, part)
        elif isinstance(target, NameExpr) and target.node is not None:
            if target.node in self.bindings:
                self.rebound.setdefault(target.node, []).append(target.line)
            self.bindings[target.node] = None if target.node in self.bindings else value
            self._sample = self._sample or (target, target.node)


def _targets(node: Statement) -> list[tuple[Expression, Bound | None]]:
    """What a statement binds, with the value where it is an assignment."""
    if isinstance(node, AssignmentStmt):
        if isinstance(node.rvalue, TempNode):
            return []
        return [(target, Bound(node.rvalue)) for target in node.lvalues]
    if isinstance(node, OperatorAssignmentStmt):
        return [(node.lvalue, None)]
    if isinstance(node, ForStmt):
        return [(node.index, None)]
    if isinstance(node, WithStmt):
        return [(target, None) for target in node.target if target is not None]
    if isinstance(node, TryStmt):
        return [(target, None) for target in node.vars if target is not None]
    return [(node.expr, None)] if isinstance(node, DelStmt) else []
