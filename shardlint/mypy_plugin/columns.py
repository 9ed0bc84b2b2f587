"""Where expressions are on lines with characters that are not ASCII.

mypy's parsers count columns there each in a way of its own. So mypy reads the text once more, with as many letters in
the place of each such character as it has bytes: the tree is the same, and its columns are those of Python's own.
"""

from __future__ import annotations

from collections.abc import Iterable

from mypy.errors import Errors
from mypy.nodes import Context, Expression, MypyFile, Statement
from mypy.options import Options
from mypy.parse import parse

from shardlint.array_places import Range
from shardlint.decoding import decoded
from shardlint.mypy_plugin import walking

Places = dict[Range, Range | None]
"""By the place that mypy gives: the one that Python gives, None where that could be one of several."""


def places(file: MypyFile, text: bytes, options: Options, added: int) -> Places:
    """The places of all expressions of a file, which is parsed and no more, and has this text behind so many statements
    that were ``added``."""
    letters = "".join(_letters(one) for one in decoded(text))
    plain = parse(
        letters.encode(), file.path, file.fullname, Errors(options), options, eager=True
    )
    mine, theirs = _expressions(plain.defs), _expressions(file.defs[added:])
    if [type(one) for one in mine] != [type(one) for one in theirs]:
        return {}
    found: Places = {}
    for one, other in zip(mine, theirs, strict=True):
        known, place = place_of(other), place_of(one)
        if known is not None:
            found[known] = place if found.get(known, place) == place else None
    return found


def place_of(node: Context) -> Range | None:
    """The place that mypy gives an expression, if it gives one."""
    if node.end_line is None or node.end_column is None:
        return None
    return node.line, node.column, node.end_line, node.end_column


def _letters(character: str) -> str:
    if character.isascii():
        return character
    return "x" * len(character.encode("utf-8", "surrogatepass"))


def _expressions(body: Iterable[Statement]) -> list[Expression]:
    return [
        node
        for statement in walking.statements(body)
        for expression in walking.expressions(statement)
        for node in walking.below(expression)
    ]
