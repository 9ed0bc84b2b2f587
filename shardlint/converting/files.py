"""The text of a file with its annotations in one form."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass

from shardlint import decoding, messages
from shardlint.converting.finding import Annotation, Finder
from shardlint.converting.importing import Imports
from shardlint.converting.names import (
    ANNOTATED,
    ANNOTATED_HOME,
    ARRAYS,
    HOME,
    Imported,
    Names,
    dtype_of,
)
from shardlint.converting.naming import Namer
from shardlint.converting.spelling import Converter, Span
from shardlint.converting.texts import Refused, Spans
from shardlint.edits import line_starts, replaced
from shardlint.syntax import UnparsableFile, parse

#: Modules that go where nothing uses them any more.
_HELPERS = frozenset((*ARRAYS, *ANNOTATED, "jax", "typing", HOME, ANNOTATED_HOME))


@dataclass(frozen=True)
class Refusal:
    """A place where a file cannot be converted, from 1, and why."""

    line: int
    column: int
    text: str


@dataclass(frozen=True)
class Converted:
    """A text, how many annotations were converted, and why none was, where one cannot be."""

    text: str
    count: int = 0
    refusals: tuple[Refusal, ...] = ()


def convert(text: str, form: str, path: str = "") -> Converted:
    """The text with its annotations in one form: ``short``, ``array`` or ``annotated``.

    Raises:
        UnparsableFile: it is no Python.
    """
    tree = parse(decoding.encoded(text), path)
    if isinstance(tree, SyntaxError):
        message = messages.syntax(tree.msg)
        raise UnparsableFile(path, tree.lineno or 1, tree.offset or 1, message)
    spans = Spans(text)
    finder = Finder(Names.of(tree), spans, form)
    finder.visit(tree)
    file = _File(text, form, tree, finder, spans)
    try:
        changes = file.changes()
    except Refused as error:
        return Converted(text, 0, _placed(text, [error]))
    refused = file.refused(bool(changes))
    if refused:
        return Converted(text, 0, _placed(text, refused))
    return Converted(replaced(text, changes), file.count)


def _placed(text: str, refused: list[Refused]) -> tuple[Refusal, ...]:
    starts = line_starts(text)
    found = []
    for one in sorted(refused, key=lambda one: one.start):
        line = bisect_right(starts, one.start)
        column = one.start - starts[line - 1] + 1
        found.append(Refusal(line, column, one.text))
    return tuple(found)


class _File:
    """Converts one file."""

    def __init__(
        self, text: str, form: str, tree: ast.Module, finder: Finder, spans: Spans
    ) -> None:
        self.count = 0
        self._text = text
        self._form = form
        self._finder = finder
        self._spans = spans
        self._namer = Namer(tree, form, finder.names)
        self._gone: Counter[str] = Counter()

    def changes(self) -> list[Span]:
        """What to replace. Raises Refused where a name that is needed is in use."""
        converter = Converter(self._text, self._form, self._namer)
        spans: list[Span] = []
        for one in self._finder.found:
            made = converter.spans(one)
            self._take_away(one)
            self.count += bool(made) or self._is_moved(one)
            spans += made
        imports = Imports(self._text, self._spans, self._namer)
        spans += imports.changes(self._unused())
        return spans

    def _is_moved(self, found: Annotation) -> bool:
        return isinstance(found.dtype, ast.Name) and found.dtype.id in self._namer.moved

    def _take_away(self, found: Annotation) -> None:
        """Count the names that are written no more."""
        if found.array is not None and self._form == "short":
            self._gone[_first(found.array)] += 1
        if found.form == "annotated" and self._form != "annotated":
            self._gone[_first(found.node.value)] += 1
        if isinstance(found.dtype, ast.Attribute):
            self._gone[_first(found.dtype)] += 1

    def _unused(self) -> set[str]:
        found = set()
        for one in self._finder.names.imports:
            gone = self._gone[one.name]
            is_all = gone and gone == self._finder.used[one.name]
            if is_all and one.name not in self._namer.spelled and _may_go(one):
                found.add(one.name)
        for text in self._finder.strings:
            found.difference_update(_words(text))
        return found

    def refused(self, is_changed: bool) -> list[Refused]:
        """What stands against converting the file."""
        found = list(self._finder.refused)
        if self._form != "annotated":
            text = messages.more_metadata()
            found += [Refused(start, text) for start in self._finder.with_metadata]
        if not is_changed:
            return found
        if self._form == "array":
            found += self._values()
        if self._form == "annotated":
            found += self._aliases()
        return found

    def _values(self) -> list[Refused]:
        """Dtypes as values are those of ``shardtypes``."""
        found = []
        for one in self._finder.uses:
            if dtype_of(one.means) and one.name in self._namer.moved:
                text = messages.dtype_is_a_value(one.name)
                found.append(Refused(one.start, text))
        return found

    def _aliases(self) -> list[Refused]:
        """``isinstance(x, Batch)`` takes no ``Annotated``."""
        found = []
        for name in self._finder.aliases & self._finder.loaded.keys():
            start = self._finder.loaded[name]
            found.append(Refused(start, messages.alias_is_a_value(name)))
        return found


def _may_go(one: Imported) -> bool:
    if one.alias.asname == one.alias.name:
        return False  # which is how a module says that others may take it from there
    if isinstance(one.statement, ast.Import) and one.alias.name != one.means:
        return False
    return one.means in _HELPERS


def _first(node: ast.expr) -> str:
    return ast.unparse(node).partition(".")[0]


def _words(text: str) -> set[str]:
    words = "".join(one if one.isidentifier() or one.isdigit() else " " for one in text)
    return set(words.split())
