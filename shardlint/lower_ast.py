"""Source text to the intermediate form, through Python's own tree.

That takes a tenth of the time of libcst, whose tree is made only of files that have something to show, for its places.
Both give the same form with the same numbers.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from sys import intern
from typing import Any

from shardlint import ir, messages
from shardlint.deep import again_with_room
from shardlint.folding import fold
from shardlint.suppress import suppressions_in
from shardlint.syntax import (
    OPERATORS,
    TEMPLATE,
    UnparsableFile,
    parse,
    quoted_expression,
)


def read_module(
    source: bytes, name: str, path: str, is_package: bool = False
) -> ir.Module:
    """The form of one file; of text in a newer grammar than that of the running Python through libcst.

    Raises:
        UnparsableFile: anything that is no Python file.
    """
    lowered = _lowered(source, path)
    if lowered is None:
        from shardlint.lower import lower  # libcst takes half a second to import

        return lower(source, name, path, is_package).module
    body, _ = lowered
    return ir.Module(name, path, is_package, body, suppressions_in(source))


def nodes_of(source: bytes, path: str) -> list[ast.AST]:
    """The node of each number, of text that Python takes; of expressions in quotes the string."""
    lowered = _lowered(source, path)
    return [] if lowered is None else lowered[1]


def _lowered(
    source: bytes, path: str
) -> tuple[tuple[ir.Stmt, ...], list[ast.AST]] | None:
    """The statements, and the node of each number; None where the running Python does not take the text."""
    parsed = parse(source, path)
    if isinstance(parsed, SyntaxError):
        return None
    folded, tables = fold(source, parsed)
    tree = parse(folded, path) if tables else parsed
    if isinstance(tree, SyntaxError):
        return None
    is_stub = path.endswith(".pyi")

    def lowered() -> tuple[tuple[ir.Stmt, ...], list[ast.AST]]:
        lowering = Lowering(tables, is_stub)
        return lowering.block(tree.body), lowering.nodes

    try:
        return again_with_room(lowered)
    except RecursionError:
        raise UnparsableFile(path, 1, 1, messages.too_deep()) from None


class Lowering:
    """Numbers the nodes that it lowers, in order. What functions of a stub return is not known."""

    def __init__(self, tables: Mapping[str, ir.Expr], is_stub: bool) -> None:
        self.tables = tables
        self.is_stub = is_stub
        self.yields = [False]
        self.nodes: list[ast.AST] = []
        # what is in quotes stands where these are
        self.quoted: ast.Constant | None = None

    def at(self, node: ast.AST) -> int:
        self.nodes.append(self.quoted or node)
        return ir.shared_number(len(self.nodes) - 1)

    # --- statements -----------------------------------------------------------------------------------------------

    def block(self, body: Iterable[ast.stmt]) -> tuple[ir.Stmt, ...]:
        found: list[ir.Stmt] = []
        for node in body:
            handler = _STATEMENTS.get(type(node))
            if handler is not None:
                found.append(handler(self, node))
        return tuple(found)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ir.Stmt:
        at, name_at = self.at(node), self.at(node)
        decorators = self.expressions(node.decorator_list)
        params = self.params(node.args)
        returns = None if node.returns is None else self.annotation(node.returns)
        self.yields.append(False)
        body = self.block(node.body)
        generator = self.yields.pop()
        if self.is_stub:
            body = (ir.Return(-1, ir.Opaque(-1, "a stub")),)
        is_async = isinstance(node, ast.AsyncFunctionDef)
        return ir.Function(
            at,
            node.name,
            params,
            returns,
            decorators,
            body,
            name_at,
            is_async,
            generator,
        )

    def class_(self, node: ast.ClassDef) -> ir.Stmt:
        at, name_at = self.at(node), self.at(node)
        decorators = self.expressions(node.decorator_list)
        given: list[ast.expr | ast.keyword] = [*node.bases, *node.keywords]
        bases = tuple(self.arg(one) for one in given)
        return ir.Class(
            at, node.name, bases, decorators, self.block(node.body), name_at
        )

    def assign(self, node: ast.Assign) -> ir.Stmt:
        at = self.at(node)
        targets = self.expressions(node.targets)
        return ir.Assign(at, targets, self.expression(node.value))

    def ann_assign(self, node: ast.AnnAssign) -> ir.Stmt:
        at = self.at(node)
        target = self.expression(node.target)
        annotation = self.annotation(node.annotation)
        return ir.AnnAssign(at, target, annotation, self.optional(node.value))

    def aug_assign(self, node: ast.AugAssign) -> ir.Stmt:
        at = self.at(node)
        op = OPERATORS[type(node.op)]
        target = self.expression(node.target)
        return ir.AugAssign(at, op, target, self.expression(node.value))

    def type_alias(self, node: Any) -> ir.Stmt:
        """``type X = …`` binds X, lazily; its value is an expression like another."""
        at = self.at(node)
        target = self.expression(node.name)
        return ir.Assign(at, (target,), self.expression(node.value))

    def expr(self, node: ast.Expr) -> ir.Stmt:
        at = self.at(node)
        if self.is_stub:
            return ir.ExprStmt(at, ir.Opaque(at, "a stub"))
        return ir.ExprStmt(at, self.expression(node.value))

    def return_(self, node: ast.Return) -> ir.Stmt:
        return ir.Return(self.at(node), self.optional(node.value))

    def if_(self, node: ast.If) -> ir.Stmt:
        at = self.at(node)
        test = self.expression(node.test)
        body = self.block(node.body)
        return ir.If(at, test, body, self.block(node.orelse))

    def for_(self, node: ast.For | ast.AsyncFor) -> ir.Stmt:
        at = self.at(node)
        target = self.expression(node.target)
        values = self.expression(node.iter)
        body = self.block(node.body)
        return ir.For(at, target, values, body, self.block(node.orelse))

    def while_(self, node: ast.While) -> ir.Stmt:
        at = self.at(node)
        test = self.expression(node.test)
        body = self.block(node.body)
        return ir.While(at, test, body, self.block(node.orelse))

    def with_(self, node: ast.With | ast.AsyncWith) -> ir.Stmt:
        at = self.at(node)
        items = tuple(
            (self.expression(item.context_expr), self.optional(item.optional_vars))
            for item in node.items
        )
        return ir.With(at, items, self.block(node.body))

    def try_(self, node: Any) -> ir.Stmt:
        at = self.at(node)
        body = self.block(node.body)
        caught: list[ir.Expr | None] = []
        handlers: list[tuple[ir.Stmt, ...]] = []
        for handler in node.handlers:
            caught.append(self.optional(handler.type))
            bound: tuple[ir.Stmt, ...] = ()
            if handler.name is not None:
                target = ir.Name(self.at(handler), intern(handler.name))
                bound = (ir.Assign(-1, (target,), ir.Opaque(-1, "an exception")),)
            handlers.append(bound + self.block(handler.body))
        orelse = self.block(node.orelse)
        final = self.block(node.finalbody)
        return ir.Try(at, body, tuple(caught), tuple(handlers), orelse, final)

    def match(self, node: ast.Match) -> ir.Stmt:
        at = self.at(node)
        subject = self.expression(node.subject)
        return ir.Match(at, subject, tuple(self.case(one) for one in node.cases))

    def case(self, node: ast.match_case) -> ir.Case:
        at = self.at(node)
        pattern = self.pattern(node.pattern)
        guard = self.optional(node.guard)
        return ir.Case(at, pattern, guard, self.block(node.body))

    def pattern(self, node: ast.pattern) -> ir.Pattern:
        at = self.at(node)
        match node:
            case ast.MatchValue(value=value):
                return ir.ValuePattern(at, self.expression(value))
            case ast.MatchSingleton(value=singleton):
                return ir.ValuePattern(at, ir.Const(self.at(node), singleton))
            case ast.MatchAs(pattern=pattern, name=name):
                inner = None if pattern is None else self.pattern(pattern)
                return ir.CapturePattern(at, name or "", inner)
            case ast.MatchStar(name=name):
                return ir.CapturePattern(at, name or "", None, True)
            case ast.MatchSequence(patterns=patterns):
                return ir.SequencePattern(at, self.patterns(patterns))
            case ast.MatchMapping(keys=keys, patterns=patterns, rest=rest):
                items = tuple(
                    (self.expression(key), self.pattern(one))
                    for key, one in zip(keys, patterns, strict=True)
                )
                return ir.MappingPattern(at, items, rest or "")
            case ast.MatchClass():
                return self.class_pattern(at, node)
            case ast.MatchOr(patterns=patterns):
                return ir.OrPattern(at, self.patterns(patterns))
            case _:
                raise TypeError(f"no pattern: {type(node).__name__}")

    def patterns(self, nodes: Iterable[ast.pattern]) -> tuple[ir.Pattern, ...]:
        return tuple(self.pattern(one) for one in nodes)

    def class_pattern(self, at: int, node: ast.MatchClass) -> ir.Pattern:
        cls = self.expression(node.cls)
        positional = self.patterns(node.patterns)
        named = tuple(
            (name, self.pattern(one))
            for name, one in zip(node.kwd_attrs, node.kwd_patterns, strict=True)
        )
        return ir.ClassPattern(at, cls, positional, named)

    def assert_(self, node: ast.Assert) -> ir.Stmt:
        return ir.Assert(self.at(node), self.expression(node.test))

    def raise_(self, node: ast.Raise) -> ir.Stmt:
        return ir.Raise(self.at(node), self.optional(node.exc))

    def delete(self, node: ast.Delete) -> ir.Stmt:
        at = self.at(node)
        targets = node.targets
        if len(targets) == 1 and isinstance(targets[0], ast.Tuple):
            targets = targets[0].elts
        return ir.Delete(at, self.expressions(targets))

    def import_(self, node: ast.Import) -> ir.Stmt:
        bindings = []
        for alias in node.names:
            if alias.asname is not None:
                bindings.append((alias.asname, alias.name))
            else:
                first = alias.name.split(".", 1)[0]
                bindings.append((first, first))
        return ir.Import(self.at(node), tuple(bindings))

    def import_from(self, node: ast.ImportFrom) -> ir.Stmt:
        at = self.at(node)
        module = node.module or ""
        names = None
        if node.names[0].name != "*":
            names = tuple((one.name, one.asname or one.name) for one in node.names)
        return ir.ImportFrom(at, module, node.level, names)

    def break_(self, node: ast.Break) -> ir.Stmt:
        return ir.Jump(self.at(node), "break")

    def continue_(self, node: ast.Continue) -> ir.Stmt:
        return ir.Jump(self.at(node), "continue")

    def global_(self, node: ast.Global) -> ir.Stmt:
        return ir.Declare(self.at(node), "global", tuple(node.names))

    def nonlocal_(self, node: ast.Nonlocal) -> ir.Stmt:
        return ir.Declare(self.at(node), "nonlocal", tuple(node.names))

    # --- functions and their parameters ----------------------------------------------------------------------------

    def params(self, node: ast.arguments) -> tuple[ir.Param, ...]:
        plain = [(one, "positional-only") for one in node.posonlyargs]
        plain += [(one, "positional") for one in node.args]
        without = len(plain) - len(node.defaults)
        found = []
        for place, (one, kind) in enumerate(plain):
            default = node.defaults[place - without] if place >= without else None
            found.append(self.param(one, kind, default))
        if node.vararg is not None:
            found.append(self.param(node.vararg, "*", None))
        for one, default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
            found.append(self.param(one, "keyword-only", default))
        if node.kwarg is not None:
            found.append(self.param(node.kwarg, "**", None))
        return tuple(found)

    def param(self, node: ast.arg, kind: str, default: ast.expr | None) -> ir.Param:
        at = self.at(node)
        annotation = None
        if node.annotation is not None:
            annotation = self.annotation(node.annotation)
        return ir.Param(at, intern(node.arg), kind, annotation, self.optional(default))

    def annotation(self, node: ast.expr) -> ir.Expr:
        """An annotation; of one in quotes what is in them, if that is Python."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            quoted = quoted_expression(node.value)
            if quoted is not None:
                self.quoted = node
                found = self.expression(quoted)
                self.quoted = None
                return found
        return self.expression(node)

    # --- expressions ------------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> ir.Expr:
        handler = _EXPRESSIONS.get(type(node))
        return self.opaque(node) if handler is None else handler(self, node)

    def optional(self, node: ast.expr | None) -> ir.Expr | None:
        return None if node is None else self.expression(node)

    def expressions(self, nodes: Iterable[ast.expr]) -> tuple[ir.Expr, ...]:
        return tuple(self.expression(one) for one in nodes)

    def opaque(self, node: ast.expr) -> ir.Expr:
        at = self.at(node)
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            self.yields[-1] = True
        parts = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
        what = type(node).__name__
        return ir.Opaque(at, _NAMES.get(what, what), self.expressions(parts))

    def name(self, node: ast.Name) -> ir.Expr:
        at = self.at(node)
        if node.id in self.tables:
            return replace(self.tables[node.id], at=at)
        return ir.Name(at, intern(node.id))

    def constant(self, node: ast.Constant) -> ir.Expr:
        return ir.Const(self.at(node), node.value)

    def formatted(self, node: ast.JoinedStr) -> ir.Expr:
        at = self.at(node)
        return ir.Format(at, tuple(self.format_part(one) for one in node.values))

    def format_part(self, node: ast.expr) -> ir.Expr:
        if isinstance(node, ast.Constant):
            return ir.Const(-1, node.value)
        assert isinstance(node, ast.FormattedValue)
        value = self.expression(node.value)
        if node.format_spec is None and node.conversion == -1:
            return value
        return ir.Opaque(-1, "a format", (value,))

    def template(self, node: ast.expr) -> ir.Expr:
        return ir.Opaque(self.at(node), TEMPLATE)

    def attribute(self, node: ast.Attribute) -> ir.Expr:
        at = self.at(node)
        return ir.Attr(at, self.expression(node.value), intern(node.attr))

    def call(self, node: ast.Call) -> ir.Expr:
        at = self.at(node)
        func = self.expression(node.func)
        args: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
        if node.keywords:
            args.sort(key=_place)
        return ir.Call(at, func, tuple(self.arg(one) for one in args))

    def arg(self, node: ast.expr | ast.keyword) -> ir.Arg:
        at = self.at(node)
        if isinstance(node, ast.Starred):
            return ir.Arg(at, self.expression(node.value), None, "*")
        if not isinstance(node, ast.keyword):
            return ir.Arg(at, self.expression(node), None, "")
        value = self.expression(node.value)
        if node.arg is None:
            return ir.Arg(at, value, None, "**")
        return ir.Arg(at, value, intern(node.arg), "")

    def subscript(self, node: ast.Subscript) -> ir.Expr:
        at = self.at(node)
        value = self.expression(node.value)
        return ir.Subscript(at, value, self.expression(node.slice))

    def slice(self, node: ast.Slice) -> ir.Expr:
        at = self.at(node)
        lower = self.optional(node.lower)
        upper = self.optional(node.upper)
        return ir.Slice(at, lower, upper, self.optional(node.step))

    def starred(self, node: ast.Starred) -> ir.Expr:
        at = self.at(node)
        return ir.Star(at, self.expression(node.value))

    def sequence(self, node: ast.Tuple | ast.List | ast.Set) -> ir.Expr:
        at = self.at(node)
        items = tuple(
            self.starred(one) if isinstance(one, ast.Starred) else self.expression(one)
            for one in node.elts
        )
        only = node.elts[0] if len(items) == 1 else None
        if isinstance(only, ast.Name) and only.id in self.tables:
            return replace(self.tables[only.id], at=at)
        return ir.Sequence(at, intern(type(node).__name__.lower()), items)

    def dict_(self, node: ast.Dict) -> ir.Expr:
        at = self.at(node)
        items = tuple(
            (self.optional(key), self.expression(value))
            for key, value in zip(node.keys, node.values, strict=True)
        )
        return ir.Dict(at, items)

    def binary(self, node: ast.BinOp) -> ir.Expr:
        at = self.at(node)
        left = self.expression(node.left)
        right = self.expression(node.right)
        return ir.Binary(at, OPERATORS[type(node.op)], left, right)

    def unary(self, node: ast.UnaryOp) -> ir.Expr:
        at = self.at(node)
        return ir.Unary(at, _UNARY[type(node.op)], self.expression(node.operand))

    def compare(self, node: ast.Compare) -> ir.Expr:
        at = self.at(node)
        left = self.expression(node.left)
        rest = tuple(
            (_COMPARISONS[type(op)], self.expression(one))
            for op, one in zip(node.ops, node.comparators, strict=True)
        )
        return ir.Compare(at, left, rest)

    def boolean(self, node: ast.BoolOp) -> ir.Expr:
        """One operator after the other, the last one outermost."""
        op = "and" if isinstance(node.op, ast.And) else "or"
        numbers = [self.at(node) for _ in node.values[1:]]
        value = self.expression(node.values[0])
        for at, right in zip(reversed(numbers), node.values[1:], strict=True):
            value = ir.Bool(at, op, (value, self.expression(right)))
        return value

    def if_exp(self, node: ast.IfExp) -> ir.Expr:
        at = self.at(node)
        test = self.expression(node.test)
        body = self.expression(node.body)
        return ir.IfExp(at, test, body, self.expression(node.orelse))

    def walrus(self, node: ast.NamedExpr) -> ir.Expr:
        at = self.at(node)
        return ir.Walrus(at, node.target.id, self.expression(node.value))

    def lambda_(self, node: ast.Lambda) -> ir.Expr:
        at = self.at(node)
        params = self.params(node.args)
        self.yields.append(False)
        body = self.expression(node.body)
        self.yields.pop()
        return ir.Lambda(at, params, body)

    def comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> ir.Expr:
        at = self.at(node)
        generators = tuple(self.generator(one) for one in node.generators)
        key = None
        if isinstance(node, ast.DictComp):
            key = self.expression(node.key)
            element = self.expression(node.value)
        else:
            element = self.expression(node.elt)
        return ir.Comprehension(at, _KINDS[type(node)], element, generators, key)

    def generator(self, node: ast.comprehension) -> ir.Generator:
        at = self.at(node)
        target = self.expression(node.target)
        values = self.expression(node.iter)
        return ir.Generator(at, target, values, self.expressions(node.ifs))


