"""Is a file Python at all? By the running interpreter's own parser, without libcst."""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections.abc import Mapping

from shardlint import messages
from shardlint.deep import again_with_room

# libcst's parser recurses without a bound and ends the process on a few thousand brackets; Python's own refuses
# more than 200, and other nesting before libcst is in danger.
_TOO_DEEP = (
    "too many nested parentheses",
    "too many statically nested blocks",
    "too many levels of indentation",
)

#: The symbols of Python's operators, by their nodes.
OPERATORS: Mapping[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
#: What a template string is called, which is followed no further.
TEMPLATE = "TemplatedString"


class UnparsableFile(Exception):
    """Text that is no Python. ``line`` and ``column`` are 1-based."""

    def __init__(self, path: str, line: int, column: int, message: str) -> None:
        super().__init__(f"{path}:{line}:{column}: {message}")
        self.path = path
        self.line = line
        self.column = column
        self.message = message

    def __reduce__(self) -> tuple[type[UnparsableFile], tuple[str, int, int, str]]:
        # Exceptions travel between processes by their args, which are one text here.
        return type(self), (self.path, self.line, self.column, self.message)


def check_syntax(source: bytes, path: str) -> SyntaxError | None:
    """What the running interpreter's grammar has against this text, if anything: see ``parse``."""
    found = parse(source, path)
    return None if isinstance(found, ast.Module) else found


def parse(source: bytes, path: str) -> ast.Module | SyntaxError:
    """The running interpreter's tree of this text, or what its grammar has against it; a newer one may still accept it.

    Raises:
        UnparsableFile: bytes that cannot be decoded, or nesting that no parser accepts.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return again_with_room(lambda: ast.parse(source))
    except (RecursionError, MemoryError):
        raise UnparsableFile(path, 1, 1, messages.too_deep()) from None
    except UnicodeDecodeError as error:
        raise undecodable(path, source, error) from None
    except (SyntaxError, ValueError) as error:
        if isinstance(error, SyntaxError) and (error.msg or "").startswith(_TOO_DEEP):
            raise UnparsableFile(
                path, error.lineno or 1, 1, messages.too_deep()
            ) from None
        if _brackets(source) > 200:
            raise UnparsableFile(path, 1, 1, messages.too_deep()) from None
        return error if isinstance(error, SyntaxError) else SyntaxError(str(error))


def quoted_expression(text: str) -> ast.expr | None:
    """The annotation that a string holds; None where it is another string, or too simple to be looked at."""
    if "[" not in text and "|" not in text:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None


def decodable(source: bytes) -> bool:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        source.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError):
        return False
    return True


def undecodable(path: str, source: bytes, error: Exception) -> UnparsableFile:
    if isinstance(error, SyntaxError):
        try:
            source.decode("utf-8")
        except UnicodeDecodeError as precise:
            error = precise
    if isinstance(error, UnicodeDecodeError):
        start = source.rfind(b"\n", 0, error.start) + 1
        column = len(source[start : error.start].decode("utf-8", "replace")) + 1
        reason = f"byte 0x{source[error.start]:02x} is not {error.encoding}"
        return UnparsableFile(
            path,
            source.count(b"\n", 0, error.start) + 1,
            column,
            messages.decode(reason),
        )
    return UnparsableFile(path, 1, 1, messages.decode(str(error)))


def _brackets(source: bytes) -> int:
    """The deepest nesting of brackets, strings and comments not told apart."""
    depth = deepest = 0
    for byte in source:
        if byte in b"([{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b")]}":
            depth -= 1
    return deepest
