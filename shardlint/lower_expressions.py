"""Lowering of expressions: libcst's nodes to those of ``shardlint.ir``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from sys import intern
from typing import Any

import libcst as cst

from shardlint import ir
from shardlint.syntax import TEMPLATE, quoted_expression


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


def _strings(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The strings that stand one after the other."""
    # Nested to the right, one level a part: generated tables have thousands.
    parts: list[cst.CSTNode] = []
    while isinstance(node, cst.ConcatenatedString):
        parts.append(node.left)
        node = node.right
    return [*parts, node]


def _joined_text(node: cst.CSTNode) -> Any:
    """The value of strings that stand one after the other; None where one is an f-string, or there is none."""
    texts = []
    for one in _strings(node):
        if not isinstance(one, cst.SimpleString):
            return None
        texts.append(_text(one))
    return texts[0][:0].join(texts)


def _append_text(parts: list[ir.Expr], text: str) -> None:
    last = parts[-1] if parts else None
    if isinstance(last, ir.Const) and last.at == -1:
        parts[-1] = ir.Const(-1, f"{last.value}{text}")
    elif text:
        parts.append(ir.Const(-1, text))


def _format_text(node: cst.FormattedString, part: cst.FormattedStringText) -> str:
    """The value of text in an f-string, which Python evaluates as in a plain one."""
    text = part.value.replace("{{", "{").replace("}}", "}")
    if "\\" not in text or "r" in node.prefix.lower():
        return text.replace("\r\n", "\n").replace("\r", "\n")
    # The space keeps a backslash, or one of three quotes, from what ends the string.
    value: str = _evaluated(cst.SimpleString(f"{node.quote}{text} {node.quote}"))
    return value[:-1]


def _shown_expression(part: cst.FormattedStringExpression) -> str:
    """The text that ``{x = }`` stands for beside the value."""
    assert part.equal is not None
    code = cst.Module([]).code_for_node
    shown = (
        part.whitespace_before_expression,
        part.expression,
        part.whitespace_after_expression,
        part.equal,
    )
    return "".join(map(code, shown))


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
        self.quoted: cst.CSTNode | None = None

    def at(self, node: cst.CSTNode) -> int:
        self.nodes.append((self.quoted or node) if self.keep_nodes else None)
        if self.first:
            return self.first + len(self.nodes) - 1
        return ir.shared_number(len(self.nodes) - 1)

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
        text = _joined_text(node)
        if not isinstance(text, str) or quoted_expression(text) is None:
            return self.expression(node)
        try:
            quoted = cst.parse_expression(text.strip())
        except cst.ParserSyntaxError:
            return self.expression(node)
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

    def formatted(self, node: cst.FormattedString | cst.ConcatenatedString) -> ir.Expr:
        """An f-string, or strings one after the other of which some are: the texts between two expressions are one."""
        at = self.at(node)
        parts: list[ir.Expr] = []
        for one in _strings(node):
            if isinstance(one, cst.SimpleString):
                _append_text(parts, _text(one))
                continue
            assert isinstance(one, cst.FormattedString)
            for part in one.parts:
                self.format_part(one, part, parts)
        return ir.Format(at, tuple(parts))

    def format_part(
        self,
        node: cst.FormattedString,
        part: cst.BaseFormattedStringContent,
        parts: list[ir.Expr],
    ) -> None:
        if isinstance(part, cst.FormattedStringText):
            _append_text(parts, _format_text(node, part))
            return
        assert isinstance(part, cst.FormattedStringExpression)
        if part.equal is not None:
            _append_text(parts, _shown_expression(part))
        value = self.expression(part.expression)
        is_plain = part.format_spec is None and part.conversion is None
        if not is_plain or part.equal is not None:
            value = ir.Opaque(-1, "a format", (value,))
        parts.append(value)

    def ellipsis(self, node: cst.Ellipsis) -> ir.Expr:
        return ir.Const(self.at(node), ...)

    def joined(self, node: cst.ConcatenatedString) -> ir.Expr:
        text = _joined_text(node)
        if text is not None:
            return ir.Const(self.at(node), text)
        kinds = {type(one) for one in _strings(node)}
        if kinds <= {cst.SimpleString, cst.FormattedString}:
            return self.formatted(node)
        return ir.Opaque(self.at(node), TEMPLATE)

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
        first = node.slice[0]
        is_star = isinstance(first.slice, cst.Index) and bool(first.slice.star)
        has_comma = isinstance(first.comma, cst.Comma)
        if len(node.slice) == 1 and not has_comma and not is_star:
            return ir.Subscript(at, obj, self.index(first.slice))
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
