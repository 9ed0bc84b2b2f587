"""``# shardlint: ignore[ST301] reason`` comments: finding them, and taking away what they cover."""

from __future__ import annotations

import re
import tokenize

from shardlint import decoding, ir

MARK = b"shardlint:"
# behind other comments too, such as `# type: ignore`
_COMMENT = re.compile(
    r"(?<!\S)#\s*shardlint:\s*(?:ignore\[(?P<codes>[^\]]*)\](?P<reason>.*))?", re.DOTALL
)


def suppressions_in(source: bytes) -> tuple[ir.Suppression, ...]:
    """All suppressions of a file that Python can read."""
    return suppressions(decoding.decoded(source)) if MARK in source else ()


def suppressions(text: str) -> tuple[ir.Suppression, ...]:
    """All suppressions of a file, in order. One that names no code has ``codes=()``.

    A comment after code covers its line; one on a line of its own covers the next line that has code.
    """
    found = []
    lines = decoding.lines(text)
    try:
        tokens = list(decoding.tokens(text))
    except (tokenize.TokenError, SyntaxError):
        # Syntax newer than this Python: no token stream, so only comments that fill their line are certain.
        tokens = [
            tokenize.TokenInfo(
                tokenize.COMMENT,
                line.strip(),
                (n, len(line) - len(line.lstrip())),
                (n, len(line)),
                line,
            )
            for n, line in enumerate(lines, 1)
            if line.lstrip().startswith("#")
        ]
    for token in tokens:
        if token.type != tokenize.COMMENT:
            continue
        match = _COMMENT.search(token.string)
        if match is None:
            continue
        line, start = token.start
        column = start + match.start()
        alone = not token.line[:start].strip()
        codes = tuple(c.strip() for c in (match["codes"] or "").split(",") if c.strip())
        found.append(
            ir.Suppression(
                line=line,
                column=column + 1,
                end_column=token.end[1] + 1,
                covers=_next_code(lines, line) if alone else line,
                codes=codes,
                reason=(match["reason"] or "").strip(),
            )
        )
    return tuple(found)


def _next_code(lines: list[str], line: int) -> int:
    for number in range(line, len(lines)):
        text = lines[number].strip()
        if text and not text.startswith("#"):
            return number + 1
    return line
