"""Annotations as changes of a text, and the imports that they need."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass

from shardlint import decoding, ir, messages
from shardlint.annotating.importing import Imports, NameInUse
from shardlint.annotating.inferring import Lacking, lacking
from shardlint.engine import run
from shardlint.fixing import line_starts, span_of
from shardlint.found import Proposal
from shardlint.placing import HasPlaces, Places
from shardtypes.lang.diagnostics import Edit, Place


def proposals(analysis: run, places: Places) -> tuple[Proposal, ...]:
    """The annotations that the functions of a file lack, as far as what they do proves them; else why not."""
    module = analysis.module
    text = decoding.decoded(places.text(module.name))
    editor = _Editor(text, places.of(module.name), Imports.of(module.body))
    return tuple(editor.proposal(one) for one in lacking(analysis))


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text with edits that do not touch each other."""
    starts = line_starts(text)
    spans = sorted((span_of(edit, starts) for edit in edits), reverse=True)
    for start, end, replacement in spans:
        text = text[:start] + replacement + text[end:]
    return text


@dataclass
class _Editor:
    """Writes annotations into one file."""

    text: str
    places: HasPlaces
    imports: Imports

    def __post_init__(self) -> None:
        self._lines = decoding.lines(self.text, keepends=True)

    def proposal(self, found: Lacking) -> Proposal:
        """The changes for one function."""
        edits: list[Edit] = []
        why = found.why
        try:
            edits = self._edits(found)
        except NameInUse as error:
            why = messages.name_in_use(str(error))
        place = self.places.place(found.node.name_at)
        return Proposal(
            found.name, place, tuple(edits), tuple(sorted(found.dtypes)), why
        )

    def _edits(self, found: Lacking) -> list[Edit]:
        made = []
        for param in found.node.params:
            text = found.parameters.get(param.name)
            if text is not None:
                made.append(self._of_parameter(param, self._spelled(text, found)))
        if found.result is not None:
            text = self._spelled(found.result, found)
            end = self._end_of_parameters(found.node)
            made.append(Edit(end, f" -> {text}"))
        return made

    def _spelled(self, text: str, found: Lacking) -> str:
        for dtype in found.dtypes:
            text = text.replace(f"{dtype}[", f"{self.imports.spelled(dtype)}[")
        if self.text.count('"') >= self.text.count("'"):
            text = text.replace("'", '"')
        return text

    def _of_parameter(self, param: ir.Param, text: str) -> Edit:
        """Behind the name; a default that follows gets the blanks that it has behind an annotation."""
        whole = self.places.place(param.at)
        start = whole.column - 1 + len(param.name)
        rest = self._lines[whole.line - 1][start:]
        default = rest.lstrip()
        if param.default is None or not default.startswith("="):
            return Edit(_between(whole, start, start), f": {text}")
        value = default[1:].lstrip()
        end = start + len(rest) - len(value)
        return Edit(_between(whole, start, end), f": {text} = ")

    def _end_of_parameters(self, node: ir.Function) -> Place:
        """Behind the parenthesis that closes them."""
        name = self.places.place(node.name_at)
        first = self._lines[name.line - 1][name.end_column - 1 :]
        text = "".join([first, *self._lines[name.line :]])
        depth = 0
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.string in ("(", "["):
                depth += 1
            if token.string in (")", "]"):
                depth -= 1
            if token.string == ")" and not depth:
                line, column = token.end
                if line == 1:
                    column += name.end_column - 1
                return _at(name.path, name.line + line - 1, column + 1)
        raise LookupError(f"{node.name} has no end of its parameters")


def _at(path: str, line: int, column: int) -> Place:
    return Place(path, line, column, line, column)


def _between(place: Place, start: int, end: int) -> Place:
    return Place(place.path, place.line, start + 1, place.line, end + 1)
