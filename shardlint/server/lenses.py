"""A line above each function that sends something between devices: by which collectives, how many bytes, whether a
finding says that it is wrong, and what the last test run said of it. It is counted of files as they are saved."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types as lsp

from shardlint import messages
from shardlint.costing.changes import names_a_collective
from shardlint.server.checking import Request, Sending
from shardlint.server.documents import Document
from shardlint.server.serving import Server
from shardlint.server.test_runs import verdicts_of
from shardlint.server.worker import Worker

#: What is wrong with how devices work together.
_OF_DEVICES = "ST3"


def register_lenses(server: Server) -> None:
    """Answer what editors ask."""
    lenses = Lenses(server)
    server.when_it_ends(lenses.end)
    server.when_files_change(lenses.refresh)

    @server.feature(lsp.TEXT_DOCUMENT_CODE_LENS)
    async def lens(params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        document = server.of(params.text_document.uri)
        if document is None:
            return []
        return await lenses.of(document)


@dataclass(frozen=True, slots=True)
class _Counted:
    """What was counted in a file, and when that had been changed."""

    changed: int
    sending: tuple[Sending, ...]


class Lenses:
    """What is shown above functions, of all documents."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._worker = Worker()
        self._counting = asyncio.Lock()
        self._counted: dict[Path, _Counted] = {}

    def end(self) -> None:
        """Stop what runs."""
        self._worker.stop()

    def refresh(self) -> None:
        """Let the editor ask again, if it can."""
        workspace = self._server.client_capabilities.workspace
        lenses = workspace.code_lens if workspace is not None else None
        if lenses is not None and lenses.refresh_support:
            self._server.workspace_code_lens_refresh(None)

    async def of(self, document: Document) -> list[lsp.CodeLens]:
        """Those of one document; of cells, which are no files, none."""
        if document.cell:
            return []
        texts: dict[int, list[str]] = {}
        for one in await self._sending(document.path):
            line = _line(document, one.function, one.line)
            if line is not None:
                sends = messages.sends(one.collectives, one.bytes)
                wrong = _found_wrong(document, line)
                texts[line] = [sends, *wrong]
        for kept in verdicts_of(document):
            line = _line(document, kept.function, kept.line)
            if line is not None:
                texts.setdefault(line, []).append(kept.text)
        found = []
        for line, parts in sorted(texts.items()):
            at = lsp.Position(line, 0)
            command = lsp.Command("; ".join(parts), "")
            found.append(lsp.CodeLens(lsp.Range(at, at), command))
        return found

    async def _sending(self, path: Path) -> tuple[Sending, ...]:
        try:
            changed = path.stat().st_mtime_ns
            if not names_a_collective(str(path)):
                return ()
        except OSError:  # it was never saved
            return ()
        async with self._counting:
            known = self._counted.get(path)
            if known is None or known.changed != changed:
                request = Request({}, evaluate=False, counted=str(path))
                try:
                    answer = await self._worker.answer(request)
                except (asyncio.IncompleteReadError, ConnectionError):
                    return ()
                known = _Counted(changed, tuple(answer.sending))
                self._counted[path] = known
            return known.sending


def _found_wrong(document: Document, line: int) -> list[str]:
    """The codes of findings in a function that say that its devices do not work together, as a text."""
    last = _end(document.lines, line)
    codes = set()
    for each in document.findings():
        if line < each.place.line <= last and each.code.startswith(_OF_DEVICES):
            codes.add(each.code)
    return [messages.found_wrong(sorted(codes))] if codes else []


def _end(lines: list[str], head: int) -> int:
    """How many lines there are to the end of a function."""
    indent = len(lines[head]) - len(lines[head].lstrip())
    for at, line in enumerate(lines[head + 1 :], head + 1):
        text = line.strip()
        is_inside = len(line) - len(line.lstrip()) > indent
        if text and not is_inside and not text.startswith((")", "#")):
            return at
    return len(lines)


def _line(document: Document, function: str, then: int) -> int | None:
    """The line (from 0) of a function's head, nearest to where that was (from 1)."""
    last = re.escape(function.rpartition(".")[2])
    head = re.compile(rf"\s*(?:async\s+)?def\s+{last}\b")
    lines = [at for at, line in enumerate(document.lines) if head.match(line)]
    return min(_by_distance(lines, then - 1), default=(0, None))[1]


def _by_distance(lines: list[int], there: int) -> Iterator[tuple[int, int]]:
    for line in lines:
        yield abs(line - there), line
