"""Source text to the intermediate form, through libcst.

The tree is walked by hand, in one fixed order, without metadata: each form is numbered as it is made, so lowering the
same text again gives the same numbers. With ``keep_nodes`` the libcst nodes are kept beside the numbers, for whoever
needs positions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import libcst as cst

from shardlint import ir, messages
from shardlint.suppress import MARK, suppressions
from shardlint.syntax import UnparsableFile, decodable, parse, undecodable
from shardlint.tables import fold

__all__ = ["Lowered", "UnparsableFile", "lower"]


@dataclass(slots=True)
class Lowered:
    """A lowered file: its form, and the libcst node of each number if they were kept."""

    module: ir.Module
    tree: cst.Module
    nodes: list[cst.CSTNode | None] = field(default_factory=list)


def lower(source: bytes, name: str, path: str, is_package: bool = False, keep_nodes: bool = False) -> Lowered:
    """Parse and lower one file. Raises ``UnparsableFile`` for anything that is no Python file."""
    parsed = parse(source, path)
    refused = parsed if isinstance(parsed, SyntaxError) else None
    folded, tables = (source, {}) if isinstance(parsed, SyntaxError) else fold(source, parsed)
    del parsed  # large, where there are tables
    try:
        with _trusted():
            tree = cst.parse_module(folded)
    except cst.ParserSyntaxError as error:
        if refused is not None and refused.lineno:
            column = max(1, refused.offset or 1)
            raise UnparsableFile(path, refused.lineno, column, messages.syntax(refused.msg)) from None
        reason = " ".join(error.message.split())
        text = messages.syntax(reason) if refused is not None else messages.parser_limit()
        raise UnparsableFile(path, error.raw_line, error.raw_column + 1, text) from None
    except (UnicodeDecodeError, SyntaxError, LookupError) as error:
        if decodable(source):
            line = (refused and refused.lineno) or 1
            raise UnparsableFile(path, line, 1, messages.syntax(refused.msg if refused else str(error))) from None
        raise undecodable(path, source, error) from None
    except RecursionError:
        raise UnparsableFile(path, 1, 1, messages.too_deep()) from None
    lowering = _Lowering(keep_nodes, tables)
    try:
        body = lowering.statements(tree.body)
    except RecursionError:
        raise UnparsableFile(path, 1, 1, messages.too_deep()) from None
    except _BadLiteral as error:
        line = _line_of(tree, error.node)
        raise UnparsableFile(path, line, 1, messages.syntax(str(error))) from None
    comments = suppressions(source.decode(tree.encoding)) if MARK in source else ()
    return Lowered(ir.Module(name, path, is_package, body, comments), tree, lowering.nodes)


@contextmanager
def _trusted() -> Iterator[None]:
    """libcst checks every node that is made, those that its own parser makes too: a fifth of the time of a parse."""
    validate = cst.CSTNode.__post_init__
    cst.CSTNode.__post_init__ = lambda self: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        cst.CSTNode.__post_init__ = validate  # type: ignore[method-assign]


class _BadLiteral(Exception):
    def __init__(self, node: cst.CSTNode, reason: str) -> None:
        super().__init__(reason)
        self.node = node


def _line_of(tree: cst.Module, node: cst.CSTNode) -> int:
    from libcst.metadata import MetadataWrapper, PositionProvider

    return MetadataWrapper(tree, unsafe_skip_copy=True).resolve(PositionProvider)[node].start.line


def _text(node: cst.SimpleString) -> Any:
    value, quotes = node.value, 3 if node.value[-3:] in ('"""', "'''") and len(node.value) >= 6 else 1
    if value[0] in "'\"" and "\\" not in value and "\r" not in value:
        return value[quotes:-quotes]
    return _evaluated(node)


def _evaluated(node: cst.CSTNode) -> Any:
    if isinstance(node, cst.Integer) and node.value.isdecimal() and node.value[0] != "0":
        return int(node.value)  # not through the compiler: there are many of them
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return node.evaluated_value  # type: ignore[attr-defined]  # every literal has it
    except (SyntaxError, ValueError, TypeError) as error:
        raise _BadLiteral(node, getattr(error, "msg", None) or str(error)) from None


