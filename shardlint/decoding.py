"""The text of a Python file as Python reads it: its declared encoding, its byte order mark, its lines."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator

#: What ends a line of Python; ``str.splitlines`` also splits at form feeds and at characters of other scripts.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def encoding_of(source: bytes) -> str:
    """The encoding by byte order mark, by declaration, else UTF-8.

    Raises:
        SyntaxError: an encoding that Python does not know, or a declaration that contradicts the byte order mark.
    """
    return tokenize.detect_encoding(io.BytesIO(source).readline)[0]


def decoded(source: bytes) -> str:
    """The text, without a byte order mark; characters that do not decode are replaced."""
    try:
        encoding = encoding_of(source)
    except SyntaxError:
        encoding = "utf-8"
    return source.decode(encoding, "replace")


def encoded(text: str) -> bytes:
    """The bytes of a text as they would be in its file, in the encoding that it declares."""
    plain = text.encode("utf-8", "surrogatepass")
    try:
        return text.encode(encoding_of(plain))
    except (SyntaxError, UnicodeEncodeError):  # which the run reports
        return plain


def characters(data: bytes) -> int:
    """How many characters bytes in UTF-8 are: columns of Python's trees count the bytes."""
    return len(data.decode("utf-8", "replace"))


def lines(text: str, keepends: bool = False) -> list[str]:
    """The lines of a text as Python counts them."""
    found = _LINE.findall(text)
    return found if keepends else [line.rstrip("\r\n") for line in found]


def tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    """The tokens of a text, whose lines are those of ``lines``.

    Raises:
        SyntaxError, tokenize.TokenError: syntax that this Python does not know.
    """
    return tokenize.generate_tokens(io.StringIO(text, newline=None).readline)
