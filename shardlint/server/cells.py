"""The open notebooks: their cells are documents, and one module together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from lsprotocol import types as lsp

from shardlint import decoding, notebooks
from shardlint.server.documents import Document
from shardlint.server.units import Unit

#: Where editors have what the file says of a cell.
_METADATA = ("metadata", "custom")


class Cell(Document):
    """A cell of Python. Its units are those of the Python that it is read as, magics bridged, line by line."""

    def __init__(
        self, notebook: Notebook, uri: str, text: str, version: int | None
    ) -> None:
        self._notebook = notebook
        self.tags: list[str] = []
        super().__init__(notebook.path, text, version, uri)

    @property
    def program(self) -> Sequence[Unit]:
        """The units of all cells, in order."""
        found: list[Unit] = []
        for cell in self._notebook.cells:
            found += cell.units
        return found

    @property
    def text(self) -> str:
        """What is analysed of it: the text itself where it parses."""
        if self.failures:
            return "".join(line for unit in self.units for line in unit.good)
        return _with_newlines(self.lines)

    def _python(self) -> list[str]:
        text = _with_newlines(self.lines)
        python, self.margins = notebooks.as_python(text)
        return decoding.lines(python, keepends=True)


class Notebook:
    """An open notebook. ``cells`` are those of Python, in order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cells: list[Cell] = []
        self.is_known = False

    def arrange(self, cells: Sequence[Cell]) -> list[Cell]:
        """Take over which cells there are; gives those that are gone."""
        gone = [cell for cell in self.cells if cell not in cells]
        self.cells = list(cells)
        for number, cell in enumerate(cells, 1):
            cell.cell = number
        return gone

    @property
    def source(self) -> str:
        """The notebook as its file would have it."""
        cells = []
        for cell in self.cells:
            about = {"tags": cell.tags}
            written = {
                "cell_type": "code",
                "metadata": about,
                "source": cell.text,
            }
            cells.append(written)
        return json.dumps({"cells": cells, "metadata": {}})


def tags_of(cell: lsp.NotebookCell) -> list[str]:
    """The tags of a cell, wherever the editor has them."""
    about: object = cell.metadata
    waiting = [about]
    while waiting:
        about = waiting.pop()
        if not isinstance(about, dict):
            continue
        tags = about.get("tags")
        if isinstance(tags, list):
            return [str(tag) for tag in tags]
        waiting += [about.get(name) for name in _METADATA]
    return []


def _with_newlines(lines: Sequence[str]) -> str:
    """A text whose lines end as those of notebooks do."""
    found = []
    for line in lines:
        bare = line.rstrip("\r\n")
        found.append(bare if bare == line else f"{bare}\n")
    return "".join(found)
