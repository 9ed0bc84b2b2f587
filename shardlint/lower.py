"""Source text to the intermediate form, through libcst.

The tree is walked by hand, in one fixed order, without metadata: each form is numbered as it is made, so lowering the
same text again gives the same numbers. With ``keep_nodes`` the libcst nodes are kept beside the numbers, for whoever
needs positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import libcst as cst

from shardlint import ir, messages
from shardlint.deep import with_room
from shardlint.folding import fold
from shardlint.lower_expressions import OPERATORS, BadLiteral, Expressions
from shardlint.suppress import suppressions_in
from shardlint.syntax import UnparsableFile, decodable, parse, undecodable

__all__ = ["Lowered", "UnparsableFile", "lower"]


@dataclass(slots=True)
class Lowered:
    """A lowered file: its form, and the libcst node of each number if they were kept."""

    module: ir.Module
    tree: cst.Module
    nodes: list[cst.CSTNode | None] = field(default_factory=list)


def lower(
    source: bytes,
    name: str,
    path: str,
    is_package: bool = False,
    keep_nodes: bool = False,
    first: int = 0,
) -> Lowered:
    """Parse and lower one file, or a part of one whose nodes are numbered from ``first``. Raises ``UnparsableFile`` for
    anything that is no Python file."""
    return with_room(lambda: _lower(source, name, path, is_package, keep_nodes, first))


def _lower(
    source: bytes, name: str, path: str, is_package: bool, keep_nodes: bool, first: int
) -> Lowered:
    parsed = parse(source, path)
    refused = parsed if isinstance(parsed, SyntaxError) else None
    folded, tables = (
        (source, {}) if isinstance(parsed, SyntaxError) else fold(source, parsed)
    )
    del parsed  # large, where there are tables
    try:
        with _trusted(refused is None):
            tree = cst.parse_module(folded)
    except cst.ParserSyntaxError as error:
        if refused is not None and refused.lineno:
            column = max(1, refused.offset or 1)
            raise UnparsableFile(
                path, refused.lineno, column, messages.syntax(refused.msg)
            ) from None
        reason = " ".join(error.message.split())
        text = (
            messages.syntax(reason) if refused is not None else messages.parser_limit()
        )
        raise UnparsableFile(path, error.raw_line, error.raw_column + 1, text) from None
    except (
        UnicodeDecodeError,
        SyntaxError,
        LookupError,
        cst.CSTLogicError,  # of forms that libcst parses and then takes for no Python
    ) as error:
        if decodable(source):
            line = (refused and refused.lineno) or 1
            raise UnparsableFile(
                path, line, 1, messages.syntax(refused.msg if refused else str(error))
            ) from None
        raise undecodable(path, source, error) from None
    except RecursionError:
        raise UnparsableFile(path, 1, 1, messages.too_deep()) from None
    lowering = _Lowering(keep_nodes, tables, path.endswith(".pyi"), first)
    try:
        with _trusted(refused is None):
            body = lowering.statements(tree.body)
    except RecursionError:
        raise UnparsableFile(path, 1, 1, messages.too_deep()) from None
    except BadLiteral as error:
        line = _line_of(tree, error.node)
        raise UnparsableFile(path, line, 1, messages.syntax(str(error))) from None
    module = ir.Module(name, path, is_package, body, suppressions_in(source))
    return Lowered(module, tree, lowering.nodes)


@contextmanager
def _trusted(accepted: bool) -> Iterator[None]:
    """libcst checks every node that is made, those that its own parser makes too: a fifth of the time of a parse. Text
    that Python itself has accepted needs no second check."""
    if not accepted:
        yield
        return
    validate = cst.CSTNode.__post_init__
    cst.CSTNode.__post_init__ = lambda self: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        cst.CSTNode.__post_init__ = validate  # type: ignore[method-assign]


def _line_of(tree: cst.Module, node: cst.CSTNode) -> int:
    from libcst.metadata import MetadataWrapper, PositionProvider

    return (
        MetadataWrapper(tree, unsafe_skip_copy=True)
        .resolve(PositionProvider)[node]
        .start.line
    )


class _Lowering(Expressions):
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
        returns = self.annotation(node.returns.annotation) if node.returns else None
        self.yields.append(False)
        body = self.block(node.body)
        generator = self.yields.pop()
        if self.is_stub:
            body = (ir.Return(-1, ir.Opaque(-1, "a stub")),)
        return ir.Function(
            at,
            node.name.value,
            params,
            returns,
            decorators,
            body,
            name_at,
            node.asynchronous is not None,
            generator,
        )

    def class_(self, node: cst.ClassDef) -> ir.Stmt:
        at, name_at = self.at(node), self.at(node.name)
        decorators = tuple(self.expression(d.decorator) for d in node.decorators)
        bases = tuple(self.arg(a) for a in (*node.bases, *node.keywords))
        return ir.Class(
            at, node.name.value, bases, decorators, self.block(node.body), name_at
        )

    def assign(self, node: cst.Assign) -> ir.Stmt:
        at = self.at(node)
        return ir.Assign(
            at,
            tuple(self.expression(t.target) for t in node.targets),
            self.expression(node.value),
        )

    def ann_assign(self, node: cst.AnnAssign) -> ir.Stmt:
        at = self.at(node)
        target, annotation = (
            self.expression(node.target),
            self.annotation(node.annotation.annotation),
        )
        return ir.AnnAssign(
            at, target, annotation, self.expression(node.value) if node.value else None
        )

    def aug_assign(self, node: cst.AugAssign) -> ir.Stmt:
        at = self.at(node)
        op = OPERATORS[type(node.operator).__name__.removesuffix("Assign")]
        return ir.AugAssign(
            at, op, self.expression(node.target), self.expression(node.value)
        )

    def expr(self, node: cst.Expr) -> ir.Stmt:
        at = self.at(node)
        return ir.ExprStmt(
            at, ir.Opaque(at, "a stub") if self.is_stub else self.expression(node.value)
        )

    def return_(self, node: cst.Return) -> ir.Stmt:
        return ir.Return(
            self.at(node), self.expression(node.value) if node.value else None
        )

    def if_(self, node: cst.If) -> ir.Stmt:
        at, test, body = (
            self.at(node),
            self.expression(node.test),
            self.block(node.body),
        )
        orelse: tuple[ir.Stmt, ...] = ()
        if isinstance(node.orelse, cst.If):
            orelse = (self.if_(node.orelse),)
        elif node.orelse is not None:
            orelse = self.block(node.orelse.body)
        return ir.If(at, test, body, orelse)

    def for_(self, node: cst.For) -> ir.Stmt:
        at, target, values = (
            self.at(node),
            self.expression(node.target),
            self.expression(node.iter),
        )
        return ir.For(
            at,
            target,
            values,
            self.block(node.body),
            self.block(node.orelse.body) if node.orelse else (),
        )

    def while_(self, node: cst.While) -> ir.Stmt:
        at, test = self.at(node), self.expression(node.test)
        return ir.While(
            at,
            test,
            self.block(node.body),
            self.block(node.orelse.body) if node.orelse else (),
        )

    def with_(self, node: cst.With) -> ir.Stmt:
        at = self.at(node)
        items = tuple(
            (
                self.expression(i.item),
                self.expression(i.asname.name) if i.asname else None,
            )
            for i in node.items
        )
        return ir.With(at, items, self.block(node.body))

    def try_(self, node: cst.Try | cst.TryStar) -> ir.Stmt:
        at, body = self.at(node), self.block(node.body)
        caught: list[ir.Expr | None] = []
        handlers: list[tuple[ir.Stmt, ...]] = []
        for handler in node.handlers:
            caught.append(
                self.expression(handler.type) if handler.type is not None else None
            )
            bound: tuple[ir.Stmt, ...] = ()
            if handler.name is not None and isinstance(handler.name.name, cst.Name):
                target = self.expression(handler.name.name)
                bound = (ir.Assign(-1, (target,), ir.Opaque(-1, "an exception")),)
            handlers.append(bound + self.block(handler.body))
        orelse = self.block(node.orelse.body) if node.orelse else ()
        final = self.block(node.finalbody.body) if node.finalbody else ()
        return ir.Try(at, body, tuple(caught), tuple(handlers), orelse, final)

    def match(self, node: cst.Match) -> ir.Stmt:
        at, subject = self.at(node), self.expression(node.subject)
        return ir.Match(at, subject, tuple(self.case(c) for c in node.cases))

    def case(self, node: cst.MatchCase) -> ir.Case:
        at, pattern = self.at(node), self.pattern(node.pattern)
        return ir.Case(
            at,
            pattern,
            self.expression(node.guard) if node.guard else None,
            self.block(node.body),
        )

    def pattern(self, node: cst.CSTNode) -> ir.Pattern:
        at = self.at(node)
        match node:
            case cst.MatchValue(value=value) | cst.MatchSingleton(value=value):
                return ir.ValuePattern(at, self.expression(value))
            case cst.MatchAs(pattern=pattern, name=name):
                inner = self.pattern(pattern) if pattern is not None else None
                return ir.CapturePattern(
                    at, name.value if name is not None else "", inner
                )
            case cst.MatchStar(name=name):
                return ir.CapturePattern(
                    at, name.value if name is not None else "", None, True
                )
            case cst.MatchList(patterns=patterns) | cst.MatchTuple(patterns=patterns):
                parts = [
                    p.value if isinstance(p, cst.MatchSequenceElement) else p
                    for p in patterns
                ]
                return ir.SequencePattern(
                    at, tuple(self.pattern(part) for part in parts)
                )
            case cst.MatchMapping(elements=elements, rest=rest):
                items = tuple(
                    (self.expression(e.key), self.pattern(e.pattern)) for e in elements
                )
                return ir.MappingPattern(
                    at, items, rest.value if rest is not None else ""
                )
            case cst.MatchClass(cls=cls, patterns=patterns, kwds=named):
                return ir.ClassPattern(
                    at,
                    self.expression(cls),
                    tuple(self.pattern(p.value) for p in patterns),
                    tuple((k.key.value, self.pattern(k.pattern)) for k in named),
                )
            case cst.MatchOr(patterns=patterns):
                return ir.OrPattern(
                    at, tuple(self.pattern(p.pattern) for p in patterns)
                )
            case _:
                raise TypeError(f"no pattern: {type(node).__name__}")

    def assert_(self, node: cst.Assert) -> ir.Stmt:
        return ir.Assert(self.at(node), self.expression(node.test))

    def raise_(self, node: cst.Raise) -> ir.Stmt:
        return ir.Raise(self.at(node), self.expression(node.exc) if node.exc else None)

    def delete(self, node: cst.Del) -> ir.Stmt:
        at = self.at(node)
        target = node.target
        targets = (
            [e.value for e in target.elements]
            if isinstance(target, cst.Tuple)
            else [target]
        )
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


def _dotted(node: cst.CSTNode) -> str:
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""


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
