"""Shape strings to syntax trees, in our own dialect, in jaxtyping's and in kauldron's.

shape   := dim*  [pending]                 separated by spaces
dim     := size ('/' axis)*
size    := expr | '_' | '_'NAME | '...' | '*'NAME | '#'expr
expr    := NAME/INT with + - * // % and parentheses, without spaces; a sign binds as in Python
pending := '{U:' axis (',' axis)* '}'
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from shardtypes.lang.errors import ShapeSyntaxError
from shardtypes.lang.size import Size
from shardtypes.lang.syntax import Dialect, Dim, Shape, Span

_WORD = re.compile(r"\w+")
_PENDING = re.compile(r"\{U:([^{}]*)\}\Z")
_MAX_LENGTH = 10_000  # no shape is that long; bounds the work on garbage
_MAX_DEPTH = 50


def parse(text: str | bytes, dialect: Dialect = "shardtypes") -> Shape:
    """Read a shape string. Raises ``ShapeSyntaxError`` and nothing else, for any text. Results are cached."""
    return _parse(text, dialect)


@lru_cache(maxsize=4096)
def _parse(text: str | bytes, dialect: Dialect) -> Shape:
    if isinstance(text, bytes):
        text = _decode(text)
    if len(text) > _MAX_LENGTH:
        raise ShapeSyntaxError(
            f"more than {_MAX_LENGTH} characters", text[:40] + "…", _MAX_LENGTH
        )
    if dialect == "shardtypes":
        return _Parser(text).shape()
    return _parse_jaxtyping(text, dialect)


def _decode(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        shown = text.decode(errors="replace")
        raise ShapeSyntaxError("bytes that are no UTF-8", shown, error.start) from None


class _Parser:
    """A cursor over the text. ``end`` bounds the token that is being read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.end = len(text)
        self.depth = 0

    def error(
        self, message: str, at: int | None = None, hint: str | None = None
    ) -> ShapeSyntaxError:
        return ShapeSyntaxError(message, self.text, self.at if at is None else at, hint)

    def peek(self, symbol: str) -> bool:
        return self.text.startswith(symbol, self.at, self.end)

    def accept(self, symbol: str) -> bool:
        if self.peek(symbol):
            self.at += len(symbol)
            return True
        return False

    # --- shapes -------------------------------------------------------------------------------------------------

    def shape(self) -> Shape:
        pending, pending_spans, stop = self.pending()
        dims: list[Dim] = []
        for match in re.finditer(r"\S+", self.text[:stop]):
            self.at, self.end = match.span()
            dims.append(self.dim())
        second = [d for d in dims if d.kind == "variadic"][1:]
        if second:
            raise self.error(
                "a second dimension that matches any number of dimensions",
                second[0].span.start,
            )
        return Shape(tuple(dims), pending, self.text, "shardtypes", pending_spans)

    def pending(self) -> tuple[tuple[str, ...], tuple[Span, ...], int]:
        start = self.text.find("{")
        if start < 0:
            return (), (), len(self.text)
        stripped = self.text.rstrip()
        match = _PENDING.match(stripped, start)
        if match is None:
            raise self.error(
                "'{' that opens no pending sums",
                start,
                "write them last, as {U:axis} or {U:a,b}",
            )
        names: list[str] = []
        spans: list[Span] = []
        at = match.start(1)
        for part in match.group(1).split(","):
            name = part.strip()
            column = at + (len(part) - len(part.lstrip()))
            if not name.isidentifier():
                raise self.error("a mesh axis name was expected", column)
            names.append(name)
            spans.append(Span(column, column + len(name)))
            at += len(part) + 1
        return tuple(names), tuple(spans), start

    def dim(self) -> Dim:
        start = self.at
        kind, size, name = self.size()
        axes: list[str] = []
        spans: list[Span] = []
        while self.at < self.end:
            if not self.accept("/"):
                raise self.unexpected()
            at = self.at
            match = _WORD.match(self.text, at, self.end)
            if match is None or not match.group().isidentifier():
                raise self.error("a mesh axis name was expected after '/'")
            self.at = match.end()
            axes.append(match.group())
            spans.append(Span(at, self.at))
        if axes and kind == "variadic":
            hint = "name the dimension that is sharded"
            raise self.error(
                "any number of dimensions cannot be sharded over one axis",
                spans[0].start,
                hint,
            )
        return Dim(kind, size, name, tuple(axes), Span(start, self.at), tuple(spans))  # type: ignore[arg-type]

    def size(self) -> tuple[str, Size | None, str | None]:
        if self.accept("..."):
            return "variadic", None, None
        if self.accept("*"):
            return "variadic", None, self.name("a name was expected after '*'")
        if self.accept("#"):
            size = self.possible_size()
            return "broadcast", size, size.symbol_name
        if self.peek("_"):
            name = self.name("a name was expected")
            if self.at < self.end and not (self.peek("/") and not self.peek("//")):
                raise self.error(
                    "an anonymous size cannot be computed with",
                    hint="give it a name without '_'",
                )
            return "anonymous", None, None if name == "_" else name
        size = self.possible_size()
        return "size", size, size.symbol_name

    def possible_size(self) -> Size:
        start = self.at
        size = self.expression()
        if (-size - 1).is_nonnegative:
            raise self.error("a size that is always negative", start)
        return size

    def name(self, message: str) -> str:
        match = _WORD.match(self.text, self.at, self.end)
        if match is None or not match.group().isidentifier():
            raise self.error(message)
        self.at = match.end()
        return match.group()

    def unexpected(self) -> ShapeSyntaxError:
        character = self.text[self.at]
        hint = {
            ",": "dimensions are separated by spaces",
            "[": "write the shape without brackets",
            "(": "write the shape without parentheses around it",
            "@": "write the mesh axis after '/'",
            "=": "write the size or the name alone",
        }.get(character)
        return self.error(f"unexpected {character!r}", hint=hint)

    # --- expressions --------------------------------------------------------------------------------------------

    def expression(self) -> Size:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.error(f"more than {_MAX_DEPTH} nested parentheses")
        value = self.term()
        while self.at < self.end and self.text[self.at] in "+-":
            operator = self.text[self.at]
            self.at += 1
            if operator == "+":
                value = value + self.term()
            else:
                value = value - self.term()
        self.depth -= 1
        return value

    def term(self) -> Size:
        value = self.factor()
        while True:
            at = self.at
            if self.accept("*"):
                value = self.bounded(value * self.factor(), at)
            elif self.accept("//"):
                value = self.divided("//", value, self.factor(), at)
            elif self.accept("%"):
                value = self.divided("%", value, self.factor(), at)
            else:
                return value

    def divided(self, operator: str, value: Size, divisor: Size, at: int) -> Size:
        if divisor == 0:
            raise self.error("division by zero", at)
        return self.bounded(
            value // divisor if operator == "//" else value % divisor, at
        )

    def bounded(self, value: Size, at: int) -> Size:
        if (
            value.is_opaque
            or len(value.terms) > 200
            or any(abs(c) > 10**30 for _, c in value.terms)
        ):
            raise self.error("an expression too large for a size", at)
        return value

    def factor(self) -> Size:
        negative = False
        while self.accept("-"):
            negative = not negative
        if negative:
            return -self.operand()
        return self.operand()

    def operand(self) -> Size:
        if self.accept("("):
            value = self.expression()
            if self.peek("/") and not self.peek("//"):
                raise self.error(
                    "sharding inside parentheses",
                    hint="write '/axis' after the closing parenthesis",
                )
            if not self.accept(")"):
                raise self.error("')' was expected")
            return value
        match = _WORD.match(self.text, self.at, self.end)
        if match is None:
            if self.at < self.end:
                raise self.unexpected()
            raise self.error("a size was expected")
        word = match.group()
        if word.isidentifier():
            if word.startswith("_"):
                raise self.error(
                    "an anonymous size cannot be computed with",
                    hint="give it a name without '_'",
                )
            self.at = match.end()
            return Size.symbol(word)
        if not (word.isascii() and word.isdigit()):
            raise self.error("neither a name nor an integer")
        if len(word) > 18:
            raise self.error("an integer too large for a size")
        self.at = match.end()
        return Size.const(int(word))


