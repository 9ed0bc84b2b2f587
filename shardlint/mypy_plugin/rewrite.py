"""What is changed in a parsed file before mypy analyses it.

Two things that no hook can do later. A lone word in an annotation (``f32['batch']``) looks to mypy like a forward
reference; here it becomes a string again. And mypy has no hook for ``return`` and for assignments to annotated
variables, so their values pass through two functions of a stub, which have hooks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mypy.nodes import (
    ARG_POS,
    AssignmentExpr,
    AssignmentStmt,
    AwaitExpr,
    Block,
    BytesExpr,
    CallExpr,
    ClassDef,
    ComparisonExpr,
    ConditionalExpr,
    Decorator,
    DictExpr,
    DictionaryComprehension,
    Expression,
    ExpressionStmt,
    FuncDef,
    FuncItem,
    GeneratorExpr,
    ImportFrom,
    IndexExpr,
    ListComprehension,
    ListExpr,
    MemberExpr,
    MypyFile,
    NameExpr,
    OpExpr,
    OverloadedFuncDef,
    ReturnStmt,
    SetComprehension,
    SetExpr,
    Statement,
    StrExpr,
    TempNode,
    TupleExpr,
    TypeAliasStmt,
    UnaryExpr,
    YieldExpr,
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
from shardlint.mypy_plugin.heads import STACKING, Heads
from shardlint.mypy_plugin.names import (
    ANNOTATION,
    ASSIGNED,
    CALLED,
    CONSTRUCTOR,
    DTYPES,
    FAILED,
    FINDINGS,
    GLOBAL,
    RETURNED,
    REVEALED,
    STATIC,
    YIELDED,
)

_VALUES = (
    AssignmentExpr,
    AwaitExpr,
    CallExpr,
    ComparisonExpr,
    IndexExpr,
    MemberExpr,
    OpExpr,
)
_FUNCTIONS = (
    RETURNED,
    YIELDED,
    ASSIGNED,
    CALLED,
    REVEALED,
    ANNOTATION,
    CONSTRUCTOR,
    FAILED,
    FINDINGS,
)


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
    walk.statements(file.defs, inside_function=False)
    values = AnnotationValues(walk.is_annotation, walk.annotation, walk.constructor)
    for statement in list(walking.statements(file.defs)):
        values.statement(statement)
    walk.nameless_calls(file.defs)
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
        # and those of them that an annotation, a single one so far, says something of
        self.declared: list[set[str]] = []
        # what the function around says that it returns
        self.result: Type | None = None
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
                if isinstance(items[0], StrExpr):
                    text = _bytes_expression(items[0])
                    if isinstance(node.index, TupleExpr):
                        node.index.items[0] = text
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

    def statements(
        self, nodes: list[Statement], inside_function: bool, returns: bool = False
    ) -> None:
        for node in list(nodes):
            second = self.declared_again(node)
            self.statement(node, inside_function, returns)
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
        self.declared[-1].discard(target.name)
        own = f"_shardtypes_{target.name}_{node.line}"
        node.lvalues = [NameExpr(own)]
        made = AssignmentStmt([NameExpr(target.name)], NameExpr(own))
        for part in (node.lvalues[0], made.lvalues[0], made.rvalue):
            part.set_line(target)
        made.set_line(node)
        return made

    def block(self, node: Block | None, inside_function: bool, returns: bool) -> None:
        if node is not None:
            self.statements(node.body, inside_function, returns)

    def statement(self, node: Statement, inside_function: bool, returns: bool) -> None:
        if returns:
            self.yields(node)
        if isinstance(node, FuncDef):
            self.function(node)
        elif isinstance(node, Decorator):
            for decorator in node.decorators:
                self.expression(decorator)
            self.function(node.func)
        elif isinstance(node, OverloadedFuncDef):
            for item in node.items:
                self.statement(item, inside_function, returns)
        elif isinstance(node, ClassDef):
            for base in node.base_type_exprs:
                self.expression(base)
            self.class_body(node)
        elif isinstance(node, AssignmentStmt):
            self.assignment(node, wrap=True)
            if not inside_function:
                mark_global(node.type)
        elif isinstance(node, TypeAliasStmt):
            if self.expression(node.value.expr()):
                self.heads.aliases.add(node.name.name)
        elif isinstance(node, ReturnStmt):
            if node.expr is not None:
                self.expression(node.expr)
                if returns or _may_be_typed_dict(self.result, node.expr):
                    node.expr = self.wrap(node.expr, RETURNED)
        elif isinstance(node, ExpressionStmt):
            self.expression(node.expr)
        else:
            for inner in walking.blocks(node):
                self.block(inner, inside_function, returns)

    def yields(self, node: Statement) -> None:
        for expression in walking.expressions(node):
            for part in walking.below(expression):
                if isinstance(part, YieldExpr) and part.expr is not None:
                    part.expr = self.wrap(part.expr, YIELDED)

    def class_body(self, node: ClassDef) -> None:
        for statement in node.defs.body:
            if isinstance(statement, AssignmentStmt):
                # the dataclass plugin reads a field's default
                self.assignment(statement, wrap=False)
            else:
                self.statement(statement, False, False)

    def function(self, node: FuncItem) -> None:
        returns = False
        around = self.result
        self.result = None
        if isinstance(node.type, CallableType):
            self.result = node.type.ret_type
            self.types(node.type.arg_types)
            returns = self.type(node.type.ret_type)
        for argument in node.arguments:
            is_array = self.type(argument.type_annotation)
            if is_array and argument.initializer is not None:
                argument.initializer = self.wrap(argument.initializer, ASSIGNED)
        self.bound.append({argument.variable.name for argument in node.arguments})
        self.declared.append(set())
        self.block(node.body, True, returns)
        self.bound.pop()
        self.declared.pop()
        self.result = around

    def assignment(self, node: AssignmentStmt, wrap: bool) -> None:
        is_array = self.type(node.type)
        if is_array and wrap and self.declared:
            self.declared[-1].update(
                t.name for t in node.lvalues if isinstance(t, NameExpr)
            )
        if isinstance(node.rvalue, TempNode):
            return
        if (
            self.expression(node.rvalue)
            and node.type is None
            and not isinstance(node.rvalue, CallExpr)
        ):
            self.heads.aliases.update(
                t.name for t in node.lvalues if isinstance(t, NameExpr)
            )
        elif wrap and (is_array or _may_be_typed_dict(node.type, node.rvalue)):
            node.rvalue = self.wrap(node.rvalue, ASSIGNED)
        elif wrap and self.bound and node.type is None:
            node.rvalue = self.to_declared(node.lvalues, self.read(node.rvalue))

    def to_declared(
        self, targets: Sequence[Expression], value: Expression
    ) -> Expression:
        """The value with what is assigned to a field of an object, or to an annotated variable, passed through the
        check."""
        if all(self.is_declared(target) for target in targets):
            return value if _may_be_empty(value) else self.wrap(value, ASSIGNED)
        pairs = targets[0] if len(targets) == 1 else None
        if (
            isinstance(pairs, TupleExpr)
            and isinstance(value, TupleExpr)
            and len(pairs.items) == len(value.items)
        ):
            items = zip(pairs.items, value.items, strict=True)
            value.items = [self.to_declared([target], item) for target, item in items]
        return value

    def is_declared(self, target: Expression) -> bool:
        if isinstance(target, NameExpr):
            return target.name in self.declared[-1]
        return isinstance(target, MemberExpr)

    def read(self, node: Expression) -> Expression:
        """The expression with the names in it, alone or in displays, passed through a hook that knows their values."""
        if isinstance(node, NameExpr) and any(
            node.name in names for names in self.bound
        ):
            return self.pass_through(node, REVEALED)
        if isinstance(node, (TupleExpr, ListExpr)):
            node.items = [self.read(item) for item in node.items]
        return node

    def nameless_calls(self, nodes: Sequence[Statement]) -> None:
        """mypy calls no hook where the function is the value of an expression, so that value passes through one."""
        for statement in walking.statements(nodes):
            for expression in walking.expressions(statement):
                for node in walking.below(expression):
                    if isinstance(node, CallExpr) and isinstance(
                        node.callee, (CallExpr, IndexExpr, ConditionalExpr)
                    ):
                        node.callee = self.pass_through(node.callee, CALLED)
                    elif isinstance(node, CallExpr) and _is_reveal(node):
                        node.args[0] = self.pass_through(node.args[0], REVEALED)

    def wrap(self, node: Expression, function: str) -> Expression:
        """The expression passed through a function of the stub: each item of a display, what a comprehension makes,
        each branch of a choice. mypy hands what is expected of the whole on to these."""
        if isinstance(node, (TupleExpr, ListExpr, SetExpr)):
            node.items = [self.wrap(item, function) for item in node.items]
        elif isinstance(node, DictExpr):
            node.items = [
                (key, value if key is None else self.wrap(value, function))
                for key, value in node.items
            ]
        elif isinstance(node, (ListComprehension, SetComprehension)):
            self.wrap(node.generator, function)
        elif isinstance(node, GeneratorExpr):
            node.left_expr = self.wrap(node.left_expr, function)
        elif isinstance(node, DictionaryComprehension):
            node.value = self.wrap(node.value, function)
        elif isinstance(node, ConditionalExpr):
            node.if_expr = self.wrap(node.if_expr, function)
            node.else_expr = self.wrap(node.else_expr, function)
        elif _may_be_array(node):
            return self.pass_through(node, function)
        return node

    def pass_through(self, node: Expression, function: str) -> CallExpr:
        return self.stub_call(node, function, [node])

    def is_annotation(self, node: Expression) -> bool:
        """Whether an expression is ``f32['B M']`` or the like."""
        base = node.base if isinstance(node, IndexExpr) else None
        kind = (
            self.heads.kind(_dotted(base))
            if isinstance(base, (NameExpr, MemberExpr))
            else None
        )
        return kind is not None and (kind in DTYPES or kind == STACKING)

    def annotation(self, node: Expression, items: list[Expression]) -> Expression:
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


def _may_be_empty(node: Expression) -> bool:
    """Whether it may be ``dict()``: the type of a field that begins so is inferred from what is put into it."""
    return isinstance(node, CallExpr) and not node.args


def _may_be_array(node: Expression) -> bool:
    """Whether the value may be an array, or hold some. Lambdas and constants need the expected type."""
    if isinstance(node, UnaryExpr):
        return _may_be_array(node.expr)
    if isinstance(node, NameExpr):
        return node.name not in ("None", "NotImplemented")
    return isinstance(node, _VALUES)


def _may_be_typed_dict(annotation: Type | None, value: Expression) -> bool:
    """Whether a class of that name may say what the items of a display are."""
    is_name = isinstance(annotation, UnboundType) and not annotation.args
    return is_name and isinstance(value, DictExpr)


def _is_reveal(node: CallExpr) -> bool:
    return (
        isinstance(node.callee, NameExpr)
        and node.callee.name == "reveal_type"
        and len(node.args) == 1
    )


def mark_global(node: Type | None) -> None:
    """Note at the texts of a type that their names are those of no function."""
    if isinstance(node, RawExpressionType):
        node.note = GLOBAL
    elif isinstance(node, UnboundType):
        for arg in node.args:
            mark_global(arg)
    elif isinstance(node, (UnionType, TupleType)):
        for item in node.items:
            mark_global(item)


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
