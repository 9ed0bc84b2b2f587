"""What is changed in a parsed file before mypy analyses it.

What no hook can do later. A lone word in an annotation (``f32['batch']``) looks to mypy like a forward reference; here
it becomes a string again. And mypy has no hook for ``reveal_type``, nor for calls of functions without a name, so what
these are given passes through functions of a stub, which have hooks.
"""

from __future__ import annotations

from collections.abc import Iterable

from mypy.nodes import (
    ARG_POS,
    AssignmentStmt,
    BytesExpr,
    CallExpr,
    ClassDef,
    ConditionalExpr,
    Decorator,
    Expression,
    ExpressionStmt,
    FuncDef,
    FuncItem,
    ImportFrom,
    IndexExpr,
    ListExpr,
    MemberExpr,
    MypyFile,
    NameExpr,
    OpExpr,
    OverloadedFuncDef,
    ReturnStmt,
    Statement,
    StrExpr,
    TempNode,
    TupleExpr,
    TypeAliasStmt,
)
from mypy.types import (
    CallableArgument,
    CallableType,
    RawExpressionType,
    TupleType,
    Type,
    TypeList,
    UnboundType,
    UnionType,
    UnpackType,
)

from shardlint.mypy_plugin import walking
from shardlint.mypy_plugin.annotation_values import AnnotationValues
from shardlint.mypy_plugin.heads import STACKING, Heads, may_hold_unasked
from shardlint.mypy_plugin.names import (
    ANNOTATION,
    CALLED,
    CONSTRUCTOR,
    FAILED,
    FINDINGS,
    REVEALED,
    STATIC,
)
from shardtypes.lang.array_names import SHARDTYPES_DTYPES

_FUNCTIONS = (CALLED, REVEALED, ANNOTATION, CONSTRUCTOR, FAILED, FINDINGS)


def local_name(qualname: str) -> str:
    """The name under which a rewritten file knows a function of the stub; no Python program has it."""
    return f"_shardtypes_static_{qualname.rpartition('.')[2]}"


_STUB_NAMES: list[tuple[str, str | None]] = [
    (q.rpartition(".")[2], local_name(q)) for q in _FUNCTIONS
]
STUB_IMPORT = f"from {STATIC} import " + ", ".join(
    f"{name} as {local}" for name, local in _STUB_NAMES
)


def rewrite(file: MypyFile, stub_imported: bool = False) -> bool:
    """Rewrite the file in place; whether it now refers to the stub, which it gets an import of."""
    heads = Heads(file)
    if not heads.any_import:
        return False
    walk = _Walk(heads)
    walk.statements(file.defs)
    values = AnnotationValues(walk.is_annotation, walk.annotation, walk.constructor)
    statements = list(walking.statements(file.defs))
    for statement in statements:
        values.statement(statement)
    if may_hold_unasked(file.path):
        walk.unasked(statements)
    if walk.wrapped and not stub_imported:
        file.defs.insert(0, _stub_import(file))
    return walk.wrapped


def fail_in(file: MypyFile, message: str) -> None:
    """Let the file report a message where it begins."""
    _begin_with(file, FAILED, [StrExpr(message)])


def report_in(file: MypyFile) -> None:
    """Let the file report what the linter finds in it."""
    _begin_with(file, FINDINGS, [])


def _begin_with(file: MypyFile, function: str, args: list[Expression]) -> None:
    """Let the file begin with a call of a function of the stub: what comes later may never be reached."""
    call = CallExpr(
        NameExpr(local_name(function)), args, [ARG_POS] * len(args), [None] * len(args)
    )
    statement = ExpressionStmt(call)
    for made in (call.callee, *args, call, statement):
        made.set_line(1, 0)
    file.defs[:0] = [_stub_import(file), statement]


def _stub_import(file: MypyFile) -> ImportFrom:
    node = ImportFrom(STATIC, 0, _STUB_NAMES)
    node.line, node.column = 1, 0
    node.is_top_level = True
    file.imports.append(node)
    return node