# --- jaxtyping -------------------------------------------------------------------------------------------------


def _parse_jaxtyping(text: str, dialect: Dialect) -> Shape:
    """jaxtyping's dialect: ``Float[Array, 'b d']``. What only running it can tell becomes an anonymous size."""
    read = _jaxtyping_dim if dialect == "jaxtyping" else _kauldron_dim
    dims = tuple(
        read(text, match.start(), match.group()) for match in re.finditer(r"\S+", text)
    )
    second = [d for d in dims if d.kind == "variadic"][1:]
    if second:
        raise ShapeSyntaxError(
            "a second dimension that matches any number of dimensions",
            text,
            second[0].span.start,
        )
    return Shape(dims, (), text, dialect)


def _anonymous(span: Span) -> Dim:
    return Dim("anonymous", None, None, (), span, ())


def _jaxtyping_dim(text: str, start: int, token: str) -> Dim:
    span = Span(start, start + len(token))
    if token == "...":
        return Dim("variadic", None, None, (), span, ())
    flags, body = _jaxtyping_flags(token)
    offset = start + len(token) - len(body)
    if "*" in flags:
        if not body.isidentifier() and body:
            raise ShapeSyntaxError("a name was expected after '*'", text, offset)
        plain = body and not set(flags) & set("#_?")
        return Dim("variadic", None, body if plain else None, (), span, ())
    if "_" in flags and (not body or body.isidentifier() or body.isdigit()):
        return _anonymous(span)
    if "?" in flags:
        return _anonymous(span)
    if not body:  # a name without a letter, for jaxtyping
        return _anonymous(span)
    slash = re.search(r"(?<!/)/(?=[^\W\d])", body)
    if slash is not None and "{" not in body:
        hint = "jaxtyping reads '/' as a division and fails at run time: annotate with shardtypes for a sharding"
        raise ShapeSyntaxError(
            "a mesh axis in a jaxtyping shape", text, offset + slash.start(), hint
        )
    parser = _Parser(text)
    parser.at, parser.end = offset, span.end
    try:
        size: Size | None = parser.expression()
        if parser.at != parser.end:
            size = None
    except ShapeSyntaxError:
        size = None
    if size is None:
        _require_python(text, offset, body)
        return _anonymous(span)
    return Dim(
        "broadcast" if "#" in flags else "size", size, size.symbol_name, (), span, ()
    )


def _kauldron_dim(text: str, start: int, token: str) -> Dim:
    """``+d`` is one dimension or more, and ``{…}`` is replaced by a text that may be several."""
    if token.startswith("+") or "{" in token:
        return Dim("variadic", None, None, (), Span(start, start + len(token)), ())
    return _jaxtyping_dim(text, start, token)


def _jaxtyping_flags(token: str) -> tuple[str, str]:
    """The signs in front of a dimension, and the rest. ``rows=`` is documentation, before or after them."""
    flags = ""
    while token:
        if token[0] in "#*_?":
            flags += token[0]
            token = token[1:]
        elif token.count("=") == 1:
            token = token.partition("=")[2]
        else:
            break
    return flags, token


def _require_python(text: str, offset: int, body: str) -> None:
    """jaxtyping evaluates any Python expression, and f-string fields in braces."""
    source = re.sub(r"\{[^{}]*\}", "x", body)
    try:
        ast.parse(source, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        hint = "dimensions are separated by spaces" if "," in body else None
        raise ShapeSyntaxError(
            "neither a size nor an expression", text, offset, hint
        ) from None