class _Lowering:
    def __init__(self, keep_nodes: bool, tables: Mapping[str, ir.Expr]) -> None:
        self.keep_nodes = keep_nodes
        self.tables = tables
        self.nodes: list[cst.CSTNode | None] = []
        self.yields = [False]

    def at(self, node: cst.CSTNode) -> int:
        self.nodes.append(node if self.keep_nodes else None)
        return len(self.nodes) - 1

    # --- statements ---------------------------------------------------------------------------------------------

    def statements(self, body: Iterable[cst.CSTNode]) -> tuple[ir.Stmt, ...]:
        found: list[ir.Stmt] = []
        for node in body:
            if isinstance(node, cst.SimpleStatementLine):
                for small in node.body:
                    self.statement(small, found)
            else:
                self.statement(node, found)
        return tuple(found)

    def block(self, suite: cst.BaseSuite) -> tuple[ir.Stmt, ...]:
        if isinstance(suite, cst.IndentedBlock):
            return self.statements(suite.body)
        found: list[ir.Stmt] = []
        for small in suite.body:
            self.statement(small, found)
        return tuple(found)

    def statement(self, node: cst.CSTNode, found: list[ir.Stmt]) -> None:
        handler = _STATEMENTS.get(type(node))
        if handler is not None:
            statement = handler(self, node)
            if statement is not None:
                found.append(statement)

    def function(self, node: cst.FunctionDef) -> ir.Stmt:
        at, name_at = self.at(node), self.at(node.name)
        decorators = tuple(self.expression(d.decorator) for d in node.decorators)
        params = self.params(node.params)
        returns = self.expression(node.returns.annotation) if node.returns else None
        self.yields.append(False)
        body = self.block(node.body)
        generator = self.yields.pop()
        return ir.Function(
            at, node.name.value, params, returns, decorators, body, name_at, node.asynchronous is not None, generator
        )

    def params(self, node: cst.Parameters) -> tuple[ir.Param, ...]:
        found = [self.param(p, "positional-only") for p in node.posonly_params]
        found += [self.param(p, "positional") for p in node.params]
        if isinstance(node.star_arg, cst.Param):
            found.append(self.param(node.star_arg, "*"))
        found += [self.param(p, "keyword-only") for p in node.kwonly_params]
        if node.star_kwarg is not None:
            found.append(self.param(node.star_kwarg, "**"))
        return tuple(found)

    def param(self, node: cst.Param, kind: str) -> ir.Param:
        at = self.at(node.name)
        annotation = self.expression(node.annotation.annotation) if node.annotation else None
        default = self.expression(node.default) if node.default else None
        return ir.Param(at, node.name.value, kind, annotation, default)

    def class_(self, node: cst.ClassDef) -> ir.Stmt:
        at, name_at = self.at(node), self.at(node.name)
        decorators = tuple(self.expression(d.decorator) for d in node.decorators)
        bases = tuple(self.arg(a) for a in (*node.bases, *node.keywords))
        return ir.Class(at, node.name.value, bases, decorators, self.block(node.body), name_at)

    def assign(self, node: cst.Assign) -> ir.Stmt:
        at = self.at(node)
        return ir.Assign(at, tuple(self.expression(t.target) for t in node.targets), self.expression(node.value))

    def ann_assign(self, node: cst.AnnAssign) -> ir.Stmt:
        at = self.at(node)
        target, annotation = self.expression(node.target), self.expression(node.annotation.annotation)
        return ir.AnnAssign(at, target, annotation, self.expression(node.value) if node.value else None)

    def aug_assign(self, node: cst.AugAssign) -> ir.Stmt:
        at = self.at(node)
        op = _OPERATORS[type(node.operator).__name__.removesuffix("Assign")]
        return ir.AugAssign(at, op, self.expression(node.target), self.expression(node.value))

    def expr(self, node: cst.Expr) -> ir.Stmt:
        return ir.ExprStmt(self.at(node), self.expression(node.value))

    def return_(self, node: cst.Return) -> ir.Stmt:
        return ir.Return(self.at(node), self.expression(node.value) if node.value else None)

    def if_(self, node: cst.If) -> ir.Stmt:
        at, test, body = self.at(node), self.expression(node.test), self.block(node.body)
        orelse: tuple[ir.Stmt, ...] = ()
        if isinstance(node.orelse, cst.If):
            orelse = (self.if_(node.orelse),)
        elif node.orelse is not None:
            orelse = self.block(node.orelse.body)
        return ir.If(at, test, body, orelse)

    def for_(self, node: cst.For) -> ir.Stmt:
        at, target, values = self.at(node), self.expression(node.target), self.expression(node.iter)
        return ir.For(at, target, values, self.block(node.body), self.block(node.orelse.body) if node.orelse else ())

    def while_(self, node: cst.While) -> ir.Stmt:
        at, test = self.at(node), self.expression(node.test)
        return ir.While(at, test, self.block(node.body), self.block(node.orelse.body) if node.orelse else ())

    def with_(self, node: cst.With) -> ir.Stmt:
        at = self.at(node)
        items = tuple(
            (self.expression(i.item), self.expression(i.asname.name) if i.asname else None) for i in node.items
        )
        return ir.With(at, items, self.block(node.body))

    def try_(self, node: cst.Try | cst.TryStar) -> ir.Stmt:
        at, body = self.at(node), self.block(node.body)
        handlers: list[tuple[ir.Stmt, ...]] = []
        for handler in node.handlers:
            bound: tuple[ir.Stmt, ...] = ()
            if handler.name is not None and isinstance(handler.name.name, cst.Name):
                target = self.expression(handler.name.name)
                bound = (ir.Assign(-1, (target,), ir.Opaque(-1, "an exception")),)
            handlers.append(bound + self.block(handler.body))
        orelse = self.block(node.orelse.body) if node.orelse else ()
        return ir.Try(at, body, tuple(handlers), orelse, self.block(node.finalbody.body) if node.finalbody else ())

    def match(self, node: cst.Match) -> ir.Stmt:
        at, subject = self.at(node), self.expression(node.subject)
        return ir.Match(at, subject, tuple(self.case(c) for c in node.cases))

    def case(self, node: cst.MatchCase) -> ir.Case:
        at, pattern = self.at(node), self.pattern(node.pattern)
        return ir.Case(at, pattern, self.expression(node.guard) if node.guard else None, self.block(node.body))

    def pattern(self, node: cst.CSTNode) -> ir.Pattern:
        at = self.at(node)
        match node:
            case cst.MatchValue(value=value) | cst.MatchSingleton(value=value):
                return ir.ValuePattern(at, self.expression(value))
            case cst.MatchAs(pattern=pattern, name=name):
                inner = self.pattern(pattern) if pattern is not None else None
                return ir.CapturePattern(at, name.value if name is not None else "", inner)
            case cst.MatchStar(name=name):
                return ir.CapturePattern(at, name.value if name is not None else "", None, True)
            case cst.MatchList(patterns=patterns) | cst.MatchTuple(patterns=patterns):
                parts = [p.value if isinstance(p, cst.MatchSequenceElement) else p for p in patterns]
                return ir.SequencePattern(at, tuple(self.pattern(part) for part in parts))
            case cst.MatchMapping(elements=elements, rest=rest):
                items = tuple((self.expression(e.key), self.pattern(e.pattern)) for e in elements)
                return ir.MappingPattern(at, items, rest.value if rest is not None else "")
            case cst.MatchClass(cls=cls, patterns=patterns, kwds=named):
                return ir.ClassPattern(
                    at, self.expression(cls), tuple(self.pattern(p.value) for p in patterns),
                    tuple((k.key.value, self.pattern(k.pattern)) for k in named),
                )  # fmt: skip
            case cst.MatchOr(patterns=patterns):
                return ir.OrPattern(at, tuple(self.pattern(p.pattern) for p in patterns))
            case _:
                raise TypeError(f"no pattern: {type(node).__name__}")

    def assert_(self, node: cst.Assert) -> ir.Stmt:
        return ir.Assert(self.at(node), self.expression(node.test))

    def raise_(self, node: cst.Raise) -> ir.Stmt:
        return ir.Raise(self.at(node), self.expression(node.exc) if node.exc else None)

    def delete(self, node: cst.Del) -> ir.Stmt:
        at = self.at(node)
        target = node.target
        targets = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else [target]
        return ir.Delete(at, tuple(self.expression(t) for t in targets))

    def import_(self, node: cst.Import) -> ir.Stmt:
        bindings = []
        for alias in node.names:
            dotted = _dotted(alias.name)
            if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
                bindings.append((alias.asname.name.value, dotted))
            else:
                first = dotted.split(".", 1)[0]
                bindings.append((first, first))
        return ir.Import(self.at(node), tuple(bindings))

    def import_from(self, node: cst.ImportFrom) -> ir.Stmt:
        at = self.at(node)
        module = _dotted(node.module) if node.module is not None else ""
        if isinstance(node.names, cst.ImportStar):
            return ir.ImportFrom(at, module, len(node.relative), None)
        names = []
        for alias in node.names:
            name = _dotted(alias.name)
            bound = alias.asname.name if alias.asname is not None else None
            names.append((name, bound.value if isinstance(bound, cst.Name) else name))
        return ir.ImportFrom(at, module, len(node.relative), tuple(names))

    # --- expressions --------------------------------------------------------------------------------------------

    def expression(self, node: cst.CSTNode) -> ir.Expr:
        handler = _EXPRESSIONS.get(type(node))
        return handler(self, node) if handler is not None else self.opaque(node)

    def opaque(self, node: cst.CSTNode) -> ir.Expr:
        at = self.at(node)
        if isinstance(node, cst.Yield):
            self.yields[-1] = True
        parts = [c for c in node.children if isinstance(c, cst.BaseExpression)]
        what = type(node).__name__
        if isinstance(node, cst.Yield) and isinstance(node.value, cst.From):
            parts, what = [node.value.item], "YieldFrom"
        return ir.Opaque(at, what, tuple(self.expression(p) for p in parts))

    def name(self, node: cst.Name) -> ir.Expr:
        at = self.at(node)
        constant = {"None": None, "True": True, "False": False}
        return ir.Const(at, constant[node.value]) if node.value in constant else ir.Name(at, node.value)

    def literal(self, node: cst.Integer | cst.Float | cst.Imaginary) -> ir.Expr:
        return ir.Const(self.at(node), _evaluated(node))

    def string(self, node: cst.SimpleString) -> ir.Expr:
        return ir.Const(self.at(node), _text(node))

    def formatted(self, node: cst.FormattedString) -> ir.Expr:
        at = self.at(node)
        raw = "r" in node.start.lower()
        return ir.Format(at, tuple(self.format_part(part, raw) for part in node.parts))

    def format_part(self, part: cst.BaseFormattedStringContent, raw: bool) -> ir.Expr:
        if isinstance(part, cst.FormattedStringText):
            text = part.value.replace("{{", "{").replace("}}", "}")
            return ir.Const(-1, text) if raw or "\\" not in text else ir.Opaque(-1, "an escape")
        assert isinstance(part, cst.FormattedStringExpression)
        value = self.expression(part.expression)
        if part.format_spec is None and part.conversion is None and part.equal is None:
            return value
        return ir.Opaque(-1, "a format", (value,))

    def ellipsis(self, node: cst.Ellipsis) -> ir.Expr:
        return ir.Const(self.at(node), ...)

    def joined(self, node: cst.ConcatenatedString) -> ir.Expr:
        at = self.at(node)
        # Nested to the right, one level a part: generated tables have thousands.
        parts: list[cst.CSTNode] = []
        rest: cst.CSTNode = node
        while isinstance(rest, cst.ConcatenatedString):
            parts.append(rest.left)
            rest = rest.right
        parts.append(rest)
        values = [_text(p) for p in parts if isinstance(p, cst.SimpleString)]
        if len(values) < len(parts):
            return ir.Format(at, tuple(self.expression(p) for p in parts))
        return ir.Const(at, values[0][:0].join(values))

    def attribute(self, node: cst.Attribute) -> ir.Expr:
        at = self.at(node)
        return ir.Attr(at, self.expression(node.value), node.attr.value)

    def call(self, node: cst.Call) -> ir.Expr:
        at = self.at(node)
        return ir.Call(at, self.expression(node.func), tuple(self.arg(a) for a in node.args))

    def arg(self, node: cst.Arg) -> ir.Arg:
        at = self.at(node)
        return ir.Arg(at, self.expression(node.value), node.keyword.value if node.keyword else None, node.star)

    def subscript(self, node: cst.Subscript) -> ir.Expr:
        at = self.at(node)
        obj = self.expression(node.value)
        plain = len(node.slice) == 1 and not isinstance(node.slice[0].comma, cst.Comma)
        if plain:
            return ir.Subscript(at, obj, self.index(node.slice[0].slice))
        index_at = self.at(node)
        return ir.Subscript(at, obj, ir.Sequence(index_at, "tuple", tuple(self.index(e.slice) for e in node.slice)))

    def index(self, node: cst.BaseSlice) -> ir.Expr:
        if isinstance(node, cst.Index):
            if node.star:
                at = self.at(node)
                return ir.Star(at, self.expression(node.value))
            return self.expression(node.value)
        assert isinstance(node, cst.Slice)
        at = self.at(node)
        lower, upper, step = (self.expression(p) if p else None for p in (node.lower, node.upper, node.step))
        return ir.Slice(at, lower, upper, step)

    def sequence(self, node: cst.Tuple | cst.List | cst.Set) -> ir.Expr:
        at = self.at(node)
        items: list[ir.Expr] = []
        for element in node.elements:
            if isinstance(element, cst.StarredElement):
                star_at = self.at(element)
                items.append(ir.Star(star_at, self.expression(element.value)))
            else:
                items.append(self.expression(element.value))
        only = items[0] if len(items) == 1 else None
        if isinstance(only, ir.Name) and only.id in self.tables:
            return replace(self.tables[only.id], at=at)
        return ir.Sequence(at, type(node).__name__.lower(), tuple(items))

    def dict_(self, node: cst.Dict) -> ir.Expr:
        at = self.at(node)
        items: list[tuple[ir.Expr | None, ir.Expr]] = []
        for element in node.elements:
            key = self.expression(element.key) if isinstance(element, cst.DictElement) else None
            items.append((key, self.expression(element.value)))
        return ir.Dict(at, tuple(items))

    def binary(self, node: cst.BinaryOperation) -> ir.Expr:
        at = self.at(node)
        op = _OPERATORS[type(node.operator).__name__]
        return ir.Binary(at, op, self.expression(node.left), self.expression(node.right))

    def unary(self, node: cst.UnaryOperation) -> ir.Expr:
        return ir.Unary(self.at(node), _UNARY[type(node.operator).__name__], self.expression(node.expression))

    def compare(self, node: cst.Comparison) -> ir.Expr:
        at, left = self.at(node), self.expression(node.left)
        rest = tuple((_COMPARISONS[type(t.operator).__name__], self.expression(t.comparator)) for t in node.comparisons)
        return ir.Compare(at, left, rest)

    def boolean(self, node: cst.BooleanOperation) -> ir.Expr:
        at = self.at(node)
        op = "and" if isinstance(node.operator, cst.And) else "or"
        return ir.Bool(at, op, (self.expression(node.left), self.expression(node.right)))

    def if_exp(self, node: cst.IfExp) -> ir.Expr:
        at = self.at(node)
        return ir.IfExp(at, self.expression(node.test), self.expression(node.body), self.expression(node.orelse))

    def walrus(self, node: cst.NamedExpr) -> ir.Expr:
        at = self.at(node)
        target = node.target.value if isinstance(node.target, cst.Name) else ""
        return ir.Walrus(at, target, self.expression(node.value))

    def lambda_(self, node: cst.Lambda) -> ir.Expr:
        at, params = self.at(node), self.params(node.params)
        self.yields.append(False)
        body = self.expression(node.body)
        self.yields.pop()
        return ir.Lambda(at, params, body)

    def comprehension(self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp) -> ir.Expr:
        at = self.at(node)
        generators: list[ir.Generator] = []
        part: cst.CompFor | None = node.for_in
        while part is not None:
            part_at = self.at(part)
            target, values = self.expression(part.target), self.expression(part.iter)
            conditions = tuple(self.expression(i.test) for i in part.ifs)
            generators.append(ir.Generator(part_at, target, values, conditions))
            part = part.inner_for_in
        kind = {"ListComp": "list", "SetComp": "set", "GeneratorExp": "generator", "DictComp": "dict"}
        key = self.expression(node.key) if isinstance(node, cst.DictComp) else None
        element = self.expression(node.value if isinstance(node, cst.DictComp) else node.elt)
        return ir.Comprehension(at, kind[type(node).__name__], element, tuple(generators), key)


