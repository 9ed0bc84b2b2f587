"""The parts of mypy's syntax trees. Its own visitors are compiled and cannot be subclassed: this walks by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mypy.nodes import (
    AssertStmt,
    AssignmentExpr,
    AssignmentStmt,
    AwaitExpr,
    Block,
    CallExpr,
    ClassDef,
    ComparisonExpr,
    ConditionalExpr,
    Decorator,
    DelStmt,
    DictExpr,
    DictionaryComprehension,
    Expression,
    ExpressionStmt,
    FloatExpr,
    ForStmt,
    FuncDef,
    FuncItem,
    GeneratorExpr,
    IfStmt,
    IndexExpr,
    IntExpr,
    LambdaExpr,
    ListComprehension,
    ListExpr,
    MatchStmt,
    MemberExpr,
    NameExpr,
    OperatorAssignmentStmt,
    OpExpr,
    OverloadedFuncDef,
    RaiseStmt,
    ReturnStmt,
    SetComprehension,
    SetExpr,
    SliceExpr,
    StarExpr,
    Statement,
    StrExpr,
    TryStmt,
    TupleExpr,
    UnaryExpr,
    WhileStmt,
    WithStmt,
    YieldExpr,
    YieldFromExpr,
)

_LEAVES = (NameExpr, IntExpr, StrExpr, FloatExpr)


def blocks(node: Statement) -> list[Block | None]:
    """The blocks of a statement that belong to the same function."""
    if isinstance(node, IfStmt):
        return [*node.body, node.else_body]
    if isinstance(node, (ForStmt, WhileStmt)):
        return [node.body, node.else_body]
    if isinstance(node, WithStmt):
        return [node.body]
    if isinstance(node, TryStmt):
        return [node.body, *node.handlers, node.else_body, node.finally_body]
    if isinstance(node, MatchStmt):
        return list(node.bodies)
    return [node] if isinstance(node, Block) else []


def statements(body: Iterable[Statement]) -> Iterator[Statement]:
    """Every statement below, those of functions and classes inside included."""
    for node in body:
        yield node
        inner: list[Block | None] = blocks(node)
        if isinstance(node, Decorator):
            inner = [node.func.body]
        elif isinstance(node, FuncDef):
            inner = [node.body]
        elif isinstance(node, ClassDef):
            inner = [node.defs]
        elif isinstance(node, OverloadedFuncDef):
            yield from statements(node.items)
        for block in inner:
            if block is not None:
                yield from statements(block.body)


def expressions(node: Statement) -> list[Expression | None]:
    """The expressions of a statement itself, not those in its blocks."""
    if isinstance(node, AssignmentStmt):
        return [*node.lvalues, node.rvalue]
    if isinstance(node, OperatorAssignmentStmt):
        return [node.lvalue, node.rvalue]
    if isinstance(node, (ExpressionStmt, ReturnStmt, DelStmt)):
        return [node.expr]
    if isinstance(node, IfStmt):
        return list(node.expr)
    if isinstance(node, WhileStmt):
        return [node.expr]
    if isinstance(node, ForStmt):
        return [node.index, node.expr]
    if isinstance(node, WithStmt):
        return [*node.expr, *node.target]
    if isinstance(node, TryStmt):
        return [*node.types, *node.vars]
    if isinstance(node, AssertStmt):
        return [node.expr, node.msg]
    if isinstance(node, RaiseStmt):
        return [node.expr, node.from_expr]
    if isinstance(node, MatchStmt):
        return [node.subject, *node.guards]
    if isinstance(node, ClassDef):
        return [*node.decorators, *node.base_type_exprs, *node.keywords.values()]
    if isinstance(node, Decorator):
        return [*node.decorators, *_defaults(node.func)]
    return _defaults(node) if isinstance(node, FuncDef) else []


def _defaults(function: FuncItem) -> list[Expression | None]:
    return [argument.initializer for argument in function.arguments]


def parts(node: Expression) -> list[Expression | None]:
    """The expressions that an expression is made of. The body of a lambda is its ``expr``."""
    if isinstance(node, _LEAVES):  # most are
        return []
    if isinstance(node, MemberExpr):
        return [node.expr]
    if isinstance(node, CallExpr):
        return [node.callee, *node.args]
    if isinstance(node, IndexExpr):
        return [node.base, node.index]
    if isinstance(node, OpExpr):
        return [node.left, node.right]
    if isinstance(node, (TupleExpr, ListExpr, SetExpr)):
        return list(node.items)
    if isinstance(node, DictExpr):
        return [part for pair in node.items for part in pair]
    if isinstance(node, ComparisonExpr):
        return list(node.operands)
    if isinstance(node, ConditionalExpr):
        return [node.cond, node.if_expr, node.else_expr]
    if isinstance(node, SliceExpr):
        return [node.begin_index, node.end_index, node.stride]
    if isinstance(node, AssignmentExpr):
        return [node.target, node.value]
    if isinstance(node, (UnaryExpr, StarExpr, AwaitExpr, YieldExpr, YieldFromExpr)):
        return [node.expr]
    if isinstance(node, LambdaExpr):
        return [*_defaults(node), node.expr()]
    if isinstance(node, (ListComprehension, SetComprehension)):
        return parts(node.generator)
    if isinstance(node, GeneratorExpr):
        return [
            node.left_expr,
            *node.indices,
            *node.sequences,
            *(c for group in node.condlists for c in group),
        ]
    if isinstance(node, DictionaryComprehension):
        conditions = (c for group in node.condlists for c in group)
        return [node.key, node.value, *node.indices, *node.sequences, *conditions]
    return []


def below(node: Expression | None) -> Iterator[Expression]:
    """An expression and everything in it."""
    stack = [node]
    while stack:
        current = stack.pop()
        if current is not None:
            yield current
            stack.extend(parts(current))
