"""Annotations as changes of a text, and the imports that they need."""

from __future__ import annotations

import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice

from shardlint import decoding, ir, messages
from shardlint.annotating.importing import Imports, NameInUse
from shardlint.annotating.inferring import Lacking, lacking
from shardlint.edits import HasPlaces, insertion, line_starts, replaced, span_of
from shardlint.engine import run
from shardlint.found import Proposal
from shardtypes.lang.diagnostics import Edit, Place

_OPENING = frozenset("([{")
_CLOSING = frozenset(")]}")


def proposals(analysis: run, text: bytes, places: HasPlaces) -> tuple[Proposal, ...]:
    """The annotations that the functions of a file lack, as far as what they do proves them; else why not."""
    imports = Imports.of(analysis.module.body)
    decoded = decoding.decoded(text)
    editor = _Editor(decoded, places, imports)
    found = []
    for one in lacking(analysis):
        proposal = editor.proposal(one)
        found.append(proposal)
    return tuple(found)


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text with edits that do not touch each other."""
    starts = line_starts(text)
    return replaced(text, [span_of(edit, starts) for edit in edits])


@dataclass
class _Editor:
    """Writes annotations into one file."""

    text: str
    places: HasPlaces
    imports: Imports

    def __post_init__(self) -> None:
        self._lines = decoding.lines(self.text, keepends=True)
        single = self.text.count("'")
        double = self.text.count('"')
        self._quote = '"' if double >= single else "'"

    def proposal(self, found: Lacking) -> Proposal:
        """The changes for one function."""
        edits: list[Edit] = []
        why = found.why
        try:
            edits = self._edits(found)
        except NameInUse as error:
            why = messages.name_in_use(str(error))
        return Proposal(
            name=found.name,
            place=self.places.place(found.node.name_at),
            edits=tuple(edits),
            dtypes=tuple(sorted(found.dtypes)),
            why=why,
        )

    def _edits(self, found: Lacking) -> list[Edit]:
        made = []
        for param in found.node.params:
            text = found.parameters.get(param.name)
            if text is None:
                continue
            spelled = self._spelled(text, found)
            edit = self._of_parameter(param, spelled)
            made.append(edit)
        if found.result is not None:
            spelled = self._spelled(found.result, found)
            edit = self._of_result(found.node, spelled)
            made.append(edit)
        return made

    def _spelled(self, text: str, found: Lacking) -> str:
        for dtype in found.dtypes:
            name = self.imports.spelled(dtype)
            text = text.replace(f"{dtype}[", f"{name}[")
        return text.replace("'", self._quote)

    def _of_parameter(self, param: ir.Param, text: str) -> Edit:
        """In the place of an annotation that says less, or behind the name. A default that follows gets the blanks that
        it has behind an annotation."""
        if param.annotation is not None:
            return Edit(self.places.place(param.annotation.at), text)
        place = self.places.place(param.at)
        column = place.column + len(param.name)
        line = self._lines[place.line - 1]
        behind = line[column - 1 :]
        default = behind.lstrip()
        if param.default is None or not default.startswith("="):
            return insertion(place.path, place.line, column, f": {text}")
        value = default[1:].lstrip()
        end = column + len(behind) - len(value)
        blanks = Place(place.path, place.line, column, place.line, end)
        return Edit(blanks, f": {text} = ")

    def _of_result(self, node: ir.Function, text: str) -> Edit:
        """In the place of an annotation that says less, or behind the parenthesis that closes the parameters."""
        if node.returns is not None:
            return Edit(self.places.place(node.returns.at), text)
        name = self.places.place(node.name_at)
        first = self._lines[name.line - 1][name.end_column - 1 :]
        rest = islice(self._lines, name.line, None)
        line, column = _closed(chain([first], rest))
        if line == 1:
            column += name.end_column - 1
        return insertion(name.path, name.line + line - 1, column + 1, f" -> {text}")


def _closed(lines: Iterator[str]) -> tuple[int, int]:
    """Where the first parenthesis closes: the line, from 1, and the column behind it, from 0."""
    depth = 0
    for token in tokenize.generate_tokens(partial(next, lines, "")):
        if token.string in _OPENING:
            depth += 1
        elif token.string in _CLOSING:
            depth -= 1
        if token.string == ")" and not depth:
            return token.end
    raise LookupError("a function whose parenthesis does not close")
