"""Annotations used as values: ``shard(x, f32['B/d M'])``, ``isinstance(x, f32['B M'])``, ``Array['layers', T](…)``.

To mypy they are subscripts of classes that are not generic. Here they become calls of functions of the stub.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy.nodes import (
    AssertStmt,
    AssignmentStmt,
    CallExpr,
    ComparisonExpr,
    ConditionalExpr,
    Decorator,
    DictExpr,
    Expression,
    ExpressionStmt,
    ForStmt,
    FuncDef,
    GeneratorExpr,
    IfStmt,
    IndexExpr,
    ListComprehension,
    ListExpr,
    MemberExpr,
    NameExpr,
    OpExpr,
    ReturnStmt,
    SetExpr,
    Statement,
    TempNode,
    TupleExpr,
    UnaryExpr,
    WhileStmt,
)
from mypy.types import Type, UnboundType

# Their arguments are types.
_TYPE_FORMS: Final = frozenset(
    {
        "NamedTuple",
        "NewType",
        "ParamSpec",
        "TypeAliasType",
        "TypeVar",
        "TypedDict",
        "assert_type",
        "cast",
    }
)

Made = Callable[[Expression, list[Expression]], Expression]


class AnnotationValues:
    """Replaces the annotations among the values of a file.

    ``is_annotation`` tells them, ``annotation`` makes the call that stands for one, given it and its items, and
    ``constructor`` that for a stacked type which is called.
    """

    def __init__(
        self,
        is_annotation: Callable[[Expression], bool],
        annotation: Made,
        constructor: Made,
    ) -> None:
        self._is_annotation = is_annotation
        self._annotation = annotation
        self._constructor = constructor

    def statement(self, node: Statement) -> None:
        """Replace those in the statement itself, not in its blocks."""
        if isinstance(node, (ExpressionStmt, AssertStmt)):
            node.expr = self.value(node.expr)
        elif isinstance(node, ReturnStmt) and node.expr is not None:
            node.expr = self.value(node.expr)
        elif isinstance(node, AssignmentStmt) and not isinstance(node.rvalue, TempNode):
            # a subscript that is assigned makes an alias
            alias = (
                _is_alias(node.type)
                if node.type is not None
                else isinstance(node.rvalue, (IndexExpr, OpExpr))
            )
            node.rvalue = node.rvalue if alias else self.value(node.rvalue)
        elif isinstance(node, (ForStmt, WhileStmt)):
            node.expr = self.value(node.expr)
        elif isinstance(node, IfStmt):
            node.expr = [self.value(condition) for condition in node.expr]
        elif isinstance(node, Decorator):
            node.decorators = [self.value(decorator) for decorator in node.decorators]
            self.statement(node.func)
        elif isinstance(node, FuncDef):
            for argument in node.arguments:
                if argument.initializer is not None:
                    argument.initializer = self.value(argument.initializer)

    def value(self, node: Expression) -> Expression:
        """The expression with the annotations in it replaced."""
        if isinstance(node, IndexExpr) and self._is_annotation(node):
            return self._annotation(node, _items(node))
        if isinstance(node, CallExpr):
            self._call(node)
        elif isinstance(node, (TupleExpr, ListExpr, SetExpr)):
            node.items = [self.value(item) for item in node.items]
        elif isinstance(node, DictExpr):
            node.items = [(key, self.value(value)) for key, value in node.items]
        elif isinstance(node, ConditionalExpr):
            node.cond, node.if_expr = self.value(node.cond), self.value(node.if_expr)
            node.else_expr = self.value(node.else_expr)
        elif isinstance(node, ComparisonExpr):
            node.operands = [self.value(operand) for operand in node.operands]
        elif isinstance(node, OpExpr):
            node.left, node.right = self.value(node.left), self.value(node.right)
        elif isinstance(node, (UnaryExpr, MemberExpr)):
            node.expr = self.value(node.expr)
        elif isinstance(node, ListComprehension):
            self.value(node.generator)
        elif isinstance(node, GeneratorExpr):
            node.left_expr = self.value(node.left_expr)
            node.sequences = [self.value(sequence) for sequence in node.sequences]
        return node

    def _call(self, node: CallExpr) -> None:
        callee = node.callee
        if isinstance(callee, (NameExpr, MemberExpr)) and callee.name in _TYPE_FORMS:
            return
        if (
            isinstance(callee, IndexExpr)
            and self._is_annotation(callee)
            and len(_items(callee)) == 2
        ):
            node.callee = self._constructor(callee, _items(callee))
        else:
            node.callee = self.value(callee)
        node.args = [self.value(arg) for arg in node.args]


def _items(node: IndexExpr) -> list[Expression]:
    return list(node.index.items) if isinstance(node.index, TupleExpr) else [node.index]


def _is_alias(typ: Type) -> bool:
    return isinstance(typ, UnboundType) and typ.name.rpartition(".")[2] == "TypeAlias"