def _dotted(node: cst.CSTNode) -> str:
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""


_OPERATORS = {
    "Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/", "FloorDivide": "//", "Modulo": "%", "Power": "**",
    "MatrixMultiply": "@", "BitAnd": "&", "BitOr": "|", "BitXor": "^", "LeftShift": "<<", "RightShift": ">>",
}  # fmt: skip
_UNARY = {"Minus": "-", "Plus": "+", "BitInvert": "~", "Not": "not"}
_COMPARISONS = {
    "Equal": "==", "NotEqual": "!=", "LessThan": "<", "LessThanEqual": "<=", "GreaterThan": ">",
    "GreaterThanEqual": ">=", "In": "in", "NotIn": "not in", "Is": "is", "IsNot": "is not",
}  # fmt: skip
_Handler = Callable[[_Lowering, Any], Any]
_STATEMENTS: dict[type[cst.CSTNode], _Handler] = {
    cst.FunctionDef: _Lowering.function, cst.ClassDef: _Lowering.class_, cst.Assign: _Lowering.assign,
    cst.AnnAssign: _Lowering.ann_assign, cst.AugAssign: _Lowering.aug_assign, cst.Expr: _Lowering.expr,
    cst.Return: _Lowering.return_, cst.If: _Lowering.if_, cst.For: _Lowering.for_, cst.While: _Lowering.while_,
    cst.With: _Lowering.with_, cst.Try: _Lowering.try_, cst.TryStar: _Lowering.try_, cst.Match: _Lowering.match,
    cst.Assert: _Lowering.assert_, cst.Raise: _Lowering.raise_, cst.Del: _Lowering.delete,
    cst.Import: _Lowering.import_, cst.ImportFrom: _Lowering.import_from,
    cst.Break: lambda s, n: ir.Jump(s.at(n), "break"), cst.Continue: lambda s, n: ir.Jump(s.at(n), "continue"),
    cst.Global: lambda s, n: ir.Declare(s.at(n), "global", tuple(i.name.value for i in n.names)),
    cst.Nonlocal: lambda s, n: ir.Declare(s.at(n), "nonlocal", tuple(i.name.value for i in n.names)),
    # `type X = …` binds X, lazily; its value is an expression like another.
    cst.TypeAlias: lambda s, n: ir.Assign(s.at(n), (s.expression(n.name),), s.expression(n.value)),
}  # fmt: skip
_EXPRESSIONS: dict[type[cst.CSTNode], _Handler] = {
    cst.Name: _Lowering.name, cst.Integer: _Lowering.literal, cst.Float: _Lowering.literal,
    cst.Imaginary: _Lowering.literal, cst.SimpleString: _Lowering.string, cst.Ellipsis: _Lowering.ellipsis,
    cst.ConcatenatedString: _Lowering.joined, cst.FormattedString: _Lowering.formatted,
    cst.Attribute: _Lowering.attribute, cst.Call: _Lowering.call,
    cst.Subscript: _Lowering.subscript, cst.Tuple: _Lowering.sequence, cst.List: _Lowering.sequence,
    cst.Set: _Lowering.sequence, cst.Dict: _Lowering.dict_, cst.BinaryOperation: _Lowering.binary,
    cst.UnaryOperation: _Lowering.unary, cst.Comparison: _Lowering.compare, cst.BooleanOperation: _Lowering.boolean,
    cst.IfExp: _Lowering.if_exp, cst.NamedExpr: _Lowering.walrus, cst.Lambda: _Lowering.lambda_,
    cst.ListComp: _Lowering.comprehension, cst.SetComp: _Lowering.comprehension,
    cst.GeneratorExp: _Lowering.comprehension, cst.DictComp: _Lowering.comprehension,
}  # fmt: skip