def _place(node: ast.expr | ast.keyword) -> tuple[int, int]:
    return node.lineno, node.col_offset


#: How libcst calls what is followed no further.
_NAMES = {"Starred": "StarredElement"}
_UNARY: Mapping[type[ast.unaryop], str] = {
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not",
}  # fmt: skip
_COMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.In: "in",
    ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
}  # fmt: skip
_KINDS: Mapping[type[ast.expr], str] = {
    ast.ListComp: "list", ast.SetComp: "set", ast.GeneratorExp: "generator", ast.DictComp: "dict",
}  # fmt: skip
_Handler = Callable[[Lowering, Any], Any]
_STATEMENTS: dict[type[ast.stmt], _Handler] = {
    ast.FunctionDef: Lowering.function, ast.AsyncFunctionDef: Lowering.function, ast.ClassDef: Lowering.class_,
    ast.Assign: Lowering.assign, ast.AnnAssign: Lowering.ann_assign, ast.AugAssign: Lowering.aug_assign,
    ast.Expr: Lowering.expr, ast.Return: Lowering.return_, ast.If: Lowering.if_, ast.For: Lowering.for_,
    ast.AsyncFor: Lowering.for_, ast.While: Lowering.while_, ast.With: Lowering.with_, ast.AsyncWith: Lowering.with_,
    ast.Try: Lowering.try_, ast.Match: Lowering.match, ast.Assert: Lowering.assert_, ast.Raise: Lowering.raise_,
    ast.Delete: Lowering.delete, ast.Import: Lowering.import_, ast.ImportFrom: Lowering.import_from,
    ast.Break: Lowering.break_, ast.Continue: Lowering.continue_, ast.Global: Lowering.global_,
    ast.Nonlocal: Lowering.nonlocal_, ast.TryStar: Lowering.try_,
}  # fmt: skip
_EXPRESSIONS: dict[type[ast.expr], _Handler] = {
    ast.Name: Lowering.name, ast.Constant: Lowering.constant, ast.JoinedStr: Lowering.formatted,
    ast.Attribute: Lowering.attribute, ast.Call: Lowering.call, ast.Subscript: Lowering.subscript,
    ast.Slice: Lowering.slice, ast.Tuple: Lowering.sequence, ast.List: Lowering.sequence, ast.Set: Lowering.sequence,
    ast.Dict: Lowering.dict_, ast.BinOp: Lowering.binary, ast.UnaryOp: Lowering.unary, ast.Compare: Lowering.compare,
    ast.BoolOp: Lowering.boolean, ast.IfExp: Lowering.if_exp, ast.NamedExpr: Lowering.walrus,
    ast.Lambda: Lowering.lambda_, ast.ListComp: Lowering.comprehension, ast.SetComp: Lowering.comprehension,
    ast.GeneratorExp: Lowering.comprehension, ast.DictComp: Lowering.comprehension,
}  # fmt: skip
if sys.version_info >= (3, 12):
    _STATEMENTS[ast.TypeAlias] = Lowering.type_alias
if sys.version_info >= (3, 14):
    _EXPRESSIONS[ast.TemplateStr] = Lowering.template
