"""Lowering of expressions: libcst's nodes to those of ``shardlint.ir``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from sys import intern
from typing import Any

import libcst as cst

from shardlint import ir


class BadLiteral(Exception):
    def __init__(self, node: cst.CSTNode, reason: str) -> None:
        super().__init__(reason)
        self.node = node


def _text(node: cst.SimpleString) -> Any:
    value, quotes = (
        node.value,
        3 if node.value[-3:] in ('"""', "'''") and len(node.value) >= 6 else 1,
    )
    if value[0] in "'\"" and "\\" not in value and "\r" not in value:
        return intern(value[quotes:-quotes])
    return _evaluated(node)


def _evaluated(node: cst.CSTNode) -> Any:
    if (
        isinstance(node, cst.Integer)
        and node.value.isdecimal()
        and (node.value[0] != "0" or node.value == "0")
    ):
        return int(node.value)  # not through the compiler: there are many of them
    if isinstance(node, cst.Float):
        return float(node.value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return node.evaluated_value  # type: ignore[attr-defined]  # every literal has it
    except (SyntaxError, ValueError, TypeError) as error:
        raise BadLiteral(node, getattr(error, "msg", None) or str(error)) from None


_NUMBERS: list[int] = []


def shared_number(number: int) -> int:
    """The same object for the same number: a project has millions of nodes, with the same numbers in each file. Their
    names are interned for the same reason; together that is a third of what the forms take."""
    while len(_NUMBERS) <= number:
        _NUMBERS.append(len(_NUMBERS))
    return _NUMBERS[number]


class Expressions:
    """Numbers the nodes that it lowers, in order, from ``first``. What functions of a stub return is not known."""

    def __init__(
        self,
        keep_nodes: bool,
        tables: Mapping[str, ir.Expr],
        is_stub: bool = False,
        first: int = 0,
    ) -> None:
        self.keep_nodes = keep_nodes
        self.first = first
        self.is_stub = is_stub
        self.tables = tables
        self.nodes: list[cst.CSTNode | None] = []
        self.yields = [False]
        # what is in quotes stands where these are
        self.quoted: cst.SimpleString | None = None

    def at(self, node: cst.CSTNode) -> int:
        self.nodes.append((self.quoted or node) if self.keep_nodes else None)
        if self.first:
            return self.first + len(self.nodes) - 1
        return shared_number(len(self.nodes) - 1)

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
        annotation = (
            self.annotation(node.annotation.annotation) if node.annotation else None
        )
        default = self.expression(node.default) if node.default else None
        return ir.Param(at, intern(node.name.value), kind, annotation, default)

    def annotation(self, node: cst.BaseExpression) -> ir.Expr:
        """An annotation; of one in quotes what is in them, if that is Python."""
        if not isinstance(node, cst.SimpleString):
            return self.expression(node)
        text = _text(node)
        if not isinstance(text, str) or ("[" not in text and "|" not in text):
            return self.string(node)
        try:
            quoted = cst.parse_expression(text.strip())
        except cst.ParserSyntaxError:
            return self.string(node)
        self.quoted = node
        try:
            return self.expression(quoted)
        finally:
            self.quoted = None

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
        if node.value in self.tables:
            return replace(self.tables[node.value], at=at)
        constant = {"None": None, "True": True, "False": False}
        return (
            ir.Const(at, constant[node.value])
            if node.value in constant
            else ir.Name(at, intern(node.value))
        )

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
            return (
                ir.Const(-1, text)
                if raw or "\\" not in text
                else ir.Opaque(-1, "an escape")
            )
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
        return ir.Attr(at, self.expression(node.value), intern(node.attr.value))

    def call(self, node: cst.Call) -> ir.Expr:
        at = self.at(node)
        return ir.Call(
            at, self.expression(node.func), tuple(self.arg(a) for a in node.args)
        )

    def arg(self, node: cst.Arg) -> ir.Arg:
        at = self.at(node)
        return ir.Arg(
            at,
            self.expression(node.value),
            intern(node.keyword.value) if node.keyword else None,
            node.star,
        )

    def subscript(self, node: cst.Subscript) -> ir.Expr:
        at = self.at(node)
        obj = self.expression(node.value)
        plain = len(node.slice) == 1 and not isinstance(node.slice[0].comma, cst.Comma)
        if plain:
            return ir.Subscript(at, obj, self.index(node.slice[0].slice))
        index_at = self.at(node)
        return ir.Subscript(
            at,
            obj,
            ir.Sequence(
                index_at, "tuple", tuple(self.index(e.slice) for e in node.slice)
            ),
        )

    def index(self, node: cst.BaseSlice) -> ir.Expr:
        if isinstance(node, cst.Index):
            if node.star:
                at = self.at(node)
                return ir.Star(at, self.expression(node.value))
            return self.expression(node.value)
        assert isinstance(node, cst.Slice)
        at = self.at(node)
        lower, upper, step = (
            self.expression(p) if p else None
            for p in (node.lower, node.upper, node.step)
        )
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
        only = node.elements[0].value if len(items) == 1 else None
        if isinstance(only, cst.Name) and only.value in self.tables:
            return replace(self.tables[only.value], at=at)
        return ir.Sequence(at, intern(type(node).__name__.lower()), tuple(items))

    def dict_(self, node: cst.Dict) -> ir.Expr:
        at = self.at(node)
        items: list[tuple[ir.Expr | None, ir.Expr]] = []
        for element in node.elements:
            key = (
                self.expression(element.key)
                if isinstance(element, cst.DictElement)
                else None
            )
            items.append((key, self.expression(element.value)))
        return ir.Dict(at, tuple(items))

    def binary(self, node: cst.BinaryOperation) -> ir.Expr:
        at = self.at(node)
        op = OPERATORS[type(node.operator).__name__]
        return ir.Binary(
            at, op, self.expression(node.left), self.expression(node.right)
        )

    def unary(self, node: cst.UnaryOperation) -> ir.Expr:
        return ir.Unary(
            self.at(node),
            _UNARY[type(node.operator).__name__],
            self.expression(node.expression),
        )

    def compare(self, node: cst.Comparison) -> ir.Expr:
        at, left = self.at(node), self.expression(node.left)
        rest = tuple(
            (_COMPARISONS[type(t.operator).__name__], self.expression(t.comparator))
            for t in node.comparisons
        )
        return ir.Compare(at, left, rest)

    def boolean(self, node: cst.BooleanOperation) -> ir.Expr:
        at = self.at(node)
        op = "and" if isinstance(node.operator, cst.And) else "or"
        return ir.Bool(
            at, op, (self.expression(node.left), self.expression(node.right))
        )

    def if_exp(self, node: cst.IfExp) -> ir.Expr:
        at = self.at(node)
        return ir.IfExp(
            at,
            self.expression(node.test),
            self.expression(node.body),
            self.expression(node.orelse),
        )

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

    def comprehension(
        self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp
    ) -> ir.Expr:
        at = self.at(node)
        generators: list[ir.Generator] = []
        part: cst.CompFor | None = node.for_in
        while part is not None:
            part_at = self.at(part)
            target, values = self.expression(part.target), self.expression(part.iter)
            conditions = tuple(self.expression(i.test) for i in part.ifs)
            generators.append(ir.Generator(part_at, target, values, conditions))
            part = part.inner_for_in
        kind = {
            "ListComp": "list",
            "SetComp": "set",
            "GeneratorExp": "generator",
            "DictComp": "dict",
        }
        key = self.expression(node.key) if isinstance(node, cst.DictComp) else None
        element = self.expression(
            node.value if isinstance(node, cst.DictComp) else node.elt
        )
        return ir.Comprehension(
            at, kind[type(node).__name__], element, tuple(generators), key
        )


OPERATORS = {
    "Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/", "FloorDivide": "//", "Modulo": "%", "Power": "**",
    "MatrixMultiply": "@", "BitAnd": "&", "BitOr": "|", "BitXor": "^", "LeftShift": "<<", "RightShift": ">>",
}  # fmt: skip
_UNARY = {"Minus": "-", "Plus": "+", "BitInvert": "~", "Not": "not"}
_COMPARISONS = {
    "Equal": "==", "NotEqual": "!=", "LessThan": "<", "LessThanEqual": "<=", "GreaterThan": ">",
    "GreaterThanEqual": ">=", "In": "in", "NotIn": "not in", "Is": "is", "IsNot": "is not",
}  # fmt: skip
_Handler = Callable[[Expressions, Any], Any]
_EXPRESSIONS: dict[type[cst.CSTNode], _Handler] = {
    cst.Name: Expressions.name, cst.Integer: Expressions.literal, cst.Float: Expressions.literal,
    cst.Imaginary: Expressions.literal, cst.SimpleString: Expressions.string, cst.Ellipsis: Expressions.ellipsis,
    cst.ConcatenatedString: Expressions.joined, cst.FormattedString: Expressions.formatted,
    cst.Attribute: Expressions.attribute, cst.Call: Expressions.call,
    cst.Subscript: Expressions.subscript, cst.Tuple: Expressions.sequence, cst.List: Expressions.sequence,
    cst.Set: Expressions.sequence, cst.Dict: Expressions.dict_, cst.BinaryOperation: Expressions.binary,
    cst.UnaryOperation: Expressions.unary, cst.Comparison: Expressions.compare,
    cst.BooleanOperation: Expressions.boolean,
    cst.IfExp: Expressions.if_exp, cst.NamedExpr: Expressions.walrus, cst.Lambda: Expressions.lambda_,
    cst.ListComp: Expressions.comprehension, cst.SetComp: Expressions.comprehension,
    cst.GeneratorExp: Expressions.comprehension, cst.DictComp: Expressions.comprehension,
}  # fmt: skip
