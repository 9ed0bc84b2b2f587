"""What is called the same when a dimension is: every word of a project in a scope that shares its name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from shardlint import decoding, messages
from shardlint.config import Config
from shardlint.edits import tree_place
from shardlint.lower_ast import nodes_of
from shardlint.run import read_project
from shardlint.server.documents import Document
from shardlint.server.named import At, Text
from shardlint.server.scopes import Key, Scope, Scopes
from shardlint.sources import Source
from shardlint.syntax import UnparsableFile
from shardtypes.lang.diagnostics import Place

_Spot: TypeAlias = tuple[str, int, int, int]
"""Where a word is: file, cell, line, column."""


class Refused(Exception):
    """A dimension that cannot be renamed; the text says why, where, and what to do."""


class Sharing:
    """The scopes of the project around a file. ``texts`` are the open documents by path, of notebooks their cells in
    order; ``overlay`` has their contents.

    Raises:
        ConfigError: settings that cannot be used.
    """

    def __init__(
        self,
        path: Path,
        config: Config,
        texts: Mapping[Path, Sequence[Text]],
        overlay: Mapping[Path, bytes],
    ) -> None:
        found = read_project(path, config, overlay)
        self._sources = found.sources
        self._texts = texts
        self._files: dict[str, _File] = {}
        self._scopes = Scopes(found.project)

    def words(self, found: At) -> list[At]:
        """Every word that is the same dimension, in order; none where the file is not analysed."""
        name = found.word.name
        words: dict[_Spot, At] = {}
        for scope in self._sharing(found, name):
            for one in self._named(scope, name):
                spot = _spot(one)
                words[spot] = one
        return [words[spot] for spot in sorted(words)]

    def renamed(self, found: At, new: str) -> list[At]:
        """The words that have to be renamed with one.

        Raises:
            Refused: two dimensions would become one, or some place cannot be changed.
        """
        name = found.word.name
        scopes = self._sharing(found, name)
        for scope in scopes:
            self._refuse_clash(scope, name, new)
            for key in scope.strings_with(name):
                self._refuse_unwritable(key, name)
        return self.words(found)

    def _sharing(self, found: At, name: str) -> list[Scope]:
        """The scopes that share a name with that of a word."""
        module = self._module_of(found.document)
        if module is None:
            return []
        file = self._file(module)
        users: dict[Key, list[Scope]] = defaultdict(list)
        for scope in self._scopes:
            for key in scope.strings_with(name):
                same = users[key]
                same.append(scope)
        here = _spot(found)
        first: list[Scope] = []
        for scope in self._scopes.by_module[module]:
            if here in map(_spot, scope.words_with(name)):
                first.append(scope)
        for key, scopes in users.items():
            if key[0] == module and here in map(_spot, file.in_string(key[1], name)):
                first += scopes
        return self._reached(first, name, users)

    def _reached(
        self, first: Sequence[Scope], name: str, users: Mapping[Key, Sequence[Scope]]
    ) -> list[Scope]:
        """These scopes and all that share a name with them, whose files are opened."""
        reached = dict.fromkeys(first)
        waiting = list(reached)
        while waiting:
            scope = waiting.pop()
            self._file(scope.module)
            for other in _neighbours(scope, name, users):
                if other not in reached:
                    reached[other] = None
                    waiting.append(other)
        return list(reached)

    def _named(self, scope: Scope, name: str) -> Iterator[At]:
        """The words of a scope with a name."""
        yield from scope.words_with(name)
        for module, at in scope.strings_with(name):
            file = self._file(module)
            yield from file.in_string(at, name)

    def _module_of(self, document: Document) -> str | None:
        for module, source in self._sources.items():
            if source.file.path == document.path:
                return module
        return None

    def _file(self, module: str) -> _File:
        known = self._files.get(module)
        if known is None:
            source = self._sources[module]
            texts = self._texts.get(source.file.path)
            known = _File(source, texts)
            scopes = self._scopes.by_module[module]
            scopes += known.hand_out(scopes)
            self._files[module] = known
        return known

    def _refuse_clash(self, scope: Scope, name: str, new: str) -> None:
        for one in (scope, *scope.within_sight()):
            if one.has(new):
                place = self._where(one, new)
                raise Refused(messages.name_taken(name, new, place))
        constant = self._scopes.number(scope.module, new)
        if constant is not None:
            module, at = constant
            place = self._file(module).shown(at)
            raise Refused(messages.name_of_number(name, new, place))

    def _where(self, scope: Scope, name: str) -> str:
        """The first place of a name in a scope."""
        for one in self._named(scope, name):
            document = one.document
            line = one.line + 1
            return messages.place_of_word(document.shown, document.cell, line)
        places = [(scope.module, scope.at)]
        places[:0] = scope.strings_with(name)
        module, at = places[0]
        return self._file(module).shown(at)

    def _refuse_unwritable(self, key: Key, name: str) -> None:
        module, at = key
        file = self._file(module)
        if any(file.in_string(at, name)):
            return
        place = file.shown(at)
        if file.is_closed_notebook:
            raise Refused(messages.name_in_closed_notebook(name, place))
        if file.is_damaged(at):
            raise Refused(messages.name_in_damaged(name, place))
        raise Refused(messages.name_in_other_string(name, place))


def _neighbours(
    scope: Scope, name: str, users: Mapping[Key, Sequence[Scope]]
) -> Iterator[Scope]:
    for other in scope.within_sight():
        if other.has(name):
            yield other
    for key in scope.strings_with(name):
        yield from users[key]


def _spot(one: At) -> _Spot:
    document = one.document
    return str(document.path), document.cell, one.line, one.word.column


class _File:
    """A file of the project with its words. ``texts`` are those of the editor, if it is open there."""

    def __init__(self, source: Source, texts: Sequence[Text] | None) -> None:
        self._source = source
        self._texts = list(texts or ())
        self.is_closed_notebook = texts is None and source.notebook is not None
        text = decoding.decoded(source.text)
        if texts is None and source.notebook is None:
            document = Document(source.file.path, text, None)
            self._texts = [Text.of(document)]
        self._lines = [one.encode() for one in decoding.lines(text)]
        try:
            self._nodes = nodes_of(source.text, source.file.shown)
        except UnparsableFile:  # the linter has another parser for it
            self._nodes = []
        self._words: list[tuple[int, At]] = []
        for one in self._texts:
            below = self._first_line(one)
            for word in one.words():
                self._words.append((below + word.analysed, word))

    def _first_line(self, text: Text) -> int:
        """The line (from 1) of the program where a document begins."""
        notebook = self._source.notebook
        if notebook is None:
            return 1
        index = notebook.cells.index(text.cell)
        return notebook.starts[index]

    def hand_out(self, scopes: Sequence[Scope]) -> list[Scope]:
        """Give each scope of the file the words that are written in it, and in no scope inside of it. What is outside
        of all functions and classes gets new ones: each statement is by itself."""
        outermost = scopes[0]
        innermost: dict[int, Scope] = {}
        statements: dict[tuple[Document, int], Scope] = {}
        for scope in scopes[1:]:
            node = self._node(scope.at)
            if node is None:
                continue
            last = node.end_lineno or node.lineno
            for line in range(node.lineno, last + 1):
                innermost[line] = scope
        for line, one in self._words:
            key = (one.document, one.unit.number)
            if line in innermost:
                innermost[line].words.append(one)
            else:
                own = statements.setdefault(key, Scope(outermost.module, None))
                own.words.append(one)
        return list(statements.values())

    def in_string(self, at: int, name: str) -> Iterator[At]:
        """The words with a name in the string of a node."""
        node = self._node(at)
        if node is None:
            return
        place = tree_place(node, self._lines, "")
        start = place.line, place.column - 1
        end = place.end_line, place.end_column - 1
        for line, one in self._words:
            word = one.word
            inside = start <= (line, word.column) < end
            if inside and word.is_dimension(name):
                yield one

    def shown(self, at: int) -> str:
        """The place of a node, as messages name it."""
        node = self._node(at)
        line = 1 if node is None else node.lineno
        place = Place(self._source.file.shown, line, 1, line, 1)
        if self._source.notebook is not None:
            place = self._source.notebook.place(place)
        return messages.place_of_word(place.path, place.cell, place.line)

    def is_damaged(self, at: int) -> bool:
        """Whether a node is in a statement that does not parse as it is now."""
        node = self._node(at)
        if node is None:
            return False
        for text in self._texts:
            line = node.lineno - self._first_line(text)
            if text.is_damaged(line):
                return True
        return False

    def _node(self, at: int) -> ast.stmt | ast.expr | None:
        if not 0 <= at < len(self._nodes):
            return None
        node = self._nodes[at]
        if isinstance(node, (ast.stmt, ast.expr)):
            return node
        return None