class _Walk:
    def __init__(self, heads: Heads) -> None:
        self.heads = heads
        # the names that the functions around have bound so far
        self.bound: list[set[str]] = []
        self.wrapped = False

    # Types

    def type(self, node: Type | None) -> bool:
        """Rewrite the lone words of a type; whether the type mentions an array type."""
        if isinstance(node, UnboundType):
            kind = self.heads.kind(node.name)
            if kind is not None and node.args:
                lone = 1 if kind == STACKING else len(node.args)
                node.args = tuple(
                    _as_text(arg) if i < lone else arg
                    for i, arg in enumerate(node.args)
                )
            found = kind is not None or node.name in self.heads.aliases
            return self.types(node.args) or found
        if isinstance(node, (UnionType, TypeList, TupleType)):
            return self.types(node.items)
        if isinstance(node, CallableType):
            return self.types([*node.arg_types, node.ret_type])
        if isinstance(node, CallableArgument):
            return self.type(node.typ)
        if isinstance(node, UnpackType):
            return self.type(node.type)
        return False

    def types(self, nodes: Iterable[Type]) -> bool:
        # all of them: rewriting must not stop at the first
        found = [self.type(node) for node in nodes]
        return any(found)

    # Expressions used as types: aliases, casts, arguments

    def expression(self, node: Expression) -> bool:
        """The same for an expression that may be a type."""
        if isinstance(node, IndexExpr):
            kind = (
                self.heads.kind(_dotted(node.base))
                if isinstance(node.base, (NameExpr, MemberExpr))
                else None
            )
            if kind is not None:
                items = (
                    node.index.items
                    if isinstance(node.index, TupleExpr)
                    else [node.index]
                )
                at = 0 if kind == STACKING else len(items) - 1
                written = items[at]
                if isinstance(written, StrExpr):
                    text = _bytes_expression(written)
                    if isinstance(node.index, TupleExpr):
                        node.index.items[at] = text
                    else:
                        node.index = text
            return self.expression(node.index) or kind is not None
        if isinstance(node, (TupleExpr, ListExpr)):
            found = [self.expression(item) for item in node.items]
            return any(found)
        if isinstance(node, CallExpr):
            self.expression(node.callee)
            for arg in node.args:
                self.expression(arg)
            return False
        if isinstance(node, OpExpr) and node.op == "|":
            return any([self.expression(node.left), self.expression(node.right)])
        return isinstance(node, NameExpr) and node.name in self.heads.aliases

    # Statements

    def statements(self, nodes: list[Statement]) -> None:
        for node in list(nodes):
            second = self.declared_again(node)
            self.statement(node)
            if second is not None:
                nodes.insert(nodes.index(node) + 1, second)

    def declared_again(self, node: Statement) -> Statement | None:
        """``x: f32['B M'] = …`` where ``x`` exists. mypy wants one declaration, but an array gets a new shape.

        The annotation goes to a variable of its own, whose value is then assigned by the statement returned.
        """
        if not isinstance(node, AssignmentStmt) or not self.bound:
            return None
        target = node.lvalues[0]
        names = self.bound[-1]
        before = isinstance(target, NameExpr) and target.name in names
        names.update(
            name.name
            for lvalue in node.lvalues
            for name in walking.below(lvalue)
            if isinstance(name, NameExpr)
        )
        if (
            not (before and isinstance(target, NameExpr))
            or isinstance(node.rvalue, TempNode)
            or not self.type(node.type)
        ):
            return None
        own = f"_shardtypes_{target.name}_{node.line}"
        node.lvalues = [NameExpr(own)]
        made = AssignmentStmt([NameExpr(target.name)], NameExpr(own))
        for part in (node.lvalues[0], made.lvalues[0], made.rvalue):
            part.set_line(target)
        made.set_line(node)
        return made

    def statement(self, node: Statement) -> None:
        if isinstance(node, FuncDef):
            self.function(node)
        elif isinstance(node, Decorator):
            for decorator in node.decorators:
                self.expression(decorator)
            self.function(node.func)
        elif isinstance(node, OverloadedFuncDef):
            for item in node.items:
                self.statement(item)
        elif isinstance(node, ClassDef):
            for base in node.base_type_exprs:
                self.expression(base)
            for inner in node.defs.body:
                self.statement(inner)
        elif isinstance(node, AssignmentStmt):
            self.assignment(node)
        elif isinstance(node, TypeAliasStmt):
            if self.expression(node.value.expr()):
                self.heads.aliases.add(node.name.name)
        elif isinstance(node, (ExpressionStmt, ReturnStmt)):
            if node.expr is not None:
                self.expression(node.expr)
        else:
            for block in walking.blocks(node):
                if block is not None:
                    self.statements(block.body)

    def function(self, node: FuncItem) -> None:
        if isinstance(node.type, CallableType):
            self.types([*node.type.arg_types, node.type.ret_type])
        for argument in node.arguments:
            self.type(argument.type_annotation)
        self.bound.append({argument.variable.name for argument in node.arguments})
        self.statements(node.body.body)
        self.bound.pop()

    def assignment(self, node: AssignmentStmt) -> None:
        self.type(node.type)
        if isinstance(node.rvalue, TempNode):
            return
        is_type = self.expression(node.rvalue) and not isinstance(node.rvalue, CallExpr)
        if is_type and node.type is None:
            self.heads.aliases.update(
                t.name for t in node.lvalues if isinstance(t, NameExpr)
            )

    def unasked(self, statements: Iterable[Statement]) -> None:
        """mypy asks no plugin what ``reveal_type`` shows, and what a function gives that is the value of an expression:
        these pass through functions that it does ask about."""
        for statement in statements:
            for expression in walking.expressions(statement):
                for node in walking.below(expression):
                    if isinstance(node, CallExpr):
                        self.pass_on(node)

    def pass_on(self, node: CallExpr) -> None:
        if isinstance(node.callee, (CallExpr, IndexExpr, ConditionalExpr)):
            node.callee = self.stub_call(node, CALLED, [node.callee])
        elif _is_reveal(node):
            shown = node.args[0]
            node.args[0] = self.stub_call(shown, REVEALED, [shown])

    def is_annotation(self, node: Expression) -> bool:
        """Whether an expression is ``f32['B M']`` or the like."""
        base = node.base if isinstance(node, IndexExpr) else None
        kind = (
            self.heads.kind(_dotted(base))
            if isinstance(base, (NameExpr, MemberExpr))
            else None
        )
        return kind is not None and (kind in SHARDTYPES_DTYPES or kind == STACKING)

    def annotation(self, node: Expression, items: list[Expression]) -> Expression:
        base = node.base if isinstance(node, IndexExpr) else node
        if self.heads.kind(_dotted(base)) != STACKING:
            items = items[-1:]  # what stands before the string is for other checkers
        return self.stub_call(node, ANNOTATION, items[:2])

    def constructor(self, node: Expression, items: list[Expression]) -> Expression:
        return self.stub_call(node, CONSTRUCTOR, items)

    def stub_call(
        self, node: Expression, function: str, args: list[Expression]
    ) -> CallExpr:
        """A call of a function of the stub, at the place of ``node``."""
        self.wrapped = True
        callee = NameExpr(local_name(function))
        call = CallExpr(callee, args, [ARG_POS] * len(args), [None] * len(args))
        for made in (callee, call):
            made.set_line(node)
        return call


def _is_reveal(node: CallExpr) -> bool:
    return (
        isinstance(node.callee, NameExpr)
        and node.callee.name == "reveal_type"
        and len(node.args) == 1
    )


def _as_text(arg: Type) -> Type:
    """A string that mypy read as a type, as the string it was."""
    if isinstance(arg, (UnboundType, UnionType)) and arg.original_str_expr is not None:
        fallback = arg.original_str_fallback or "builtins.str"
        return RawExpressionType(arg.original_str_expr, fallback, arg.line, arg.column)
    return arg


def _bytes_expression(node: StrExpr) -> BytesExpr:
    """mypy never reads bytes as a type; to every tool here they mean the same."""
    made = BytesExpr(node.value)
    made.set_line(node)
    return made


def _dotted(node: Expression) -> str:
    if isinstance(node, MemberExpr):
        return f"{_dotted(node.expr)}.{node.name}"
    return node.name if isinstance(node, NameExpr) else "?"
